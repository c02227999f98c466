"""The changes of a changelog handle, in the order in which they were made.

Format: org.apache.flink.changelog.fs.StateChangeFormat; at a segment's offset i32 number of blocks, a block is
i32 number of changes, i32 key group (-1: metadata, which comes first), changes as i32 length and bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from stateproc.errors import CorruptSnapshot, Where
from stateproc.metadata.handles import FileChangelogHandle, InMemoryChangelogHandle, StreamHandle
from stateproc.readers.changelog.change_blocks import Change, ChangeBlock, blocks_of
from stateproc.readers.changelog.log_stream import LogContent, log_source
from stateproc.readers.rocksdb.prefetch import REQUESTS_AT_ONCE, Fetcher
from stateproc.storage import SnapshotLocation
from stateproc.storage.filesystem import store_kind

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
    ahead = REQUESTS_AT_ONCE - 1 if leading else _FILES_AHEAD
    with Fetcher(ahead=store_kind(location.directory_uri) != "file") as fetcher:
        opened = fetcher.each(opening, ahead)
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
