"""Read a state's rows as two versions of Kryo do, and find out whether they are the same.

Whether Kryo 5 reads what Kryo 2 wrote depends on classes that only values name, such as those in an Object.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from stateproc.errors import SnapshotError
from stateproc.model.operator import Operator
from stateproc.model.state import State


def rows_differ(operator: Operator, state: State, kryo: int) -> str | None:
    """Return how rows differ that another Kryo reads; None if all are the same.

    Raises:
        SnapshotError: The state cannot be read as it was written.
    """
    twin = next(
        (other for other in operator.with_options(replace(operator.options, kryo=kryo)).states if _same(other, state)),
        None,
    )
    if twin is None:
        return f"Kryo {kryo} has no such state"
    read, at = _Rows(twin.batches()), 0
    for batch in state.batches():
        written = batch
        while len(written):
            try:
                other = read.next(len(written))
            except SnapshotError as error:
                return f"after {at:,} rows: {error.message}"
            if other is None or not written.slice(0, len(other)).equals(other):
                return f"among rows {at + 1:,} to {at + len(written):,} some are other values"
            written = written.slice(len(other))
            at += len(other)
    return None


def _same(one: State, other: State) -> bool:
    return (one.name, one.kind, one.distribution) == (other.name, other.kind, other.distribution)


class _Rows:
    """Batches whose rows are taken some at a time."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._left: pa.RecordBatch | None = None

    def next(self, most: int) -> pa.RecordBatch | None:
        """Return the next rows, at most so many; None after the last."""
        batch = self._left
        while batch is None or not len(batch):
            batch = next(self._batches, None)
            if batch is None:
                return None
        self._left = batch.slice(most)
        return batch.slice(0, most)
