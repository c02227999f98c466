"""Read key groups of a state file as blocks of plain bytes, compressed or not, in bounded memory.

Compression: org.apache.flink.runtime.state.SnappyStreamCompressionDecorator, the snappy framing format.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import cramjam
import numpy as np

from stateproc.codec.array_types import Bytes
from stateproc.codec.arrow_arrays import uninitialized_bytes
from stateproc.errors import CorruptSnapshot, Where
from stateproc.storage import ByteSource, FileSource
from stateproc.storage.ranges import ReadAhead, reading_ahead


def _read(source: ByteSource, start: int, length: int) -> Bytes:
    """Return ``length`` bytes of ``source`` from ``start``, uint8. Raises CorruptSnapshot, MissingFile."""
    if not isinstance(source, FileSource | ReadAhead):
        return np.frombuffer(source.read(start, length), dtype=np.uint8)
    # Memory of Arrow's pool, which has the pages of blocks that nothing refers to any more.
    buffer = uninitialized_bytes(length)
    source.read_into(start, memoryview(buffer))  # type: ignore[arg-type]
    return buffer


# Parse and decompress the snappy framing format.
#
# Source: org.apache.flink.runtime.state.SnappyStreamCompressionDecorator, org.xerial.snappy.SnappyFramedInputStream.

_IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"
_MAX_FRAME = 65536


@dataclass(frozen=True)
class Frames:
    """The whole chunks at the beginning of some bytes.

    ``size``: their bytes. ``streams``: where streams begin (their identifiers stand) in what the chunks hold.
    """

    size: int
    streams: tuple[int, ...]


def frames(raw: bytes, file: str, file_at: int) -> Frames:
    """Find the complete chunks at the beginning of ``raw``, at ``file_at`` in the file. Raises CorruptSnapshot."""
    at = plain = 0
    streams = []
    while at + 4 <= len(raw):
        kind, length = raw[at], int.from_bytes(raw[at + 1 : at + 4], "little")
        end = at + 4 + length
        if kind in (0, 1):
            if length < 4 or length > _MAX_FRAME + 4 + _MAX_FRAME // 6 + 32:
                raise damaged(file, file_at + at, f"a compressed chunk of {length} bytes")
        elif kind == 0xFF:
            if length != len(_IDENTIFIER) - 4:
                raise damaged(file, file_at + at, f"a stream identifier of {length} bytes")
        elif kind < 0x80:
            raise damaged(file, file_at + at, f"a compressed chunk of the unknown type {kind}")
        if end > len(raw):
            break
        if kind == 0xFF:
            streams.append(plain)
        elif kind in (0, 1):
            size = _uncompressed_size(raw, at + 8, end) if kind == 0 else length - 4
            if size > _MAX_FRAME:
                raise damaged(file, file_at + at, "a compressed chunk claims more than 64 KiB")
            plain += size
        at = end
    return Frames(at, tuple(streams))


def whole_frames(raw: bytes, file: str, file_at: int) -> int:
    """How many bytes at the beginning of ``raw`` are whole chunks. Raises CorruptSnapshot."""
    return frames(raw, file, file_at).size


def _uncompressed_size(raw: bytes, at: int, stop: int) -> int:
    """The varint that raw snappy begins with."""
    size = shift = 0
    while at < stop and shift <= 28:
        size |= (raw[at] & 0x7F) << shift
        if raw[at] < 0x80:
            return size
        at, shift = at + 1, shift + 7
    return _MAX_FRAME + 1


def decompress_frames(raw: bytes, file: str, file_at: int) -> bytes:
    """Decompress whole chunks; their checksums are verified. Raises CorruptSnapshot."""
    if not raw:
        return b""
    try:
        return bytes(cramjam.snappy.decompress(raw if raw.startswith(_IDENTIFIER) else _IDENTIFIER + raw))
    except cramjam.DecompressionError as error:
        raise damaged(file, file_at, f"compressed data is damaged: {error}") from error


def damaged(file: str, offset: int, what: str) -> CorruptSnapshot:
    """The error for damage found at ``offset``."""
    return CorruptSnapshot(
        what, where=Where(file=file, offset=offset), advice="the file is damaged; use a copy or take the snapshot again"
    )


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
    for run in _adjacent(ranges):
        at, stop, index, wanted = run[0].start, run[-1].stop, 0, size or sizing.bytes
        while at < stop:
            length = min(wanted, stop - at)
            data = _read(source, at, length)
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
