"""Write native keyed state files of HashMapStateBackend (Flink: HeapSnapshotStrategy, CopyOnWriteStateMapSnapshot).

    header                                                 stateproc.metadata.backend
    per key group of the range, at its offset in the handle:
        i32 key group
        per state of the header: u16 state id, i32 number of entries
            entry: namespace, key, value; of timers the element alone

Lists and maps are one value each, with their counts (ListSerializer, MapSerializer). Compressed, what follows the key
group is a stream of snappy frames per state. See docs/formats/heap.md; the reader is stateproc.readers.heap.
"""

from __future__ import annotations

import itertools
import struct
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec import ops
from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import booleans_of, values_array
from stateproc.codec.builder import Assembler, Builder
from stateproc.codec.layouts import Blob, Delimited
from stateproc.codec.layouts.strings import SerializedValue
from stateproc.codec.machine import Machine
from stateproc.errors import InvalidEntries
from stateproc.metadata.keyed_handles import KeyedHandle
from stateproc.metadata.stream_handles import CANONICAL_TYPE, KeyGroupsHandle
from stateproc.readers.entry_programs import key_layout
from stateproc.readers.error_context import placed
from stateproc.readers.heap.reader import measure_heap
from stateproc.readers.key_group_blocks import group_ranges
from stateproc.readers.row_schema import element_layout
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext, Undecodable
from stateproc.storage import open_handle
from stateproc.storage.store import StorePath
from stateproc.storage.writing import writing
from stateproc.writers.formats.byte_sink import ByteSink, FramedStream
from stateproc.writers.formats.entry_batches import EntryColumns, byte_scalar, entry_columns
from stateproc.writers.formats.keyed_file import KeyedFileSpec, KeyedFileWriter
from stateproc.writers.formats.order_check import OrderCheck, compare_measured, reading_back

# Convert raw entries of one state to the entries of native heap snapshots.

_NOTHING = byte_scalar(b"")
Columns = dict[str, pa.Array]


@dataclass(frozen=True)
class HeapEntries:
    """Encoded entries of a native heap section, and their number."""

    count: int
    data: memoryview


class HeapEntryEncoder:
    """Encodes the raw entries of one state, in order; a map is complete when the entries of the next one begin."""

    def __init__(self, state: StateDescriptor, ctx: LayoutContext) -> None:
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


def _cut(b: Builder, state: StateDescriptor, ctx: LayoutContext) -> dict[str, Assembler]:
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
        # The rows whose key and namespace are not those of the row before; the first one always.
        sizes = np.diff(_offsets(parts["namespace"].cast(pa.large_binary())))
        differ = booleans_of(pc.not_equal(scopes[1:], scopes[:-1])).view(np.bool_)
        bounds = np.concatenate([[0], np.flatnonzero(differ | (np.diff(sizes) != 0)) + 1]).astype(np.int64)
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


# Write native heap files, which HashMapStateBackend restores as its own checkpoints and native savepoints.
#
# Format: org.apache.flink.runtime.state.heap.HeapSnapshotStrategy; the reader is stateproc.readers.heap.

_HEAD = struct.Struct(">Hi")
_MOST_ENTRIES = 0x7FFFFFFF
_IN_MEMORY, _PART = 32 << 20, 1 << 20


