"""The rows of a catalog: what is known of each snapshot without opening its state files."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from stateproc.storage.filesystem import basename

Status = Literal["complete", "incomplete", "unreadable"]


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A savepoint or checkpoint, or a directory that cannot be listed.

    Attributes:
        path: Its directory.
        status: ``incomplete`` has no ``_metadata``: it is being written, or was never completed. ``unreadable``: its
            ``_metadata`` is damaged or cannot be reached, or the directory cannot be listed; ``problem`` says why.
        kind: canonical savepoint, native savepoint, checkpoint, savepoint, or savepoint or checkpoint; None if unknown.
        job_id: 32 hex digits, from the path of a checkpoint; of a savepoint that of the only job whose id begins with
            ``job_id_prefix``. None if it is not known.
        job_id_prefix: Of a savepoint the first six digits of the job id in its name; None if it has another name.
        checkpoint_id: The number that the job gave it. Savepoints and checkpoints of a job are numbered together.
        completed_at: The time of the last change of ``_metadata``, in UTC; None if it is not complete.
        last_write: The time of the newest file of an incomplete snapshot, in UTC.
        files: The number of files, without ``_metadata``; of merged files, of segments.
        own_bytes: Bytes of ``_metadata`` and of files that no other snapshot below the roots uses.
        shared_bytes: Bytes of files that other snapshots below the roots use, too.
        newest: Whether it is the newest complete snapshot of its job.
        problem: Why it is unreadable.
    """

    path: str
    status: Status
    kind: str | None = None
    job_id: str | None = None
    job_id_prefix: str | None = None
    checkpoint_id: int | None = None
    completed_at: datetime | None = None
    last_write: datetime | None = None
    files: int | None = None
    own_bytes: int | None = None
    shared_bytes: int | None = None
    newest: bool = False
    problem: str | None = None

    @property
    def name(self) -> str:
        """The last component of the path."""
        return basename(self.path)

    @property
    def bytes(self) -> int | None:
        """The bytes of all its files; None if unknown."""
        return None if self.own_bytes is None else self.own_bytes + (self.shared_bytes or 0)

    @property
    def time(self) -> datetime | None:
        """When it was completed; of an incomplete one, when it was last written to."""
        return self.completed_at or self.last_write

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as JSON values: times as ISO text."""
        return {
            "path": self.path,
            "status": self.status,
            "kind": self.kind,
            "job_id": self.job_id,
            "job_id_prefix": self.job_id_prefix,
            "checkpoint_id": self.checkpoint_id,
            "completed_at": iso_time(self.completed_at),
            "last_write": iso_time(self.last_write),
            "files": self.files,
            "bytes": self.bytes,
            "own_bytes": self.own_bytes,
            "shared_bytes": self.shared_bytes,
            "newest": self.newest,
            "problem": self.problem,
        }


def iso_time(time: datetime | None) -> str | None:
    """Return a time in UTC as ISO text with seconds."""
    return None if time is None else time.strftime("%Y-%m-%dT%H:%M:%SZ")


def utc_time(seconds: float | None) -> datetime | None:
    """Return the time of seconds since 1970; None where there is none, or no calendar has it."""
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, timezone.utc)
    except (OverflowError, OSError, ValueError):
        return None
