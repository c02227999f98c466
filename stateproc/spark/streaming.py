"""Read a stream of checkpoints: what Spark calls for offsets, partitions and rows.

Spark 4.2 says where a batch starts and how much it may read (`LimitedStreamReader`); Spark 4.1 asks for the newest
offset.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from typing import Any, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from stateproc.errors import InvalidOption, LostCheckpoint, MissingFile, NotFound, SnapshotError, UntrustedPath
from stateproc.feed.changes import FeedSnapshots, state_feed
from stateproc.feed.checkpoint_follower import ADVICE, BatchPlan, CheckpointFollower
from stateproc.feed.feed_rows import CHANGE_FIELDS, COMMIT_TIMESTAMP, COMMIT_VERSION, FeedRows
from stateproc.feed.streams import CommittedSplit, StreamOffset, TruncateSplit, consecutive
from stateproc.model.operator_state import opened_state
from stateproc.model.schema_merging import aligned, portions
from stateproc.readers.splits import Split
from stateproc.snapshot.selection import select_operator, select_state
from stateproc.snapshot.snapshot import Snapshot
from stateproc.spark.options import SourceOptions, source_options
from stateproc.spark.reader import SplitPartition
from stateproc.spark.relations import Relation, StateRelation
from stateproc.spark.types import arrow_schema, check_wanted
from stateproc.spark.workers import keep_loaded
from stateproc.storage.store import is_absent

# Plan the partitions of a stream's batch: changes between checkpoints, or whole states at each of them.

_SMALL_BYTES, _SMALL_SPLITS = 16 << 20, 16
"""What one task reads at most of several steps. A task takes as long to start as it takes to compare some MB."""
COMMIT_FIELDS = tuple(field for field in CHANGE_FIELDS if field.name in (COMMIT_VERSION, COMMIT_TIMESTAMP))
"""The columns that whole states have besides their own."""


def batch_partitions(plan: BatchPlan, options: SourceOptions, wanted: pa.Schema) -> list[InputPartition]:
    """Return the partitions of a batch.

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


POLLING_SECONDS = 0.5
"""How often a stream without new checkpoints lists its roots at most; Spark itself asks a hundred times a second."""
_ATTEMPTS = 3
_ATTEMPT_SECONDS = 1.0


