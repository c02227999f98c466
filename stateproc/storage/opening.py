"""From a stream handle to the byte source it means, also after the snapshot was moved."""

from __future__ import annotations

from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot, Where
from stateproc.metadata.handles import (
    ByteStreamHandle,
    EmptySegmentHandle,
    FileHandle,
    KeyGroupsHandle,
    RelativeFileHandle,
    SegmentHandle,
    StreamHandle,
)
from stateproc.storage.filesystem import KNOWN_SCHEMES, join, normalize, parent, scheme_of
from stateproc.storage.location import SnapshotLocation
from stateproc.storage.sources import ByteSource, FileSource, InlineSource

_LEVELS_UP = 3
_LONGEST_TAIL = 5


def open_handle(handle: StreamHandle, location: SnapshotLocation, *, whole: bool = True) -> ByteSource:
    """The bytes of ``handle`` in the snapshot at ``location``; touches no file yet.

    ``whole`` False: the file may be longer than the handle says (changelog segments: their size leaves out the
    compression flag, and other tasks' changes may follow).
    Raises CorruptSnapshot for relative paths that leave the snapshot's directory, UnsupportedSnapshot for
    URIs of no storage that Flink writes to.
    """
    if isinstance(handle, ByteStreamHandle):
        return InlineSource(f"{location.metadata_uri} ({handle.name})", handle.data)
    if isinstance(handle, EmptySegmentHandle):
        return InlineSource(f"{location.metadata_uri} (empty segment)", b"")
    if isinstance(handle, KeyGroupsHandle):
        return open_handle(handle.stream, location, whole=whole)
    if isinstance(handle, RelativeFileHandle):
        beside = join(location.directory_uri, _plain_name(handle, location))
        first, *others = dict.fromkeys([*_mapped(beside, location), beside])
        return FileSource(
            uri=first,
            size=handle.size,
            whole=whole,
            fallbacks=tuple(others),
            storage_options=location.storage_options,
            memory=location.memory,
        )
    return _open_absolute(handle, location, whole)


def _open_absolute(handle: FileHandle | SegmentHandle, location: SnapshotLocation, whole: bool) -> FileSource:
    first, *others = _places(handle, location)
    segment = isinstance(handle, SegmentHandle)
    return FileSource(
        uri=first,
        size=handle.size,
        base=handle.start if isinstance(handle, SegmentHandle) else 0,
        whole=whole and not segment,
        fallbacks=tuple(others),
        storage_options=location.storage_options,
        memory=location.memory,
    )


def _plain_name(handle: RelativeFileHandle, location: SnapshotLocation) -> str:
    path = handle.path
    parts = path.split("/")
    if not all(parts) or ".." in parts or "." in parts or ":" in parts[0] or "\0" in path or "\\" in path:
        raise CorruptSnapshot(
            f"relative file '{path}' is no plain name",
            where=Where(file=location.metadata_uri, offset=handle.offset),
            advice="Flink writes names of files beside _metadata only; do not trust this snapshot",
        )
    return path


def _places(handle: FileHandle | SegmentHandle, location: SnapshotLocation) -> list[str]:
    """Where an absolute file may be, best first: as mapped, as written, in the snapshot's own tree."""
    path = handle.path
    where = Where(file=location.metadata_uri, offset=handle.offset)
    written = normalize(path)
    mapped = _mapped(written, location)
    scheme = scheme_of(written)
    if scheme == "file" and not written.startswith("/"):
        raise CorruptSnapshot(f"'{path}' is no absolute path", where=where)
    relocated = _relocated(written, location)
    if scheme == scheme_of(location.directory_uri):
        return list(dict.fromkeys([*mapped, written, *relocated]))
    if scheme in KNOWN_SCHEMES:
        # A snapshot copied to another storage: its own tree is near, the old storage perhaps out of reach.
        return list(dict.fromkeys([*mapped, *relocated, written]))
    if mapped:
        return mapped
    raise UnsupportedSnapshot(
        f"the snapshot points at {path}, and {scheme}: is not a storage scheme of Flink",
        where=where,
        advice="map it to where the file is with path_mapping={'old prefix': 'new prefix'}",
    )


def _mapped(written: str, location: SnapshotLocation) -> list[str]:
    """Map the path by the longest matching prefix of ``path_mapping``."""
    for old, new in sorted(location.path_mapping.items(), key=lambda item: -len(item[0])):
        prefix = normalize(old)
        if written == prefix or written.startswith(prefix.rstrip("/") + "/"):
            return [join(normalize(new), written[len(prefix.rstrip("/")) + 1 :])]
    return []


def _relocated(written: str, location: SnapshotLocation) -> list[str]:
    """The same tail (name, ``shared/name``, ``<job>/shared/name``) under the snapshot's directory or above.

    Flink names these files by random UUIDs, so one found elsewhere is the one meant; its length is checked.
    """
    parts = [part for part in written.split("/") if part not in ("", ".", "..")]
    roots = [location.directory_uri]
    for _ in range(_LEVELS_UP - 1):
        above = parent(roots[-1])
        if above == roots[-1]:
            break
        roots.append(above)
    longest = min(_LONGEST_TAIL, len(parts) - 1)
    return [join(root, *parts[-tail:]) for root in roots for tail in range(1, longest + 1)]
