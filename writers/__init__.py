"""Write savepoints: from DataFrames, and from existing snapshots.

Imports every other package but the command line and jobs, which import it lazily. Order, bottom up: changes, formats,
commit, write_plan, file_assignment, write_task, assemble_metadata, bootstrap, rewrite, spark, savepoint_writer.
"""
