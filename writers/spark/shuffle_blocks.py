"""Pack entries into blocks, so that Spark shuffles a few large values instead of a row for each entry.

What Spark does per row (to rows and back, copying, comparing) costs more than all of the writer's own work on an entry.
A block holds some thousand entries of one state file, compressed; Spark shuffles blocks by file, and the task that
receives them unpacks and sorts the entries. A block travels as slices of bounded size, which carry its number.
"""

from __future__ import annotations

import itertools
import struct
from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext

from stateproc.errors import InvalidEntries
from stateproc.writers.formats.entry_batches import FILE, FILE_ENTRIES, byte_column, cuts, portions
from stateproc.writers.sorting.entry_sort import ScatteredEntries

BLOCKS = pa.schema([pa.field(FILE, pa.int32(), nullable=False), pa.field("slice", pa.binary(), nullable=False)])
BLOCKS_SCHEMA = "file int, slice binary"
SLICE_BYTES = 8 << 10
"""The most bytes of a slice; a batch of 2,000 slices (`arrow_batching`) has 16 MB."""
_BLOCK_NUMBER = struct.Struct(">HIQ")
"""The DataFrame of a block, the partition, and the block's position in it."""
_SLICE_HEADER = struct.Struct(f">{_BLOCK_NUMBER.size}sII")
"""The number of the slice's block, the slice's position in it, how many slices the block has."""
_BLOCK_HEADER = struct.Struct("<III")
"""The number of entries, the bytes of all keys, the bytes of all values."""
_NARROW, _SIZE = np.dtype("<i2"), np.dtype("<i4")
"""A block's columns of key groups (below 32768) and of state ids (-1 of pairs of keys); of the sizes of keys and of
values. Their bytes follow.

Sizes repeat and compress well, where Arrow's offsets do not.
"""
_ROW_BYTES = 2 * _NARROW.itemsize + 2 * _SIZE.itemsize
_CODEC = pa.Codec("lz4_raw")
"""Twice as fast as the LZ4 frames of Arrow's IPC format. Blocks are compressed here because Spark copies each some
eight times on its way, and is slower at compressing its shuffle files."""
_SORTED_BYTES, _PACKED_BYTES = 8 << 20, 1 << 20
"""Bytes of entries that are ordered at once, and of those, of all files together, that are packed at once."""


def block_numbers(frame: int) -> Iterator[bytes]:
    """Yield the numbers of the blocks that a task makes of one DataFrame, which no other block has.

    They are the same when the task is repeated: Spark gives a job up in which an executor is lost if the output of a
    repeated task is another, because tasks that have read the first output would have to be repeated, too.
    """
    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    return (_BLOCK_NUMBER.pack(frame, partition, position) for position in itertools.count())


def packed(
    entries: Iterable[pa.RecordBatch], numbers: Iterator[bytes], at_once: int = _SORTED_BYTES
) -> Iterator[pa.RecordBatch]:
    """Pack entries (FILE_ENTRIES) into blocks (BLOCKS), ordering about ``at_once`` bytes of them at a time.

    ``numbers``: those of the blocks, `block_numbers`.

    Blocks are returned few at a time, between the batches that are consumed. A worker that writes much at once does
    not read meanwhile, and Spark's process keeps sending: with the buffers of both ends full, Linux 6.18 has been seen
    to lose the acknowledgements of both, and the task hangs.
    """
    pending: list[pa.RecordBatch] = []
    ready: deque[pa.RecordBatch] = deque()
    size = last = 0
    for batch in entries:
        pending.append(batch)
        size += batch.nbytes
        if size >= at_once:
            yield from ready
            ready = deque(_packed(pending, numbers))
            pending, size, last = [], 0, len(ready)
        # The share of blocks returned keeps up with the share of entries pending.
        while len(ready) * at_once > last * (at_once - size):
            yield ready.popleft()
    yield from ready
    if pending:
        yield from _packed(pending, numbers)


def _packed(batches: list[pa.RecordBatch], block_numbers: Iterator[bytes]) -> Iterator[pa.RecordBatch]:
    """Blocks of about ``_PACKED_BYTES``, each of one file and of neighbouring key groups."""
    entries = ScatteredEntries.of(batches)
    batch = entries.taken(entries.by_key_group())
    files = batch.column(FILE).to_numpy()
    keys, values = (byte_column(batch.column(name)).offsets for name in ("key", "value"))
    for start, stop in portions(keys[1:] + values[1:], (0, len(files)), _PACKED_BYTES):
        edges = [start + edge for edge in cuts(files[start:stop])]
        slices: list[bytes] = []
        numbers: list[int] = []
        for first, last in itertools.pairwise(edges):
            block = _slices(_serialized(batch.slice(first, last - first)), next(block_numbers))
            slices += block
            numbers += [int(files[first])] * len(block)
        yield pa.RecordBatch.from_arrays([pa.array(numbers, pa.int32()), pa.array(slices, pa.binary())], schema=BLOCKS)


