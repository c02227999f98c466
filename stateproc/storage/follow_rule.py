"""Say of one handle which of its paths may be followed, and what is wrong with one that may not."""

from __future__ import annotations

import os
from dataclasses import dataclass

from stateproc.errors import UntrustedPath, Where
from stateproc.storage.checkpoint_roots import CheckpointRoots
from stateproc.storage.claimed_files import ClaimedFiles
from stateproc.storage.filesystem import parent


@dataclass(frozen=True, slots=True)
class FollowRule:
    """Where the file of a handle may be.

    Attributes:
        roots: The directories below which files of the snapshot are read.
        metadata_uri: The ``_metadata`` with the handle.
        offset: The handle's offset in it.
        refused: The path of the handle if it is outside of the roots.
        claimed: Where files of a claimed savepoint may be, for handles relative to the snapshot's directory.
    """

    roots: CheckpointRoots
    metadata_uri: str
    offset: int | None
    refused: str | None = None
    claimed: ClaimedFiles | None = None

    def refusal(self, tried: str) -> UntrustedPath:
        """Return the error for the refused path; ``tried`` says where else the file was looked for."""
        path = self.refused or ""
        return UntrustedPath(
            f"a file of the snapshot is missing from {self.roots.outermost}{tried}; {self._handle} names a path "
            "outside of that directory, which is not followed",
            where=Where(file=path),
            advice=_advice(parent(path)),
        )

    def linked(self, path: str) -> UntrustedPath:
        """Return the error for a path that leads out of the roots by a symbolic link."""
        real = os.path.realpath(path)
        return UntrustedPath(
            f"a file of the snapshot is a symbolic link to {real}, outside of {self.roots.outermost}; {self._handle} "
            "names it, and it is not followed",
            where=Where(file=path),
            advice=_advice(parent(real)),
        )

    @property
    def _handle(self) -> str:
        at = "" if self.offset is None else f" at byte {self.offset}"
        return f"the handle{at} of {self.metadata_uri}"


def _advice(directory: str) -> str:
    return (
        f"if you trust the snapshot, allow the directory: allowed_roots=['{directory}'] in Python, allowedRoots in "
        f"Spark, --allow-root {directory} on the command line; if its files were moved, specify the new prefix with "
        "path_mapping={'old prefix': 'new prefix'}"
    )
