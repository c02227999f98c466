"""Names of operators whose uids a snapshot does not contain: given ones, and those of Flink's table planner.

May import ``stateproc.readers`` and packages below it.
"""
