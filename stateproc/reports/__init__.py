"""What is found out about a snapshot and its states: sizes, entries, key groups, RocksDB tables, problems.

A report is plain values, as ``inspect --json`` prints them; the terminal, the HTML page and notebooks draw it.
May import ``stateproc.model`` and packages below it.
"""
