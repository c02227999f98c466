"""The columns of a change feed: those of the state, then Delta's names for changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import numbers_of, values_array
from stateproc.diff.change_rows import CHANGE_TYPE
from stateproc.diff.common_schema import RowForm
from stateproc.feed.commits import FeedCommit
from stateproc.model.schema_merging import aligned_array

COMMIT_VERSION, COMMIT_TIMESTAMP = "_commit_version", "_commit_timestamp"
TIMESTAMP = pa.timestamp("us", tz="UTC")
CHANGE_FIELDS = (
    pa.field(CHANGE_TYPE, pa.string(), nullable=False),
    pa.field(COMMIT_VERSION, pa.int64(), nullable=False),
    pa.field(COMMIT_TIMESTAMP, TIMESTAMP),
)
"""The columns that a feed has besides those of the state, as Delta's change data feed has them."""
_EPOCH = datetime.fromtimestamp(0, timezone.utc)
_COMPARED_NAMES = {"map_value": "value"}
"""Columns that a comparison names otherwise than the state does."""


def feed_schema(columns: pa.Schema) -> pa.Schema:
    """Return the columns of a feed for the columns of a state."""
    return pa.schema([*(pa.field(field.name, field.type) for field in columns), *CHANGE_FIELDS])


@dataclass(frozen=True)
class FeedRows:
    """What the rows of a step are.

    Attributes:
        schema: The columns of the feed.
        commit: The commit that made the changes.
        key_groups: Only rows of these key groups; None for all.
    """

    schema: pa.Schema
    commit: FeedCommit
    key_groups: frozenset[int] | None = None

    def of(self, changed: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield rows in the columns of the feed; fields that they do not have are null."""
        count, names = len(changed), changed.schema.names
        columns = []
        for field in self.schema:
            name = field.name if field.name in names else _COMPARED_NAMES.get(field.name, field.name)
            if name == COMMIT_VERSION:
                columns.append(values_array(np.full(count, self.commit.version, dtype=np.int64)))
            elif name == COMMIT_TIMESTAMP:
                columns.append(_timestamps(self.commit.timestamp, count))
            elif name in names:
                columns.append(aligned_array(changed.column(name), field.type))
            else:
                columns.append(pa.nulls(count, field.type))
        batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        if self.key_groups is not None:
            wanted = np.fromiter(self.key_groups, dtype=np.int64)
            batch = batch.filter(values_array(np.isin(numbers_of(batch.column("key_group")), wanted)))
        if len(batch):
            yield batch


def _timestamps(time: datetime | None, count: int) -> pa.Array:
    if time is None:
        return pa.nulls(count, TIMESTAMP)
    microseconds = (time - _EPOCH) // timedelta(microseconds=1)
    return values_array(np.full(count, microseconds, dtype=np.int64)).view(TIMESTAMP)


# What the options of a change feed ask for.


@dataclass(frozen=True)
class FeedQuery:
    """The options of a feed, parsed; see `changes`."""

    starting_checkpoint: int | None = None
    ending_checkpoint: int | None = None
    mode: str = "steps"
    list_changes: str = "whole"
    times: bool = False
    raw: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> FeedQuery:
        """Return the query of option values by their Python names."""
        names = ("starting_checkpoint", "ending_checkpoint", "change_feed_mode", "list_changes", "times", "raw")
        return cls(*(values[name] for name in names))

    @property
    def form(self) -> RowForm:
        """What the rows are."""
        return RowForm(times=self.times, list_elements=self.list_changes == "appended", raw=self.raw)
