"""The completed checkpoints and savepoints below a checkpoint root, in the order in which the job took them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from stateproc.catalog.discovery import SnapshotDirectory, discover
from stateproc.catalog.entries import utc_time
from stateproc.errors import InvalidOption, NotFound
from stateproc.metadata import CHECKPOINT_ID_BYTES, read_checkpoint_id
from stateproc.snapshot.snapshot import Snapshot
from stateproc.storage.concurrency import map_in_order
from stateproc.storage.layout import CHECKPOINT_NAME, METADATA
from stateproc.storage.uris import basename, parent

_SHOWN = 12


@dataclass(frozen=True)
class FeedCommit:
    """A completed checkpoint or savepoint.

    Attributes:
        version: Its checkpoint id. Savepoints and checkpoints of a job are numbered together, and a job that is
            restored continues with the next number.
        timestamp: When it was completed, in UTC: the time of the last change of its ``_metadata``; None if unknown.
        path: Its directory.
    """

    version: int
    timestamp: datetime | None
    path: str


@dataclass(frozen=True)
class CommitLog:
    """The snapshots below checkpoint roots.

    Attributes:
        roots: The directories.
        commits: The completed ones, by version.
        incomplete: The checkpoint ids of those without ``_metadata``.
    """

    roots: tuple[str, ...]
    commits: tuple[FeedCommit, ...]
    incomplete: tuple[int, ...] = ()

    def between(self, starting: int | None, ending: int | None) -> tuple[FeedCommit, ...]:
        """Return the commits from one to another, both included.

        Args:
            starting: The checkpoint id of the first; None for the oldest.
            ending: The checkpoint id of the last; None for the newest.

        Raises:
            NotFound: There is no completed checkpoint of this id; the advice names those that exist.
            InvalidOption: The last is older than the first, or the commits between them are not of one history.
        """
        if not self.commits:
            raise NotFound(
                f"no completed checkpoint below {', '.join(self.roots)}",
                advice="give the directory of a job's checkpoints, or a directory above it",
            )
        first = self.commits[0].version if starting is None else starting
        last = self.commits[-1].version if ending is None else ending
        for version in (first, last):
            self._check(version)
        if last < first:
            raise InvalidOption(
                f"the ending checkpoint {last} is older than the starting checkpoint {first}",
                advice=f"start at {last} and end at {first}",
            )
        chosen = tuple(item for item in self.commits if first <= item.version <= last)
        check_history(chosen)
        return chosen

    def _check(self, version: int) -> None:
        if any(item.version == version for item in self.commits):
            return
        what = "was never completed" if version in self.incomplete else "does not exist"
        advice = f"completed are: {ranges_text([item.version for item in self.commits])}"
        if what == "does not exist" and version < self.commits[0].version:
            advice += "; Flink deletes older checkpoints, see execution.checkpointing.num-retained"
        raise NotFound(f"checkpoint {version} {what} below {', '.join(self.roots)}", advice=advice)


def commit_log(
    roots: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> CommitLog:
    """List the snapshots below checkpoint roots, without reading more than 16 bytes of each savepoint.

    Args:
        roots: A job's checkpoint directory, a directory above it, or several of them.
        storage_options: Keyword arguments of the fsspec file system.

    Raises:
        MissingFile: A root does not exist, or a directory below it cannot be listed.
        InvalidOption: A root is a file, or the storage options do not fit.
        CorruptSnapshot: The ``_metadata`` of a savepoint does not begin as one.
    """
    given = [roots] if isinstance(roots, str | os.PathLike) else list(roots)
    found = discover(given, dict(storage_options or {}))
    if found.failures:
        raise found.failures[0][1]
    versions = list(map_in_order(version_of, found.complete))
    commits = [
        FeedCommit(version, utc_time(item.metadata.modified if item.metadata else None), item.uri)
        for item, version in zip(found.complete, versions, strict=True)
    ]
    incomplete = [CHECKPOINT_NAME.fullmatch(item.name) for item in found.incomplete]
    return CommitLog(
        found.roots,
        tuple(sorted(commits, key=lambda item: (item.version, item.path))),
        tuple(sorted(int(match[1]) for match in incomplete if match)),
    )


def commits(
    roots: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> tuple[FeedCommit, ...]:
    """Return the completed checkpoints and savepoints below checkpoint roots by version; see `commit_log`."""
    return commit_log(roots, storage_options=storage_options).commits


def commit_of(snapshot: Snapshot) -> FeedCommit:
    """Return the commit of an open snapshot. Raises MissingFile if its ``_metadata`` cannot be reached any more."""
    status = snapshot.location.metadata.file_status()
    return FeedCommit(snapshot.metadata.checkpoint_id, utc_time(status.modified if status else None), snapshot.path)


def version_of(item: SnapshotDirectory) -> int:
    """Return the checkpoint id: by the name of a checkpoint, from the ``_metadata`` of others."""
    named = CHECKPOINT_NAME.fullmatch(item.name)
    if named is not None:
        return int(named[1])
    data = (item.directory / METADATA).read_range(0, CHECKPOINT_ID_BYTES)
    return read_checkpoint_id(data, file=item.metadata_uri)


def check_history(chosen: Sequence[FeedCommit]) -> None:
    """Raise InvalidOption if the commits are not those of one job, or of jobs each restored from the one before."""
    for one, two in pairwise(chosen):
        if one.version == two.version:
            raise _ambiguous(f"both {one.path} and {two.path} have the id {one.version}")
    jobs = [parent(item.path) for item in chosen if CHECKPOINT_NAME.fullmatch(basename(item.path))]
    seen: set[str] = set()
    for before, job in zip(["", *jobs], jobs, strict=False):
        if job != before and job in seen:
            raise _ambiguous(f"checkpoints in {job} were taken before and after those in {before}")
        seen.add(job)


def _ambiguous(message: str) -> InvalidOption:
    return InvalidOption(
        f"checkpoints of several jobs that did not follow one another: {message}",
        advice="give the directory of one job, or a range of checkpoint ids that only one history has",
    )


def ranges_text(versions: Sequence[int]) -> str:
    """Return ascending numbers as text, with runs as ``first-last``."""
    runs: list[list[int]] = []
    for version in versions:
        if runs and version <= runs[-1][1] + 1:
            runs[-1][1] = version
        else:
            runs.append([version, version])
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    return ", ".join(texts[:_SHOWN]) + (" …" if len(texts) > _SHOWN else "")
