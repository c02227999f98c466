"""Encoding: Arrow arrays to the bytes Flink's serializers write, the inverse of the decode programs.

A layout measures an array first (how many bytes each row takes), then writes all rows in place: column after column,
each row's address moving on behind what was written. No value is copied twice, whatever the nesting.
"""
