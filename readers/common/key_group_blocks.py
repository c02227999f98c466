"""Read key groups of a state file as blocks of plain bytes, compressed or not, in bounded memory.

Compression: org.apache.flink.runtime.state.SnappyStreamCompressionDecorator, the snappy framing format.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from stateproc.codec.array_types import Bytes
from stateproc.errors import CorruptSnapshot, Where
from stateproc.readers.common.buffer_pool import BufferPool
from stateproc.readers.common.snappy_framing import damaged, decompress_frames, frames
from stateproc.storage import ByteSource, FileSource
from stateproc.storage.read_ahead import reading_ahead

Out = TypeVar("Out")
BLOCK_BYTES, FILE_BLOCK_BYTES = 16 << 20, 3 << 20
"""What is decoded at once: of files what is still in the processor's cache when it is decoded (a fifth less time than
with 16 MB). Requests for remote files are larger, and made ahead."""
_FEW_ENTRIES = 8192
"""Entries per batch from which on what is done once per batch and column does not count."""


@dataclass(frozen=True)
class KeyGroupRange:
    """A key group's bytes in its file: ``start`` inclusive, ``stop`` exclusive."""

    key_group: int
    start: int
    stop: int


@dataclass(frozen=True)
class Block:
    """Bytes of one or more key groups. ``groups``: (key group, position in ``data``) of those that begin here.

    ``streams``: positions in ``data`` where a compressed stream begins; native heap files have one for each state.
    ``file_at``: the offset of ``data[0]`` in the file; for compressed data, where its key group begins.
    ``last``: the key group that ``data`` ends in ends with it.
    """

    data: Bytes
    groups: tuple[tuple[int, int], ...]
    file_at: int
    compressed: bool
    last: bool
    streams: tuple[int, ...] = ()


BlockStream = Generator[Block, "int | None", None]
"""Yields consecutive blocks. Send it how many bytes at a block's end were not used: the next block begins with
them, and is as much longer as it needs to be for no byte to be read or copied many times. Nothing sent: all were used.
"""


def fed(blocks: BlockStream, feed: Callable[[Block], Generator[Out, None, int]]) -> Iterator[Out]:
    """Yield what ``feed`` yields for each block.

    ``feed`` returns how many bytes at the block's end the next one begins with.
    """
    unused: int | None = None
    while True:
        try:
            block = blocks.send(unused)
        except StopIteration:
            return
        unused = yield from feed(block)


def group_ranges(first: int, offsets: Sequence[int], size: int, file: str, empty: int = 0) -> list[KeyGroupRange]:
    """Return the ranges of the non-empty key groups, stored one after another up to the file's end (``size``).

    ``offsets[i]``: of key group ``first + i``; ``empty`` marks a group without data. Raises CorruptSnapshot.
    """
    present = [(first + index, offset) for index, offset in enumerate(offsets) if offset != empty]
    starts = [offset for _, offset in present] + [size]
    for (key_group, start), stop in zip(present, starts[1:], strict=True):
        if start < 0 or start >= stop:
            raise CorruptSnapshot(
                f"key group {key_group} begins at byte {start}, the next one or the end is at {stop}",
                where=Where(file=file, offset=max(start, 0)),
                advice="the offsets in _metadata do not fit the file: one of the two is damaged",
            )
    return [KeyGroupRange(kg, start, stop) for (kg, start), stop in zip(present, starts[1:], strict=True)]


