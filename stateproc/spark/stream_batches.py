"""Plan the partitions of a stream's batch: changes between checkpoints, or whole states at each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from stateproc.errors import NotFound
from stateproc.feed.changes import FeedSnapshots, state_feed
from stateproc.feed.checkpoint_follower import BatchPlan, CheckpointFollower
from stateproc.feed.feed_rows import CHANGE_FIELDS, COMMIT_TIMESTAMP, COMMIT_VERSION, FeedRows
from stateproc.feed.streams import CommittedSplit, StreamOffset, TruncateSplit, consecutive
from stateproc.model.connector_state import opened_state
from stateproc.readers.splits import Split
from stateproc.snapshot.selection import select_operator, select_state
from stateproc.snapshot.snapshot import Snapshot
from stateproc.spark.options import SourceOptions
from stateproc.spark.reader import SplitPartition
from stateproc.spark.relations import Relation, StateRelation
from stateproc.spark.types import check_wanted
from stateproc.spark.workers import keep_loaded

_SMALL_BYTES, _SMALL_SPLITS = 16 << 20, 16
"""What one task reads at most of several steps. A task takes as long to start as it takes to compare some MB."""
COMMIT_FIELDS = tuple(field for field in CHANGE_FIELDS if field.name in (COMMIT_VERSION, COMMIT_TIMESTAMP))
"""The columns that whole states have besides their own."""


def batch_partitions(plan: BatchPlan, options: SourceOptions, wanted: pa.Schema) -> list[InputPartition]:
    """Return the partitions of a batch.

    Args:
        plan: The snapshots.
        options: The state, and which of its rows.
        wanted: The columns that Spark wants.

    Raises:
        InvalidOption: The state has other types than Spark wants.
        SnapshotError: A snapshot cannot be read.
    """
    read = _changes if options.feed is not None else _whole_states
    found = list(read(plan, options, wanted))
    if not found:
        return []
    # All are splits of one state.
    chosen = found[0][0]
    splits = consecutive([split for _, split in found], min(options.split_bytes, _SMALL_BYTES), _SMALL_SPLITS)
    keep_loaded()
    return [SplitPartition(split, chosen.operator, chosen.name) for split in splits]


def stream_schema(options: SourceOptions) -> pa.Schema:
    """Return the columns of a stream: those of the newest checkpoint.

    Raises:
        NotFound: There is no completed checkpoint yet, or it does not have the state.
        SnapshotError: It cannot be read.
    """
    newest = newest_plan(options)
    if newest is None:
        raise NotFound(
            f"no completed checkpoint below {', '.join(options.all_roots)}",
            advice="start the stream after the job's first checkpoint, which has the columns",
        )
    return schema_of_plan(newest, options)


def newest_plan(options: SourceOptions) -> BatchPlan | None:
    """Open the newest checkpoint; None if there is none. Raises SnapshotError."""
    follower = CheckpointFollower(options.all_roots, options.opening)
    newest = follower.latest(StreamOffset(None))
    return None if newest is None else follower.plan_states(StreamOffset(None), newest)


def schema_of_plan(plan: BatchPlan, options: SourceOptions) -> pa.Schema:
    """Return the columns of a stream whose newest checkpoint is that of a plan. Raises SnapshotError."""
    if options.feed is not None:
        return StateRelation(state_feed(plan.found, options.selection, options.feed.form), options).schema()
    return pa.schema([*_state_relation(plan.found.snapshots[0], options).schema(), *COMMIT_FIELDS])


def _changes(plan: BatchPlan, options: SourceOptions, wanted: pa.Schema) -> Iterator[tuple[Relation, Split]]:
    assert options.feed is not None
    found = plan.found
    if options.feed.mode == "net" and len(found.commits) > 1:
        ends = (-1,) if found.from_nothing else (0, -1)
        found = FeedSnapshots(
            tuple(found.snapshots[n] for n in ends), tuple(found.commits[n] for n in ends), found.from_nothing
        )
    try:
        feed = state_feed(found, options.selection, options.feed.form)
    except NotFound:
        # The schema was that of a snapshot with the state: neither of these has it yet.
        return
    chosen = StateRelation(feed, options)
    check_wanted(wanted, chosen.schema())
    if plan.reset:
        yield chosen, TruncateSplit(FeedRows(chosen.schema(), found.commits[0]))
    for split in chosen.splits(lambda _: None, None, wanted.names):
        yield chosen, split


def _whole_states(plan: BatchPlan, options: SourceOptions, wanted: pa.Schema) -> Iterator[tuple[Relation, Split]]:
    for snapshot, commit in zip(plan.found.snapshots, plan.found.commits, strict=True):
        try:
            chosen = _state_relation(snapshot, options)
        except NotFound:
            continue
        schema = pa.schema([*chosen.schema(), *COMMIT_FIELDS])
        check_wanted(wanted, schema)
        for split in chosen.splits(lambda _: None, None, wanted.names):
            yield chosen, CommittedSplit(split, FeedRows(schema, commit))


def _state_relation(snapshot: Snapshot, options: SourceOptions) -> StateRelation:
    state = select_state(select_operator(snapshot, options.selection), options.selection)
    return StateRelation(state if options.raw else opened_state(state), replace(options, feed=None))
