"""Write canonical keyed state files (Flink: org.apache.flink.runtime.state.FullSnapshotAsyncWriter).

    header                                                 stateproc.metadata.backend
    per key group with entries, at its offset in the handle:
        u16 state id
        per entry, by state and key: i32 length, key, i32 length, value
            After the last entry of a state, whose key has its top bit (80) set: u16 next state id, FFFF after the last.

Offset 0: the key group is empty. Compressed, the bytes of each key group are a stream of snappy frames. Keys and values
are described in docs/formats/canonical.md; the reader is stateproc.readers.canonical.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from stateproc.codec.array_types import Ints, Longs, LongTable
from stateproc.codec.native.jit import copy_bytes, exported, kernel, load_u8, store_8
from stateproc.keygroups.ranges import prefix_width
from stateproc.metadata.keyed_handles import KeyedHandle
from stateproc.metadata.stream_handles import CANONICAL_TYPE, KeyGroupsHandle
from stateproc.readers.canonical.entry_scan import measure_canonical
from stateproc.readers.key_group_blocks import group_ranges
from stateproc.storage import open_handle
from stateproc.writers.formats.byte_sink import ByteSink, FramedStream
from stateproc.writers.formats.entry_batches import EntryColumns, entry_columns, portions
from stateproc.writers.formats.keyed_file import KeyedFileSpec, KeyedFileWriter
from stateproc.writers.formats.order_check import OrderCheck, compare_measured, reading_back

# Kernel that encodes raw entries as canonical key groups.

# Registers: the offset of the last entry, the end of the bytes, the last entry's key group (-1: none yet) and state,
# the number of key groups that began.
LAST, POS, GROUP, STATE, BEGAN = 0, 1, 2, 3, 4
REGISTERS = 5
FLAG = 0x80
END_OF_GROUP = 0xFFFF
OVERHEAD = 12
"""Most bytes of an entry besides prefix, key and value: two lengths, an end mark, a state id."""


@kernel
def _put(target: int, value: int, n: int) -> None:
    """Store ``value`` in ``n`` big-endian bytes."""
    for k in range(n):
        store_8(target + k, (value >> (8 * (n - 1 - k))) & 0xFF)


@exported
def encode_entries(
    first: int,
    last: int,
    groups: Ints,
    states: Ints,
    keys: int,
    key_offsets: Longs,
    values: int,
    value_offsets: Longs,
    first_group: int,
    prefix: int,
    out: int,
    reg: Longs,
    began: LongTable,
    counts: LongTable,
) -> None:
    """Encode rows ``first`` to ``last`` (exclusive), which are in order, after the entry at the start of ``out``.

    out: address of a buffer for the last entry of the rows before (from ``reg[LAST]`` = 0 to ``reg[POS]``) and, per
    row, OVERHEAD + ``prefix`` bytes besides key and value. began: int64 [2, key groups], the key groups that begin in
    these rows and their offsets in ``out``. counts: int64 [key groups, states], to which entries are added.
    The last entry stays open: whether a state id follows it is known with the next entry.
    """
    at, pos, group, state = reg[LAST], reg[POS], reg[GROUP], reg[STATE]
    for row in range(first, last):
        new_group, new_state = np.int64(groups[row]), np.int64(states[row])
        key_size = key_offsets[row + 1] - key_offsets[row]
        value_size = value_offsets[row + 1] - value_offsets[row]
        if new_group != group or new_state != state:
            if group >= 0:
                store_8(out + at + 4, load_u8(out + at + 4) | FLAG)
            if new_group != group:
                if group >= 0:
                    _put(out + pos, END_OF_GROUP, 2)
                    pos += 2
                began[0, reg[BEGAN]] = new_group
                began[1, reg[BEGAN]] = pos
                reg[BEGAN] += 1
            _put(out + pos, new_state, 2)
            pos += 2
        at = pos
        _put(out + pos, key_size + prefix, 4)
        _put(out + pos + 4, new_group, prefix)
        copy_bytes(out + pos + 4 + prefix, keys + key_offsets[row], key_size)
        pos += 4 + prefix + key_size
        _put(out + pos, value_size, 4)
        copy_bytes(out + pos + 4, values + value_offsets[row], value_size)
        pos += 4 + value_size
        group, state = new_group, new_state
        counts[group - first_group, state] += 1
    reg[LAST], reg[POS], reg[GROUP], reg[STATE] = at, pos, group, state


# Write canonical keyed files, which every state backend restores.
#
# Format: org.apache.flink.runtime.state.FullSnapshotAsyncWriter; the reader is stateproc.readers.canonical.

_AT_ONCE = 8 << 20


class CanonicalWriter:
    """Writes one subtask's canonical file; memory is bounded by a batch and the largest entry.

    Args:
        sink: receives the file's bytes.
        header: of write_keyed_header.
        states: names by state id, for errors.
        key_groups: the subtask's key groups.
        max_parallelism: the operator's number of key groups, which decides on the width of key prefixes.
        compressed: as the header says; each key group is then a snappy stream of its own.
    """

    def __init__(
        self,
        sink: ByteSink,
        header: bytes,
        states: Sequence[str],
        key_groups: range,
        max_parallelism: int,
        *,
        compressed: bool = False,
    ) -> None:
        self._sink, self._key_groups = sink, key_groups
        self._order = OrderCheck(states, key_groups)
        self._prefix = prefix_width(max_parallelism)
        self._compressed = compressed
        self._offsets = [0] * len(key_groups)
        self._stream: FramedStream | None = None
        self._at = 0
        self._out = np.empty(0, dtype=np.uint8)
        self._reg = np.zeros(REGISTERS, dtype=np.int64)
        self._reg[GROUP] = -1
        self._began = np.zeros((2, len(key_groups)), dtype=np.int64)
        self.entries: Longs = np.zeros((len(key_groups), len(states)), dtype=np.int64)
        """Entries written so far, int64 [key groups, states]."""
        self._emit(memoryview(header))

    def write(self, batch: pa.RecordBatch) -> None:
        """Write entries (RAW_ENTRIES) that follow those before in the order of key group, state id and key (unsigned).

        Raises DuplicateKey for two entries of one state with the same key; InvalidEntries for entries out of order, of
        an unknown state or of other key groups.
        """
        columns = entry_columns(batch)
        self._order.check(columns)
        for first, last, size in _runs(columns, self._prefix):
            self._write(columns, first, last, size)

    def close(self) -> tuple[int, ...]:
        """Write the end and return the file offset of each key group, 0 without entries. The sink stays open."""
        reg, size = self._reg, int(self._reg[POS])
        if reg[GROUP] >= 0:
            self._out[4] |= FLAG
            self._emit(self._out.data[:size])
            self._emit(memoryview(END_OF_GROUP.to_bytes(2, "big")))
            self._end_stream()
        return tuple(self._offsets)

    def _write(self, columns: EntryColumns, first: int, last: int, size: int) -> None:
        reg, keys, values = self._reg, columns.keys, columns.values
        held = int(reg[POS])
        if len(self._out) < held + size:
            grown = np.empty(held + size, dtype=np.uint8)
            grown[:held] = self._out[:held]
            self._out = grown
        reg[BEGAN] = 0
        encode_entries(
            first,
            last,
            columns.key_groups,
            columns.state_ids,
            keys.address,
            keys.offsets,
            values.address,
            values.offsets,
            self._key_groups.start,
            self._prefix,
            self._out.ctypes.data,
            reg,
            self._began,
            self.entries,
        )
        self._emit_groups(int(reg[LAST]), int(reg[BEGAN]))
        # The last entry is not written yet: it moves to the start of the buffer, until the next entry is known.
        start, stop = int(reg[LAST]), int(reg[POS])
        self._out[: stop - start] = self._out[start:stop].copy()
        reg[LAST], reg[POS] = 0, stop - start

    def _emit_groups(self, size: int, n_began: int) -> None:
        """Write the first ``size`` encoded bytes; ``n_began`` key groups begin in them."""
        data, at = self._out.data, 0
        for group, position in self._began[:, :n_began].T.tolist():
            self._emit(data[at:position])
            self._end_stream()
            self._offsets[group - self._key_groups.start] = self._at
            if self._compressed:
                self._stream = FramedStream()
            at = position
        self._emit(data[at:size])

    def _end_stream(self) -> None:
        if self._stream is not None:
            stream, self._stream = self._stream, None
            self._emit(memoryview(stream.flush()))

    def _emit(self, data: memoryview) -> None:
        if self._stream is not None:
            data = memoryview(self._stream.frame(data))
        if len(data):
            self._sink.write(data)
            self._at += len(data)


def _runs(columns: EntryColumns, prefix: int) -> Iterator[tuple[int, int, int]]:
    """(first row, row after the last, their encoded bytes at most) of runs of about 8 MB, one row at least."""
    n = len(columns)
    ends = (
        (columns.keys.offsets[1:] - columns.keys.offsets[0])
        + (columns.values.offsets[1:] - columns.values.offsets[0])
        + np.arange(1, n + 1, dtype=np.int64) * (OVERHEAD + prefix)
    )
    for first, last in portions(ends, (0, n), _AT_ONCE):
        yield first, last, int(ends[last - 1]) - (int(ends[first - 1]) if first else 0)


# Verification of a canonical file that was just written.


def verify_canonical(file: KeyedFileSpec, handle: KeyedHandle, entries: Longs) -> None:
    """Read a file of CanonicalWriter back and compare its entries with the written ones. Raises WriteFailed.

    ``entries``: those written, int64 [key groups, states].
    """
    assert isinstance(handle, KeyGroupsHandle)
    source, names = open_handle(handle.stream, file.location), file.header.names
    with reading_back(source.name):
        ranges = group_ranges(handle.first_key_group, handle.offsets, source.size, source.name)
        prefix = prefix_width(file.max_parallelism)
        measure = measure_canonical(source, ranges, compressed=file.compressed, prefix=prefix, n_states=len(names))
    compare_measured(measure, entries, handle.first_key_group, names, source.name)


# Keyed state of a subtask as a canonical file, with its handle (KeyGroupsSavepointStateHandle).


@contextmanager
def open_canonical(file: KeyedFileSpec) -> Iterator[KeyedFileWriter]:
    """Open a canonical file for writing; left with an error, the file is removed. Raises WriteFailed."""
    with file.new_file() as sink:
        writer = CanonicalWriter(
            sink,
            file.header.encoded(file.compressed),
            file.header.names,
            file.key_groups,
            file.max_parallelism,
            compressed=file.compressed,
        )

        def close() -> KeyedHandle:
            offsets = writer.close()
            return KeyGroupsHandle(CANONICAL_TYPE, file.key_groups.start, offsets, sink.close())

        yield KeyedFileWriter(writer.write, close, writer.entries)


def is_canonical_handle(handle: KeyedHandle) -> bool:
    """Whether the handle's file is in this format."""
    return isinstance(handle, KeyGroupsHandle) and handle.type_byte == CANONICAL_TYPE