class BlockSizing:
    """How many bytes of a file are read at once: more where entries are large, as those of a hundred columns.

    Attributes:
        bytes: The size of the next block.
    """

    def __init__(self, source: ByteSource) -> None:
        self._least = self.bytes = FILE_BLOCK_BYTES if isinstance(source, FileSource) else BLOCK_BYTES

    def adapt(self, entries: int) -> None:
        """Choose the size of further blocks by the number of wanted entries in a block of the smallest size."""
        if self.bytes == self._least and 0 < entries < _FEW_ENTRIES:
            self.bytes = min(BLOCK_BYTES, self._least * _FEW_ENTRIES // entries)


def plain_blocks(
    source: ByteSource, ranges: Sequence[KeyGroupRange], size: int | None = None, sizing: BlockSizing | None = None
) -> BlockStream:
    """Read uncompressed key groups block by block; neighbours in the file share blocks.

    Args:
        source: The file.
        ranges: The key groups.
        size: The bytes of each block.
        sizing: Chooses the size of each block where ``size`` is not given; default the smallest for the source.

    Yields:
        Blocks; where all of a block was not used, the next one is twice as long.
    """
    with reading_ahead(source, _spans(ranges)) as ahead:
        yield from _plain_blocks(ahead, ranges, size, sizing or BlockSizing(source))


def _plain_blocks(
    source: ByteSource, ranges: Sequence[KeyGroupRange], size: int | None, sizing: BlockSizing
) -> BlockStream:
    buffers = BufferPool()
    for run in _adjacent(ranges):
        at, stop, index, wanted = run[0].start, run[-1].stop, 0, size or sizing.bytes
        while at < stop:
            length = min(wanted, stop - at)
            data = buffers.read(source, at, length)
            groups = []
            while index < len(run) and run[index].start < at + length:
                groups.append((run[index].key_group, run[index].start - at))
                index += 1
            ends = at + length == stop
            block = Block(data, tuple(groups), at, False, ends)
            del data
            unused = (yield block) or 0
            del block
            at += length - unused
            if ends:
                break
            wanted = 2 * length if unused == length else size or sizing.bytes
            while index and run[index - 1].start >= at:
                index -= 1


def _spans(ranges: Sequence[KeyGroupRange]) -> list[tuple[int, int]]:
    return [(item.start, item.stop) for item in ranges]


def _adjacent(ranges: Sequence[KeyGroupRange]) -> list[list[KeyGroupRange]]:
    """Runs of ranges without gaps between them."""
    runs: list[list[KeyGroupRange]] = []
    for item in ranges:
        if runs and runs[-1][-1].stop == item.start:
            runs[-1].append(item)
        else:
            runs.append([item])
    return runs


def snappy_blocks(
    source: ByteSource, ranges: Sequence[KeyGroupRange], lead: int = 0, size: int | None = None
) -> BlockStream:
    """Compressed key groups; the first ``lead`` bytes of each are plain. Small groups share blocks."""
    with reading_ahead(source, _spans(ranges)) as ahead:
        yield from _snappy_blocks(ahead, ranges, lead, size or BlockSizing(source).bytes)


def _snappy_blocks(source: ByteSource, ranges: Sequence[KeyGroupRange], lead: int, size: int) -> BlockStream:
    held = _DecompressedBlock()
    file_at, wanted = 0, size
    for item in ranges:
        if not held.parts:
            file_at = item.start
        held.groups.append((item.key_group, held.size))
        for plain, streams, ends in _decompressed(source, item, lead, size):
            held.add(plain, streams)
            if held.size >= wanted:
                unused = (yield held.block(file_at, ends)) or 0
                held.keep(unused)
                # Twice what was left: however long an entry is, its bytes are copied twice on the average.
                file_at, wanted = item.start, max(size, 2 * unused)
    if held.parts or held.groups:
        yield held.block(file_at, True)


class _DecompressedBlock:
    """Collect decompressed chunks for the next block."""

    def __init__(self) -> None:
        self.parts: list[Bytes] = []
        self.groups: list[tuple[int, int]] = []
        self._streams: list[int] = []
        self.size = 0

    def add(self, plain: Bytes, streams: Sequence[int]) -> None:
        self._streams += [self.size + at for at in streams]
        self.parts.append(plain)
        self.size += len(plain)

    def block(self, file_at: int, last: bool) -> Block:
        if len(self.parts) > 1:
            self.parts = [np.concatenate(self.parts)]
        return Block(self.parts[0], tuple(self.groups), file_at, True, last, tuple(self._streams))

    def keep(self, unused: int) -> None:
        """Forget all but the last ``unused`` bytes."""
        used = self.size - unused
        self.groups = [(key_group, at - used) for key_group, at in self.groups if at >= used]
        self._streams = [at - used for at in self._streams if at >= used]
        self.parts = [self.parts[0][used:]] if unused else []
        self.size = unused


def _decompressed(
    source: ByteSource, item: KeyGroupRange, lead: int, size: int
) -> Iterator[tuple[Bytes, tuple[int, ...], bool]]:
    """The key group's plain bytes in chunks: (bytes, where streams begin in them, whether it is the last)."""
    if item.stop - item.start < lead:
        raise damaged(source.name, item.start, "a key group is too short")
    head = source.read(item.start, lead)
    at, tail = item.start + lead, b""
    if at == item.stop:
        yield _bytes(head), (), True
    while at < item.stop:
        length = min(max(size // 4, 1), item.stop - at)
        raw = tail + source.read(at, length)
        at += length
        whole = frames(raw, source.name, at - len(raw))
        if at == item.stop and whole.size != len(raw):
            raise damaged(source.name, at - len(raw) + whole.size, "a compressed chunk is cut off")
        tail = raw[whole.size :]
        if whole.size or at == item.stop:
            plain = head + decompress_frames(raw[: whole.size], source.name, at - len(raw))
            yield _bytes(plain), tuple(len(head) + start for start in whole.streams), at == item.stop
            head = b""


def _bytes(raw: bytes) -> Bytes:
    return np.frombuffer(raw, dtype=np.uint8)
