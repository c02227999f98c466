"""What a caller adds to a commit: a check of the complete files before ``_metadata`` is written, and a manifest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stateproc.metadata import SnapshotMetadata
from stateproc.writers.commit.staging import Staging

MANIFEST = "_stateproc_job.json"
"""The manifest of a job's run beside ``_metadata``. Flink reads no file that ``_metadata`` does not name."""


@dataclass(frozen=True)
class CommitHooks:
    """Functions that a commit calls when all state files are complete and the directory is no snapshot yet.

    Attributes:
        check: Receives the snapshot and where its files are; an error that it raises ends the write.
        manifest: Receives the bytes of ``_metadata`` and returns the manifest, which is written before it: where a
            snapshot has no manifest that fits, a job did not write it.
    """

    check: Callable[[SnapshotMetadata, Staging], None] | None = None
    manifest: Callable[[bytes], bytes] | None = None
