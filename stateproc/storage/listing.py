"""List directories: one request for each on object stores, which returns times, too; no stat of each local file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from stateproc.errors import MissingFile
from stateproc.storage.filesystem import (
    StorageOptions,
    basename,
    explained,
    filesystem,
    is_absent,
    join,
    normalize,
    scheme_of,
)

_SECONDS = ("mtime", "LastModified", "last_modified", "updated", "created")
_MILLISECONDS = ("modification_time", "modificationTime")
"""How fsspec's implementations name the time of the last change: numbers, datetimes or ISO text."""


@dataclass(frozen=True, slots=True)
class ListedEntry:
    """One entry of a directory.

    ``size`` (bytes) and ``modified`` (seconds since 1970) are None where the listing does not contain them: of local
    files, see :func:`file_facts`, and of directories. ``link``: a symbolic link, which only local disks have.
    """

    name: str
    is_directory: bool
    size: int | None = None
    modified: float | None = None
    link: bool = False


@dataclass(frozen=True, slots=True)
class FileFacts:
    """Size in bytes and time of the last change, in seconds since 1970, of a file; the time is None if unknown."""

    size: int
    modified: float | None


def forget_listings(uri: str, options: StorageOptions | None = None) -> None:
    """Drop what the client of a file system remembers of earlier listings."""
    if scheme_of(uri) != "file":
        fs, _ = filesystem(uri, options)
        with explained(uri, options):
            fs.invalidate_cache()


def scan_directory(uri: str, options: StorageOptions | None = None) -> list[ListedEntry]:
    """List the entries of a directory, sorted by name. Raises MissingFile, InvalidOption."""
    if scheme_of(uri) == "file" and "::" not in uri:
        return sorted(_local_entries(uri), key=lambda entry: entry.name)
    fs, path = filesystem(uri, options)
    with explained(uri, options):
        listed = fs.ls(path, detail=True)
        # Clients keep listings, of a large directory hundreds of megabytes.
        fs.invalidate_cache(path)
    entries = [_remote_entry(info) for info in listed if info["name"].rstrip("/") != path.rstrip("/")]
    return sorted(entries, key=lambda entry: entry.name)


def file_facts(uri: str, options: StorageOptions | None = None) -> FileFacts | None:
    """Return size and time of a file; None if there is no file of this name. Raises MissingFile, InvalidOption."""
    try:
        if scheme_of(uri) == "file" and "::" not in uri:
            with explained(uri):
                found = os.stat(normalize(uri))
            return FileFacts(found.st_size, found.st_mtime) if stat.S_ISREG(found.st_mode) else None
        fs, path = filesystem(uri, options)
        with explained(uri, options):
            info = fs.info(path)
    except MissingFile as error:
        if is_absent(error):
            return None
        raise
    return None if info["type"] == "directory" else FileFacts(int(info.get("size") or 0), _modified(info))


def _local_entries(uri: str) -> Iterator[ListedEntry]:
    with explained(uri), os.scandir(normalize(uri)) as found:
        for entry in found:
            try:
                is_directory, link = entry.is_dir(), entry.is_symlink()
            except OSError:
                continue  # a link that leads nowhere or in a circle
            yield ListedEntry(entry.name, is_directory, link=link)


def _remote_entry(info: dict[str, Any]) -> ListedEntry:
    name = basename(str(info["name"]).rstrip("/"))
    if info["type"] == "directory":
        return ListedEntry(name, True)
    return ListedEntry(name, False, int(info.get("size") or 0), _modified(info))


def _modified(info: dict[str, Any]) -> float | None:
    for name in _SECONDS:
        seconds = _seconds(info.get(name))
        if seconds is not None:
            return seconds
    for name in _MILLISECONDS:
        milliseconds = _seconds(info.get(name))
        if milliseconds is not None:
            return milliseconds / 1000
    return None


def _seconds(value: Any) -> float | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            return None
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=timezone.utc)).timestamp()
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def files_below(uri: str, options: StorageOptions | None = None) -> Iterator[tuple[str, ListedEntry]]:
    """Yield the directory and the entry of each file below a directory, directory by directory.

    Symbolic links to directories are not followed. A directory that disappears meanwhile counts as empty.

    Raises:
        AccessDenied, StoreUnavailable: A directory may not be read, or cannot be reached.
        InvalidOption: The storage options do not fit.
    """
    pending = [uri]
    while pending:
        directory = pending.pop()
        try:
            entries = scan_directory(directory, options)
        except MissingFile as error:
            if is_absent(error):
                continue
            raise
        for entry in entries:
            if not entry.is_directory:
                yield directory, entry
            elif not entry.link:
                pending.append(join(directory, entry.name))
