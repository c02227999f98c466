"""Names of the directories and files that Flink and this project write below a directory of snapshots."""

from __future__ import annotations

import re

METADATA = "_metadata"
CHECKPOINT_NAME = re.compile(r"chk-(\d+)")
"""The directory of a checkpoint (AbstractFsCheckpointStorageAccess.createCheckpointDirectory)."""
JOB_NAME = re.compile(r"[0-9a-f]{32}")
"""The directory of a job's checkpoints."""
SAVEPOINT_NAME = re.compile(r"savepoint-(?:([0-9a-f]{6})-)?[0-9a-f]{12}")
"""The directory of a savepoint; the first digits of the job's id, then random ones."""
JOB_DIRECTORIES = frozenset({"shared", "taskowned", "dstl"})
"""Directories beside ``chk-N``: shared state, state owned by tasks, changelogs."""


def is_below_job(name: str) -> bool:
    """Return whether Flink gives this name to a directory below that of a job."""
    return name in JOB_DIRECTORIES or CHECKPOINT_NAME.fullmatch(name) is not None


def is_flink_directory(name: str) -> bool:
    """Return whether Flink gives this name to the directory of a job, of a snapshot, or to one below a job's."""
    return is_below_job(name) or any(pattern.fullmatch(name) is not None for pattern in (JOB_NAME, SAVEPOINT_NAME))


# Files of a write by this project: of state, and its marker, which is there until the write is over.

_FILE = re.compile(r"stateproc-([0-9a-f]{16})-[0-9a-f]{32}")
_MARKER = re.compile(r"\.stateproc-([0-9a-f]{16})(?:-metadata)?")


def run_of_file(name: str) -> str | None:
    """Return the run in a state file's name; None for files of other programs."""
    match = _FILE.fullmatch(name)
    return match.group(1) if match else None


def run_of_marker(name: str) -> str | None:
    """Return the run in the name of a marker or of an unfinished ``_metadata``, else None."""
    match = _MARKER.fullmatch(name)
    return match.group(1) if match else None


def is_of_write(name: str) -> bool:
    """Return whether a write by this project gives this name to a file."""
    return run_of_file(name) is not None or run_of_marker(name) is not None
