"""Fetch blocks of one table file together, check and decompress them (RocksDB: table/block_fetcher.cc).

contents             as many bytes as the handle says, see `rocksdb.compression`
u8 compression
u32 checksum         of the contents and the compression, see `rocksdb.checksums`
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from stateproc.codec.array_types import Bytes, Longs
from stateproc.codec.arrow_arrays import uninitialized_bytes
from stateproc.codec.native.jit import exported, load_le16, load_le32
from stateproc.readers.rocksdb.checksums import NONE, checksums, context_modifier
from stateproc.readers.rocksdb.compression import Oversized, decompressed
from stateproc.readers.rocksdb.format import MAX_BLOCK, TRAILER_SIZE, BlockHandle, Footer, damaged
from stateproc.storage import ByteSource, FileSource
from stateproc.storage.concurrency import map_in_order
from stateproc.storage.ranges import is_remote

# Read blocks that are far apart: several requests, one buffer.


def read_gathered(source: ByteSource, starts: Longs, lengths: Longs, gap: int) -> tuple[Bytes, Longs]:
    """Read ascending ranges into one buffer; return it, and where each range begins in it.

    Args:
        starts: int64 [n], ascending.
        lengths: int64 [n]; ranges do not overlap.
        gap: Ranges up to so many bytes apart share a request, and what is between them is in the buffer, too.

    Raises CorruptSnapshot, MissingFile.
    """
    ends = starts + lengths
    breaks = np.flatnonzero(starts[1:] - ends[:-1] > gap) + 1
    firsts, lasts = np.append(0, breaks), np.append(breaks, len(starts)) - 1
    sizes = ends[lasts] - starts[firsts]
    bounds = np.append(0, np.cumsum(sizes))
    buffer = uninitialized_bytes(int(bounds[-1]))
    view = buffer.data
    requests = [
        (start, view[low:high])
        for start, low, high in zip(starts[firsts].tolist(), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    ]
    if isinstance(source, FileSource) and (len(requests) < 2 or not is_remote(source)):
        source.read_parts(requests)
    elif len(requests) < 2 or not is_remote(source):
        for request in requests:
            _fill(source, request)
    else:
        for _ in map_in_order(partial(_fill, source), requests):
            pass
    return buffer, starts + np.repeat(bounds[:-1] - starts[firsts], lasts - firsts + 1)


def _fill(source: ByteSource, request: tuple[int, memoryview]) -> None:
    start, target = request
    target[:] = source.read(start, len(target))


@dataclass(frozen=True)
class Tail:
    """The last bytes of a file, read at once when it was opened."""

    start: int
    data: bytes


@dataclass(frozen=True)
class PlainBlocks:
    """Decompressed blocks, one after another.

    starts, ends: where the entries of each are in ``plain`` (without the restart points). offsets: the
    blocks' places in the file.
    """

    plain: Bytes
    starts: Longs
    ends: Longs
    offsets: Longs
    file: str


class ChecksumMismatch(Exception):
    """The checksum of the block at ``offset`` is wrong."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


