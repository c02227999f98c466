"""Write savepoints: from DataFrames, and from existing snapshots.

Imports every other package but the command line and jobs, which import it lazily. Order, bottom up: changes, formats,
commit, sorting, write_spec, write_task, bootstrap, rewrite, scaled_operators, plan, write_snapshot, spark and local,
savepoint_writer.
"""
