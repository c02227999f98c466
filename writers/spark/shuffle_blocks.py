"""Blocks: many entries of one file as one value, so that a shuffle moves bytes and no rows.

What Spark does per row costs more than all of our own work on it. Entries of one target are put into a block, some
thousand at a time; Spark shuffles blocks by target, and the task that gets them takes them apart and sorts them.
A block goes as rows of a bounded size, its slices, which find together by its number.
"""

from __future__ import annotations

import itertools
import os
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa

from stateproc.errors import InvalidEntries
from stateproc.writers.formats.common.entry_batches import RAW_ENTRIES, TARGET, TARGETED, byte_column, cuts, portions
from stateproc.writers.spark.arrow_batching import LargeRows
from stateproc.writers.spark.entry_sort import Entries

BLOCKS = pa.schema([pa.field(TARGET, pa.int32(), nullable=False), pa.field("slice", pa.binary(), nullable=False)])
BLOCKS_SCHEMA = "target int, slice binary"
SLICE_BYTES = 32 << 10
"""The most that a row of BLOCKS has."""
_HEAD = struct.Struct(">8sII")
"""What a slice begins with: the number of its block, which slice it is, how many there are."""
UNFINISHED = pa.RecordBatch.from_arrays([pa.array([0], pa.int32()), pa.array([b""], pa.binary())], schema=BLOCKS)
"""Instead of blocks: there are rows whose entries do not come, see ``handing_over``."""
_INSIDE = pa.schema(
    [("key_group", pa.uint16()), ("state_id", pa.uint16()), ("key", pa.binary()), ("value", pa.binary())]
)
"""What a block holds: entries with numbers as narrow as they can be, for all of it goes through the shuffle."""
_BLOCK_BYTES, _PIECE_BYTES = 16 << 20, 1 << 20

Encoding = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def in_blocks(encoding: Encoding) -> Encoding:
    """An encoding to TARGETED entries as one to BLOCKS."""

    def encode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return packed(encoding(batches))

    return encode


def packed(entries: Iterable[pa.RecordBatch], at_once: int = _BLOCK_BYTES) -> Iterator[pa.RecordBatch]:
    """TARGETED entries as blocks; about ``at_once`` bytes of them, for all targets together, are put in order at once.

    Blocks come in little pieces between the batches that are taken in. A worker that writes much at once does not read
    meanwhile, and Spark's process sends on: with both ends' buffers full, kernels have been seen (Linux 6.18) in which
    neither hears the other's acknowledgements any more, and the task hangs.
    """
    held: list[pa.RecordBatch] = []
    ready: deque[pa.RecordBatch] = deque()
    size = pieces = 0
    for batch in entries:
        held.append(batch)
        size += batch.nbytes
        if size >= at_once:
            yield from ready
            ready = deque(_packed(held))
            held, size, pieces = [], 0, len(ready)
        # As many have gone as there is of those that are put in order next.
        while len(ready) * at_once > pieces * (at_once - size):
            yield ready.popleft()
    yield from ready
    if held:
        yield from _packed(held)


def _packed(held: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The entries as blocks, each of one target and of neighbouring key groups, about ``_PIECE_BYTES`` at a time."""
    entries = Entries.of(held)
    batch = entries.taken(entries.by_place())
    targets = batch.column(TARGET).to_numpy()
    keys, values = (byte_column(batch.column(name)).offsets for name in ("key", "value"))
    for start, stop in portions(keys[1:] + values[1:], (0, len(targets)), _PIECE_BYTES):
        edges = [start + edge for edge in cuts(targets[start:stop])]
        slices: list[bytes] = []
        numbers: list[int] = []
        for first, last in itertools.pairwise(edges):
            mine = _sliced(_serialized(_narrow(batch.slice(first, last - first))))
            slices += mine
            numbers += [int(targets[first])] * len(mine)
        yield pa.RecordBatch.from_arrays([pa.array(numbers, pa.int32()), pa.array(slices, pa.binary())], schema=BLOCKS)


def _serialized(entries: pa.RecordBatch) -> memoryview:
    """Compressed, for Spark copies a block some eight times on its way, and compresses what it shuffles in Java."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, _INSIDE, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_batch(entries)
    return memoryview(out.getvalue())


def _narrow(entries: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([entries.column(it.name).cast(it.type) for it in _INSIDE], schema=_INSIDE)


def _sliced(block: memoryview) -> list[bytes]:
    number, size = os.urandom(8), SLICE_BYTES - _HEAD.size
    starts = range(0, len(block), size)
    return [_HEAD.pack(number, at, len(starts)) + block[start : start + size] for at, start in enumerate(starts)]


class _Blocks:
    """Blocks whose slices come one by one, in any order."""

    def __init__(self) -> None:
        self._slices: dict[bytes, dict[int, bytes]] = {}

    def add(self, data: bytes) -> bytes | None:
        """The whole block, if this was the last slice missing. Raises InvalidEntries, LargeRows."""
        if not data:
            raise LargeRows
        if len(data) <= _HEAD.size:
            raise InvalidEntries("a slice of a block of entries is cut off")
        number, at, n = _HEAD.unpack_from(data)
        slices = self._slices.setdefault(number, {})
        if at >= n or at in slices:
            raise InvalidEntries("a slice of a block of entries does not fit the others")
        slices[at] = data[_HEAD.size :]
        if len(slices) < n:
            return None
        del self._slices[number]
        return b"".join(slices[index] for index in range(n))

    def finish(self) -> None:
        """Raises InvalidEntries if slices are missing."""
        if self._slices:
            raise InvalidEntries("slices of a block of entries are missing")


def unpacked(slices: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The TARGETED entries of BLOCKS. Raises InvalidEntries for what is no block, LargeRows for UNFINISHED."""
    blocks = _Blocks()
    for batch in slices:
        # Slices one by one: all of a batch would be there twice.
        for target, data in zip(batch.column(TARGET).to_pylist(), batch.column("slice"), strict=True):
            block = blocks.add(data.as_py())
            if block is not None:
                yield _entries(target, block)
    blocks.finish()


def _entries(target: int, block: bytes) -> pa.RecordBatch:
    try:
        entries = pa.ipc.open_stream(block).read_next_batch()
        columns = [entries.column(it.name).cast(it.type) for it in RAW_ENTRIES]
    except (pa.ArrowException, KeyError, OSError, StopIteration) as error:
        raise InvalidEntries(f"a block of entries is damaged: {error}") from error
    targets = pa.array(np.full(len(entries), target, dtype=np.int32))
    return pa.RecordBatch.from_arrays([targets, *columns], schema=TARGETED)
