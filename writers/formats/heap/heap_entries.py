"""Convert raw entries of one state to the entries of native heap snapshots.

Format: org.apache.flink.runtime.state.heap.CopyOnWriteStateMapSnapshot: namespace, key, value, where lists and maps are
complete objects with their counts (ListSerializer, MapSerializer); timers are elements without a namespace or value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec import ops
from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import booleans_of, values_array
from stateproc.codec.builder import Assembler, Builder
from stateproc.codec.layouts import Blob, Delimited
from stateproc.codec.machine import Machine
from stateproc.errors import InvalidEntries
from stateproc.readers.entry_programs import key_layout
from stateproc.readers.error_context import placed
from stateproc.readers.row_schema import SerializedValue, element_layout
from stateproc.readers.state_descriptor import KeyedState, StateKind
from stateproc.serializers import LayoutContext
from stateproc.writers.formats.common.byte_gather import byte_scalar
from stateproc.writers.formats.common.entry_batches import EntryColumns

_NOTHING = byte_scalar(b"")
Columns = dict[str, pa.Array]


@dataclass(frozen=True)
class HeapEntries:
    """Encoded entries of a native heap section, and their number."""

    count: int
    data: memoryview


class HeapEntryEncoder:
    """Encodes the raw entries of one state, in order; a map is complete when the entries of the next one begin."""

    def __init__(self, state: KeyedState, ctx: LayoutContext) -> None:
        """Raises Undecodable for a state whose keys or list elements have no known end."""
        self._state = state
        self._maps = _OpenMap()
        if not state.kind.is_queue:
            b = Builder()
            self._assemblers = _cut(b, state, ctx)
            self._machine = Machine(b.build())

    def feed(self, columns: EntryColumns, first: int, last: int) -> Iterator[HeapEntries]:
        """Yield the heap entries that the rows ``first`` to ``last`` (exclusive) complete.

        Raises CorruptSnapshot where a key or a list is not what the state's serializers write.
        """
        if self._state.kind.is_queue:
            keys = columns.keys
            begin, end = (int(keys.offsets[row] - keys.offsets[0]) for row in (first, last))
            yield HeapEntries(last - first, keys.data[begin:end].data)
            return
        for parts in self._cut_rows(columns, first, last):
            if self._state.kind is StateKind.MAP:
                yield from self._maps.feed(parts)
            elif self._state.kind is StateKind.LIST:
                yield _joined(parts["namespace"], parts["key"], *_counted(parts["value"]))
            else:
                yield _joined(parts["namespace"], parts["key"], parts["value"])

    def finish(self) -> Iterator[HeapEntries]:
        """Yield the last map, at the end of a section."""
        yield from self._maps.finish()

    def _cut_rows(self, columns: EntryColumns, first: int, last: int) -> Iterator[Columns]:
        """Yield namespace, key, user key and value of the rows as binary arrays, some thousand rows at a time."""
        keys, values = (_rows(column.data, column.offsets, first, last) for column in (columns.keys, columns.values))
        data = np.concatenate([keys[0], values[0]])
        bounds = np.stack([keys[1], values[1] + len(keys[0])])
        starts, ends = np.ascontiguousarray(bounds[:, :-1]), np.ascontiguousarray(bounds[:, 1:])
        done, n = 0, last - first
        while done < n:
            with placed("<raw entries>", int, self._state.name):
                done = self._machine.run(data, starts, ends, done, n)
            taken = self._machine.decoded()
            yield {name: assembler(taken) for name, assembler in self._assemblers.items()}


def _cut(b: Builder, state: KeyedState, ctx: LayoutContext) -> dict[str, Assembler]:
    """Emit a program that splits composite entries into the bytes of their fields (CompositeKeySerializationUtils)."""
    ambiguous = state.key.length < 0 and state.namespace.length < 0
    layouts = {"key": key_layout(state, ctx), "namespace": state.namespace.layout(ctx.inner)}
    columns = {}
    for name, layout in layouts.items():
        if ambiguous:
            b.op(ops.PUSH_POS)
        columns[name] = (layout if isinstance(layout, Blob) else SerializedValue(layout)).emit(b, False)
        if ambiguous:
            b.op(ops.LENGTH_SUFFIX)
    rest = Blob(ops.LENGTH_REST)
    if state.kind is StateKind.MAP:
        columns["user_key"] = rest.emit(b, False)
    b.op(ops.SEGMENT, 1)
    value = Delimited(SerializedValue(element_layout(state, ctx))) if state.kind is StateKind.LIST else rest
    columns["value"] = value.emit(b, False)
    b.op(ops.ROW_END)
    return columns


class _OpenMap:
    """Collects consecutive entries of a map into one heap entry with their count."""

    def __init__(self) -> None:
        self._scope: tuple[bytes, bytes] | None = None
        self._count = 0
        self._parts: list[memoryview] = []

    def feed(self, parts: Columns) -> Iterator[HeapEntries]:
        scopes = _join(parts["namespace"], parts["key"])
        bounds = _new_scopes(scopes, parts["namespace"])
        first = (parts["namespace"][0].as_py(), parts["key"][0].as_py())
        entries = _join(parts["user_key"], _marked(parts["value"]))
        if first == self._scope:
            bounds = bounds[1:]
            self._add(entries, 0, int(bounds[0]) if len(bounds) else len(entries))
            if not len(bounds):
                return
        yield from self.finish()
        last = int(bounds[-1])
        if len(bounds) > 1:
            heads = values_array(bounds[:-1])
            whole = _ranges(entries, bounds)
            yield _joined(scopes.take(heads), _counts(np.diff(bounds)), whole)
        self._scope = (parts["namespace"][last].as_py(), parts["key"][last].as_py())
        self._add(entries, last, len(entries))

    def finish(self) -> Iterator[HeapEntries]:
        if self._scope is not None:
            namespace, key = self._scope
            count = self._count.to_bytes(4, "big")
            yield HeapEntries(1, memoryview(b"".join([namespace, key, count, *self._parts])))
        self._scope, self._count, self._parts = None, 0, []

    def _add(self, entries: pa.Array, first: int, last: int) -> None:
        self._count += last - first
        self._parts.append(_bytes(entries.slice(first, last - first)))


def _rows(data: np.ndarray, offsets: Longs, first: int, last: int) -> tuple[np.ndarray, Longs]:
    """The bytes of some rows, and the offset of each."""
    begin = int(offsets[first])
    start, stop = begin - int(offsets[0]), int(offsets[last]) - int(offsets[0])
    return data[start:stop], offsets[first : last + 1] - begin


def _join(*arrays: pa.Array) -> pa.LargeBinaryArray:
    """Concatenate the bytes of all arrays, row by row."""
    return pc.binary_join_element_wise(*(array.cast(pa.large_binary()) for array in arrays), _NOTHING)


def _joined(*arrays: pa.Array) -> HeapEntries:
    return HeapEntries(len(arrays[0]), _bytes(_join(*arrays)))


def _offsets(array: pa.LargeBinaryArray) -> Longs:
    return np.frombuffer(array.buffers()[1], dtype=np.int64, count=len(array) + 1, offset=8 * array.offset)


def _bytes(array: pa.LargeBinaryArray) -> memoryview:
    """The bytes of all rows."""
    data = array.buffers()[2]
    if not len(array) or data is None:
        return memoryview(b"")
    offsets = _offsets(array)
    return memoryview(data)[int(offsets[0]) : int(offsets[-1])]


def _ranges(array: pa.LargeBinaryArray, bounds: Longs) -> pa.LargeBinaryArray:
    """Concatenate consecutive rows: row ``i`` is the bytes of the rows ``bounds[i]`` to ``bounds[i + 1]``."""
    offsets = np.zeros(1, dtype=np.int64) if not len(array) else _offsets(array)
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets[bounds])), array.buffers()[2]]
    return pa.Array.from_buffers(pa.large_binary(), len(bounds) - 1, buffers)


def _counts(counts: Longs) -> pa.LargeBinaryArray:
    """Each count as an i32."""
    buffers = [
        None,
        pa.py_buffer(np.arange(0, 4 * len(counts) + 1, 4, dtype=np.int64)),
        pa.py_buffer(counts.astype(">i4")),
    ]
    return pa.Array.from_buffers(pa.large_binary(), len(counts), buffers)


def _counted(lists: pa.ListArray) -> tuple[pa.Array, pa.Array]:
    """The count of each list, and its concatenated elements."""
    bounds = np.frombuffer(lists.buffers()[1], dtype=np.int32, count=len(lists) + 1).astype(np.int64)
    return _counts(np.diff(bounds)), _ranges(lists.values.cast(pa.large_binary()), bounds)


def _marked(values: pa.Array) -> pa.LargeBinaryArray:
    """User values after their null marks; a null is the mark alone, whatever a heap backend wrote after it."""
    wide = values.cast(pa.large_binary())
    offsets = _offsets(wide)
    sizes = np.diff(offsets)
    if len(sizes) and sizes.min() < 1:
        raise InvalidEntries("an entry of map state has no null mark")
    marks = np.frombuffer(wide.buffers()[2], dtype=np.uint8)[offsets[:-1]]
    longer = (marks != 0) & (sizes > 1)
    return pc.if_else(values_array(longer), byte_scalar(b"\1"), wide) if longer.any() else wide


def _new_scopes(scopes: pa.LargeBinaryArray, namespaces: pa.Array) -> Longs:
    """The rows whose key and namespace are not those of the row before; the first one always."""
    sizes = np.diff(_offsets(namespaces.cast(pa.large_binary())))
    differ = booleans_of(pc.not_equal(scopes[1:], scopes[:-1])).view(np.bool_)
    return np.concatenate([[0], np.flatnonzero(differ | (np.diff(sizes) != 0)) + 1]).astype(np.int64)
