"""stateproc: open the memory of Flink jobs as typed DataFrames, without Flink.

``stateproc.open(path)`` gives a snapshot; ``stateproc.attach(spark, path)`` makes SQL views of all its states;
``stateproc.SavepointWriter`` writes savepoints, whose operators ``stateproc.OperatorBootstrap`` fills.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stateproc.errors import (
    CorruptSnapshot,
    DuplicateKey,
    InvalidEntries,
    InvalidOption,
    InvalidRows,
    MissingFile,
    NotFound,
    SnapshotError,
    UnsupportedSnapshot,
    WriteFailed,
)

if TYPE_CHECKING:
    from stateproc.snapshot.snapshot import Snapshot, open
    from stateproc.writers.bootstrap.operator_bootstrap import OperatorBootstrap
    from stateproc.writers.savepoint_writer import SavepointWriter

__version__ = "0.1.0"
__all__ = [
    "CorruptSnapshot", "DuplicateKey", "InvalidEntries", "InvalidOption", "InvalidRows", "MissingFile", "NotFound",
    "OperatorBootstrap", "SavepointWriter", "Snapshot", "SnapshotError", "UnsupportedSnapshot", "WriteFailed",
    "attach", "open",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # Spark imports this package once per planning phase: what is heavy is imported when it is asked for.
    if name in ("open", "Snapshot"):
        from stateproc.snapshot import snapshot

        return getattr(snapshot, name)
    if name == "attach":
        from stateproc.spark.views import attach

        return attach
    if name == "SavepointWriter":
        from stateproc.writers.savepoint_writer import SavepointWriter

        return SavepointWriter
    if name == "OperatorBootstrap":
        from stateproc.writers.bootstrap.operator_bootstrap import OperatorBootstrap

        return OperatorBootstrap
    raise AttributeError(f"module 'stateproc' has no attribute {name!r}")
