"""Entries of one state that are looked up, or added up, by their keys for those of another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from stateproc.errors import CorruptSnapshot, Where
from stateproc.readers.state_descriptor import StateDescriptor

_AT_ONCE = 32 << 20
"""Entries of about so many bytes are looked up together: each time all keys of the other state are hashed."""
_MOST_WAITING = 1 << 20
"""Of so many keys at least numbers are added up together."""


def in_large_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the entries in larger batches, none of them empty."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not len(batch):
            continue
        waiting.append(batch)
        size += batch.nbytes
        if size >= _AT_ONCE:
            yield as_one(waiting)
            waiting, size = [], 0
    if waiting:
        yield as_one(waiting)


def damage(state: StateDescriptor, what: str) -> CorruptSnapshot:
    """Return the error for entries that no state backend writes."""
    return CorruptSnapshot(
        what, where=Where(state=state.name), advice="the snapshot is damaged; use a copy or take it again"
    )


def as_one(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return at least one batch, and no empty one, as one."""
    if len(batches) == 1:
        return batches[0]
    (made,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return made


def added_up(parts: Iterable[pa.Table]) -> pa.Table | None:
    """Return the sum of each number by the column ``key``, added in the order of rows; None without a part.

    Holds a row for each key.
    """
    found: list[pa.Table] = []
    waiting: list[pa.Table] = []
    rows = 0
    for part in parts:
        waiting.append(_summed(part))
        rows += len(waiting[-1])
        if rows > max(sum(map(len, found)), _MOST_WAITING):
            found, waiting, rows = [_summed(pa.concat_tables([*found, *waiting]))], [], 0
    return _summed(pa.concat_tables([*found, *waiting])) if found or waiting else None


def _summed(rows: pa.Table) -> pa.Table:
    names = [name for name in rows.column_names if name != "key"]
    found = rows.group_by("key", use_threads=False).aggregate([(name, "sum") for name in names])
    return found.select(["key", *(f"{name}_sum" for name in names)]).rename_columns(["key", *names])
