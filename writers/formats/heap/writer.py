"""Write native heap files, which HashMapStateBackend restores as its own checkpoints and native savepoints.

Format: org.apache.flink.runtime.state.heap.HeapSnapshotStrategy; the reader is stateproc.readers.heap.
"""

from __future__ import annotations

import itertools
import struct
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import IO

import numpy as np
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.errors import InvalidEntries
from stateproc.readers.state_descriptor import KeyedState
from stateproc.serializers import LayoutContext, Undecodable
from stateproc.storage.writing import writing
from stateproc.writers.formats.common.byte_sink import ByteSink
from stateproc.writers.formats.common.entry_batches import EntryColumns, entry_columns
from stateproc.writers.formats.common.order_check import OrderCheck
from stateproc.writers.formats.common.snappy_stream import FramedStream
from stateproc.writers.formats.heap.heap_entries import HeapEntries, HeapEntryEncoder

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
        key_groups: the subtask's key groups.
        ctx: the layout of the serializers' values.
        compressed: as the header says.
    """

    def __init__(
        self,
        sink: ByteSink,
        header: bytes,
        states: Sequence[KeyedState | str],
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
        with writing(tempfile.gettempdir()):
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
