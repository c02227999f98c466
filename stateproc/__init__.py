"""Read and write Apache Flink savepoints and checkpoints without Flink.

``stateproc.open(path)`` returns a snapshot whose states are Arrow tables; ``stateproc.attach(spark, path)`` creates SQL
views of all its states; ``stateproc.SavepointWriter`` writes savepoints, whose operators are built with
``stateproc.OperatorBootstrap``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stateproc.errors import (
    AccessDenied,
    AmbiguousNamesWarning,
    CheckFailed,
    CorruptSnapshot,
    DuplicateKey,
    InvalidEntries,
    InvalidOption,
    InvalidRows,
    LostCheckpoint,
    MisplacedFile,
    MissingFile,
    MissingPackage,
    NotFound,
    QueryPlanWarning,
    SnapshotError,
    StoreUnavailable,
    UnmatchedUidWarning,
    UnreadableStateWarning,
    UnsupportedSnapshot,
    UntrustedPath,
    WriteFailed,
)

if TYPE_CHECKING:
    from stateproc.catalog.flink_configuration import flink_configuration
    from stateproc.catalog.listing import list_snapshots as ls
    from stateproc.catalog.orphans import find_orphans
    from stateproc.demo.bundled import bundled_snapshot
    from stateproc.feed.changes import changes
    from stateproc.jobs.job_run import run_job
    from stateproc.snapshot.opening import open
    from stateproc.snapshot.snapshot import Snapshot
    from stateproc.spark.delta_copy import merge_changes
    from stateproc.spark.relations import load
    from stateproc.writers.bootstrap.operator_bootstrap import OperatorBootstrap
    from stateproc.writers.savepoint_writer import SavepointWriter

__version__ = "0.1.0"
__all__ = [
    "AccessDenied",
    "AmbiguousNamesWarning",
    "CheckFailed",
    "CorruptSnapshot",
    "DuplicateKey",
    "InvalidEntries",
    "InvalidOption",
    "InvalidRows",
    "LostCheckpoint",
    "MisplacedFile",
    "MissingFile",
    "MissingPackage",
    "NotFound",
    "OperatorBootstrap",
    "QueryPlanWarning",
    "SavepointWriter",
    "Snapshot",
    "SnapshotError",
    "StoreUnavailable",
    "UnmatchedUidWarning",
    "UnreadableStateWarning",
    "UnsupportedSnapshot",
    "UntrustedPath",
    "WriteFailed",
    "attach",
    "bundled_snapshot",
    "changes",
    "find_orphans",
    "flink_configuration",
    "load",
    "ls",
    "merge_changes",
    "open",
    "run_job",
]


def __getattr__(name: str) -> Any:
    # Lazy: start-up. Spark imports this package in every planning process, the command line for ``--help``.
    if name == "open":
        from stateproc.snapshot.opening import open

        return open
    if name == "Snapshot":
        from stateproc.snapshot.snapshot import Snapshot

        return Snapshot
    if name == "ls":
        from stateproc.catalog.listing import list_snapshots

        return list_snapshots
    if name == "find_orphans":
        from stateproc.catalog.orphans import find_orphans

        return find_orphans
    if name == "changes":
        from stateproc.feed.changes import changes

        return changes
    if name == "flink_configuration":
        from stateproc.catalog.flink_configuration import flink_configuration

        return flink_configuration
    if name == "merge_changes":
        from stateproc.spark.delta_copy import merge_changes

        return merge_changes
    if name == "load":
        from stateproc.spark.relations import load

        return load
    if name == "attach":
        from stateproc.spark.views import attach

        return attach
    if name == "bundled_snapshot":
        from stateproc.demo.bundled import bundled_snapshot

        return bundled_snapshot
    if name == "run_job":
        from stateproc.jobs.job_run import run_job

        return run_job
    if name == "SavepointWriter":
        from stateproc.writers.savepoint_writer import SavepointWriter

        return SavepointWriter
    if name == "OperatorBootstrap":
        from stateproc.writers.bootstrap.operator_bootstrap import OperatorBootstrap

        return OperatorBootstrap
    raise AttributeError(f"module 'stateproc' has no attribute {name!r}")
