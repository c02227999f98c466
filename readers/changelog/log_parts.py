"""What two logs have in common: the changes that both begin with."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from stateproc.metadata.handles import FileChangelogHandle, InMemoryChangelogHandle
from stateproc.readers.changelog.segments import LogHandle
from stateproc.readers.rocksdb.shared_tables import stored_identity
from stateproc.storage import SnapshotLocation


@dataclass(frozen=True)
class LogParts:
    """Two logs.

    Attributes:
        common: The beginning of the first log, which the second one has as well.
        own: What follows in each.
    """

    common: tuple[LogHandle, ...]
    own: tuple[tuple[LogHandle, ...], tuple[LogHandle, ...]]


def log_parts(
    left: Sequence[LogHandle], here: SnapshotLocation, right: Sequence[LogHandle], there: SnapshotLocation
) -> LogParts:
    """Divide two logs. Segments are the same if they are at the same place of the same file."""
    pairs = zip(_pieces(left, here), _pieces(right, there), strict=False)
    length = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return LogParts(_part(left, 0, length), (_part(left, length, None), _part(right, length, None)))


def _pieces(handles: Sequence[LogHandle], location: SnapshotLocation) -> Iterator[Hashable]:
    """Yield what identifies each segment, or each change that is in memory."""
    for handle in handles:
        if isinstance(handle, InMemoryChangelogHandle):
            yield from handle.changes
        else:
            yield from ((offset, stored_identity(stream, location)) for offset, stream in handle.segments)


def _part(handles: Sequence[LogHandle], first: int, stop: int | None) -> tuple[LogHandle, ...]:
    """Return handles with only some pieces of all, by their numbers."""
    found: list[LogHandle] = []
    for handle in handles:
        if isinstance(handle, FileChangelogHandle):
            size = len(handle.segments)
            own: LogHandle = replace(handle, segments=handle.segments[max(first, 0) : _stop(stop)])
        else:
            size = len(handle.changes)
            own = replace(handle, changes=handle.changes[max(first, 0) : _stop(stop)])
        found.append(own)
        first, stop = first - size, None if stop is None else stop - size
    return tuple(found)


def _stop(stop: int | None) -> int | None:
    return None if stop is None else max(stop, 0)
