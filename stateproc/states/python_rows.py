"""Rows of the states of Python functions: a value, or the elements of a list, out of the byte arrays that hold them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import offsets_of, values_array
from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot
from stateproc.readers.row_schema import record_batch
from stateproc.readers.splits import MappedSplit, Split
from stateproc.readers.state_descriptor import KeyedState, StateKind
from stateproc.serializers.pyflink import MISFIT_ADVICE, PythonElement
from stateproc.serializers.runtime.ttl import LAST_ACCESS

if TYPE_CHECKING:
    from stateproc.states.keyed_state import KeyedStateView

_VALUE = "value"


def python_element(state: KeyedState) -> PythonElement | None:
    """Return the type of a Python state; None for other states, and without a given type."""
    return state.value if isinstance(state.value, PythonElement) else None


def python_schema(schema: pa.Schema, state: KeyedState, flatten: bool) -> pa.Schema:
    """Return the schema of a Python state's rows, from that of the lists that are stored."""
    element = python_element(state)
    if element is None or state.kind is not StateKind.LIST:
        return schema
    fields = []
    for field in schema:
        if field.name == _VALUE:
            type_ = field.type.value_type
            if flatten and element.many:
                fields += [pa.field("list_index", pa.int32()), pa.field("list_element", type_.value_type)]
                continue
            fields.append(pa.field(_VALUE, type_))
        elif field.name == LAST_ACCESS and (flatten or not element.many):
            fields.append(pa.field(LAST_ACCESS, field.type.value_type))
        else:
            fields.append(field)
    return pa.schema(fields)


@dataclass(frozen=True)
class PythonSplit(MappedSplit):
    """Rows of a Python state.

    Attributes:
        state: The state.
        schema: The schema of the rows.
        flatten: Whether each element of a list is a row.
    """

    state: KeyedState
    schema: pa.Schema
    flatten: bool

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read the rows. Raises UnsupportedSnapshot if the bytes do not fit the given type."""
        try:
            yield from super().read()
        except CorruptSnapshot as error:
            shown = self.state.value.type_name
            raise UnsupportedSnapshot(
                f"the bytes of state '{self.state.name}' are not those of the type {shown}: {error.message}",
                where=error.where,
                advice=MISFIT_ADVICE,
            ) from error

    def mapped(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if self.state.kind is not StateKind.LIST:
            yield batch
            return
        element = python_element(self.state)
        columns = {name: batch.column(name) for name in batch.schema.names}
        lists = columns[_VALUE]
        offsets = offsets_of(lists)
        items = lists.values.slice(offsets[0], offsets[-1] - offsets[0])
        if element is None or not element.many:
            self._refuse_several(np.diff(offsets))
            columns[_VALUE] = items
            if LAST_ACCESS in columns:
                columns[LAST_ACCESS] = columns[LAST_ACCESS].flatten()
            yield record_batch(columns, self.schema)
            return
        inner = offsets_of(items)
        chunks = np.diff(inner)
        ends = (inner - inner[0])[offsets - offsets[0]]
        elements = items.flatten()
        times = None
        if LAST_ACCESS in columns:
            times = columns[LAST_ACCESS].flatten().take(values_array(np.repeat(np.arange(len(chunks)), chunks)))
        if not self.flatten:
            columns[_VALUE] = pa.ListArray.from_arrays(values_array(ends.astype(np.int32)), elements)
            if times is not None:
                columns[LAST_ACCESS] = pa.ListArray.from_arrays(values_array(ends.astype(np.int32)), times)
            yield record_batch(columns, self.schema)
            return
        sizes = np.diff(ends)
        parents = values_array(np.repeat(np.arange(len(sizes)), sizes))
        rows = {name: column.take(parents) for name, column in columns.items() if name not in (_VALUE, LAST_ACCESS)}
        rows["list_index"] = values_array((np.arange(len(elements)) - np.repeat(ends[:-1], sizes)).astype(np.int32))
        rows["list_element"] = elements
        if times is not None:
            rows[LAST_ACCESS] = times
        yield record_batch(rows, self.schema)

    def _refuse_several(self, counts: np.ndarray) -> None:
        if (counts != 1).any():
            raise UnsupportedSnapshot(
                f"state '{self.state.name}' holds {int(counts[counts != 1][0])} byte arrays for a key, not one value",
                advice=f"give value_type the type of a list: LIST<{self.state.value.type_name}>",
            )


def python_splits(splits: Iterable[Split], view: KeyedStateView, *, flatten: bool) -> list[Split]:
    """Return splits of a Python state's values where their type is given, else the splits as they are."""
    if python_element(view.keyed) is None:
        return list(splits)
    schema = view.schema(flatten=flatten)
    return [PythonSplit(split, view.keyed, schema, flatten) for split in splits]
