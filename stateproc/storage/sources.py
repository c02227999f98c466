"""Byte sources: ranged, checked, picklable access to what a stream handle points at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from stateproc.errors import CorruptSnapshot, MissingFile, SnapshotError, Where
from stateproc.storage.filesystem import (
    REQUEST_BYTES,
    kind_of,
    parent,
    read_concurrently,
    read_into,
    read_parts_into,
    read_range,
    scheme_of,
)
from stateproc.storage.follow_rule import FollowRule
from stateproc.storage.remote_memory import SMALL_READ, RemoteMemory, StoredFile

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

    ``whole``: the file must be exactly that long, else at least. The file is looked for under ``uri``, then
    under ``fallbacks``, as far as ``rule`` permits; that, and its length, is checked once, at the first read.
    ``memory``: what the sources of one snapshot know of its remote files.
    """

    uri: str
    size: int
    base: int = 0
    whole: bool = True
    fallbacks: tuple[str, ...] = ()
    storage_options: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)
    memory: RemoteMemory = field(default_factory=RemoteMemory, compare=False, repr=False)
    rule: FollowRule | None = field(default=None, compare=False, repr=False)
    _found: list[StoredFile] = field(default_factory=list, init=False, compare=False, repr=False)

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
        if scheme_of(uri) == "file":
            return read_range(uri, start, end, self.storage_options)
        if end - start > 2 * REQUEST_BYTES:
            return read_concurrently(uri, start, end, self.storage_options)
        if end - start > SMALL_READ:
            return read_range(uri, start, end, self.storage_options)
        data = self.memory.read((uri, start, end))
        if data is None:
            data = read_range(uri, start, end, self.storage_options)
            self.memory.add_read((uri, start, end), data)
        return data

    def read_into(self, start: int, target: memoryview) -> None:
        """Fill ``target`` with the bytes from ``start`` on, where that spares the memory for another copy."""
        check_range(self, start, len(target))
        uri = self._resolve().uri
        at = self.base + start
        _check_read(uri, at, len(target), read_into(uri, at, target, self.storage_options))

    def read_parts(self, parts: Sequence[tuple[int, memoryview]]) -> None:
        """Fill each target with the bytes from its start on; of a local file, which is opened once for all of them."""
        uri = self._resolve().uri
        if scheme_of(uri) != "file":
            for start, target in parts:
                self.read_into(start, target)
            return
        for start, target in parts:
            check_range(self, start, len(target))
        wanted = sum(len(target) for _, target in parts)
        found = read_parts_into(uri, [(self.base + start, target) for start, target in parts])
        _check_read(uri, self.base + (parts[0][0] if parts else 0), wanted, found)

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
                kind = kind_of(uri, self.storage_options)
            except SnapshotError as error:
                failure = failure or error
                continue
            if kind is not None and kind[0] == "file":
                self._check_length(uri, kind[1])
                return self._remembered(StoredFile(uri, kind[1]))
        if failure is not None:
            raise failure
        claimed = None if self.rule is None else self.rule.claimed
        if claimed is not None and self.whole:
            place = claimed.find(self.uri, self.base + self.size, self.storage_options)
            if place is not None:
                return StoredFile(place, self.size)
            raise claimed.missing(self.uri, self.base + self.size, self.storage_options, self._tried)
        raise self._missing()

    @property
    def _tried(self) -> str:
        """Where else the file was looked for, as the end of a message."""
        others = [place for place in self._permitted if place != self.uri]
        more = f" and in {len(others) - 1} more places" if len(others) > 1 else ""
        return f"; also looked for {others[0]}{more}" if others else ""

    def _missing(self) -> MissingFile:
        if self.rule is not None and self.rule.refused is not None:
            return self.rule.refusal(self._tried)
        return MissingFile(
            f"a file of the snapshot is missing{self._tried}",
            where=Where(file=self.uri),
            advice="copy the file there, or, if the files were moved, specify the new prefix with "
            "path_mapping={'old prefix': 'new prefix'}",
        )

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
