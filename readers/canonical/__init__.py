"""Read canonical keyed state files (FullSnapshotUtil's layout), which every state backend restores.

Belongs here: the scan of entries, statistics, splits.
"""
