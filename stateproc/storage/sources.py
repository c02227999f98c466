"""Byte sources: ranged, checked, picklable access to what a stream handle points at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import unquote

from stateproc.errors import CorruptSnapshot, MissingFile, SnapshotError, UnsupportedSnapshot, UntrustedPath, Where
from stateproc.metadata.stream_handles import (
    ByteStreamHandle,
    EmptySegmentHandle,
    FileHandle,
    KeyGroupsHandle,
    RelativeFileHandle,
    SegmentHandle,
    StreamHandle,
)
from stateproc.storage.checkpoint_roots import CheckpointRoots, is_below
from stateproc.storage.claimed_files import ClaimedFiles
from stateproc.storage.paths import SnapshotLocation
from stateproc.storage.remote_memory import SMALL_READ, RemoteMemory, StoredFile
from stateproc.storage.store import REQUEST_BYTES, StorePath
from stateproc.storage.uris import KNOWN_SCHEMES, absolute, is_absolute, join, normalize, parent, real_path, scheme_of

# Say of one handle which of its paths may be followed, and what is wrong with one that may not.


@dataclass(frozen=True, slots=True)
class FollowRule:
    """Where the file of a handle may be.

    Attributes:
        roots: The directories below which files of the snapshot are read.
        metadata_uri: The ``_metadata`` with the handle.
        offset: The handle's offset in it.
        refused: The path of the handle if it is outside of the roots.
        claimed: Where files of a claimed savepoint may be, for handles relative to the snapshot's directory.
    """

    roots: CheckpointRoots
    metadata_uri: str
    offset: int | None
    refused: str | None = None
    claimed: ClaimedFiles | None = None

    def refusal(self, tried: str) -> UntrustedPath:
        """Return the error for the refused path; ``tried`` says where else the file was looked for."""
        path = self.refused or ""
        return UntrustedPath(
            f"a file of the snapshot is missing from {self.roots.outermost}{tried}; {self._handle} names a path "
            "outside of that directory, which is not followed",
            where=Where(file=path),
            advice=_advice(parent(path)),
        )

    def linked(self, path: str) -> UntrustedPath:
        """Return the error for a path that leads out of the roots by a symbolic link."""
        real = real_path(path)
        return UntrustedPath(
            f"a file of the snapshot is a symbolic link to {real}, outside of {self.roots.outermost}; {self._handle} "
            "names it, and it is not followed",
            where=Where(file=path),
            advice=_advice(parent(real)),
        )

    @property
    def _handle(self) -> str:
        at = "" if self.offset is None else f" at byte {self.offset}"
        return f"the handle{at} of {self.metadata_uri}"


def _advice(directory: str) -> str:
    return (
        f"if you trust the snapshot, allow the directory: allowed_roots=['{directory}'] in Python, allowedRoots in "
        f"Spark, --allow-root {directory} on the command line; if its files were moved, specify the new prefix with "
        "path_mapping={'old prefix': 'new prefix'}"
    )


_SMALL = 1 << 20
_TRUNCATED = "the file is truncated or was replaced; restore it from a copy or take the snapshot again"


class ByteSource(Protocol):
    """A run of bytes with a name for errors. Picklable, opens nothing until read."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int:
        """Length in bytes."""

    def read(self, start: int, length: int) -> bytes:
        """Exactly ``length`` bytes from ``start``. Raises CorruptSnapshot, MissingFile."""

    def read_all(self, limit: int) -> bytes:
        """Everything, refused with CorruptSnapshot if over ``limit`` bytes."""


@dataclass(frozen=True)
class InlineSource:
    """Bytes that are stored in ``_metadata`` itself."""

    name: str
    data: bytes = field(repr=False)

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, start: int, length: int) -> bytes:
        check_range(self, start, length)
        return self.data[start : start + length]

    def read_all(self, limit: int) -> bytes:
        check_limit(self, limit)
        return self.data


