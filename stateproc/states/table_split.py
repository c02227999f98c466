"""A split of rows that exist already: tables about a snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(frozen=True)
class TableSplit:
    """Rows that were made where the read was planned."""

    batches: Sequence[pa.RecordBatch] = field(repr=False)

    @property
    def bytes(self) -> int:
        return sum(batch.nbytes for batch in self.batches)

    @property
    def key_groups(self) -> tuple[int, ...]:
        return ()

    def read(self) -> Iterator[pa.RecordBatch]:
        yield from self.batches
