"""Existing operators: files copied, entries copied without decoding, edits of headers, keys and time to live.

Imports bootstrap (for states that come from DataFrames), formats and commit; no Spark package.
"""
