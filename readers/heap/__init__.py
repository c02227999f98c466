"""Read native keyed state files of HashMapStateBackend.

Belongs here: the walk over sections, conversion to composite entries, statistics, splits.
"""
