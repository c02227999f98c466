"""From a stream handle to the byte source it means, also after the snapshot was moved."""

from __future__ import annotations

from urllib.parse import unquote

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
from stateproc.storage.checkpoint_roots import is_below
from stateproc.storage.filesystem import KNOWN_SCHEMES, absolute, join, normalize, scheme_of
from stateproc.storage.follow_rule import FollowRule
from stateproc.storage.location import SnapshotLocation
from stateproc.storage.sources import ByteSource, FileSource, InlineSource

_LONGEST_TAIL = 5


def open_handle(handle: StreamHandle, location: SnapshotLocation, *, whole: bool = True) -> ByteSource:
    """The bytes of ``handle`` in the snapshot at ``location``; touches no file yet.

    ``whole`` False: the file may be longer than the handle says (changelog segments: their size leaves out the
    compression flag, and other tasks' changes may follow).
    Raises CorruptSnapshot for relative paths that leave the snapshot's directory, UnsupportedSnapshot for
    URIs of no storage that Flink writes to. Reading raises UntrustedPath where the file is only at an absolute path
    outside of the snapshot's checkpoint root.
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
            rule=FollowRule(location.roots, location.metadata_uri, handle.offset, claimed=location.claimed),
        )
    return _open_absolute(handle, location, whole)


def _open_absolute(handle: FileHandle | SegmentHandle, location: SnapshotLocation, whole: bool) -> FileSource:
    (first, *others), refused = _places(handle, location)
    segment = isinstance(handle, SegmentHandle)
    return FileSource(
        uri=first,
        size=handle.size,
        base=handle.start if isinstance(handle, SegmentHandle) else 0,
        whole=whole and not segment,
        fallbacks=tuple(others),
        storage_options=location.storage_options,
        memory=location.memory,
        rule=FollowRule(location.roots, location.metadata_uri, handle.offset, refused),
    )


def _plain_name(handle: RelativeFileHandle, location: SnapshotLocation) -> str:
    path = handle.path
    parts = path.split("/")
    decoded = unquote(path).split("/") if "%" in path else []
    if not all(parts) or ".." in (*parts, *decoded) or "." in parts or ":" in parts[0] or "\0" in path or "\\" in path:
        raise CorruptSnapshot(
            f"relative file '{path}' is no plain name",
            where=Where(file=location.metadata_uri, offset=handle.offset),
            advice="Flink writes names of files beside _metadata only; do not trust this snapshot",
        )
    return path


def _places(handle: FileHandle | SegmentHandle, location: SnapshotLocation) -> tuple[list[str], str | None]:
    """Return where an absolute file may be, best first: as mapped, as written, in the snapshot's own tree.

    Also its path if that may not be followed. It is the first of the places then, if there is no other to name the file
    by, and is not looked for.
    """
    path = handle.path
    where = Where(file=location.metadata_uri, offset=handle.offset)
    written = normalize(path)
    mapped = _mapped(written, location)
    scheme = scheme_of(written)
    if scheme == "file" and not written.startswith("/"):
        raise CorruptSnapshot(f"'{path}' is no absolute path", where=where)
    follows = written in mapped or location.roots.contains(written)
    if scheme not in KNOWN_SCHEMES and scheme != scheme_of(location.directory_uri):
        if mapped or follows:
            return list(dict.fromkeys([*mapped, written] if follows else mapped)), None
        raise UnsupportedSnapshot(
            f"the snapshot points at {path}, and {scheme}: is not a storage scheme of Flink",
            where=where,
            advice="map it to where the file is with path_mapping={'old prefix': 'new prefix'}",
        )
    relocated = location.roots.nearby(written, _LONGEST_TAIL)
    if scheme == scheme_of(location.directory_uri) or not (mapped or relocated):
        places = [*mapped, written, *relocated]
    else:
        # A snapshot copied to another storage: its own tree is near, the old storage perhaps out of reach.
        places = [*mapped, *relocated, *([written] if follows else [])]
    return list(dict.fromkeys(places)), None if follows else written


def _mapped(written: str, location: SnapshotLocation) -> list[str]:
    """Map the path by the longest matching prefix of ``path_mapping``; nothing leads out of the new prefix."""
    for old, new in sorted(location.path_mapping.items(), key=lambda item: -len(item[0])):
        prefix = normalize(old)
        if written == prefix or written.startswith(prefix.rstrip("/") + "/"):
            place = join(normalize(new), written[len(prefix.rstrip("/")) + 1 :])
            return [place] if is_below(place, absolute(new)) else []
    return []
