"""The write of a directory: state files under unique names, and ``_metadata`` at the end.

Imports metadata and storage; knows neither formats nor operators.
"""
