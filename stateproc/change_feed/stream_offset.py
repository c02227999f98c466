"""The position of a stream of checkpoints, as the JSON that Spark keeps in its own checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from stateproc.change_feed.commits import FeedCommit
from stateproc.errors import InvalidOption, SnapshotError

SCHEMA_VERSION = 1
_EPOCH = datetime.fromtimestamp(0, timezone.utc)


@dataclass(frozen=True)
class StreamOffset:
    """A position: a checkpoint, and how a batch that ends there gets to it.

    A batch is determined by the offsets alone, so that it has the same rows when Spark repeats it, whatever was
    completed or deleted meanwhile.

    Attributes:
        commit: The last checkpoint that was read; None before the first.
        steps: The checkpoints that the batch ending here reads, oldest first; the last is ``commit``.
    """

    commit: FeedCommit | None
    steps: tuple[FeedCommit, ...] = ()

    @property
    def version(self) -> int:
        """The checkpoint id; -1 before the first."""
        return -1 if self.commit is None else self.commit.version

    def to_json(self) -> dict[str, Any]:
        """Return the offset as JSON values."""
        return {
            "schemaVersion": SCHEMA_VERSION,
            "checkpoint": None if self.commit is None else _commit_json(self.commit),
            "steps": [_commit_json(step) for step in self.steps],
        }

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> StreamOffset:
        """Return the offset of JSON values. Raises InvalidOption for those of a newer release, or of another source."""
        try:
            version = given["schemaVersion"]
            if version != SCHEMA_VERSION:
                raise InvalidOption(
                    f"the stream's checkpoint was written by another release: its offsets have version {version!r}",
                    advice=f"use the release that wrote it; this one reads version {SCHEMA_VERSION}",
                )
            commit = given["checkpoint"]
            steps = tuple(_commit(item) for item in given["steps"])
            return cls(None if commit is None else _commit(commit), steps)
        except SnapshotError:
            raise
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InvalidOption(
                f"the stream's checkpoint has an offset that is none of this source: {given!r}",
                advice="give the stream a checkpointLocation of its own",
            ) from error


def _commit_json(commit: FeedCommit) -> dict[str, Any]:
    time = commit.timestamp
    micros = None if time is None else (time - _EPOCH) // timedelta(microseconds=1)
    return {"id": commit.version, "completedMicros": micros, "path": commit.path}


def _commit(given: Mapping[str, Any]) -> FeedCommit:
    version, micros, path = given["id"], given["completedMicros"], given["path"]
    if not isinstance(version, int) or not isinstance(path, str):
        raise TypeError("an id and a path")
    return FeedCommit(version, None if micros is None else _EPOCH + timedelta(microseconds=micros), path)
