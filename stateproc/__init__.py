"""stateproc: open the memory of Flink jobs as typed DataFrames, without Flink.

``stateproc.open(path)`` gives a snapshot; ``stateproc.attach(spark, path)`` makes SQL views of all its states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stateproc.errors import (
    CorruptSnapshot,
    InvalidOption,
    MissingFile,
    NotFound,
    SnapshotError,
    UnsupportedSnapshot,
)

if TYPE_CHECKING:
    from stateproc.snapshot import Snapshot, open

__version__ = "0.1.0"
__all__ = [
    "CorruptSnapshot", "InvalidOption", "MissingFile", "NotFound", "Snapshot", "SnapshotError",
    "UnsupportedSnapshot", "attach", "open",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # Spark imports this package once per planning phase: what is heavy is imported when it is asked for.
    if name in ("open", "Snapshot"):
        from stateproc import snapshot

        return getattr(snapshot, name)
    if name == "attach":
        from stateproc.spark.views import attach

        return attach
    raise AttributeError(f"module 'stateproc' has no attribute {name!r}")
