"""fsspec file systems by Flink's URIs; what goes wrong becomes an error that says what to do."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from stateproc.errors import InvalidOption, MissingFile, SnapshotError, Where

StorageOptions = Mapping[str, Any]

_PART = 4 << 20
_AT_ONCE = 4
"""Large reads over a network: requests of so many bytes, so many at a time."""

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):(?=/)")

_FSSPEC_NAMES = {"s3a": "s3", "s3n": "s3", "s3p": "s3", "wasb": "abfs", "wasbs": "abfss", "gs": "gcs"}
"""Flink's and Hadoop's schemes whose name in fsspec is another."""
_OBJECT_STORES = frozenset({"s3", "gcs", "abfs", "abfss", "oss", "cosn", "swift"})
"""Where directories are no more than beginnings of names: making one makes nothing, or a whole bucket."""

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
"""File systems in use. fsspec drops its own in a process that is forked, as for Spark's JVM, and a client whose threads
the fork has not, as HDFS's, would wait for them there for ever.
"""
KNOWN_SCHEMES = frozenset({"file", "webhdfs", "swift", "cosn", *_PACKAGES, *_FSSPEC_NAMES})
"""Where Flink keeps snapshots; a handle pointing elsewhere is not followed."""


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
    """``uri`` without trailing slashes; file URIs in any of their spellings as plain local paths."""
    if scheme_of(uri) == "file":
        path = uri
        match = _SCHEME.match(uri)
        if match:
            path = "/" + uri[match.end() :].lstrip("/").removeprefix("localhost/")
        return path.rstrip("/") or "/"
    return uri.rstrip("/")


def absolute(uri: str) -> str:
    """``uri`` so that it means the same to every process: in any spelling, from the home or working directory."""
    uri = normalize(uri)
    return os.path.abspath(os.path.expanduser(uri)) if scheme_of(uri) == "file" else uri


def store_kind(uri: str) -> str:
    """fsspec's name of the file system of ``uri``: one for all spellings of its scheme, as s3 for s3a."""
    scheme = scheme_of(uri)
    return _FSSPEC_NAMES.get(scheme, scheme)


def same_store(uri: str) -> str:
    """``uri`` with its scheme under one name, so that two spellings of a place compare equal: s3a:// as s3://."""
    kind = store_kind(uri)
    return uri if kind == "file" else f"{kind}:{uri.partition(':')[2]}"


def has_directories(uri: str) -> bool:
    """Whether directories are things of their own there, as they are not on object stores."""
    return store_kind(uri) not in _OBJECT_STORES


def join(directory: str, *names: str) -> str:
    return "/".join([directory.rstrip("/"), *names])


def parent(uri: str) -> str:
    """The directory that holds ``uri``; a root is its own parent."""
    head, slash, _ = uri.rpartition("/")
    if not slash or head.endswith(("/", ":")):
        return uri
    return head or "/"


def basename(uri: str) -> str:
    return uri.rpartition("/")[2]


def filesystem(uri: str, options: StorageOptions | None = None) -> tuple[Any, str]:
    """The fsspec file system of ``uri`` and the path in it.

    ``options`` go to the file system, unless it is the local one. Raises InvalidOption where fsspec has no
    such file system or the package it needs is not installed.
    """
    uri = normalize(uri)
    if "::" in uri:
        raise InvalidOption(f"chained URIs are not followed: {uri}", where=Where(file=uri))
    name = store_kind(uri)
    if name == "file":
        return _local(), uri
    import fsspec

    with explained(uri):
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
    """The entries of a directory, by name. Raises MissingFile, InvalidOption."""
    fs, path = filesystem(uri, options)
    with explained(uri):
        fs.invalidate_cache()
        listed = fs.ls(path, detail=True)
    entries = [
        Entry(basename(info["name"].rstrip("/")), int(info.get("size") or 0), info["type"] == "directory")
        for info in listed
        if info["name"].rstrip("/") != path.rstrip("/")
    ]
    return sorted(entries, key=lambda entry: entry.name)


def kind_of(uri: str, options: StorageOptions | None = None) -> tuple[str, int] | None:
    """("file", size) or ("directory", 0) of what stands at ``uri``; None if nothing does."""
    fs, path = filesystem(uri, options)
    try:
        with explained(uri):
            info = fs.info(path)
    except MissingFile as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            return None
        raise
    return ("directory", 0) if info["type"] == "directory" else ("file", int(info["size"]))


def read_range(uri: str, start: int, end: int, options: StorageOptions | None = None) -> bytes:
    """Bytes ``start`` to ``end`` of a file; fewer if it ends earlier. Raises MissingFile, InvalidOption."""
    if start == end:
        return b""
    fs, path = filesystem(uri, options)
    with explained(uri):
        return bytes(fs.cat_file(path, start=start, end=end))


def read_into(uri: str, start: int, target: memoryview, options: StorageOptions | None = None) -> int:
    """Fill ``target`` with the bytes of a file from ``start`` on; how many there were. Raises as `read_range`."""
    if scheme_of(uri) != "file":
        return _read_in_parts(uri, start, target, options)
    _, path = filesystem(uri, options)
    done = 0
    with explained(uri), open(path, "rb", buffering=0) as file:
        file.seek(start)
        while done < len(target):
            got = file.readinto(target[done:])
            if not got:
                break
            done += got
    return done


def _read_in_parts(uri: str, start: int, target: memoryview, options: StorageOptions | None) -> int:
    """Over a network, where one request alone does not use the line."""

    def read(at: int) -> int:
        part = target[at : at + _PART]
        data = read_range(uri, start + at, start + at + len(part), options)
        part[: len(data)] = data
        return len(data)

    parts = range(0, len(target), _PART)
    if len(parts) < 2:
        return sum(map(read, parts))
    with ThreadPoolExecutor(len(parts[:_AT_ONCE])) as pool:
        return sum(pool.map(read, parts))


@contextmanager
def explained(uri: str) -> Iterator[None]:
    """Turns what fsspec, and the client libraries behind it, raise into the package's errors."""
    try:
        yield
    except (SnapshotError, MemoryError):
        raise
    except ImportError as error:
        scheme = scheme_of(uri)
        package = _PACKAGES.get(store_kind(uri), f"fsspec[{scheme}]")
        raise InvalidOption(
            f"{scheme}:// needs a package that is not installed ({error})",
            where=Where(file=uri),
            advice=f"pip install {package}",
        ) from error
    except FileNotFoundError as error:
        raise MissingFile("no such file", where=Where(file=uri)) from error
    except PermissionError as error:
        raise MissingFile(
            "access denied",
            where=Where(file=uri),
            advice="check the file's permissions, or the credentials in the storage options",
        ) from error
    except Exception as error:  # each client has errors of its own, which are no OSError
        raise MissingFile(
            f"cannot be read: {error or type(error).__name__}",
            where=Where(file=uri),
            advice="check the address and the storage options (credentials, endpoint)",
        ) from error
