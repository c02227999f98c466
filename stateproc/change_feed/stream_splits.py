"""The splits of a stream that are not those of a change feed: whole states, and the row that voids what was before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from stateproc.change_feed.feed_rows import FeedRows
from stateproc.comparison.change_rows import CHANGE_TYPE
from stateproc.readers.common.splits import Split

TRUNCATE = "truncate"
"""The ``_change_type`` of a row that voids all rows of earlier commits: those of its own commit are all there are."""


@dataclass(frozen=True)
class CommittedSplit:
    """A split of a whole state, whose rows also name the checkpoint.

    Attributes:
        inner: The split of the state.
        rows: What the rows are.
    """

    inner: Split
    rows: FeedRows

    @property
    def bytes(self) -> int:
        return self.inner.bytes

    @property
    def key_groups(self) -> tuple[int, ...]:
        return self.inner.key_groups

    def read(self) -> Iterator[pa.RecordBatch]:
        for batch in self.inner.read():
            yield from self.rows.of(batch)


@dataclass(frozen=True)
class TruncateSplit:
    """The one row with ``_change_type`` ``truncate``; columns of the state are null, or 0 where they must not be."""

    rows: FeedRows
    bytes: int = 0
    key_groups: tuple[int, ...] = ()

    def read(self) -> Iterator[pa.RecordBatch]:
        columns = {CHANGE_TYPE: pa.repeat(pa.scalar(TRUNCATE), 1)}
        for field in self.rows.schema:
            if not field.nullable and field.name not in columns:
                columns[field.name] = pa.repeat(pa.scalar(0).cast(field.type), 1)
        named = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        yield from self.rows.of(named)
