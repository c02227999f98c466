"""Ranged reads, coalesced: few large requests instead of many small ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stateproc.storage.filesystem import scheme_of
from stateproc.storage.sources import ByteSource, FileSource, check_range

Range = tuple[int, int]
"""(start, length) in bytes."""

DEFAULT_GAP = 64 << 10
LARGEST_READ = 64 << 20


def is_remote(source: ByteSource) -> bool:
    """Whether each read is a request over a network, so that several at a time are faster."""
    return isinstance(source, FileSource) and scheme_of(source.uri) != "file"


def read_ranges(source: ByteSource, ranges: Sequence[Range], gap: int = DEFAULT_GAP) -> list[memoryview]:
    """The bytes of each range, in the order given, read with as few requests as sensible.

    Ranges up to ``gap`` bytes apart share a request, as long as it stays under 64 MiB; a larger range is one
    request of its own. Overlaps are fine. Raises CorruptSnapshot for ranges outside of ``source``.
    """
    for start, length in ranges:
        check_range(source, start, length)
    found: list[memoryview] = [memoryview(b"")] * len(ranges)
    for start, length, members in _requests(ranges, gap):
        data = memoryview(source.read(start, length))
        for index in members:
            at, size = ranges[index]
            found[index] = data[at - start : at - start + size]
    return found


def _requests(ranges: Sequence[Range], gap: int) -> Iterator[tuple[int, int, list[int]]]:
    """(start, length, indexes of the ranges inside) of each request."""
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
