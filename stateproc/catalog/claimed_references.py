"""Count the files of a claimed native savepoint where they are: checkpoints name them as if they were their own.

See storage/claimed_files.py. A checkpoint with such handles has its directory listed once; what is not there belongs to
the snapshot below the roots that has a file of this name, if there is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stateproc.catalog.file_references import FileReferences, file_id
from stateproc.errors import SnapshotError
from stateproc.metadata import SnapshotMetadata
from stateproc.metadata.walk import relative_shared_files
from stateproc.storage.filesystem import basename, list_directory, same_store
from stateproc.storage.layout import CHECKPOINT_NAME


@dataclass(frozen=True)
class SnapshotFiles:
    """The files of one snapshot.

    Attributes:
        directory: Where the snapshot is.
        references: The files as its handles name them.
        absent: Relative paths, with their bytes, that its directory does not have.
    """

    directory: str
    references: FileReferences
    absent: Mapping[str, int]


def absent_files(metadata: SnapshotMetadata, directory: str, options: Mapping[str, Any] | None) -> dict[str, int]:
    """Return shared files that a checkpoint names beside its ``_metadata`` and that are not there, with their bytes.

    Args:
        metadata: The contents of its ``_metadata``.
        directory: Where the checkpoint is.
        options: Keyword arguments of the fsspec file system.
    """
    if CHECKPOINT_NAME.fullmatch(basename(directory)) is None:
        return {}
    named = {handle.path: handle.size for handle in relative_shared_files(metadata.operators)}
    if not named:
        return {}
    try:
        present = {entry.name for entry in list_directory(directory, options)}
    except SnapshotError:
        return {}  # sizes are those that the handles name
    return {path: size for path, size in named.items() if path not in present}


def with_claimed_files(snapshots: Sequence[SnapshotFiles]) -> list[FileReferences]:
    """Return the references of all snapshots, each file where it is; those that are nowhere are left out."""
    found = []
    for one in snapshots:
        if not one.absent:
            found.append(one.references)
            continue
        moved: dict[int, int | None] = {}
        for path in one.absent:
            own = file_id(same_store(one.directory), path)
            moved[own] = next((place for place in _places(path, snapshots)), None)
        found.append(one.references.moved(moved))
    return found


def _places(path: str, snapshots: Sequence[SnapshotFiles]) -> list[int]:
    """Return the ids of the files of this relative path that are in the directory of one of the snapshots."""
    return [
        place
        for other in snapshots
        if path not in other.absent and other.references.has(place := file_id(same_store(other.directory), path))
    ]
