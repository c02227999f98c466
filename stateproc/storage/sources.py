"""Byte sources: ranged, checked, picklable access to what a stream handle points at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from stateproc.errors import CorruptSnapshot, MissingFile, SnapshotError, Where
from stateproc.storage.filesystem import kind_of, read_into, read_parts_into, read_range, scheme_of

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
    under ``fallbacks``; that, and its length, is checked once, at the first read.
    """

    uri: str
    size: int
    base: int = 0
    whole: bool = True
    fallbacks: tuple[str, ...] = ()
    storage_options: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)
    _found: list[str] = field(default_factory=list, init=False, compare=False, repr=False)

    @property
    def name(self) -> str:
        return self._found[0] if self._found else self.uri

    def read(self, start: int, length: int) -> bytes:
        check_range(self, start, length)
        uri = self._resolve()
        at = self.base + start
        data = read_range(uri, at, at + length, self.storage_options)
        _check_read(uri, at, length, len(data))
        return data

    def read_into(self, start: int, target: memoryview) -> None:
        """Fill ``target`` with the bytes from ``start`` on, where that spares the memory for another copy."""
        check_range(self, start, len(target))
        uri = self._resolve()
        at = self.base + start
        _check_read(uri, at, len(target), read_into(uri, at, target, self.storage_options))

    def read_parts(self, parts: Sequence[tuple[int, memoryview]]) -> None:
        """Fill each target with the bytes from its start on; of a local file, which is opened once for all of them."""
        if scheme_of(self.uri) != "file":
            for start, target in parts:
                self.read_into(start, target)
            return
        for start, target in parts:
            check_range(self, start, len(target))
        uri, wanted = self._resolve(), sum(len(target) for _, target in parts)
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
        try:
            data = read_range(self.uri, 0, self.size + 1, self.storage_options)
        except SnapshotError:
            return None  # perhaps it is elsewhere; else searching for it reports why it cannot be read
        if len(data) != self.size:
            return None
        self._found.append(self.uri)
        return data

    def check_exists(self) -> None:
        """Find the file, without reading it. Raises MissingFile; CorruptSnapshot if its length does not fit."""
        self._resolve()

    def _resolve(self) -> str:
        if not self._found:
            self._found.append(self._search())
        return self._found[0]

    def _search(self) -> str:
        """The first place where the file is; its length must fit.

        A place out of reach is passed over, and its error raised only if the file is nowhere else either.
        """
        failure: SnapshotError | None = None
        for uri in (self.uri, *self.fallbacks):
            try:
                kind = kind_of(uri, self.storage_options)
            except SnapshotError as error:
                failure = failure or error
                continue
            if kind is not None and kind[0] == "file":
                self._check_length(uri, kind[1])
                return uri
        if failure is not None:
            raise failure
        more = f" and in {len(self.fallbacks) - 1} more places" if len(self.fallbacks) > 1 else ""
        tried = f"; also looked for {self.fallbacks[0]}{more}" if self.fallbacks else ""
        raise MissingFile(
            f"a file of the snapshot is missing{tried}",
            where=Where(file=self.uri),
            advice="copy the file there, or, if the files were moved, specify the new prefix with "
            "path_mapping={'old prefix': 'new prefix'}",
        )

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
