"""Names of operators whose uids a snapshot does not contain: given ones, those of Flink's table planner, and labels.

May import ``stateproc.model`` and packages below it.
"""
