"""What is below a directory: its savepoints and checkpoints, the files that none of them needs, Flink's configuration.

May import ``stateproc.model`` and every package below it.
"""
