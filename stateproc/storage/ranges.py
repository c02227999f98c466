"""Read many byte ranges with few requests: neighbouring ranges are coalesced, remote requests run concurrently.

fsspec's own functions do not fit: ``cat_ranges`` neither coalesces (``max_gap`` is not implemented) nor reads
concurrently where a file system is synchronous (HDFS, WebHDFS), and ``merge_offset_ranges`` of the older supported
releases shrinks a range that contains another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType

from stateproc.storage.filesystem import REQUEST_BYTES, scheme_of
from stateproc.storage.sources import ByteSource, FileSource, check_limit, check_range

Range = tuple[int, int]
"""(start, length) in bytes."""

DEFAULT_GAP = 64 << 10
LARGEST_READ = 64 << 20
REQUESTS_AT_ONCE = 16
_Request = tuple[int, int, list[int]]
"""(start, length, indexes of the ranges inside)."""


def is_remote(source: ByteSource) -> bool:
    """Whether each read is a request over a network, so that several at a time are faster."""
    return isinstance(source, FileSource) and scheme_of(source.uri) != "file"


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
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        return list(pool.map(read, requests))


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


@dataclass(frozen=True, slots=True)
class _Chunk:
    start: int
    end: int
    data: Future[bytes]


class ReadAhead:
    """A byte source whose ranges are requested before they are read.

    A context manager: its threads end with it. Reads go forwards; bytes before the last read, or outside of the ranges,
    are requested when they are read. It holds at most the chunks of the last read and four more, of 4 MiB each.

    Args:
        source: The file.
        ranges: (start, stop) of what will be read, ascending.
    """

    def __init__(self, source: FileSource, ranges: Sequence[tuple[int, int]]) -> None:
        self._source = source
        self._planned = _chunks(ranges)
        self._chunks: deque[_Chunk] = deque()
        self._pool: ThreadPoolExecutor | None = None
        self._ahead = 1

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

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
        self._request(start, start + len(target))
        at, done = start, 0
        for chunk in self._chunks:
            if done == len(target) or not chunk.start <= at < chunk.end:
                break
            taken = min(chunk.end - at, len(target) - done)
            target[done : done + taken] = memoryview(chunk.data.result())[at - chunk.start : at - chunk.start + taken]
            at, done = at + taken, done + taken
        if done < len(target):
            self._source.read_into(at, target[done:])

    def _request(self, start: int, end: int) -> None:
        """Request what is planned up to ``end`` and some chunks after it; drop what ends before ``start``."""
        while self._chunks and self._chunks[0].end <= start:
            self._chunks.popleft()
        ahead = sum(chunk.start >= end for chunk in self._chunks)
        while ahead < self._ahead and (planned := next(self._planned, None)) is not None:
            first, last = planned
            if last <= start:
                continue
            if self._pool is None:
                # Looks for the file once, not in each thread.
                self._source.check_exists()
                self._pool = ThreadPoolExecutor(_MOST_AHEAD + 1, "stateproc-read-ahead")
            self._chunks.append(_Chunk(first, last, self._pool.submit(self._source.read, first, last - first)))
            ahead += first >= end
        self._ahead = min(self._ahead + 1, _MOST_AHEAD)


def reading_ahead(source: ByteSource, ranges: Sequence[tuple[int, int]]) -> AbstractContextManager[ByteSource]:
    """Return a context with a source that reads these ranges ahead if the file is remote, else with ``source``.

    Args:
        source: The file.
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