class HeapWriter:
    """Writes one subtask's native heap file from raw entries.

    The number of a state's entries precedes them in each key group, so that entries are buffered: up to 32 MB in
    memory, more in a temporary file.

    Args:
        sink: receives the file's bytes.
        header: of write_keyed_header.
        states: by state id; a state that is only a name may have no entries.
        ctx: the layout of the serializers' values.
        compressed: as the header says.
    """

    def __init__(
        self,
        sink: ByteSink,
        header: bytes,
        states: Sequence[StateDescriptor | str],
        key_groups: range,
        ctx: LayoutContext,
        *,
        compressed: bool = False,
    ) -> None:
        self._sink, self._states, self._key_groups, self._ctx = sink, states, key_groups, ctx
        self._compressed = compressed
        self._order = OrderCheck([state if isinstance(state, str) else state.name for state in states], key_groups)
        self._objects: dict[int, HeapEntryEncoder] = {}
        self._empty = [b"".join(self._framed([_HEAD.pack(state, 0)])) for state in range(len(states))]
        self._offsets = [0] * len(key_groups)
        self._at = 0
        # The section that is open, and the one to be written next: (key group, state id).
        self._section: _Section | None = None
        self._next = (key_groups.start, 0)
        self.entries: Longs = np.zeros((len(key_groups), len(states)), dtype=np.int64)
        """Entries written so far, a list or a map counting as one: int64 [key groups, states]."""
        self._emit(header)

    def write(self, batch: pa.RecordBatch) -> None:
        """Write entries (RAW_ENTRIES) that follow those before in the order of key group, state id and key (unsigned).

        Raises DuplicateKey, InvalidEntries; Undecodable for a state whose keys or list elements have no known end;
        CorruptSnapshot where they are not what the state's serializers write.
        """
        columns = entry_columns(batch)
        self._order.check(columns)
        for first, last in _runs(columns):
            place = (int(columns.key_groups[first]), int(columns.state_ids[first]))
            if self._section is None or self._section.place != place:
                self._close_section()
                self._write_empty(*place)
                self._section = _Section(place)
            for objects in self._objects_of(place[1]).feed(columns, first, last):
                self._section.add(objects)

    def close(self) -> tuple[int, ...]:
        """Write the end and return the file offset of each key group. The sink stays open."""
        self._close_section()
        self._write_empty(self._key_groups.stop, 0)
        return tuple(self._offsets)

    def _objects_of(self, state_id: int) -> HeapEntryEncoder:
        if state_id not in self._objects:
            state = self._states[state_id]
            if isinstance(state, str):
                raise Undecodable(f"the serializers of state '{state}' are unknown, so its entries cannot be written")
            self._objects[state_id] = HeapEntryEncoder(state, self._ctx)
        return self._objects[state_id]

    def _close_section(self) -> None:
        section, self._section = self._section, None
        if section is None:
            return
        group, state_id = section.place
        for objects in self._objects[state_id].finish():
            section.add(objects)
        if state_id == 0:
            self._begin_group(group)
        for part in self._framed(section.parts(_HEAD.pack(state_id, section.count))):
            self._emit(part)
        section.close()
        self.entries[group - self._key_groups.start, state_id] = section.count
        self._next = (group, state_id + 1)

    def _write_empty(self, group: int, state_id: int) -> None:
        """Write the sections before this one, which are empty."""
        at_group, at_state = self._next
        while (at_group, at_state) < (group, state_id):
            stop = state_id if at_group == group else len(self._states)
            if at_state == 0:
                self._begin_group(at_group)
            self._emit(b"".join(self._empty[at_state:stop]))
            if at_group == group:
                break
            at_group, at_state = at_group + 1, 0
        self._next = (group, state_id)

    def _begin_group(self, group: int) -> None:
        self._offsets[group - self._key_groups.start] = self._at
        self._emit(group.to_bytes(4, "big"))

    def _framed(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        """A section's bytes; compressed, they are a stream of their own."""
        if not self._compressed:
            yield from parts
            return
        stream = FramedStream()
        for part in parts:
            yield stream.frame(part)
        yield stream.flush()

    def _emit(self, data: bytes) -> None:
        if data:
            self._sink.write(memoryview(data))
            self._at += len(data)


class _Section:
    """The entries of one state in one key group, buffered until their number is known."""

    def __init__(self, place: tuple[int, int]) -> None:
        self.place, self.count = place, 0
        self.content: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115

    def add(self, objects: HeapEntries) -> None:
        self.count += objects.count
        if self.count > _MOST_ENTRIES:
            raise InvalidEntries(f"over {_MOST_ENTRIES} entries in key group {self.place[0]}")
        with writing(StorePath(tempfile.gettempdir())):
            self.content.write(objects.data)

    def parts(self, head: bytes) -> Iterator[bytes]:
        """``head`` and the content, about 1 MB at a time."""
        self.content.seek(0)
        yield head
        while part := self.content.read(_PART):
            yield part

    def close(self) -> None:
        self.content.close()


def _runs(columns: EntryColumns) -> Iterator[tuple[int, int]]:
    """(first row, row after the last) of rows of the same key group and state."""
    changes = (np.diff(columns.key_groups) != 0) | (np.diff(columns.state_ids) != 0)
    bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), len(columns)]
    return itertools.pairwise(bounds) if len(columns) else iter(())


# Verification of a native heap file that was just written.

_NO_GROUP = -1
"""The offset of a key group that a handle has no data for."""


def verify_heap(file: KeyedFileSpec, handle: KeyedHandle, entries: Longs) -> None:
    """Read a file of HeapWriter back and compare its entries with the written ones. Raises WriteFailed.

    ``entries``: those written, int64 [key groups, states]; a list or a map counts as one.
    """
    assert isinstance(handle, KeyGroupsHandle)
    source = open_handle(handle.stream, file.location)
    with reading_back(source.name):
        ranges = group_ranges(handle.first_key_group, handle.offsets, source.size, source.name, empty=_NO_GROUP)
        measure = measure_heap(source, ranges, file.states, file.context, compressed=file.compressed)
    compare_measured(measure, entries, handle.first_key_group, file.header.names, source.name)


# Keyed state of a subtask as a native heap file, with its handle (KeyGroupsStateHandle).

_TYPE, _TYPE_WITHOUT_ID = 12, 3
"""KEY_GROUPS_HANDLE_V2 and KEY_GROUPS_HANDLE in MetadataV2V3SerializerBase."""


@contextmanager
def open_heap(file: KeyedFileSpec) -> Iterator[KeyedFileWriter]:
    """Open a native heap file for writing; left with an error, the file is removed. Raises WriteFailed."""
    with file.new_file() as sink:
        writer = HeapWriter(
            sink,
            file.header.encoded(file.compressed),
            file.states,
            file.key_groups,
            file.context,
            compressed=file.compressed,
        )

        def close() -> KeyedHandle:
            offsets, stream = writer.close(), sink.close()
            if not file.release.has_handle_ids:
                return KeyGroupsHandle(_TYPE_WITHOUT_ID, file.key_groups.start, offsets, stream)
            return KeyGroupsHandle(_TYPE, file.key_groups.start, offsets, stream, str(uuid.uuid4()))

        yield KeyedFileWriter(writer.write, close, writer.entries)


def is_heap_handle(handle: KeyedHandle) -> bool:
    """Whether the handle's file is in this format."""
    return isinstance(handle, KeyGroupsHandle) and handle.type_byte != CANONICAL_TYPE
