"""Where a snapshot is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stateproc.storage.checkpoint_roots import CheckpointRoots
from stateproc.storage.claimed_files import ClaimedFiles
from stateproc.storage.remote_memory import RemoteMemory


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
