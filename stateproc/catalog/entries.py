"""The rows of a catalog: what is known of each snapshot without opening its state files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, Literal

from stateproc.storage.uris import basename, parent

Status = Literal["complete", "incomplete", "unreadable"]


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A savepoint or checkpoint, or a directory that cannot be listed.

    Attributes:
        path: Its directory.
        status: ``incomplete`` has no ``_metadata``: it is being written, or was never completed. ``unreadable``: its
            ``_metadata`` is damaged or cannot be reached, or the directory cannot be listed; ``problem`` says why.
        kind: canonical savepoint, native savepoint, checkpoint, savepoint, or savepoint or checkpoint; None if unknown.
        job_id: 32 hex digits, from the path of a checkpoint; of a savepoint that of the only job whose id begins with
            ``job_id_prefix``. None if it is not known.
        job_id_prefix: Of a savepoint the first six digits of the job id in its name; None if it has another name.
        checkpoint_id: The number that the job gave it. Savepoints and checkpoints of a job are numbered together.
        completed_at: The time of the last change of ``_metadata``, in UTC; None if it is not complete.
        last_write: The time of the newest file of an incomplete snapshot, in UTC.
        files: The number of files, without ``_metadata``; of merged files, of segments.
        own_bytes: Bytes of ``_metadata`` and of files that no other snapshot below the roots uses.
        shared_bytes: Bytes of files that other snapshots below the roots use, too.
        newest: Whether it is the newest complete snapshot of its job.
        problem: Why it is unreadable.
    """

    path: str
    status: Status
    kind: str | None = None
    job_id: str | None = None
    job_id_prefix: str | None = None
    checkpoint_id: int | None = None
    completed_at: datetime | None = None
    last_write: datetime | None = None
    files: int | None = None
    own_bytes: int | None = None
    shared_bytes: int | None = None
    newest: bool = False
    problem: str | None = None

    @property
    def name(self) -> str:
        """The last component of the path."""
        return basename(self.path)

    @property
    def bytes(self) -> int | None:
        """The bytes of all its files; None if unknown."""
        return None if self.own_bytes is None else self.own_bytes + (self.shared_bytes or 0)

    @property
    def time(self) -> datetime | None:
        """When it was completed; of an incomplete one, when it was last written to."""
        return self.completed_at or self.last_write

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as JSON values: times as ISO text."""
        return {
            "path": self.path,
            "status": self.status,
            "kind": self.kind,
            "job_id": self.job_id,
            "job_id_prefix": self.job_id_prefix,
            "checkpoint_id": self.checkpoint_id,
            "completed_at": iso_time(self.completed_at),
            "last_write": iso_time(self.last_write),
            "files": self.files,
            "bytes": self.bytes,
            "own_bytes": self.own_bytes,
            "shared_bytes": self.shared_bytes,
            "newest": self.newest,
            "problem": self.problem,
        }


def iso_time(time: datetime | None) -> str | None:
    """Return a time in UTC as ISO text with seconds."""
    return None if time is None else time.strftime("%Y-%m-%dT%H:%M:%SZ")


def utc_time(seconds: float | None) -> datetime | None:
    """Return the time of seconds since 1970; None where there is none, or no calendar has it."""
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, timezone.utc)
    except (OverflowError, OSError, ValueError):
        return None


# Group snapshots by job, sort them by time and mark the newest.

_Key = tuple[str | None, str]
"""A job's id or its first digits, and the directory of its checkpoints or savepoints; (None, "") of unknown jobs."""


@dataclass(frozen=True)
class JobGroup:
    """The snapshots of one job.

    The id of a job is not enough: all jobs of application clusters with high availability have the id 0…0, each in a
    directory of its own.

    Attributes:
        job: The job's id, or its first six digits where only the name of a savepoint contains it, or None.
        directory: The directory of its checkpoints; without checkpoints the directory that contains its savepoints;
            empty where the job is not known.
        entries: Its snapshots by time, in whole seconds as object stores have it, then by number.
        notes: What the reader of the list should know.
    """

    job: str | None
    directory: str
    entries: tuple[CatalogEntry, ...]
    notes: tuple[str, ...] = ()


def grouped(entries: Sequence[CatalogEntry]) -> tuple[JobGroup, ...]:
    """Return the entries by job; jobs by the time of their newest entry, those of unknown jobs last."""
    by_digits: dict[str, set[_Key]] = defaultdict(set)
    for entry in entries:
        if entry.job_id is not None and entry.job_id_prefix is None:
            by_digits[entry.job_id[:6]].add((entry.job_id, parent(entry.path)))
    groups: dict[_Key, list[CatalogEntry]] = defaultdict(list)
    for entry in entries:
        key, assigned = _assigned(entry, by_digits)
        groups[key].append(assigned)
    found = [_group(key, members) for key, members in groups.items()]
    return tuple(sorted(found, key=lambda group: (group.job is None, _age(group.entries[-1]), group.directory)))


def _assigned(entry: CatalogEntry, by_digits: Mapping[str, set[_Key]]) -> tuple[_Key, CatalogEntry]:
    """Find the group of an entry. A savepoint belongs to the job whose id begins with its digits, if only one does."""
    if entry.job_id is None and entry.job_id_prefix is None:
        return (None, ""), entry
    if entry.job_id_prefix is None:
        return (entry.job_id, parent(entry.path)), entry
    candidates = by_digits.get(entry.job_id_prefix, set())
    ids = {job for job, _ in candidates}
    if len(ids) == 1:
        entry = replace(entry, job_id=entry.job_id or next(iter(ids)))
    if len(candidates) == 1:
        return next(iter(candidates)), entry
    return (entry.job_id or entry.job_id_prefix, parent(entry.path)), entry


def _group(key: _Key, members: Sequence[CatalogEntry]) -> JobGroup:
    job, directory = key
    entries = sorted(members, key=_age)
    complete = [index for index, entry in enumerate(entries) if entry.status == "complete"]
    # Snapshots of unknown jobs in one directory need not be of one job.
    if not complete or job is None:
        return JobGroup(job, directory, tuple(entries))
    newest = entries[complete[-1]]
    entries[complete[-1]] = replace(newest, newest=True)
    highest = max((entries[index] for index in complete), key=lambda entry: entry.checkpoint_id or 0)
    notes: tuple[str, ...] = ()
    if (highest.checkpoint_id or 0) > (newest.checkpoint_id or 0):
        notes = (
            f"{newest.name} was completed last, but {highest.name} has a higher number: either the files were copied, "
            "which sets their times, or the job began anew under its old id",
        )
    return JobGroup(job, directory, tuple(entries), notes)


def _age(entry: CatalogEntry) -> tuple[int, int, str]:
    time = entry.time
    return (int(time.timestamp()) if time else 0, entry.checkpoint_id or 0, entry.path)
