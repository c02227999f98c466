"""Write canonical keyed files, which every state backend restores.

Format: org.apache.flink.runtime.state.FullSnapshotAsyncWriter; the reader is stateproc.readers.canonical.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.keygroups.ranges import prefix_width
from stateproc.writers.formats.canonical import canonical_layout as layout
from stateproc.writers.formats.common.byte_sink import ByteSink
from stateproc.writers.formats.common.entry_batches import EntryColumns, entry_columns, portions
from stateproc.writers.formats.common.order_check import OrderCheck
from stateproc.writers.formats.common.snappy_stream import FramedStream

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
        self._reg = np.zeros(layout.REGISTERS, dtype=np.int64)
        self._reg[layout.GROUP] = -1
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
        reg, size = self._reg, int(self._reg[layout.POS])
        if reg[layout.GROUP] >= 0:
            self._out[4] |= layout.FLAG
            self._emit(self._out.data[:size])
            self._emit(memoryview(layout.END_OF_GROUP.to_bytes(2, "big")))
            self._end_stream()
        return tuple(self._offsets)

    def _write(self, columns: EntryColumns, first: int, last: int, size: int) -> None:
        reg, keys, values = self._reg, columns.keys, columns.values
        held = int(reg[layout.POS])
        if len(self._out) < held + size:
            grown = np.empty(held + size, dtype=np.uint8)
            grown[:held] = self._out[:held]
            self._out = grown
        reg[layout.BEGAN] = 0
        layout.encode_entries(
            first, last, columns.key_groups, columns.state_ids, keys.address, keys.offsets, values.address,
            values.offsets, self._key_groups.start, self._prefix, self._out.ctypes.data, reg, self._began,
            self.entries,
        )  # fmt: skip
        self._emit_groups(int(reg[layout.LAST]), int(reg[layout.BEGAN]))
        # The last entry is not written yet: it moves to the start of the buffer, until the next entry is known.
        start, stop = int(reg[layout.LAST]), int(reg[layout.POS])
        self._out[: stop - start] = self._out[start:stop].copy()
        reg[layout.LAST], reg[layout.POS] = 0, stop - start

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
        + np.arange(1, n + 1, dtype=np.int64) * (layout.OVERHEAD + prefix)
    )
    for first, last in portions(ends, (0, n), _AT_ONCE):
        yield first, last, int(ends[last - 1]) - (int(ends[first - 1]) if first else 0)
