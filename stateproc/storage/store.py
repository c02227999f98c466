"""Files and directories of fsspec's stores by Flink's URIs; their errors become typed ones that say what to do."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

from stateproc.errors import (
    AccessDenied,
    InvalidOption,
    MissingFile,
    MissingPackage,
    SnapshotError,
    StoreUnavailable,
    Where,
)
from stateproc.redaction import has_password, redacted, shown_cause
from stateproc.storage.concurrency import map_in_order
from stateproc.storage.uris import absolute, basename, join, normalize, parent, scheme_of, store_kind

StorageOptions = Mapping[str, Any]

REQUEST_BYTES = 4 << 20
CONCURRENT_REQUESTS = 4
"""Large reads over a network are split into requests of this size, this many at a time."""

_PACKAGES = {
    "s3": "s3fs",
    "gcs": "gcsfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "hdfs": "hdfs-native",
    "viewfs": "hdfs-native",
    "oss": "ossfs",
}
_KEPT: set[Any] = set()
"""File systems in use, kept alive. fsspec clears its instance cache in a forked process (Spark's workers fork); a
client finalized there, such as HDFS's, would wait for ever for threads that the fork does not have.
"""
_SECONDS = ("mtime", "LastModified", "last_modified", "updated", "created")
_MILLISECONDS = ("modification_time", "modificationTime")
"""How fsspec's implementations name the time of the last change: numbers, datetimes or ISO text."""
_NO_TIME = 1e11
"""Seconds since 1970 from which a number is no time of a change: the year 5138."""


@dataclass(frozen=True, slots=True)
class FileStatus:
    """Whether a name is that of a directory, the size of a file in bytes, and the time of its last change.

    The time is in seconds since 1970, and None where the store does not say.
    """

    size: int
    modified: float | None = None
    is_directory: bool = False


@dataclass(frozen=True, slots=True)
class StorePath:
    """A file or directory of a store: its URI, and the options with which fsspec reaches the store.

    Methods raise MissingFile, AccessDenied, StoreUnavailable, MissingPackage, and InvalidOption where options do not
    fit or fsspec has no such file system.

    Attributes:
        uri: As Flink writes it, or a local path.
        options: Keyword arguments of the file system; a local one takes none.
    """

    uri: str
    options: StorageOptions = field(default_factory=dict, hash=False, repr=False)

    @classmethod
    def of(cls, path: str | os.PathLike[str], options: StorageOptions | None = None) -> StorePath:
        """Return what a user means: ``~`` and relative paths are resolved."""
        return cls(absolute(os.fspath(path)), dict(options or {}))

    def __truediv__(self, name: str) -> StorePath:
        return StorePath(join(self.uri, name), self.options)

    def __str__(self) -> str:
        return self.uri

    @property
    def name(self) -> str:
        return basename(self.uri)

    @property
    def parent(self) -> StorePath:
        """The directory that contains it; a root is its own parent."""
        return StorePath(parent(self.uri), self.options)

    def at(self, uri: str) -> StorePath:
        """Return another file, reached with the same options."""
        return StorePath(uri, self.options)

    @property
    def is_local(self) -> bool:
        return scheme_of(self.uri) == "file" and "::" not in self.uri

    def filesystem(self) -> tuple[Any, str]:
        """Return the fsspec file system, and the path in it."""
        uri = normalize(self.uri)
        if "::" in uri:
            raise InvalidOption(f"chained URIs are not followed: {uri}", where=Where(file=uri))
        name = store_kind(uri)
        if name == "file":
            return _local(), uri
        import fsspec

        if has_password(uri):
            raise InvalidOption(
                "a password in the address of a store, which would be part of plans and logs",
                where=Where(file=uri),
                advice="give it as a storage option",
            )
        with self.explained():
            try:
                fsspec.get_filesystem_class(name)
            except ValueError as error:
                raise InvalidOption(
                    f"no file system for this path: {error}",
                    where=Where(file=uri),
                    advice="give a local path, or a URI that fsspec knows, such as s3://, gs://, abfs:// or hdfs://",
                ) from error
            rest = uri.partition(":")[2]
            fs, path = fsspec.core.url_to_fs(f"{name}:{rest}", **dict(self.options))
            _KEPT.add(fs)
            return fs, path

    # What is there.

    def status(self, *, fresh: bool = False) -> FileStatus | None:
        """Return what exists here, or None. ``fresh``: without what the client remembers of earlier listings."""
        try:
            if self.is_local:
                # The system itself is asked: fsspec takes four times as long, which counts with 100,000 files.
                with self.explained():
                    found = os.stat(normalize(self.uri))
                is_directory = stat.S_ISDIR(found.st_mode)
                # What is neither, as a pipe, would wait for a writer when it is read.
                is_either = is_directory or stat.S_ISREG(found.st_mode)
                return FileStatus(found.st_size, found.st_mtime, is_directory) if is_either else None
            fs, path = self.filesystem()
            with self.explained():
                if fresh:
                    fs.invalidate_cache()
                info = fs.info(path)
        except MissingFile as error:
            if is_absent(error):
                return None
            raise
        return FileStatus(int(info.get("size") or 0), _modified(info), info["type"] == "directory")

    def file_status(self, *, fresh: bool = False) -> FileStatus | None:
        """As `status`; None for a directory."""
        found = self.status(fresh=fresh)
        return None if found is None or found.is_directory else found

    def exists(self, *, fresh: bool = False) -> bool:
        return self.status(fresh=fresh) is not None

    def entries(self) -> list[Entry]:
        """List a directory, sorted by name: one request on object stores; no stat of each local file."""
        if self.is_local:
            return sorted(self._local_entries(), key=lambda entry: entry.name)
        fs, path = self.filesystem()
        with self.explained():
            fs.invalidate_cache(path)
            listed = fs.ls(path, detail=True)
            # Clients keep listings, of a large directory hundreds of megabytes.
            fs.invalidate_cache(path)
        found = [self._remote_entry(info) for info in listed if info["name"].rstrip("/") != path.rstrip("/")]
        return sorted(found, key=lambda entry: entry.name)

    def _local_entries(self) -> Iterator[Entry]:
        with self.explained(), os.scandir(normalize(self.uri)) as found:
            for entry in found:
                try:
                    is_directory, link = entry.is_dir(), entry.is_symlink()
                except OSError:
                    continue  # a link that leads nowhere or in a circle
                yield Entry(self, entry.name, is_directory, link=link)

    def _remote_entry(self, info: dict[str, Any]) -> Entry:
        name = basename(str(info["name"]).rstrip("/"))
        if info["type"] == "directory":
            return Entry(self, name, True)
        return Entry(self, name, False, FileStatus(int(info.get("size") or 0), _modified(info)))

    def files_below(self) -> Iterator[Entry]:
        """Yield each file below a directory, directory by directory.

        Symbolic links to directories are not followed. A directory that disappears meanwhile counts as empty.
        """
        pending = [self]
        while pending:
            try:
                entries = pending.pop().entries()
            except MissingFile as error:
                if is_absent(error):
                    continue
                raise
            for entry in entries:
                if not entry.is_directory:
                    yield entry
                elif not entry.link:
                    pending.append(entry.path)

    def forget_listings(self) -> None:
        """Drop what the client of the file system remembers of earlier listings."""
        if not self.is_local:
            fs, _ = self.filesystem()
            with self.explained():
                fs.invalidate_cache()

    # What is in a file.

    def read_range(self, start: int, end: int) -> bytes:
        """Read bytes ``start`` to ``end``; fewer if the file ends earlier."""
        if start == end:
            return b""
        if scheme_of(self.uri) == "file":
            return self._read_local(start, end)
        fs, path = self.filesystem()
        with self.explained():
            return bytes(fs.cat_file(path, start=start, end=end))

    def _read_local(self, start: int, end: int) -> bytes:
        """Read without fsspec, whose layers take three times as long as opening the file and reading a few bytes."""
        parts = []
        with self.explained(), open(normalize(self.uri), "rb", buffering=0) as file:
            file.seek(start)
            while start < end and (part := file.read(end - start)):
                parts.append(part)
                start += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_into(self, start: int, target: memoryview) -> int:
        """Fill ``target`` with the bytes from ``start`` on; return how many were read."""
        if scheme_of(self.uri) == "file":
            return self.read_parts_into([(start, target)])

        def read(at: int) -> int:
            part = target[at : at + REQUEST_BYTES]
            data = self.read_range(start + at, start + at + len(part))
            part[: len(data)] = data
            return len(data)

        return sum(map_in_order(read, range(0, len(target), REQUEST_BYTES), CONCURRENT_REQUESTS))

    def read_parts_into(self, parts: Iterable[tuple[int, memoryview]]) -> int:
        """Fill each of several targets from its position in a local file; return how many bytes were read.

        The file is opened once, which counts where parts are small.
        """
        done = 0
        with self.explained(), open(normalize(self.uri), "rb", buffering=0) as file:
            for start, target in parts:
                file.seek(start)
                while target and (got := file.readinto(target)):
                    target, done = target[got:], done + got
        return done

    def read_concurrently(self, start: int, end: int) -> bytes:
        """Read bytes ``start`` to ``end`` over a network by several requests: one does not use the bandwidth."""

        def read(at: int) -> bytes:
            return self.read_range(at, min(at + REQUEST_BYTES, end))

        return b"".join(map_in_order(read, range(start, end, REQUEST_BYTES), CONCURRENT_REQUESTS))

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Convert what fsspec and its client libraries raise into typed errors, without secret options.

        Clients refuse options of a wrong name or type by TypeError or AttributeError. NameError and AssertionError are
        bugs and pass unchanged.
        """
        uri, options = self.uri, self.options
        try:
            yield
        except (SnapshotError, MemoryError, NameError, AssertionError):
            raise
        except (TypeError, AttributeError) as error:
            raise InvalidOption(
                f"{scheme_of(uri)}:// does not accept these storage options: {redacted(str(error), options)}",
                where=Where(file=uri),
                advice="check the names and types of the storage options against the file system's documentation",
            ) from shown_cause(error, options)
        except ImportError as error:
            scheme = scheme_of(uri)
            package = _PACKAGES.get(store_kind(uri), f"fsspec[{scheme}]")
            raise MissingPackage(
                f"{scheme}:// needs a package that is not installed ({error})",
                where=Where(file=uri),
                advice=f"pip install {package}",
            ) from error
        except (FileNotFoundError, NotADirectoryError) as error:
            raise MissingFile("no such file", where=Where(file=uri)) from error
        except IsADirectoryError as error:
            raise MissingFile("this is a directory, not a file", where=Where(file=uri)) from error
        except PermissionError as error:
            raise AccessDenied(
                "access denied",
                where=Where(file=uri),
                advice="check the file's permissions, or the credentials in the storage options",
            ) from error
        except Exception as error:  # each client has errors of its own, which are no OSError
            raise StoreUnavailable(
                f"cannot be read: {redacted(str(error), options) or type(error).__name__}",
                where=Where(file=uri),
                advice="check the address and the storage options (credentials, endpoint)",
            ) from shown_cause(error, options)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a directory.

    Attributes:
        is_directory: Whether it is a directory.
        listed: Size and time, where the listing contains them: not of local files and of directories.
        link: Whether it is a symbolic link, which only local disks have.
    """

    directory: StorePath
    name: str
    is_directory: bool
    listed: FileStatus | None = None
    link: bool = False

    @property
    def path(self) -> StorePath:
        return self.directory / self.name

    def status(self) -> FileStatus | None:
        """Return size and time of a file; None if it has been removed meanwhile, or is a directory."""
        return self.listed or self.path.file_status()


def is_absent(error: MissingFile) -> bool:
    """Whether there is nothing of that name, in contrast to what cannot be reached or may not be read."""
    return isinstance(error.__cause__, FileNotFoundError | NotADirectoryError)


@lru_cache(maxsize=1)
def _local() -> Any:
    from fsspec.implementations.local import LocalFileSystem

    return LocalFileSystem()


def _modified(info: dict[str, Any]) -> float | None:
    """Return the time of the last change in what a file system says of a file, in seconds since 1970."""
    for names, unit in ((_SECONDS, 1), (_MILLISECONDS, 1000)):
        for name in names:
            found = _number(info.get(name))
            if found is not None and 0 < found / unit < _NO_TIME:
                return found / unit
    return None


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            return None
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=timezone.utc)).timestamp()
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
