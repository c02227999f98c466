"""Read and write Apache Flink savepoints and checkpoints without Flink.

``stateproc.open(path)`` returns a snapshot whose states are Arrow tables; ``stateproc.attach(spark, path)`` creates SQL
views of all its states; ``stateproc.SavepointWriter`` writes savepoints, whose operators are built with
``stateproc.OperatorBootstrap``.
"""

from __future__ import annotations

from importlib import import_module
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
    from stateproc.catalog.listing import ls
    from stateproc.catalog.orphans import find_orphans
    from stateproc.demo.bundled import bundled_snapshot
    from stateproc.feed.changes import changes
    from stateproc.jobs.job_run import run_job
    from stateproc.snapshot.opening import open
    from stateproc.snapshot.snapshot import Snapshot
    from stateproc.spark.delta_copy import merge_changes
    from stateproc.spark.relations import load
    from stateproc.spark.views import attach
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


_LAZY = {
    "OperatorBootstrap": "stateproc.writers.bootstrap.operator_bootstrap",
    "SavepointWriter": "stateproc.writers.savepoint_writer",
    "Snapshot": "stateproc.snapshot.snapshot",
    "attach": "stateproc.spark.views",
    "bundled_snapshot": "stateproc.demo.bundled",
    "changes": "stateproc.feed.changes",
    "find_orphans": "stateproc.catalog.orphans",
    "flink_configuration": "stateproc.catalog.flink_configuration",
    "load": "stateproc.spark.relations",
    "ls": "stateproc.catalog.listing",
    "merge_changes": "stateproc.spark.delta_copy",
    "open": "stateproc.snapshot.opening",
    "run_job": "stateproc.jobs.job_run",
}
"""Name → the module that defines it, imported when the name is used first."""


def __getattr__(name: str) -> Any:
    # Lazy: start-up. Spark imports this package in every planning process, the command line for ``--help``.
    if name not in _LAZY:
        raise AttributeError(f"module 'stateproc' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
