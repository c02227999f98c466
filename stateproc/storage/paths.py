"""From the path a user gives to the snapshot meant by it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import NoReturn

from stateproc.errors import InvalidOption, MissingFile, Where
from stateproc.html.units import some_of
from stateproc.storage.checkpoint_roots import CheckpointRoots
from stateproc.storage.claimed_files import ClaimedFiles
from stateproc.storage.layout import CHECKPOINT_NAME, JOB_NAME, METADATA
from stateproc.storage.remote_memory import RemoteMemory
from stateproc.storage.store import StorageOptions, StorePath

# Where a snapshot is.


@dataclass(frozen=True, slots=True)
class SnapshotLocation:
    """A snapshot's ``_metadata``, and where its files may be; local ones as plain absolute paths.

    ``note`` says which snapshot was chosen where the given path left a choice. ``path_mapping`` maps prefixes of the
    files' URIs to where these files are now. Files that ``_metadata`` names outside of the checkpoint root are
    read below ``allowed_roots`` only. ``memory`` is shared by the sources of the snapshot's files.
    """

    metadata: StorePath
    note: str | None = None
    path_mapping: Mapping[str, str] = field(default_factory=dict, hash=False)
    allowed_roots: tuple[str, ...] = ()
    memory: RemoteMemory = field(default_factory=RemoteMemory, compare=False, repr=False)
    roots: CheckpointRoots = field(init=False, compare=False, repr=False)
    claimed: ClaimedFiles = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        roots = CheckpointRoots.of(self.directory.uri, self.allowed_roots, self.path_mapping)
        object.__setattr__(self, "roots", roots)
        object.__setattr__(self, "claimed", ClaimedFiles(roots))

    @property
    def directory(self) -> StorePath:
        return self.metadata.parent

    @property
    def directory_uri(self) -> str:
        return self.directory.uri

    @property
    def metadata_uri(self) -> str:
        return self.metadata.uri


_MOST_NAMES = 12


def locate(
    path: str | os.PathLike[str],
    storage_options: StorageOptions | None = None,
    path_mapping: Mapping[str, str] | None = None,
    allowed_roots: Iterable[str] = (),
) -> SnapshotLocation:
    """The snapshot at ``path``: its directory, its ``_metadata`` file, or a directory above it.

    Of a job's checkpoint directory the newest completed ``chk-N`` is taken, and said so in ``note``; of any
    other directory the one snapshot or job in it. Raises MissingFile, saying what is there instead, where
    there is none or more than one to choose from; InvalidOption.
    """
    if not os.fspath(path):
        raise InvalidOption("the path is empty", advice="give a savepoint's directory, or '.' for the current one")
    given = StorePath.of(path, storage_options)
    status = given.status()
    if status is None:
        refuse_missing(given)
    found = _of_directory(given) if status.is_directory else SnapshotLocation(given)
    return replace(found, path_mapping=dict(path_mapping or {}), allowed_roots=tuple(allowed_roots))


def _of_directory(directory: StorePath) -> SnapshotLocation:
    # Looked for by its name: the directory may contain a hundred thousand state files.
    if (directory / METADATA).file_status(fresh=True) is not None:
        return SnapshotLocation(directory / METADATA)
    entries = directory.entries()
    directories = [entry.name for entry in entries if entry.is_directory]
    checkpoints = _checkpoints(directories)
    if checkpoints:
        return _newest(directory, checkpoints)
    inside = [name for name in directories if JOB_NAME.fullmatch(name) or name.startswith("savepoint-")]
    if len(inside) == 1:
        found = _of_directory(directory / inside[0])
        return replace(found, note=found.note or f"opened {inside[0]}, the only snapshot in {directory}")
    if inside:
        raise MissingFile(
            f"{len(inside)} snapshots to choose from: {some_of(inside, _MOST_NAMES)}",
            where=Where(file=directory.uri),
            advice="give the path of one of them",
        )
    names = [entry.name for entry in entries]
    raise MissingFile(
        f"no {METADATA} here, but {some_of(names, _MOST_NAMES) if names else 'nothing at all'}",
        where=Where(file=directory.uri),
        advice="give a savepoint's directory, a chk-N directory, or a job's checkpoint directory; without "
        f"{METADATA} a snapshot was never completed",
    )


def _checkpoints(names: list[str]) -> list[str]:
    """The chk-N of ``names``, newest first."""
    matches = [match for name in names if (match := CHECKPOINT_NAME.fullmatch(name))]
    return [match.group(0) for match in sorted(matches, key=lambda match: -int(match.group(1)))]


def _newest(directory: StorePath, checkpoints: list[str]) -> SnapshotLocation:
    for position, name in enumerate(checkpoints):
        metadata = directory / name / METADATA
        if metadata.file_status() is not None:
            skipped = f"; not completed: {some_of(checkpoints[:position], _MOST_NAMES)}" if position else ""
            return SnapshotLocation(metadata, f"opened {name}, the newest completed checkpoint in {directory}{skipped}")
    raise MissingFile(
        f"none of the checkpoints here is completed: {some_of(checkpoints, _MOST_NAMES)} lack {METADATA}",
        where=Where(file=directory.uri),
        advice="not even Flink can restore these; use an older or a retained checkpoint",
    )


def refuse_missing(path: StorePath) -> NoReturn:
    """Raise MissingFile with the nearest directory that exists and the nearest names in it."""
    where = Where(file=path.uri)
    missing, above = path, path.parent
    while above != missing and not above.exists():
        missing, above = above, above.parent
    if above == missing:
        raise MissingFile("nothing there", where=where, advice="check the path")
    names = [entry.name for entry in above.entries()]
    near = get_close_matches(missing.name, names, n=3, cutoff=0.5)
    if near:
        advice = f"did you mean {' or '.join(str(above / name) for name in near)}?"
    else:
        advice = f"{above} holds {some_of(names, _MOST_NAMES) if names else 'nothing'}"
    raise MissingFile(f"nothing there: no '{missing.name}' in {above}", where=where, advice=advice)
