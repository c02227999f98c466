"""Access fsspec file systems by Flink's URIs; storage errors become typed errors that say what to do."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, TypeVar

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

StorageOptions = Mapping[str, Any]
Result = TypeVar("Result")

REQUEST_BYTES = 4 << 20
CONCURRENT_REQUESTS = 4
"""Large reads over a network are split into requests of this size, this many at a time."""

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):(?=/)")

_FSSPEC_NAMES = {"s3a": "s3", "s3n": "s3", "s3p": "s3", "wasb": "abfs", "wasbs": "abfss", "gs": "gcs"}
"""Flink's and Hadoop's schemes that have another name in fsspec."""
_OBJECT_STORES = frozenset({"s3", "gcs", "abfs", "abfss", "oss", "cosn", "swift"})
"""Stores where a directory is only a key prefix: creating one does nothing, or creates a bucket."""

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
_MODIFIED_KEYS = ("mtime", "LastModified", "last_modified", "modificationTime", "modification_time", "updated")
"""What file systems of fsspec call the time of the last change."""
_FIRST_MILLISECONDS = 100_000_000_000
"""Numbers from here on are ms since 1970, smaller ones are seconds."""
KNOWN_SCHEMES = frozenset({"file", "webhdfs", "swift", "cosn", *_PACKAGES, *_FSSPEC_NAMES})
"""Schemes in which Flink stores snapshots; a handle with another scheme is not followed."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a directory: its last path component, size in bytes, and whether it is a directory."""

    name: str
    size: int
    is_directory: bool


def scheme_of(uri: str) -> str:
    """The scheme of a URI, in lower case; "file" for local paths."""
    match = _SCHEME.match(uri)
    found = match.group(1).lower() if match else "file"
    return "file" if found == "local" else found


def normalize(uri: str) -> str:
    """Return ``uri`` without trailing slashes, and file URIs in any spelling as plain local paths."""
    if scheme_of(uri) == "file":
        path = uri
        match = _SCHEME.match(uri)
        if match:
            path = "/" + uri[match.end() :].lstrip("/").removeprefix("localhost/")
        return path.rstrip("/") or "/"
    return uri.rstrip("/")


def absolute(uri: str) -> str:
    """Return ``uri`` in a form that means the same to every process: ``~`` and relative paths resolved."""
    uri = normalize(uri)
    return os.path.abspath(os.path.expanduser(uri)) if scheme_of(uri) == "file" else uri


def store_kind(uri: str) -> str:
    """Return fsspec's name of the file system of ``uri``, one for all spellings of its scheme: s3 for s3a."""
    scheme = scheme_of(uri)
    return _FSSPEC_NAMES.get(scheme, scheme)


def same_store(uri: str) -> str:
    """Return ``uri`` with its canonical scheme, so that two spellings compare equal: s3a:// as s3://."""
    kind = store_kind(uri)
    return uri if kind == "file" else f"{kind}:{uri.partition(':')[2]}"


def has_directories(uri: str) -> bool:
    """Whether the store has directories of its own; object stores do not."""
    return store_kind(uri) not in _OBJECT_STORES


def join(directory: str, *names: str) -> str:
    return "/".join([directory.rstrip("/"), *names])


def parent(uri: str) -> str:
    """Return the directory that contains ``uri``; a root is its own parent."""
    head, slash, _ = uri.rpartition("/")
    if not slash or head.endswith(("/", ":")):
        return uri
    return head or "/"


def is_within(uri: str, directory: str) -> bool:
    """Whether a path is a directory or anything below it."""
    return uri == directory or uri.startswith(directory.rstrip("/") + "/")


def basename(uri: str) -> str:
    return uri.rpartition("/")[2]


def filesystem(uri: str, options: StorageOptions | None = None) -> tuple[Any, str]:
    """Return the fsspec file system of ``uri`` and the path in it.

    ``options`` are passed to the file system, unless it is the local one. Raises InvalidOption where fsspec has no
    such file system, the package it needs is not installed, or it does not accept the options.
    """
    uri = normalize(uri)
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
    with explained(uri, options):
        try:
            fsspec.get_filesystem_class(name)
        except ValueError as error:
            raise InvalidOption(
                f"no file system for this path: {error}",
                where=Where(file=uri),
                advice="give a local path, or a URI that fsspec knows, such as s3://, gs://, abfs:// or hdfs://",
            ) from error
        rest = uri.partition(":")[2]
        fs, path = fsspec.core.url_to_fs(f"{name}:{rest}", **dict(options or {}))
        _KEPT.add(fs)
        return fs, path


@lru_cache(maxsize=1)
def _local() -> Any:
    from fsspec.implementations.local import LocalFileSystem

    return LocalFileSystem()


def list_directory(uri: str, options: StorageOptions | None = None) -> list[Entry]:
    """List the entries of a directory, sorted by name. Raises MissingFile, InvalidOption."""
    fs, path = filesystem(uri, options)
    with explained(uri, options):
        fs.invalidate_cache()
        listed = fs.ls(path, detail=True)
    entries = [
        Entry(basename(info["name"].rstrip("/")), int(info.get("size") or 0), info["type"] == "directory")
        for info in listed
        if info["name"].rstrip("/") != path.rstrip("/")
    ]
    return sorted(entries, key=lambda entry: entry.name)


