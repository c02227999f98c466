"""Provide the model that users see: a snapshot, its operators, and their states as typed tables.

It may import ``stateproc.options``, ``stateproc.readers`` and the layers below them, and is imported by the Spark data
source, the command line and the writers.
"""
