"""List files that no complete snapshot needs. Nothing is deleted.

A file counts as needed if any readable ``_metadata`` below the roots names a file of its name: Flink's names are random
UUIDs, so that this also holds for snapshots that were moved or are listed under another scheme or link.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from stateproc.catalog.discovery import Discovery, discover
from stateproc.catalog.entries import iso_time, utc_time
from stateproc.catalog.listing import SnapshotCatalog, catalog_of
from stateproc.errors import InvalidOption, SnapshotError
from stateproc.storage.concurrency import map_in_order
from stateproc.storage.layout import CHECKPOINT_NAME, METADATA, SAVEPOINT_NAME, is_of_write
from stateproc.storage.store import StorePath

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT_MIN_AGE = timedelta(days=1)
_DURATION = re.compile(r"(\d{1,6})\s*(s|min|m|h|d)")
_UNITS = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True, slots=True)
class UnneededFile:
    """A file that no complete snapshot below the roots names. ``modified``: its last change in UTC, None if unknown."""

    path: str
    bytes: int
    modified: datetime | None

    def to_dict(self) -> dict[str, Any]:
        """Return the file as JSON values."""
        return {"path": self.path, "bytes": self.bytes, "modified": iso_time(self.modified)}


@dataclass(frozen=True)
class OrphanReport:
    """Files that no complete snapshot below the roots needs.

    Attributes:
        orphans: Files that are older than ``min_age``, sorted by path.
        in_progress: Younger ones, or of an unknown age: a checkpoint that is being written may need them.
        unsafe: Why files among them may be needed nonetheless: what could not be read. Empty if everything was read.
        min_age: The age from which a file counts as orphan.
    """

    orphans: tuple[UnneededFile, ...]
    in_progress: tuple[UnneededFile, ...]
    unsafe: tuple[str, ...]
    min_age: timedelta

    @property
    def orphan_bytes(self) -> int:
        """The bytes of all orphans."""
        return sum(file.bytes for file in self.orphans)

    @property
    def in_progress_bytes(self) -> int:
        """The bytes of all files that a checkpoint in progress may need."""
        return sum(file.bytes for file in self.in_progress)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "safe": not self.unsafe,
            "unsafe_because": list(self.unsafe),
            "min_age_seconds": int(self.min_age.total_seconds()),
            "orphan_bytes": self.orphan_bytes,
            "orphans": [file.to_dict() for file in self.orphans],
            "in_progress_bytes": self.in_progress_bytes,
            "in_progress": [file.to_dict() for file in self.in_progress],
        }


def find_orphans(
    root: str | os.PathLike[str],
    *,
    min_age: timedelta | str = DEFAULT_MIN_AGE,
    storage_options: Mapping[str, Any] | None = None,
) -> OrphanReport:
    """List the files below a directory that none of its complete snapshots needs; nothing is deleted.

    Searched are ``shared``, ``taskowned`` and ``dstl`` of each job, the directories of its checkpoints, and of what
    writes of this project left also those of other snapshots. Snapshots
    outside of the directory are not known: give the directory that contains all snapshots of the jobs.

    Args:
        root: The directory, of any storage that fsspec knows.
        min_age: The age from which a file counts as orphan, a timedelta or text such as ``12h``: longer than a
            checkpoint takes, including the time between two checkpoints.
        storage_options: Keyword arguments of the fsspec file system.

    Raises:
        MissingFile: The directory does not exist or cannot be listed.
        InvalidOption: It is a file, or an argument does not fit.
    """
    age = parse_age(min_age)
    return orphans_of(catalog_of(discover([root], storage_options)), min_age=age)


def parse_age(given: timedelta | str) -> timedelta:
    """Return the duration that a text such as ``90s``, ``30min``, ``12h`` or ``7d`` means. Raises InvalidOption."""
    if isinstance(given, timedelta):
        if given < timedelta(0):
            raise InvalidOption(f"a negative age: {given}", advice="give 0 or more")
        return given
    match = _DURATION.fullmatch(given.strip().lower())
    if match is None:
        raise InvalidOption(f"'{given}' is no age", advice="give a number with a unit, such as 30min, 12h or 7d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def orphans_of(
    catalog: SnapshotCatalog,
    *,
    min_age: timedelta = DEFAULT_MIN_AGE,
    listed: Callable[[int], None] = lambda _: None,
) -> OrphanReport:
    """Find the orphans of a catalog, as :func:`find_orphans` does; ``listed`` is called with numbers of directories."""
    unsafe = [f"{entry.path}: {entry.problem}" for entry in catalog.entries if entry.status == "unreadable"]
    unreadable = {entry.path for entry in catalog.entries if entry.status == "unreadable"}
    if not any(entry.status == "complete" for entry in catalog.entries):
        unsafe.append("there is no complete snapshot here, so that nothing shows which files are needed")
    places = list(_places(catalog.discovery, unreadable))
    youngest = time.time() - min_age.total_seconds()
    found: list[UnneededFile] = []
    for files, failure in map_in_order(lambda place: _unneeded(*place, catalog.needed_names), places):
        found += files
        listed(1)
        if failure is not None:
            unsafe.append(failure)
    found.sort(key=lambda file: file.path)
    old = [file.modified is not None and file.modified.timestamp() <= youngest for file in found]
    return OrphanReport(
        orphans=tuple(file for file, is_old in zip(found, old, strict=True) if is_old),
        in_progress=tuple(file for file, is_old in zip(found, old, strict=True) if not is_old),
        unsafe=tuple(unsafe),
        min_age=min_age,
    )


def _places(discovery: Discovery, unreadable: set[str]) -> Iterator[tuple[StorePath, bool]]:
    """Yield the directories to search, and whether only files of writes by this project count there.

    Those are directories that several snapshots may use, those of checkpoints of a job and of savepoints that are not
    complete, and others with a snapshot or a killed write, in which users may keep files of their own.
    """
    for job in discovery.jobs:
        yield from ((job.directory / name, False) for name in job.shared)
    for snapshot in discovery.snapshots:
        is_checkpoint = CHECKPOINT_NAME.fullmatch(snapshot.name) is not None
        is_unfinished = snapshot.metadata is None and SAVEPOINT_NAME.fullmatch(snapshot.name) is not None
        if snapshot.uri not in unreadable:
            yield snapshot.directory, not (is_checkpoint or is_unfinished)


def _unneeded(place: StorePath, own: bool, needed: NDArray[np.int64]) -> tuple[list[UnneededFile], str | None]:
    """Return the files below a directory that are not needed, and why it could not be listed to its end.

    Args:
        own: Whether only files of writes by this project count.
        needed: Hashes of the names of files that snapshots need, sorted.
    """
    found: list[UnneededFile] = []
    try:
        for entry in place.files_below():
            if entry.name != METADATA and (is_of_write(entry.name) or not own) and not _is_needed(entry.name, needed):
                status = entry.status()
                if status is not None:  # else removed meanwhile, or no regular file
                    found.append(UnneededFile(entry.path.uri, status.size, utc_time(status.modified)))
    except SnapshotError as error:
        return found, f"{place}: this directory cannot be listed: {error.message}"
    return found, None


def _is_needed(name: str, needed: NDArray[np.int64]) -> bool:
    number = hash(name)
    at = int(needed.searchsorted(number))
    return at < len(needed) and int(needed[at]) == number
