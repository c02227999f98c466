"""Entries, elements and snapshots in the form in which writers take them, and comparison of savepoints."""
