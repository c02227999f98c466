"""Read many byte ranges with few requests: neighbouring ranges are coalesced, remote requests run concurrently.

fsspec's own functions do not fit: ``cat_ranges`` neither coalesces (``max_gap`` is not implemented) nor reads
concurrently where a file system is synchronous (HDFS, WebHDFS), and ``merge_offset_ranges`` of the older supported
releases shrinks a range that contains another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType

from stateproc.storage.concurrency import REQUESTS_AT_ONCE, RequestPool, map_in_order
from stateproc.storage.sources import ByteSource, FileSource, check_limit, check_range
from stateproc.storage.store import REQUEST_BYTES

Range = tuple[int, int]
"""(start, length) in bytes."""

DEFAULT_GAP = 64 << 10
LARGEST_READ = 64 << 20
_Request = tuple[int, int, list[int]]
"""(start, length, indexes of the ranges inside)."""


def is_remote(source: ByteSource) -> bool:
    """Whether each read is a request over a network, so that several at a time are faster."""
    return isinstance(source, FileSource) and not source.path.is_local


def request_pool(sources: Iterable[ByteSource]) -> RequestPool:
    """Return threads for requests if one of the sources is remote; else the calling thread makes them."""
    return RequestPool(REQUESTS_AT_ONCE if any(map(is_remote, sources)) else 1)


def read_ranges(source: ByteSource, ranges: Sequence[Range], gap: int = DEFAULT_GAP) -> list[memoryview]:
    """The bytes of each range, in the order given, read with as few requests as sensible.

    Ranges up to ``gap`` bytes apart share a request, as long as it stays under 64 MiB; a larger range is one
    request of its own. Over a network several requests run at a time. Ranges may overlap. Raises CorruptSnapshot for
    ranges outside of ``source``.
    """
    for start, length in ranges:
        check_range(source, start, length)
    found: list[memoryview] = [memoryview(b"")] * len(ranges)
    requests = list(_requests(ranges, gap))
    for (start, _, members), answer in zip(requests, _answers(source, requests), strict=True):
        data = memoryview(answer)
        for index in members:
            at, size = ranges[index]
            found[index] = data[at - start : at - start + size]
    return found


def _answers(source: ByteSource, requests: Sequence[_Request]) -> list[bytes]:
    def read(request: _Request) -> bytes:
        start, length, _ = request
        return source.read(start, length)

    if len(requests) < 2 or not is_remote(source):
        return [read(request) for request in requests]
    return list(map_in_order(read, requests))


def _requests(ranges: Sequence[Range], gap: int) -> Iterator[_Request]:
    order = sorted((i for i in range(len(ranges)) if ranges[i][1] > 0), key=lambda i: ranges[i])
    members: list[int] = []
    start = end = 0
    for index in order:
        at, size = ranges[index]
        joins = at <= end + gap and max(end, at + size) - start <= LARGEST_READ
        if members and (joins or at + size <= end):
            members.append(index)
            end = max(end, at + size)
            continue
        if members:
            yield start, end - start, members
        members, start, end = [index], at, at + size
    if members:
        yield start, end - start, members


# Read ranges of a remote file ahead: several requests are under way while the bytes before them are decoded.

_MOST_AHEAD = 4
"""Requests that are made ahead at most. The first read makes one, each further one allows one more, so that a consumer
who needs few rows does not pay for many."""


class ReadAhead:
    """A byte source whose ranges are requested before they are read.

    A context manager: its threads end with it. Reads go forwards; bytes before the last read, or outside of the ranges,
    are requested when they are read. It holds at most the chunks of the last read and four more, of 4 MiB each.

    Args:
        ranges: (start, stop) of what will be read, ascending.
    """

    def __init__(self, source: FileSource, ranges: Sequence[tuple[int, int]]) -> None:
        self._source, self._start = source, -1
        self._pool = RequestPool(_MOST_AHEAD + 1)
        planned = (chunk for chunk in _chunks(ranges) if chunk[1] > self._start)
        self._requested = self._pool.map(self._fetched, planned, _MOST_AHEAD)
        self._held: deque[tuple[int, bytes]] = deque()

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.__exit__(kind, error, trace)

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def size(self) -> int:
        return self._source.size

    def read(self, start: int, length: int) -> bytes:
        target = bytearray(length)
        self.read_into(start, memoryview(target))
        return bytes(target)

    def read_all(self, limit: int) -> bytes:
        check_limit(self, limit)
        return self.read(0, self.size)

    def read_into(self, start: int, target: memoryview) -> None:
        """Fill ``target`` with the bytes from ``start`` on. Raises CorruptSnapshot, MissingFile."""
        check_range(self, start, len(target))
        if self._start < 0:
            self._source.check_exists()  # looks for the file once, not in each thread
        self._start = start
        while self._held and self._end_of(0) <= start:
            self._held.popleft()
        at, done = start, 0
        for first, data in self._chunks_until(start + len(target)):
            if done == len(target) or not first <= at < first + len(data):
                break
            taken = min(first + len(data) - at, len(target) - done)
            target[done : done + taken] = memoryview(data)[at - first : at - first + taken]
            at, done = at + taken, done + taken
        if done < len(target):
            self._source.read_into(at, target[done:])

    def _chunks_until(self, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield the chunks that are held, and those up to ``end`` as they come."""
        yield from tuple(self._held)
        while (not self._held or self._end_of(-1) < end) and (chunk := next(self._requested, None)) is not None:
            if chunk[0] + len(chunk[1]) > self._start:
                self._held.append(chunk)
                yield chunk

    def _end_of(self, position: int) -> int:
        first, data = self._held[position]
        return first + len(data)

    def _fetched(self, chunk: tuple[int, int]) -> tuple[int, bytes]:
        first, last = chunk
        return first, self._source.read(first, last - first)


def reading_ahead(source: ByteSource, ranges: Sequence[tuple[int, int]]) -> AbstractContextManager[ByteSource]:
    """Return a context with a source that reads these ranges ahead if the file is remote, else with ``source``.

    Args:
        ranges: (start, stop) of what will be read, ascending.
    """
    if isinstance(source, FileSource) and is_remote(source) and ranges:
        return ReadAhead(source, ranges)
    return nullcontext(source)


def _chunks(ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Join ranges that are close to each other, and divide what results into requests."""
    joined: list[tuple[int, int]] = []
    for start, stop in ranges:
        if joined and start <= joined[-1][1] + DEFAULT_GAP:
            joined[-1] = joined[-1][0], max(stop, joined[-1][1])
        else:
            joined.append((start, stop))
    for start, stop in joined:
        for at in range(start, stop, REQUEST_BYTES):
            yield at, min(at + REQUEST_BYTES, stop)
