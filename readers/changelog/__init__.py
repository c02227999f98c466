"""Read keyed state of the changelog state backend: the materialized handles and the log of changes since.

Format: org.apache.flink.state.changelog, org.apache.flink.changelog.fs, org.apache.flink.runtime.state.changelog.
May import readers and, for materialized handles, readers.materialized_files.
"""
