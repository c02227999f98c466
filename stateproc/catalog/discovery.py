"""Find the directories of snapshots and jobs below a root, with one request for each directory.

Neither ``shared`` and ``taskowned`` of a job nor the directories of complete snapshots are listed: they may contain
millions of files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from stateproc.errors import InvalidOption, MissingFile, SnapshotError, Where
from stateproc.storage.concurrency import map_in_order
from stateproc.storage.layout import CHECKPOINT_NAME, JOB_NAME, METADATA, SAVEPOINT_NAME, is_of_write
from stateproc.storage.paths import refuse_missing
from stateproc.storage.store import Entry, FileStatus, StorageOptions, StorePath, is_absent
from stateproc.storage.uris import is_within, join, real_path

SHARED_DIRECTORIES = ("shared", "taskowned", "dstl")
"""Directories of a job with files that outlive a checkpoint: of incremental checkpoints, of tasks, of changelogs."""


@dataclass(frozen=True, slots=True)
class SnapshotDirectory:
    """A directory that Flink made for a snapshot. ``metadata`` is None without a ``_metadata``: it is not complete.

    ``listed_bytes`` and ``last_write`` (seconds since 1970) describe the files of one that is not complete.
    """

    directory: StorePath
    metadata: FileStatus | None
    listed_bytes: int = 0
    listed_files: int = 0
    last_write: float | None = None

    @property
    def name(self) -> str:
        """The directory's last path component."""
        return self.directory.name

    @property
    def uri(self) -> str:
        return self.directory.uri

    @property
    def metadata_bytes(self) -> int:
        """The size of its ``_metadata``; 0 if it has none."""
        return 0 if self.metadata is None else self.metadata.size

    @property
    def metadata_uri(self) -> str:
        """The path of its ``_metadata``."""
        return join(self.uri, METADATA)


@dataclass(frozen=True, slots=True)
class JobDirectory:
    """A job's checkpoint directory and the names in it of directories with files that several checkpoints may use."""

    directory: StorePath
    shared: tuple[str, ...]

    @property
    def uri(self) -> str:
        return self.directory.uri


@dataclass
class Discovery:
    """What was found below the roots; ``failures``: the directories that could not be listed, and why."""

    roots: tuple[str, ...]
    snapshots: list[SnapshotDirectory] = field(default_factory=list)
    jobs: list[JobDirectory] = field(default_factory=list)
    failures: list[tuple[str, SnapshotError]] = field(default_factory=list)

    @property
    def complete(self) -> list[SnapshotDirectory]:
        """The snapshots with ``_metadata``."""
        return [item for item in self.snapshots if item.metadata is not None]

    @property
    def incomplete(self) -> list[SnapshotDirectory]:
        """The snapshots without ``_metadata``."""
        return [item for item in self.snapshots if item.metadata is None]


@dataclass
class _Visit:
    """What one directory turned out to be, and the directories to visit next."""

    snapshot: SnapshotDirectory | None = None
    job: JobDirectory | None = None
    failure: tuple[str, SnapshotError] | None = None
    children: list[StorePath] = field(default_factory=list)