@dataclass(frozen=True)
class FileSource:
    """``size`` bytes from ``base`` of a file.

    ``whole``: the file must be exactly that long, else at least. The file is looked for at ``path``, then at the URIs
    ``fallbacks``, as far as ``rule`` permits; that, and its length, is checked once, at the first read.
    ``memory``: what the sources of one snapshot know of its remote files.
    """

    path: StorePath
    size: int
    base: int = 0
    whole: bool = True
    fallbacks: tuple[str, ...] = ()
    memory: RemoteMemory = field(default_factory=RemoteMemory, compare=False, repr=False)
    rule: FollowRule | None = field(default=None, compare=False, repr=False)
    _found: list[StoredFile] = field(default_factory=list, init=False, compare=False, repr=False)

    @property
    def uri(self) -> str:
        """Where the file should be."""
        return self.path.uri

    @property
    def name(self) -> str:
        return self._found[0].uri if self._found else self.uri

    def read(self, start: int, length: int) -> bytes:
        check_range(self, start, length)
        uri = self._resolve().uri
        at = self.base + start
        data = self._bytes(uri, at, at + length)
        _check_read(uri, at, length, len(data))
        return data

    def _bytes(self, uri: str, start: int, end: int) -> bytes:
        """Read a file; a small part of a remote one is requested once, a large part by several requests at a time."""
        path = self.path.at(uri)
        if not path.is_local and end - start > 2 * REQUEST_BYTES:
            return path.read_concurrently(start, end)
        if path.is_local or end - start > SMALL_READ:
            return path.read_range(start, end)
        return self.memory.read_once((uri, start, end), lambda: path.read_range(start, end))

    def read_into(self, start: int, target: memoryview) -> None:
        """Fill ``target`` with the bytes from ``start`` on, where that spares the memory for another copy."""
        check_range(self, start, len(target))
        uri = self._resolve().uri
        at = self.base + start
        _check_read(uri, at, len(target), self.path.at(uri).read_into(at, target))

    def read_parts(self, parts: Sequence[tuple[int, memoryview]]) -> None:
        """Fill each target with the bytes from its start on; of a local file, which is opened once for all of them."""
        path = self.path.at(self._resolve().uri)
        if not path.is_local:
            for start, target in parts:
                self.read_into(start, target)
            return
        for start, target in parts:
            check_range(self, start, len(target))
        wanted = sum(len(target) for _, target in parts)
        found = path.read_parts_into([(self.base + start, target) for start, target in parts])
        _check_read(path.uri, self.base + (parts[0][0] if parts else 0), wanted, found)

    def read_all(self, limit: int) -> bytes:
        check_limit(self, limit)
        if not self._found and self.whole and not self.base and self.size <= _SMALL:
            data = self._read_at_once()
            if data is not None:
                return data
        return self.read(0, self.size)

    def _read_at_once(self) -> bytes | None:
        """Read a small file without asking for its length first, which costs as much; None if it is not as expected.

        One byte more than there should be is asked for, so that a longer file is noticed.
        """
        known = self.memory.file(self.uri)
        places = self._places()
        if known is None and (not places or not self._may_read(places[0])):
            return None
        uri = places[0] if known is None else known.uri
        try:
            data = self._bytes(uri, 0, self.size + 1)
        except SnapshotError:
            return None  # perhaps it is elsewhere; else searching for it reports why it cannot be read
        if len(data) != self.size:
            return None
        self._found.append(StoredFile(uri, self.size))
        return data

    def check_exists(self) -> None:
        """Find the file, without reading it. Raises MissingFile; CorruptSnapshot if its length does not fit."""
        self._resolve()

    def stored_size(self) -> int:
        """Return the length of the file, which may be more than ``size``. Raises as ``check_exists``."""
        return self._resolve().size

    def _resolve(self) -> StoredFile:
        if not self._found:
            self._found.append(self._known() or self._search())
        return self._found[0]

    def _known(self) -> StoredFile | None:
        """Return where another source found the file."""
        found = self.memory.file(self.uri)
        if found is not None:
            self._check_length(found.uri, found.size)
        return found

    @property
    def _permitted(self) -> list[str]:
        refused = None if self.rule is None else self.rule.refused
        return [place for place in (self.uri, *self.fallbacks) if place != refused]

    def _places(self) -> list[str]:
        """Return where the file may be, first where a file of its directory was."""
        places = self._permitted
        last = self.memory.move(parent(self.uri), len(places))
        return places if not last else [places[last], *places[:last], *places[last + 1 :]]

    def _may_read(self, uri: str) -> bool:
        return self.rule is None or self.rule.roots.holds(uri)

    def _search(self) -> StoredFile:
        """The first place where the file is; its length must fit.

        A place out of reach is passed over, and its error raised only if the file is nowhere else either.
        """
        failure: SnapshotError | None = None
        for uri in self._places():
            try:
                if self.rule is not None and not self._may_read(uri):
                    raise self.rule.linked(uri)
                status = self.path.at(uri).file_status()
            except SnapshotError as error:
                failure = failure or error
                continue
            if status is not None:
                self._check_length(uri, status.size)
                return self._remembered(StoredFile(uri, status.size))
        if failure is not None:
            raise failure
        claimed = None if self.rule is None else self.rule.claimed
        if claimed is not None and self.whole:
            place = claimed.find(self.path, self.base + self.size)
            if place is not None:
                return StoredFile(place, self.size)
            raise claimed.missing(self.path, self.base + self.size, self._tried)
        raise self._missing()

    @property
    def _tried(self) -> str:
        """Where else the file was looked for, as the end of a message."""
        others = [place for place in self._permitted if place != self.uri]
        more = f" and in {len(others) - 1} more places" if len(others) > 1 else ""
        return f"; also looked for {others[0]}{more}" if others else ""

    def _missing(self) -> MissingFile:
        refused = None if self.rule is None else self.rule.refused
        if self.rule is not None and refused is not None and not self._directory_was_moved(refused):
            return self.rule.refusal(self._tried)
        return MissingFile(
            f"a file of the snapshot is missing{self._tried}",
            where=Where(file=self.uri),
            advice="copy the file there, or, if the files were moved, specify the new prefix with "
            "path_mapping={'old prefix': 'new prefix'}",
        )

    def _directory_was_moved(self, refused: str) -> bool:
        """Whether the directory of the refused path is here with the snapshot: its file is missing, not outside."""
        named = refused.split("/")[-3:-1]
        beside = (place for place in self._permitted if place.split("/")[-3:-1] == named)
        return any(self.path.at(parent(place)).exists() for place in beside)

    def _remembered(self, found: StoredFile) -> StoredFile:
        if scheme_of(found.uri) != "file":
            self.memory.add_file(self.uri, found)
        places = self._permitted
        self.memory.add_move(parent(self.uri), len(places), places.index(found.uri))
        return found

    def _check_length(self, uri: str, length: int) -> None:
        wanted = self.base + self.size
        at_least = "" if self.whole else "at least "
        if length < wanted or (self.whole and length != wanted):
            raise CorruptSnapshot(
                f"the file has {length} bytes where the snapshot says {at_least}{wanted}",
                where=Where(file=uri, offset=min(length, wanted)),
                advice=_TRUNCATED,
            )


