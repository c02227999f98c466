"""Encode Arrow data as entries, each set of rows once for all the states that it fills."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import values_array
from stateproc.writers.bootstrap.arrow_frames import arrow_batches
from stateproc.writers.bootstrap.element_rows import element_rows
from stateproc.writers.bootstrap.operator_state_encoder import POSITION
from stateproc.writers.file_assignment import Source

Read = Callable[[], Iterable[pa.RecordBatch]]
"""Reads entries (TARGETED)."""


def encoded_sources(sources: Sequence[Source], threads: int) -> list[Read]:
    """Return functions that together read all rows and return their entries, to be called in threads.

    Args:
        sources: States and the Arrow data that fills them.
        threads: How many functions share the batches of the same data.
    """
    by_frame: dict[int, list[Source]] = {}
    for source in sources:
        by_frame.setdefault(id(source.frame), []).append(source)
    shared = [_SharedRows(alike) for alike in by_frame.values()]
    return [rows.entries for rows in shared for _ in range(threads)]


class _SharedRows:
    """Rows whose batches several threads share; all states that they fill are encoded from a batch at once."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        names = dict.fromkeys(name for source in sources for name in source.columns.values())
        self._batches = arrow_batches(sources[0].frame, list(names))
        self._lock = threading.Lock()
        self._position = 0

    def entries(self) -> Iterator[pa.RecordBatch]:
        """Encode the batches that no other thread takes. Raises InvalidRows, InvalidOption."""
        while (taken := self._take()) is not None:
            position, batch = taken
            for source in self._sources:
                yield from source.encoding(_rows(source, batch, position))

    def _take(self) -> tuple[int, pa.RecordBatch] | None:
        """Return the next batch and the position of its first row; None at the end."""
        with self._lock:
            batch = next(self._batches, None)
            if batch is None:
                return None
            self._position += batch.num_rows
            return self._position - batch.num_rows, batch


def _rows(source: Source, batch: pa.RecordBatch, position: int) -> Iterator[pa.RecordBatch]:
    """The columns of a state by their roles; elements of operator state with their positions and subtasks."""
    columns = {role: batch.column(name) for role, name in source.columns.items()}
    if source.keyed:
        yield pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
        return
    columns[POSITION] = values_array(np.arange(position, position + batch.num_rows, dtype=np.int64))
    yield from element_rows(columns, source.parallelism, broadcast=source.broadcast)
