"""Addresses of files as Flink writes them: their schemes, spellings and parts. Nothing here touches a store."""

from __future__ import annotations

import os
import re

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):(?=/)")
_DRIVE = re.compile(r"^/?([A-Za-z]:)(?=/|$)")

_FSSPEC_NAMES = {"s3a": "s3", "s3n": "s3", "s3p": "s3", "wasb": "abfs", "wasbs": "abfss", "gs": "gcs"}
"""Flink's and Hadoop's schemes that have another name in fsspec."""
_OBJECT_STORES = frozenset({"s3", "gcs", "abfs", "abfss", "oss", "cosn", "swift"})
"""Stores where a directory is only a key prefix: creating one does nothing, or creates a bucket."""

KNOWN_SCHEMES = frozenset({"file", "hdfs", "viewfs", "webhdfs", *_OBJECT_STORES, *_FSSPEC_NAMES})
"""Schemes in which Flink stores snapshots; a handle with another scheme is not followed."""


def _scheme(uri: str) -> re.Match[str] | None:
    match = _SCHEME.match(uri)
    return None if match and os.sep != "/" and _DRIVE.match(uri) else match


def scheme_of(uri: str) -> str:
    """The scheme of a URI, in lower case; "file" for local paths."""
    match = _scheme(uri)
    found = match.group(1).lower() if match else "file"
    return "file" if found == "local" else found


def normalize(uri: str) -> str:
    """Return ``uri`` without trailing slashes, and file URIs in any spelling as plain local paths."""
    if scheme_of(uri) == "file":
        path = uri
        match = _scheme(uri)
        if match:
            path = "/" + uri[match.end() :].lstrip("/").removeprefix("localhost/")
        return _with_slashes(path.rstrip("/") or "/")
    return uri.rstrip("/")


def _with_slashes(path: str) -> str:
    """Return a local path as it is everywhere in the package: with slashes, on Windows such as ``C:/folder``."""
    if os.sep == "/":
        return path
    path = path.replace(os.sep, "/")
    drive = _DRIVE.match(path)
    return f"{drive[1]}/{path[drive.end() :].strip('/')}" if drive else path


def is_absolute(path: str) -> bool:
    """Whether a local path, with slashes, means the same in every directory."""
    return path.startswith("/") if os.sep == "/" else _DRIVE.match(path) is not None or path.startswith("//")


def real_path(path: str) -> str:
    """Return a local path with symbolic links followed, with slashes."""
    return _with_slashes(os.path.realpath(path))


def absolute(uri: str) -> str:
    """Return ``uri`` in a form that means the same to every process: ``~`` and relative paths resolved."""
    uri = normalize(uri)
    return _with_slashes(os.path.abspath(os.path.expanduser(uri))) if scheme_of(uri) == "file" else uri


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
    head, slash, name = uri.rpartition("/")
    if name and os.sep != "/" and _DRIVE.fullmatch(head):
        return f"{head}/"
    if not slash or head.endswith(("/", ":")):
        return uri
    return head or "/"


def is_within(uri: str, directory: str) -> bool:
    """Whether a path is a directory or anything below it."""
    return uri == directory or uri.startswith(directory.rstrip("/") + "/")


def basename(uri: str) -> str:
    return uri.rpartition("/")[2]
