"""The splits of a stream that are not those of a change feed: whole states, and the row that voids what was before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from stateproc.change_feed.feed_rows import FeedRows
from stateproc.codec.arrow_arrays import repeated_text
from stateproc.diff.change_rows import CHANGE_TYPE
from stateproc.readers.splits import MappedSplit, Split

TRUNCATE = "truncate"
"""The ``_change_type`` of a row that voids all rows of earlier commits: those of its own commit are all there are."""


@dataclass(frozen=True)
class CommittedSplit(MappedSplit):
    """A split of a whole state, whose rows also name the checkpoint.

    Attributes:
        inner: The split of the state.
        rows: What the rows are.
    """

    rows: FeedRows

    def mapped(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        yield from self.rows.of(batch)


@dataclass(frozen=True)
class TruncateSplit:
    """The one row with ``_change_type`` ``truncate``; columns of the state are null, or 0 where they must not be."""

    rows: FeedRows
    bytes: int = 0
    key_groups: tuple[int, ...] = ()

    def read(self) -> Iterator[pa.RecordBatch]:
        columns = {CHANGE_TYPE: repeated_text(TRUNCATE, 1)}
        for field in self.rows.schema:
            if not field.nullable and field.name not in columns:
                columns[field.name] = pa.repeat(pa.scalar(0).cast(field.type), 1)
        named = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        yield from self.rows.of(named)


@dataclass(frozen=True)
class ConsecutiveSplits:
    """Small splits that one task reads one after another: a checkpoint of a small job changes some rows only.

    Attributes:
        inner: The splits.
    """

    inner: tuple[Split, ...]

    @property
    def bytes(self) -> int:
        return sum(split.bytes for split in self.inner)

    @property
    def key_groups(self) -> tuple[int, ...]:
        return tuple(sorted({group for split in self.inner for group in split.key_groups}))

    def read(self) -> Iterator[pa.RecordBatch]:
        for split in self.inner:
            yield from split.read()


def consecutive(splits: Sequence[Split], most_bytes: int, most: int) -> list[Split]:
    """Put neighbours together, as long as they have at most so many bytes and are at most so many."""
    groups: list[list[Split]] = []
    size = 0
    for split in splits:
        if not groups or size + split.bytes > most_bytes or len(groups[-1]) == most:
            groups.append([])
            size = 0
        groups[-1].append(split)
        size += split.bytes
    return [group[0] if len(group) == 1 else ConsecutiveSplits(tuple(group)) for group in groups]
