"""Keyed state of the changelog state backend: what the inner backend has materialized, and the log since.

Format: org.apache.flink.state.changelog, org.apache.flink.changelog.fs, org.apache.flink.runtime.state.changelog.
"""
