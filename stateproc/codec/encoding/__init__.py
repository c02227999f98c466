"""Encode Arrow arrays to the bytes that Flink's serializers write: the inverse of the decode programs.

A layout measures an array first (the number of bytes of each row), then writes all rows in place, column by column;
each write advances the addresses of its rows. No value is copied twice, however deeply it is nested.
"""
