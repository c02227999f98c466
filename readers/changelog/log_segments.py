"""Read the changes of a changelog handle, in the order in which they were made.

A file of the log (org.apache.flink.changelog.fs.StateChangeFormat, StateChangeFsUploader), big-endian:

    u8           1: what follows is one stream of snappy frames; 0: it is plain
    segments of several tasks, at offsets of the plain bytes after this one:
        i32 number of blocks
            i32 number of changes, i32 key group (-1: metadata, which comes first)
                i32 length, change (see `changelog.records`)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from stateproc.codec.array_types import Longs
from stateproc.errors import CorruptSnapshot, Where
from stateproc.metadata.keyed_handles import FileChangelogHandle, InMemoryChangelogHandle
from stateproc.metadata.stream_handles import SegmentHandle, StreamHandle
from stateproc.readers.changelog.change_blocks import Change, ChangeBlock, blocks_of, walk
from stateproc.readers.key_group_blocks import decompress_frames, whole_frames
from stateproc.storage import ByteSource, SnapshotLocation, open_handle
from stateproc.storage.concurrency import REQUESTS_AT_ONCE, RequestPool
from stateproc.storage.ranges import is_remote
from stateproc.storage.sources import FileSource

# Read the plain content of a changelog file, forwards.
#
# Format: org.apache.flink.changelog.fs.ChangelogStreamWrapper: one byte, whether the rest is compressed.

_BEGINNING, _FIRST, _MOST, _MOST_REMOTE = 64 << 10, 1 << 20, 4 << 20, 16 << 20
"""Bytes that are read at once: little where only the beginning of a segment is needed; else 1 MiB, because the changes
of other tasks may follow the segment, and each further time twice as much. Many bytes of remote files are several
requests at a time."""
_SKIPPED_AT_ONCE = 1 << 14
_FLAG = 1
_LENGTH = 4
_ADVICE = "the file is truncated or damaged; restore it from a copy or take the snapshot again"


def log_source(handle: StreamHandle, location: SnapshotLocation) -> ByteSource:
    """The file of a segment, with its actual size: a handle's size counts plain bytes, without the flag.

    Raises MissingFile.
    """
    source = open_handle(handle, location, whole=False)
    if not isinstance(source, FileSource) or isinstance(handle, SegmentHandle):
        return source
    found = replace(source, size=replace(source, size=0).stored_size())
    found.check_exists()
    return found


class LogContent:
    """A cursor over the plain bytes after the flag. Raises CorruptSnapshot with the file and the offset in it.

    Args:
        leading: Whether only the beginnings of segments are read.
    """

    def __init__(self, source: ByteSource, *, leading: bool = False) -> None:
        self.file = source.name
        self._source = source
        if source.size < _FLAG:
            raise self._damaged("a changelog file without its first byte", 0)
        self._most = _MOST_REMOTE if is_remote(source) else _MOST
        self._first = _BEGINNING if leading else _FIRST
        self._head = source.read(0, min(self._first, source.size))
        flag = self._head[0]
        if flag > 1:
            raise self._damaged(f"a changelog file begins with the mark {flag}, which is neither 0 nor 1", 0)
        self._compressed = flag == 1
        self._rewind()

    def _rewind(self) -> None:
        self._next, self._tail = _FLAG, b""
        self._held, self._used, self._before = b"", 0, 0
        self._at_once = self._first

    @property
    def position(self) -> int:
        """Plain bytes from the content's beginning to here."""
        return self._before + self._used

    @property
    def offset(self) -> int:
        """Where in the file this is; in compressed content, up to where it has been read."""
        return self._next if self._compressed else _FLAG + self.position

    def seek(self, position: int) -> None:
        """Go to a position of the plain content."""
        if self._compressed:
            if position < self.position:
                self._rewind()
            while self.position < position:
                self.take(min(_MOST, position - self.position))
            return
        if _FLAG + position > self._source.size:
            raise self._damaged(f"a segment at byte {position} of {self._source.size - _FLAG}", self._source.size)
        if self._before <= position <= self._before + len(self._held):
            self._used = position - self._before
            return
        self._next, self._held, self._used, self._before = _FLAG + position, b"", 0, position
        self._at_once = self._first

    def take(self, length: int) -> bytes:
        """The next ``length`` bytes."""
        if length < 0:
            raise self._damaged(f"a negative length {length} in the changelog", self.offset)
        if not self._compressed and length > self._source.size - self.offset:
            raise self._damaged(
                f"{length} bytes wanted where the changelog has {self._source.size - self.offset} left", self.offset
            )
        missing = length - (len(self._held) - self._used)
        if missing > 0:
            parts = [self._held[self._used :]]
            self._before, self._used, self._held = self.position, 0, b""
            while missing > 0:
                part = self._more(missing)
                missing -= len(part)
                parts.append(part)
            self._held = b"".join(parts)
        start, self._used = self._used, self._used + length
        return self._held[start : self._used]

    def integer(self) -> int:
        """An i32."""
        return int.from_bytes(self.take(4), "big", signed=True)

    def records(self, count: int) -> Iterator[tuple[bytes, Longs, Longs, Longs]]:
        """The next ``count`` records of i32 length and bytes, in parts: bytes, where in them records start and end, and
        the records' offsets in the file."""
        while count > 0:
            held = np.frombuffer(self._held or b"\0", dtype=np.uint8)
            capacity = min(count, (len(self._held) - self._used) // _LENGTH)
            starts, ends = np.empty(capacity, dtype=np.int64), np.empty(capacity, dtype=np.int64)
            first, before = self._used, self.offset
            n, reached = walk(held.ctypes.data, first, len(self._held), starts, ends)
            if not n:
                # Cut off by what is held, or damaged: this one is taken by itself.
                data = self.take(self.integer())
                yield data, np.array([0]), np.array([len(data)]), np.array([before])
                count -= 1
                continue
            self._used = reached
            starts, ends = starts[:n] - first, ends[:n] - first
            places = np.full(n, before) if self._compressed else before + starts - _LENGTH
            yield self._held[first:reached], starts, ends, places
            count -= n

    def skip_records(self, count: int) -> None:
        """Pass the next ``count`` records without copying them."""
        starts, ends = np.empty((2, min(count, _SKIPPED_AT_ONCE)), dtype=np.int64)
        while count > 0:
            held = np.frombuffer(self._held or b"\0", dtype=np.uint8)
            n, reached = walk(held.ctypes.data, self._used, len(self._held), starts[:count], ends)
            if n:
                self._used = reached
            else:
                # Cut off by what is held, or damaged.
                self.take(self.integer())
            count -= max(n, 1)

    def _more(self, missing: int) -> bytes:
        """More plain bytes, at least one."""
        while True:
            left = self._source.size - self._next
            if left <= 0:
                raise self._damaged(f"the changelog is cut off: {missing} more bytes are wanted", self._source.size)
            part = self._read(left, missing)
            if not self._compressed:
                return part
            raw, at = self._tail + part, self._next - len(part) - len(self._tail)
            whole = whole_frames(raw, self.file, at)
            self._tail = raw[whole:]
            plain = decompress_frames(raw[:whole], self.file, at)
            if plain:
                return plain

    def _read(self, left: int, missing: int) -> bytes:
        """Read bytes of the file, of which ``left`` follow; as many as are missing if they are not compressed."""
        part = self._head[self._next :]
        if not part:
            least = 0 if self._compressed else missing
            part = self._source.read(self._next, min(left, max(least, self._at_once)))
            self._at_once = min(2 * self._at_once, self._most)
        self._next += len(part)
        return part

    def _damaged(self, what: str, offset: int) -> CorruptSnapshot:
        return CorruptSnapshot(what, where=Where(file=self.file, offset=offset), advice=_ADVICE)


METADATA_GROUP = -1
LogHandle = InMemoryChangelogHandle | FileChangelogHandle
_Segments = tuple[StreamHandle, list[int]]
"""A file and the offsets of segments in it."""
_FILES_AHEAD = 3
"""Remote files that are opened while the changes of another one are read; a MiB of each waits."""


def log_blocks(
    handles: Sequence[LogHandle],
    location: SnapshotLocation,
    wanted: Callable[[int], bool],
    *,
    leading: bool = False,
) -> Iterator[ChangeBlock]:
    """Changes of the key groups that are ``wanted`` (metadata always), in their order.

    ``leading``: of each file segment the first block only, where the metadata stands. Raises CorruptSnapshot,
    MissingFile.
    """
    parts = _parts(handles)
    opening = [
        partial(_opened, part[0], location, leading) for part in parts if not isinstance(part, InMemoryChangelogHandle)
    ]
    with RequestPool(1 if location.directory.is_local else REQUESTS_AT_ONCE) as pool:
        opened = pool.run(opening, REQUESTS_AT_ONCE - 1 if leading else _FILES_AHEAD)
        for part in parts:
            if isinstance(part, InMemoryChangelogHandle):
                file = f"{location.metadata_uri} (changelog {part.handle_id})"
                yield from blocks_of(
                    Change(key_group, data, file, index)
                    for index, (key_group, data) in enumerate(part.changes)
                    if key_group == METADATA_GROUP or wanted(key_group)
                )
                continue
            content = next(opened)
            for offset in part[1]:
                yield from _segment(content, offset, wanted, leading)


def _parts(handles: Sequence[LogHandle]) -> list[InMemoryChangelogHandle | _Segments]:
    """Put segments of one file together that follow one another: none of it is decompressed twice."""
    parts: list[InMemoryChangelogHandle | _Segments] = []
    for handle in handles:
        if isinstance(handle, InMemoryChangelogHandle):
            parts.append(handle)
            continue
        for offset, stream in handle.segments:
            last = parts[-1] if parts else None
            if isinstance(last, tuple) and last[0] == stream:
                last[1].append(offset)
            else:
                parts.append((stream, [offset]))
    return parts


def _opened(stream: StreamHandle, location: SnapshotLocation, leading: bool) -> LogContent:
    return LogContent(log_source(stream, location), leading=leading)


def log_changes(
    handles: Sequence[LogHandle],
    location: SnapshotLocation,
    wanted: Callable[[int], bool],
    *,
    leading: bool = False,
) -> Iterator[Change]:
    """The same one by one."""
    for block in log_blocks(handles, location, wanted, leading=leading):
        yield from block.changes()


def _segment(content: LogContent, offset: int, wanted: Callable[[int], bool], leading: bool) -> Iterator[ChangeBlock]:
    content.seek(offset)
    blocks = _count(content, "key groups")
    for _ in range(min(blocks, 1) if leading else blocks):
        changes = _count(content, "changes")
        key_group = content.integer()
        if leading and key_group != METADATA_GROUP:
            return
        if key_group != METADATA_GROUP and not wanted(key_group):
            content.skip_records(changes)
            continue
        for data, starts, ends, places in content.records(changes):
            yield ChangeBlock(key_group, data, starts, ends, content.file, places)


def _count(content: LogContent, what: str) -> int:
    at = content.offset
    count = content.integer()
    if count < 0:
        raise CorruptSnapshot(
            f"an impossible number of {what} in the changelog: {count}",
            where=Where(file=content.file, offset=at),
            advice="the file is damaged; restore it from a copy or take the snapshot again",
        )
    return count


__all__ = ["METADATA_GROUP", "Change", "ChangeBlock", "LogHandle", "log_blocks", "log_changes"]