def _serialized(entries: pa.RecordBatch) -> bytes:
    """The block of entries (FILE_ENTRIES) of one file."""
    groups, states = (entries.column(name).to_numpy().astype(_NARROW) for name in ("key_group", "state_id"))
    keys, values = byte_column(entries.column("key")), byte_column(entries.column("value"))
    sizes = [np.diff(column.offsets).astype(_SIZE) for column in (keys, values)]
    columns = [groups, states, *sizes, keys.data, values.data]
    content = np.concatenate([column.view(np.uint8) for column in columns])
    header = _BLOCK_HEADER.pack(len(groups), len(keys.data), len(values.data))
    return header + bytes(_CODEC.compress(content, asbytes=True))


def _slices(block: bytes, number: bytes) -> list[bytes]:
    size = SLICE_BYTES - _SLICE_HEADER.size
    starts = range(0, len(block), size)
    return [
        _SLICE_HEADER.pack(number, position, len(starts)) + block[start : start + size]
        for position, start in enumerate(starts)
    ]


class _BlockAssembler:
    """Joins the slices of blocks, which arrive in any order."""

    def __init__(self) -> None:
        self._slices: dict[bytes, dict[int, bytes]] = {}

    def add(self, data: bytes) -> bytes | None:
        """Return the whole block if this was its last missing slice. Raises InvalidEntries."""
        if len(data) <= _SLICE_HEADER.size:
            raise InvalidEntries("a slice of a block of entries is cut off")
        number, position, n = _SLICE_HEADER.unpack_from(data)
        slices = self._slices.setdefault(number, {})
        if position >= n or position in slices:
            raise InvalidEntries("a slice of a block of entries does not fit the others")
        slices[position] = data[_SLICE_HEADER.size :]
        if len(slices) < n:
            return None
        del self._slices[number]
        return b"".join(slices[index] for index in range(n))

    def finish(self) -> None:
        """Raise InvalidEntries if slices are missing."""
        if self._slices:
            raise InvalidEntries("slices of a block of entries are missing")


def unpacked(slices: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Unpack blocks (BLOCKS) into entries (FILE_ENTRIES). Raises InvalidEntries for damaged blocks."""
    blocks = _BlockAssembler()
    for batch in slices:
        # Slices are converted one by one: a list of all would hold the batch twice.
        for file, data in zip(batch.column(FILE).to_pylist(), batch.column("slice"), strict=True):
            block = blocks.add(data.as_py())
            if block is not None:
                yield _entries(file, block)
    blocks.finish()


def _entries(file: int, block: bytes) -> pa.RecordBatch:
    if len(block) < _BLOCK_HEADER.size:
        raise InvalidEntries("a block of entries is damaged: it is cut off")
    n, key_bytes, value_bytes = _BLOCK_HEADER.unpack_from(block)
    size = n * _ROW_BYTES + key_bytes + value_bytes
    compressed = memoryview(block)[_BLOCK_HEADER.size :]
    # LZ4 writes 255 bytes at most for each byte it reads.
    if size > 255 * len(compressed):
        raise InvalidEntries("a block of entries is damaged: it is cut off")
    try:
        content = np.frombuffer(_CODEC.decompress(compressed, size), dtype=np.uint8)
    except (pa.ArrowException, OSError) as error:
        raise InvalidEntries(f"a block of entries is damaged: {error}") from error
    if len(content) != size:
        raise InvalidEntries("a block of entries is damaged: it is cut off")
    widths = (_NARROW.itemsize * n, _NARROW.itemsize * n, _SIZE.itemsize * n, _SIZE.itemsize * n, key_bytes)
    parts = np.split(content, np.cumsum(widths))
    groups, states = (part.view(_NARROW).astype(np.int32) for part in parts[:2])
    key_sizes, value_sizes = (part.view(_SIZE) for part in parts[2:4])
    numbers = [pa.array(column) for column in (np.full(n, file, dtype=np.int32), groups, states)]
    columns = [_byte_array(key_sizes, parts[4]), _byte_array(value_sizes, parts[5])]
    return pa.RecordBatch.from_arrays([*numbers, *columns], schema=FILE_ENTRIES)


def _byte_array(sizes: npt.NDArray[np.int32], data: npt.NDArray[np.uint8]) -> pa.LargeBinaryArray:
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    if (sizes < 0).any() or int(offsets[-1]) != len(data):
        raise InvalidEntries("a block of entries is damaged: its sizes do not add up")
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(sizes), buffers)
