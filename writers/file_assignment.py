"""Assign entries to the state files that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import numbers_of, values_array
from stateproc.writers.formats.common.entry_batches import TARGETED
from stateproc.writers.write_plan import Target

_MOST_BYTES = 1 << 30

Encoding = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Batches of rows to batches of TARGETED entries; picklable."""


class Encoder(Protocol):
    """Encodes rows as entries; picklable."""

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch: ...


@dataclass(frozen=True)
class Source:
    """A DataFrame, the names of its columns by their roles, and the encoding of its rows to TARGETED entries.

    ``keyed``: rows have keys, else they are elements in their order. ``parallelism``: of the operator. ``broadcast``:
    every subtask gets all rows.
    """

    frame: Any = field(repr=False)
    columns: Mapping[str, str]
    encoding: Encoding
    keyed: bool
    parallelism: int
    broadcast: bool = False


class TargetOf:
    """The number of the file that holds a key group of an operator's keyed state."""

    def __init__(self, targets: Sequence[Target], operator: int, parallelism: int, max_parallelism: int) -> None:
        files = [n for n, target in enumerate(targets) if target.operator == operator and target.key_groups is not None]
        subtasks = np.arange(max_parallelism, dtype=np.int64) * parallelism // max_parallelism
        self._files = np.array(files, dtype=np.int32)[subtasks]

    def numbers(self, key_groups: Iterable[int]) -> list[int]:
        """Return the numbers of the files that hold any of these key groups."""
        found: list[int] = np.unique(self._files[np.fromiter(key_groups, dtype=np.int64)]).tolist()
        return found

    def of(self, entries: pa.RecordBatch) -> pa.RecordBatch:
        """Return the entries (RAW_ENTRIES) with their targets (TARGETED)."""
        groups = numbers_of(entries.column("key_group"))
        columns = [values_array(self._files[groups]), *(entries.column(name) for name in TARGETED.names[1:])]
        return pa.RecordBatch.from_arrays(columns, TARGETED.names)


def with_target(entries: pa.RecordBatch, number: int) -> pa.RecordBatch:
    """Return entries (RAW_ENTRIES) that all belong to one file with its number (TARGETED)."""
    target = values_array(np.full(entries.num_rows, number, dtype=np.int32))
    return pa.RecordBatch.from_arrays([target, *entries.columns], TARGETED.names)


def row_encoding(encoder: Encoder, targets: TargetOf) -> Encoding:
    """Return the encoding of the rows of a keyed state."""

    def encode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from in_parts(targets.of(encoder.encode(batch)))

    return encode


def element_encoding(encoder: Encoder) -> Encoding:
    """Return the encoding of the rows of an operator state."""

    def encode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from in_parts(encoder.encode(batch))

    return encode


def in_parts(entries: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split entries (TARGETED) into batches of less than 1 GiB, as a row in Spark has 2 GiB at most."""
    size = sum(entries.column(name).nbytes for name in ("key", "value"))
    if size > _MOST_BYTES and entries.num_rows > 1:
        half = entries.num_rows // 2
        yield from in_parts(entries.slice(0, half))
        yield from in_parts(entries.slice(half))
    elif entries.num_rows:
        columns = [column.cast(field.type) for column, field in zip(entries.columns, TARGETED, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=TARGETED)
