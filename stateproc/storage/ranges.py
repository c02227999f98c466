"""Read many byte ranges with few requests: neighbouring ranges are coalesced, remote requests run concurrently.

fsspec's own functions do not fit: ``cat_ranges`` neither coalesces (``max_gap`` is not implemented) nor reads
concurrently where a file system is synchronous (HDFS, WebHDFS), and ``merge_offset_ranges`` of the older supported
releases shrinks a range that contains another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from stateproc.storage.filesystem import scheme_of
from stateproc.storage.sources import ByteSource, FileSource, check_range

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