def discover(
    roots: Sequence[str | os.PathLike[str]],
    options: StorageOptions | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> Discovery:
    """Find all snapshots below directories, level by level, some requests at a time.

    Args:
        roots: Directories, or a snapshot. Those within others are searched once.
        options: Keyword arguments of the fsspec file system.
        advance: Called with the number of directories that were visited.

    Raises:
        MissingFile: A root does not exist or cannot be listed.
        InvalidOption: A root is empty or is a file, or the storage options do not fit.
    """
    level = _distinct([_root(os.fspath(root), options) for root in roots])
    found = Discovery(tuple(root.uri for root in level))
    walk = _DirectoryWalk(tuple(real_path(root.uri) for root in level if root.is_local))
    first = True
    while level:
        children: list[StorePath] = []
        for visit in map_in_order(walk.visit, level):
            if first and visit.failure is not None:
                raise visit.failure[1]
            _add(found, visit)
            children += visit.children
            advance(1)
        level, first = children, False
    found.snapshots.sort(key=lambda item: item.uri)
    return found


def _root(path: str, options: StorageOptions | None) -> StorePath:
    if not path:
        raise InvalidOption("the path is empty", advice="give a directory, or '.' for the current one")
    root = StorePath.of(path, options)
    root.forget_listings()
    status = root.status()
    if status is None:
        refuse_missing(root)
    if not status.is_directory and root.name == METADATA:
        return root.parent
    if not status.is_directory:
        raise InvalidOption("this is a file", where=Where(file=root.uri), advice="give the directory that contains it")
    return root


def _distinct(roots: Iterable[StorePath]) -> list[StorePath]:
    """Remove roots that are within others."""
    kept: list[StorePath] = []
    for root in sorted(set(roots), key=lambda root: len(root.uri)):
        if not any(is_within(root.uri, other.uri) for other in kept):
            kept.append(root)
    return kept


def _add(found: Discovery, visit: _Visit) -> None:
    if visit.snapshot is not None:
        found.snapshots.append(visit.snapshot)
    if visit.job is not None:
        found.jobs.append(visit.job)
    if visit.failure is not None:
        found.failures.append(visit.failure)


@dataclass
class _DirectoryWalk:
    """What the visits of one search share: its roots, and the links that were followed."""

    real_roots: tuple[str, ...]
    followed: set[str] = field(default_factory=set)

    def visit(self, directory: StorePath) -> _Visit:
        """List a directory, and find out what it is."""
        try:
            return self._visit(directory)
        except MissingFile as error:
            # A running job removes checkpoints meanwhile.
            return _Visit(failure=None if is_absent(error) else (directory.uri, error))
        except SnapshotError as error:
            return _Visit(failure=(directory.uri, error))

    def _visit(self, directory: StorePath) -> _Visit:
        name = directory.name
        is_checkpoint = CHECKPOINT_NAME.fullmatch(name) is not None
        if is_checkpoint or SAVEPOINT_NAME.fullmatch(name):
            # Looked for by its name: the directory may contain a hundred thousand state files.
            metadata = (directory / METADATA).file_status()
            if metadata is not None:
                return _Visit(snapshot=SnapshotDirectory(directory, metadata))
            if is_checkpoint:
                return _Visit(snapshot=_incomplete(directory, directory.files_below()))
        entries = directory.entries()
        directories = [entry.name for entry in entries if entry.is_directory and self._is_wanted(entry)]
        files = {entry.name: entry for entry in entries if not entry.is_directory}
        if METADATA in files and (metadata := files[METADATA].status()) is not None:
            return _Visit(snapshot=SnapshotDirectory(directory, metadata))
        if SAVEPOINT_NAME.fullmatch(name) and not directories:
            return _Visit(snapshot=_incomplete(directory, directory.files_below()))
        shared = _shared_directories(name, directories)
        visit = _Visit(children=[directory / child for child in directories if child not in shared])
        if shared or JOB_NAME.fullmatch(name) or any(map(CHECKPOINT_NAME.fullmatch, directories)):
            visit.job = JobDirectory(directory, shared)
        written = [entry for entry in files.values() if is_of_write(entry.name)]
        if written:
            # A write was killed, or is under way; other files here may be anyone's.
            visit.snapshot = _incomplete(directory, written)
        return visit

    def _is_wanted(self, entry: Entry) -> bool:
        """Whether to follow a link: not to what is visited anyway, nor to a directory that contains the link."""
        if not entry.link:
            return True
        target = real_path(entry.path.uri)
        known = any(is_within(target, root) or is_within(root, target) for root in self.real_roots)
        if known or target in self.followed:
            return False
        self.followed.add(target)
        return True


def _shared_directories(name: str, directories: list[str]) -> tuple[str, ...]:
    """Return which directories are those that Flink makes beside a job's checkpoints, and not someone's own names."""
    is_job = (
        JOB_NAME.fullmatch(name) is not None
        or any(map(CHECKPOINT_NAME.fullmatch, directories))
        or {"shared", "taskowned"} <= set(directories)
    )
    return tuple(child for child in directories if child in SHARED_DIRECTORIES) if is_job else ()


def _incomplete(snapshot: StorePath, files: Iterable[Entry]) -> SnapshotDirectory:
    """Describe a snapshot without ``_metadata`` by the files that were written so far."""
    size = count = 0
    newest: float | None = None
    for entry in files:
        status = entry.status()
        if status is not None:
            size, count = size + status.size, count + 1
            newest = max(newest or 0.0, status.modified) if status.modified is not None else newest
    return SnapshotDirectory(snapshot, None, size, count, newest)
