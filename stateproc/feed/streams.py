"""Streams of checkpoints: their positions as Spark keeps them, and splits that a change feed does not have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa

from stateproc.codec.arrow_arrays import repeated_text
from stateproc.diff.change_rows import CHANGE_TYPE
from stateproc.errors import InvalidOption, SnapshotError
from stateproc.feed.commits import FeedCommit
from stateproc.feed.feed_rows import FeedRows
from stateproc.readers.splits import MappedSplit, Split

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


TRUNCATE = "truncate"
"""The ``_change_type`` of a row that voids all rows of earlier commits: those of its own commit are all there are."""


@dataclass(frozen=True)
class CommittedSplit(MappedSplit):
    """A split of a whole state, whose rows also name the checkpoint.

    Attributes:
        inner: The split of the state.
        rows: What the rows are.
    """

    rows: FeedRows

    def mapped(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        yield from self.rows.of(batch)


@dataclass(frozen=True)
class TruncateSplit:
    """The one row with ``_change_type`` ``truncate``; columns of the state are null, or 0 where they must not be."""

    rows: FeedRows
    bytes: int = 0
    key_groups: tuple[int, ...] = ()

    def read(self) -> Iterator[pa.RecordBatch]:
        columns = {CHANGE_TYPE: repeated_text(TRUNCATE, 1)}
        for field in self.rows.schema:
            if not field.nullable and field.name not in columns:
                columns[field.name] = pa.repeat(pa.scalar(0).cast(field.type), 1)
        named = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        yield from self.rows.of(named)


@dataclass(frozen=True)
class ConsecutiveSplits:
    """Small splits that one task reads one after another: a checkpoint of a small job changes some rows only."""

    inner: tuple[Split, ...]

    @property
    def bytes(self) -> int:
        return sum(split.bytes for split in self.inner)

    @property
    def key_groups(self) -> tuple[int, ...]:
        return tuple(sorted({group for split in self.inner for group in split.key_groups}))

    def read(self) -> Iterator[pa.RecordBatch]:
        for split in self.inner:
            yield from split.read()


def consecutive(splits: Sequence[Split], most_bytes: int, most: int) -> list[Split]:
    """Put neighbours together, as long as they have at most so many bytes and are at most so many."""
    groups: list[list[Split]] = []
    size = 0
    for split in splits:
        if not groups or size + split.bytes > most_bytes or len(groups[-1]) == most:
            groups.append([])
            size = 0
        groups[-1].append(split)
        size += split.bytes
    return [group[0] if len(group) == 1 else ConsecutiveSplits(tuple(group)) for group in groups]