class CheckpointStreamReader(DataSourceStreamReader):
    """Follow checkpoint roots. The options are parsed at the first call.

    Spark 4 hides an error of ``DataSource.streamReader`` itself: its worker stops the reader that it did not get
    (pyspark/sql/streaming/python_streaming_source_runner.py), and reports an UnboundLocalError instead.
    """

    def __init__(self, raw: Mapping[str, str], schema: StructType) -> None:
        self._raw = dict(raw)
        self._schema: pa.Schema = arrow_schema(schema)
        self._known: StreamOffset | None = None
        self._target: StreamOffset | None = None
        self._idle_until = 0.0

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset of a new stream. Raises SnapshotError."""
        self._known = self._follower.initial()
        return self._known.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plan a batch. Raises SnapshotError."""
        first, last = StreamOffset.of(start), StreamOffset.of(end)
        self._known = last
        if first.commit == last.commit:
            return []
        for attempt in range(_ATTEMPTS):
            try:
                follower, whole = self._follower, self._options.whole_states
                plan = follower.plan_states(first, last) if whole else follower.plan(first, last)
                return batch_partitions(plan, self._options, self._schema)
            except LostCheckpoint:
                raise
            except MissingFile as error:
                if attempt == _ATTEMPTS - 1 or not is_absent(error):
                    raise
                # Flink is deleting this checkpoint: soon its _metadata is gone, too.
                self._follower.forget()
                time.sleep(_ATTEMPT_SECONDS)
        raise AssertionError

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read rows in batches of exactly the schema. Raises SnapshotError."""
        if not isinstance(partition, SplitPartition):
            return
        try:
            for batch in partition.value.read():
                keep_loaded()
                yield from portions(aligned(batch, self._schema))
        except UntrustedPath as error:
            raise error.at(operator=partition.operator, state=partition.state) from error
        except MissingFile as error:
            located = error.at(operator=partition.operator, state=partition.state)
            raise LostCheckpoint(
                f"a checkpoint was deleted while the stream read it: {located.message}",
                where=located.where,
                advice=f"start the query again; {ADVICE}",
            ) from error
        except SnapshotError as error:
            raise error.at(operator=partition.operator, state=partition.state) from error

    def _newer(self, start: StreamOffset, most: int | None) -> StreamOffset | None:
        time.sleep(max(0.0, self._idle_until - time.monotonic()))
        found = self._follower.latest(start, most, self._target)
        self._idle_until = 0.0 if found else time.monotonic() + POLLING_SECONDS
        return found

    @cached_property
    def _options(self) -> SourceOptions:
        return stream_options(self._raw)

    @cached_property
    def _follower(self) -> CheckpointFollower:
        options = self._options
        return CheckpointFollower(
            options.all_roots,
            options.opening,
            options.starting_checkpoint,
            options.ending_checkpoint,
            options.fail_on_data_loss,
        )


def stream_options(raw: Mapping[str, str]) -> SourceOptions:
    """Parse the options of a stream. Raises InvalidOption if they ask for none."""
    options = source_options(raw)
    if options.feed is None and not options.whole_states:
        raise InvalidOption(
            'readStream.format("savepoint"): a stream has changes, or a whole state at each checkpoint',
            advice="give readChangeFeed=true or streamingMode=snapshots",
        )
    if options.starting_snapshot is not None:
        raise InvalidOption(
            "option startingSnapshot is not one of streams", advice="give startingCheckpoint, the id of a checkpoint"
        )
    return options


class UnlimitedStreamReader(CheckpointStreamReader):
    """A reader for Spark 4.1, which neither says where a batch starts nor limits it."""

    _started = False

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        """Return the newest offset, at the first call without a limit.

        After a restart, Spark 4.1 does not say where the stream starts; and with ``trigger(availableNow=True)`` it asks
        once, so that a limited batch would leave checkpoints unread.
        """
        most = self._options.max_checkpoints_per_trigger if self._started else None
        self._started = True
        known = self._known
        self._known = self._follower.everything() if known is None else self._newer(known, most) or known
        return self._known.to_json()


def no_stream_writer() -> NoReturn:
    """Raise the error for ``writeStream``."""
    raise InvalidOption(
        'writeStream.format("savepoint"): a savepoint is written once, so that there is no stream into it',
        advice='use write.format("savepoint")',
    )


stream_reader: type[CheckpointStreamReader] = UnlimitedStreamReader
"""The reader that the installed release of Spark can call."""

if find_spec("pyspark.sql.streaming.datasource") is not None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

    class LimitedStreamReader(CheckpointStreamReader, SupportsTriggerAvailableNow):
        """A reader that Spark limits: batches of so many checkpoints, up to those that are complete when it starts."""

        def getDefaultReadLimit(self) -> ReadLimit:
            """Return the limit of the option maxCheckpointsPerTrigger, in files: each checkpoint is one."""
            most = self._options.max_checkpoints_per_trigger
            return ReadAllAvailable() if most is None else ReadMaxFiles(most)

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            """Return the offset after the next checkpoints, or the start if there are none. Raises SnapshotError."""
            most = limit.max_files if isinstance(limit, ReadMaxFiles) else None
            found = self._newer(StreamOffset.of(start), most)
            return start if found is None else found.to_json()

        def prepareForTriggerAvailableNow(self) -> None:
            """Remember what is complete now. Raises SnapshotError."""
            self._target = self._follower.latest(StreamOffset(None)) or StreamOffset(None)

    stream_reader = LimitedStreamReader
