"""Sort entries with bounded memory: in memory, through spill files, as sorted runs that are merged.

Imports formats (entry batches) and commit (staged runs); no Spark package.
"""
