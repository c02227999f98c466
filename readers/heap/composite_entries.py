"""Convert entries of native heap snapshots to composite entries, as canonical savepoints contain them.

Heap: org.apache.flink.runtime.state.heap.HeapSnapshotStrategy; canonical: HeapKeyValueStateIterator. A heap snapshot
stores lists as whole objects (a count, then elements), a canonical savepoint as delimited elements; maps are whole
objects in the former and one entry for each user key in the latter. No element is decoded: programs only find its end.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import numbers_of, offsets_of, values_array
from stateproc.codec.builder import Builder
from stateproc.codec.byte_arrays import RowBytes, empty_row_bytes, row_bytes_of
from stateproc.codec.encoding.keys import composite_keys
from stateproc.codec.encoding.list_encoding import delimited
from stateproc.readers.common.entry_programs import Columns, EntryProgram
from stateproc.readers.common.raw_entries import RawEntries
from stateproc.readers.common.row_schema import KEY_GROUP
from stateproc.readers.common.serialized_values import (
    SerializedValue,
    serialized_items,
    serialized_pairs,
    serialized_value,
)
from stateproc.readers.common.state_descriptor import KeyedState, StateKind
from stateproc.serializers import LayoutContext

Groups = npt.NDArray[np.int32]


def serialized_program(state: KeyedState, ctx: LayoutContext) -> EntryProgram:
    """Compile a program that divides heap entries into the bytes of namespace, key and value (or items, or pairs).

    Of timers there is the value only. Raises Undecodable.
    """
    scope = () if state.kind.is_queue else (("namespace", state.namespace), ("key", state.key))
    layouts = {name: SerializedValue(serializer.layout(ctx.inner)) for name, serializer in scope}
    value = {StateKind.LIST: serialized_items, StateKind.MAP: serialized_pairs}.get(state.kind, serialized_value)
    b = Builder()
    columns = {name: layout.emit(b, False) for name, layout in layouts.items()}
    columns["value"] = value(state, ctx).emit(b, False)
    b.op(ops.ROW_END)
    return EntryProgram(b.build(), columns, -1, None)


def composite_entries(columns: Columns, state: KeyedState, file: str) -> RawEntries:
    """Assemble composite entries; empty lists and maps have none.

    Args:
        columns: What `serialized_program` produces, and the key groups.
        state: The state.
        file: The file's name, for errors.
    """
    groups = numbers_of(columns[KEY_GROUP])
    values = columns["value"]
    if state.kind.is_queue:
        return packed_entries(groups, row_bytes_of(values), empty_row_bytes(len(groups)), file)
    ambiguous = state.key.length < 0 and state.namespace.length < 0
    if state.kind is StateKind.MAP:
        return _map_entries(groups, columns, ambiguous, file)
    keys = composite_keys(row_bytes_of(columns["key"]), row_bytes_of(columns["namespace"]), None, ambiguous)
    if state.kind is StateKind.LIST:
        return _list_entries(groups, keys, values, file)
    return packed_entries(groups, keys, row_bytes_of(values), file)


def _list_entries(groups: Groups, keys: RowBytes, lists: pa.ListArray, file: str) -> RawEntries:
    offsets, items = _flattened(lists)
    values = delimited(row_bytes_of(items), offsets)
    present = np.flatnonzero(np.diff(offsets))
    if len(present) < len(groups):
        rows = values_array(present)
        groups = groups[present]
        keys, values = (row_bytes_of(pieces.to_arrow().take(rows)) for pieces in (keys, values))
    return packed_entries(groups, keys, values, file)


def _flattened(lists: pa.ListArray) -> tuple[Longs, pa.Array]:
    """Return the offsets of lists, beginning at 0, and their items."""
    offsets = offsets_of(lists)
    return offsets - offsets[0], lists.flatten()


def _map_entries(groups: Groups, columns: Columns, ambiguous: bool, file: str) -> RawEntries:
    maps = columns["value"]
    offsets, pairs = _flattened(maps)
    rows = np.repeat(np.arange(len(maps)), np.diff(offsets))
    taken = values_array(rows)
    # Repeated keys may exceed the 2 GiB of 32-bit offsets.
    key, namespace = (row_bytes_of(columns[name].cast(pa.large_binary()).take(taken)) for name in ("key", "namespace"))
    user_keys, values = row_bytes_of(pairs.field("key")), row_bytes_of(pairs.field("value"))
    return packed_entries(groups[rows], composite_keys(key, namespace, user_keys, ambiguous), values, file)


def packed_entries(groups: Groups, keys: RowBytes, values: RowBytes, file: str) -> RawEntries:
    """Put keys and values into one buffer: all keys, then all values."""
    key_bytes, value_bytes = (part.data[part.offsets[0] : part.offsets[-1]] for part in (keys, values))
    key_offsets = keys.offsets - keys.offsets[0]
    value_offsets = values.offsets - values.offsets[0] + len(key_bytes)
    ranges = np.stack([key_offsets[:-1], key_offsets[1:], value_offsets[:-1], value_offsets[1:]])
    data = np.concatenate([key_bytes, value_bytes])
    return RawEntries(data, groups, ranges, file, 0, exact=False, packed=True)