@dataclass(frozen=True)
class BlockReader:
    """Reads blocks of one file; what its tail holds is not fetched again."""

    source: ByteSource
    footer: Footer
    tail: Tail
    verify: bool

    @property
    def file(self) -> str:
        return self.source.name

    def fetch(self, start: int, length: int) -> bytes:
        """Bytes of the file. Raises CorruptSnapshot, MissingFile."""
        if start >= self.tail.start:
            data = self.tail.data[start - self.tail.start : start - self.tail.start + length]
            if len(data) == length:
                return data
        return self.source.read(start, length)

    def blocks(self, offsets: Longs, sizes: Longs) -> PlainBlocks:
        """Neighbouring data or index blocks, in ascending order, with one request.

        Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile; Oversized if several hold more than 64 MiB.
        """
        self.check(offsets, sizes)
        at = int(offsets[0])
        raw = np.frombuffer(self.fetch(at, int(offsets[-1] + sizes[-1]) + TRAILER_SIZE - at), dtype=np.uint8)
        return self._plain_blocks(raw, offsets - at, sizes, offsets)

    def _plain_blocks(self, raw: Bytes, starts: Longs, sizes: Longs, offsets: Longs) -> PlainBlocks:
        """Blocks out of fetched bytes. Raises CorruptSnapshot, UnsupportedSnapshot, Oversized."""
        try:
            plain, bounds = self.plain(raw, starts, sizes, offsets)
        except ChecksumMismatch as error:
            raise damaged(self.file, error.offset, "a block's checksum is wrong") from error
        ends = np.zeros(len(offsets), dtype=np.int64)
        bad = entry_ends(plain.ctypes.data, bounds, ends)
        if bad >= 0:
            raise damaged(self.file, int(offsets[bad]), "a block's restart points do not fit into it")
        return PlainBlocks(plain, bounds[:-1], ends, offsets, self.file)

    def scattered(self, offsets: Longs, sizes: Longs, gap: int) -> Iterable[PlainBlocks]:
        """Blocks in ascending order that may be far apart: bytes between them of more than ``gap`` are not read.

        One part; or, where they hold very much, several, one at a time. Raises as ``parts`` does.
        """
        self.check(offsets, sizes)
        raw, starts = read_gathered(self.source, offsets, sizes + TRAILER_SIZE, gap)
        try:
            return [self._plain_blocks(raw, starts, sizes, offsets)]
        except Oversized as error:
            pieces = error.parts
            return (self._plain_blocks(raw, starts[part], sizes[part], offsets[part]) for part in pieces)

    def parts(self, offsets: Longs, sizes: Longs) -> Iterable[PlainBlocks]:
        """The same blocks in one part, with one request; or, where they hold very much, in several, one at a time.

        Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile; so does what it gives.
        """
        try:
            return [self.blocks(offsets, sizes)]
        except Oversized as error:
            return (self.blocks(offsets[part], sizes[part]) for part in error.parts)

    def block(self, handle: BlockHandle) -> PlainBlocks:
        """One block. Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile."""
        self.check_handle(handle)
        return self.blocks(np.array([handle.offset]), np.array([handle.size]))

    def check_handle(self, handle: BlockHandle) -> None:
        if handle.offset + handle.size + TRAILER_SIZE > self.source.size:
            raise damaged(
                self.file,
                handle.offset,
                f"a block of {handle.size} bytes in a file of {self.source.size} bytes",
            )

    def check(self, offsets: Longs, sizes: Longs, stop: int | None = None) -> None:
        """Refuse blocks outside of the file, or not before byte ``stop`` of it, or not in ascending order."""
        size = self.source.size if stop is None else stop
        wrong = (offsets < 0) | (sizes < 0) | (offsets > size) | (sizes > size)
        wrong |= offsets + sizes > size - TRAILER_SIZE
        wrong[1:] |= offsets[1:] - offsets[:-1] < sizes[:-1] + TRAILER_SIZE
        if wrong.any():
            bad = int(np.argmax(wrong))
            raise damaged(self.file, int(offsets[bad]), "the index points to an impossible place")
        if (sizes > MAX_BLOCK).any():
            bad = int(np.argmax(sizes))
            raise damaged(self.file, int(offsets[bad]), f"a block of {sizes[bad]} bytes, over {MAX_BLOCK}")

    def plain(self, raw: Bytes, starts: Longs, sizes: Longs, offsets: Longs) -> tuple[Bytes, Longs]:
        """Return the blocks in fetched bytes, checked and decompressed. Raises ChecksumMismatch, Oversized."""
        ends = starts + sizes
        if self.verify and self.footer.checksum != NONE:
            found = checksums(self.footer.checksum, raw, starts, ends + 1)
            if self.footer.context:
                found = found + np.array(
                    [context_modifier(self.footer.context, at) for at in offsets.tolist()], dtype=np.uint32
                )
            wrong = found != _words(raw, ends + 1)
            if wrong.any():
                raise ChecksumMismatch(int(offsets[np.argmax(wrong)]))
        return decompressed(raw, starts, ends, self.file, offsets, self.footer.version)


def _words(raw: Bytes, at: Longs) -> npt.NDArray[np.uint32]:
    """The little-endian words at these positions."""
    parts = [raw[at + k].astype(np.uint32) << np.uint32(8 * k) for k in range(4)]
    return np.asarray(parts[0] | parts[1] | parts[2] | parts[3], dtype=np.uint32)


@exported
def entry_ends(plain: int, bounds: Longs, ends: Longs) -> int:
    """Where the entries of each block end: before its restart points and hash index; -1, or the bad block.

    After the entries: u32 per restart point; with the top bit of the last word set also u8 per hash bucket
    and u16 number of buckets (DataBlockHashIndexBuilder); the last word holds the number of restart points.
    """
    for k in range(len(ends)):
        start, stop = bounds[k], bounds[k + 1] - 4
        if stop < start:
            return k
        word = load_le32(plain + stop)
        if word & 0x80000000:
            stop -= 2
            if stop < start:
                return k
            stop -= load_le16(plain + stop)
        stop -= (word & 0x7FFFFFFF) << 2
        if stop < start:
            return k
        ends[k] = stop
    return -1
