"""Read and write LinkedOptionalMapSerializer: maps whose keys and values may be missing, in POJO and Kryo snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stateproc.wire import Cursor, Output

_MAGIC = 0x000004F2C69A3D70


@dataclass(frozen=True)
class OptionalEntry:
    """One entry: its name, and cursors over the frames of key and value (None: not written)."""

    name: str
    key: Cursor | None
    value: Cursor | None


def read_optional_map(cursor: Cursor) -> tuple[OptionalEntry, ...]:
    """Read i64 magic, i32 n, n x { utf name, bool [bytes32 key], bool [bytes32 value] }, each name once.

    Raises CorruptSnapshot.
    """
    at = cursor.pos
    if cursor.i64() != _MAGIC:
        cursor.corrupt("an optional map does not begin with its magic number", at=at)
    entries: dict[str, OptionalEntry] = {}
    for _ in range(cursor.count("optional map entries", 4)):
        at = cursor.pos
        name = cursor.utf()
        if name in entries:
            cursor.corrupt(f"an optional map has two entries for {name!r}", at=at)
        entries[name] = OptionalEntry(name, _frame(cursor), _frame(cursor))
    return tuple(entries.values())


def _frame(cursor: Cursor) -> Cursor | None:
    return cursor.part(cursor.i32()) if cursor.boolean() else None


def write_optional_map(out: Output, entries: Sequence[tuple[str, bytes | None, bytes | None]]) -> None:
    """Write entries of name, key and value; None: not written."""
    out.i64(_MAGIC)
    out.i32(len(entries))
    for name, *frames in entries:
        out.utf(name)
        for frame in frames:
            out.boolean(frame is not None)
            if frame is not None:
                out.bytes32(frame)
