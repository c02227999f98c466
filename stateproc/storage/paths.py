"""From the path a user gives to the snapshot meant by it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, NoReturn

from stateproc.errors import InvalidOption, MissingFile, Where
from stateproc.storage.checkpoint_roots import CheckpointRoots
from stateproc.storage.claimed_files import ClaimedFiles
from stateproc.storage.filesystem import StorageOptions, absolute, basename, join, kind_of, list_directory, parent
from stateproc.storage.layout import CHECKPOINT_NAME, JOB_NAME, METADATA
from stateproc.storage.remote_memory import RemoteMemory

# Where a snapshot is.


@dataclass(frozen=True, slots=True)
class SnapshotLocation:
    """A snapshot's directory and its ``_metadata``; local ones as plain absolute paths.

    ``note`` says which snapshot was chosen where the given path left a choice. ``storage_options``
    are passed to fsspec. ``path_mapping`` maps prefixes of the files' URIs to where these files are now. Files that
    ``_metadata`` names elsewhere than below the checkpoint root are read below ``allowed_roots`` only. ``memory`` is
    shared by the sources of the snapshot's files.
    """

    directory_uri: str
    metadata_uri: str
    note: str | None = None
    storage_options: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)
    path_mapping: Mapping[str, str] = field(default_factory=dict, hash=False)
    allowed_roots: tuple[str, ...] = ()
    memory: RemoteMemory = field(default_factory=RemoteMemory, compare=False, repr=False)
    roots: CheckpointRoots = field(init=False, compare=False, repr=False)
    claimed: ClaimedFiles = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        roots = CheckpointRoots.of(self.directory_uri, self.allowed_roots, self.path_mapping)
        object.__setattr__(self, "roots", roots)
        object.__setattr__(self, "claimed", ClaimedFiles(roots))


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
    uri = absolute(os.fspath(path))
    options = dict(storage_options or {})
    kind = kind_of(uri, options)
    if kind is None:
        refuse_missing(uri, options)
    found = _of_file(uri) if kind[0] == "file" else _of_directory(uri, options)
    return replace(
        found, storage_options=options, path_mapping=dict(path_mapping or {}), allowed_roots=tuple(allowed_roots)
    )


def _of_file(uri: str) -> SnapshotLocation:
    return SnapshotLocation(directory_uri=parent(uri), metadata_uri=uri)


def _of_directory(uri: str, options: StorageOptions) -> SnapshotLocation:
    # Looked for by its name: the directory may contain a hundred thousand state files.
    kind = kind_of(join(uri, METADATA), options, fresh=True)
    if kind is not None and kind[0] == "file":
        return SnapshotLocation(directory_uri=uri, metadata_uri=join(uri, METADATA))
    entries = list_directory(uri, options)
    directories = [entry.name for entry in entries if entry.is_directory]
    checkpoints = _checkpoints(directories)
    if checkpoints:
        return _newest(uri, checkpoints, options)
    inside = [name for name in directories if JOB_NAME.fullmatch(name) or name.startswith("savepoint-")]
    if len(inside) == 1:
        found = _of_directory(join(uri, inside[0]), options)
        return replace(found, note=found.note or f"opened {inside[0]}, the only snapshot in {uri}")
    if inside:
        raise MissingFile(
            f"{len(inside)} snapshots to choose from: {_some(inside)}",
            where=Where(file=uri),
            advice="give the path of one of them",
        )
    names = [entry.name for entry in entries]
    raise MissingFile(
        f"no {METADATA} here, but {_some(names) if names else 'nothing at all'}",
        where=Where(file=uri),
        advice="give a savepoint's directory, a chk-N directory, or a job's checkpoint directory; without "
        f"{METADATA} a snapshot was never completed",
    )


def _checkpoints(names: list[str]) -> list[str]:
    """The chk-N of ``names``, newest first."""
    matches = [match for name in names if (match := CHECKPOINT_NAME.fullmatch(name))]
    return [match.group(0) for match in sorted(matches, key=lambda match: -int(match.group(1)))]


def _newest(uri: str, checkpoints: list[str], options: StorageOptions) -> SnapshotLocation:
    for position, name in enumerate(checkpoints):
        directory = join(uri, name)
        kind = kind_of(join(directory, METADATA), options)
        if kind is not None and kind[0] == "file":
            skipped = f"; not completed: {_some(checkpoints[:position])}" if position else ""
            note = f"opened {name}, the newest completed checkpoint in {uri}{skipped}"
            return SnapshotLocation(directory, join(directory, METADATA), note)
    raise MissingFile(
        f"none of the checkpoints here is completed: {_some(checkpoints)} lack {METADATA}",
        where=Where(file=uri),
        advice="not even Flink can restore these; use an older or a retained checkpoint",
    )


def refuse_missing(uri: str, options: StorageOptions) -> NoReturn:
    """Raise MissingFile with the nearest directory that exists and the nearest names in it."""
    missing, above = uri, parent(uri)
    while above != missing and kind_of(above, options) is None:
        missing, above = above, parent(above)
    if above == missing:
        raise MissingFile("nothing there", where=Where(file=uri), advice="check the path")
    names = [entry.name for entry in list_directory(above, options)]
    near = get_close_matches(basename(missing), names, n=3, cutoff=0.5)
    if near:
        advice = f"did you mean {' or '.join(join(above, name) for name in near)}?"
    else:
        advice = f"{above} holds {_some(names) if names else 'nothing'}"
    raise MissingFile(f"nothing there: no '{basename(missing)}' in {above}", where=Where(file=uri), advice=advice)


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"