def kind_of(uri: str, options: StorageOptions | None = None, *, fresh: bool = False) -> tuple[str, int] | None:
    """Return ("file", size) or ("directory", 0) for what exists at ``uri``; None if nothing does.

    ``fresh``: without what the file system's client remembers of earlier listings.
    """
    try:
        if scheme_of(uri) == "file" and "::" not in uri:
            return _kind_of_local(uri)
        fs, path = filesystem(uri, options)
        with explained(uri, options):
            if fresh:
                fs.invalidate_cache()
            info = fs.info(path)
    except MissingFile as error:
        if is_absent(error):
            return None
        raise
    return ("directory", 0) if info["type"] == "directory" else ("file", int(info["size"]))


def is_absent(error: MissingFile) -> bool:
    """Whether there is nothing of that name, in contrast to what cannot be reached or may not be read."""
    return isinstance(error.__cause__, FileNotFoundError | NotADirectoryError)


def _kind_of_local(uri: str) -> tuple[str, int]:
    """Ask the system itself: fsspec takes four times as long, which counts with a hundred thousand files."""
    with explained(uri):
        found = os.stat(normalize(uri))
    return ("directory", 0) if stat.S_ISDIR(found.st_mode) else ("file", found.st_size)


def modified_at(uri: str, options: StorageOptions | None = None) -> datetime | None:
    """Return when a file was last written, in UTC; None where its store does not say, or it cannot be read."""
    try:
        fs, path = filesystem(uri, options)
        info = fs.info(path)
    except (OSError, SnapshotError):
        return None
    for name in _MODIFIED_KEYS:
        found = info.get(name)
        if isinstance(found, datetime):
            return found.astimezone(timezone.utc)
        if isinstance(found, int | float) and found > 0:
            seconds = found / 1000 if found > _FIRST_MILLISECONDS else found
            return datetime.fromtimestamp(seconds, timezone.utc) if seconds < _FIRST_MILLISECONDS else None
    return None


def read_range(uri: str, start: int, end: int, options: StorageOptions | None = None) -> bytes:
    """Read bytes ``start`` to ``end`` of a file; fewer if it ends earlier. Raises MissingFile, InvalidOption."""
    if start == end:
        return b""
    if scheme_of(uri) == "file":
        return _read_local(uri, start, end)
    fs, path = filesystem(uri, options)
    with explained(uri, options):
        return bytes(fs.cat_file(path, start=start, end=end))


def _read_local(uri: str, start: int, end: int) -> bytes:
    """Read without fsspec, whose layers take three times as long as opening the file and reading a few bytes."""
    parts = []
    with explained(uri), open(normalize(uri), "rb", buffering=0) as file:
        while start < end and (part := os.pread(file.fileno(), end - start, start)):
            parts.append(part)
            start += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def read_into(uri: str, start: int, target: memoryview, options: StorageOptions | None = None) -> int:
    """Fill ``target`` with the bytes of a file from ``start`` on; return how many were read. Raises as `read_range`."""
    if scheme_of(uri) != "file":
        return _read_concurrently(uri, start, target, options)
    done = 0
    with explained(uri), open(normalize(uri), "rb", buffering=0) as file:
        file.seek(start)
        while done < len(target):
            got = file.readinto(target[done:])
            if not got:
                break
            done += got
    return done


def read_parts_into(uri: str, parts: Iterable[tuple[int, memoryview]]) -> int:
    """Fill each of several targets from its position in a local file; return how many bytes were read.

    The file is opened once, which counts where parts are small. Raises MissingFile, InvalidOption.
    """
    done = 0
    with explained(uri), open(normalize(uri), "rb", buffering=0) as file:
        number = file.fileno()
        for start, target in parts:
            while target and (got := os.preadv(number, [target], start)):
                start, target, done = start + got, target[got:], done + got
    return done


def _read_concurrently(uri: str, start: int, target: memoryview, options: StorageOptions | None) -> int:
    """Read over a network, several requests at a time: one alone does not use the bandwidth."""

    def read(at: int) -> int:
        part = target[at : at + REQUEST_BYTES]
        data = read_range(uri, start + at, start + at + len(part), options)
        part[: len(data)] = data
        return len(data)

    return sum(_concurrently(read, range(0, len(target), REQUEST_BYTES)))


def read_concurrently(uri: str, start: int, end: int, options: StorageOptions | None = None) -> bytes:
    """Read bytes ``start`` to ``end`` of a remote file, several requests at a time. Raises as `read_range`."""

    def read(at: int) -> bytes:
        return read_range(uri, at, min(at + REQUEST_BYTES, end), options)

    return b"".join(_concurrently(read, range(start, end, REQUEST_BYTES)))


def _concurrently(read: Callable[[int], Result], requests: range) -> list[Result]:
    if len(requests) < 2:
        return [read(at) for at in requests]
    with ThreadPoolExecutor(len(requests[:CONCURRENT_REQUESTS])) as pool:
        return list(pool.map(read, requests))


@contextmanager
def explained(uri: str, options: StorageOptions | None = None) -> Iterator[None]:
    """Convert what fsspec and its client libraries raise into typed errors about ``uri``, without secret options.

    Clients refuse options of a wrong name or type by TypeError or AttributeError. NameError and AssertionError are bugs
    and pass unchanged.
    """
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
