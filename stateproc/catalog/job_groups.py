"""Group snapshots by job, sort them by time and mark the newest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stateproc.catalog.entries import CatalogEntry
from stateproc.storage.filesystem import parent

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
