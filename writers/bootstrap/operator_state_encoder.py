"""Encode rows of a DataFrame as elements of operator state: a value, or key and value of a broadcast state.

The file that they are in: stateproc.writers.formats.operator_state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import RowBytes, Unencodable, numbers_of, refuse_nulls, values_array
from stateproc.codec.layouts.base import Unwritable
from stateproc.errors import Where
from stateproc.serializers import LayoutContext, Serializer
from stateproc.writers.bootstrap.column_types import conformed
from stateproc.writers.bootstrap.keyed_encoder import KEY, VALUE, refused
from stateproc.writers.formats.entry_batches import FILE_ENTRIES

POSITION, SUBTASK = "position", "subtask"


@dataclass(frozen=True)
class ElementEncoder:
    """Turns rows of an operator state into FILE_ENTRIES.

    Columns: ``value``, ``key`` (broadcast states: the map key), ``position`` (orders elements), ``subtask``. files: the
    state file of each subtask.
    """

    name: str
    value: Serializer
    key: Serializer | None
    state_id: int
    files: tuple[int, ...]
    context: LayoutContext
    operator: str

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Entries in the order of rows. Raises InvalidRows."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        columns = {name: conformed(column, self._types.get(name)) for name, column in columns.items()}
        try:
            return self._entries(columns)
        except Unencodable as error:
            shown = {name: column for name, column in columns.items() if name != POSITION}
            raise refused(shown, error, Where(operator=self.operator, state=self.name)) from error
        except Unwritable as error:
            raise error.at(operator=self.operator, state=self.name) from error

    @cached_property
    def _types(self) -> dict[str, pa.DataType]:
        """The Arrow type of each column's values, by its role."""
        found = {VALUE: self.value.layout(self.context).arrow_type}
        return found if self.key is None else {**found, KEY: self.key.layout(self.context.inner).arrow_type}

    def _entries(self, columns: dict[str, pa.Array]) -> pa.RecordBatch:
        subtasks = columns[SUBTASK]
        refuse_nulls(subtasks, "a subtask")
        numbers = np.asarray(numbers_of(subtasks), dtype=np.int64)
        outside = (numbers < 0) | (numbers >= len(self.files))
        if outside.any():
            row = int(np.flatnonzero(outside)[0])
            raise Unencodable(f"subtask {numbers[row]} of an operator of parallelism {len(self.files)}", row)
        values = self.value.layout(self.context).encode(columns[VALUE])
        same = np.zeros(len(numbers), dtype=np.int32)
        files, state_ids = np.array(self.files, dtype=np.int32)[numbers], same + np.int32(self.state_id)
        arrays = [*map(values_array, (files, same, state_ids)), self._order(columns).to_arrow(), values.to_arrow()]
        return pa.RecordBatch.from_arrays(arrays, FILE_ENTRIES.names)

    def _order(self, columns: dict[str, pa.Array]) -> RowBytes:
        """What elements are sorted by: a broadcast entry's map key, else the element's position."""
        if self.key is not None:
            refuse_nulls(columns[KEY], "a broadcast state's key")
            return self.key.layout(self.context.inner).encode(columns[KEY])
        places = numbers_of(columns[POSITION]).astype(">i8")
        return RowBytes(places.view(np.uint8), np.arange(0, 8 * len(places) + 1, 8, dtype=np.int64))


# Assign the rows of an operator state to subtasks.


def element_rows(columns: Mapping[str, pa.Array], parallelism: int, *, broadcast: bool) -> Iterator[pa.RecordBatch]:
    """Yield rows of an operator state with their subtasks, once for each copy of them.

    Args:
        columns: The columns by their roles, with POSITION; with SUBTASK if rows name their subtask.
        parallelism: The operator's number of subtasks, to which rows without SUBTASK are assigned in turn.
        broadcast: Whether every subtask gets all rows.
    """
    if SUBTASK in columns:
        yield pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
        return
    positions = numbers_of(columns[POSITION])
    if broadcast:
        found = [np.full(len(positions), subtask, dtype=np.int32) for subtask in range(parallelism)]
    else:
        found = [(positions % parallelism).astype(np.int32)]
    for subtasks in found:
        yield pa.RecordBatch.from_arrays([*columns.values(), values_array(subtasks)], [*columns, SUBTASK])