def _check_read(uri: str, at: int, wanted: int, found: int) -> None:
    if found != wanted:
        raise CorruptSnapshot(
            f"{wanted} bytes wanted, {found} there", where=Where(file=uri, offset=at), advice=_TRUNCATED
        )


def check_range(source: ByteSource, start: int, length: int) -> None:
    """Raise CorruptSnapshot unless ``length`` bytes from ``start`` lie inside ``source``."""
    if start < 0 or length < 0 or start + length > source.size:
        raise CorruptSnapshot(
            f"bytes {start} to {start + length} are outside of {source.size} bytes",
            where=Where(file=source.name, offset=start),
            advice="an offset or a length in the snapshot is damaged; take it again or use a copy",
        )


def check_limit(source: ByteSource, limit: int) -> None:
    if source.size > limit:
        raise CorruptSnapshot(
            f"{source.size} bytes where at most {limit} are sensible",
            where=Where(file=source.name, offset=0),
            advice="the size in the snapshot is damaged, or this is another kind of file",
        )


# From a stream handle to the byte source it means, also after the snapshot was moved.

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
        beside = join(location.directory.uri, _plain_name(handle, location))
        first, *others = dict.fromkeys([*_mapped(beside, location), beside])
        return FileSource(
            location.directory.at(first),
            size=handle.size,
            whole=whole,
            fallbacks=tuple(others),
            memory=location.memory,
            rule=FollowRule(location.roots, location.metadata_uri, handle.offset, claimed=location.claimed),
        )
    return _open_absolute(handle, location, whole)


def _open_absolute(handle: FileHandle | SegmentHandle, location: SnapshotLocation, whole: bool) -> FileSource:
    (first, *others), refused = _places(handle, location)
    segment = isinstance(handle, SegmentHandle)
    return FileSource(
        location.directory.at(first),
        size=handle.size,
        base=handle.start if isinstance(handle, SegmentHandle) else 0,
        whole=whole and not segment,
        fallbacks=tuple(others),
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
    if scheme == "file" and not is_absolute(written):
        raise CorruptSnapshot(f"'{path}' is no absolute path", where=where)
    follows = written in mapped or location.roots.contains(written)
    if scheme not in KNOWN_SCHEMES and scheme != scheme_of(location.directory.uri):
        if mapped or follows:
            return list(dict.fromkeys([*mapped, written] if follows else mapped)), None
        raise UnsupportedSnapshot(
            f"the snapshot points at {path}, and {scheme}: is not a storage scheme of Flink",
            where=where,
            advice="map it to where the file is with path_mapping={'old prefix': 'new prefix'}",
        )
    relocated = location.roots.nearby(written, _LONGEST_TAIL)
    if scheme == scheme_of(location.directory.uri) or not (mapped or relocated):
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
