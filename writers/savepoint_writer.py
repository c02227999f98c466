"""Write new savepoints from DataFrames, and rewrite existing snapshots."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from time import time_ns
from typing import TYPE_CHECKING, Any, Literal

from stateproc import types
from stateproc.errors import InvalidOption, SnapshotError, UnsupportedSnapshot, Where, located, not_found
from stateproc.flink_versions import DEFAULT, Release
from stateproc.keygroups.operator_ids import operator_id
from stateproc.keygroups.ranges import check_max_parallelism
from stateproc.model.operator import Operator
from stateproc.model.session_windows import SQL_RETRACTED
from stateproc.options import open_arguments, parse_options
from stateproc.options.definition import option_texts
from stateproc.query_plans.aggregate_conversion import aggregate_conversion, state_of
from stateproc.query_plans.deduplication import DEDUPLICATED_STATE, EMITTED_STATE, keeps_keys_only, keeps_no_rows, waits
from stateproc.query_plans.join_types import partner_changes
from stateproc.query_plans.plan_comparison import TimeToLive
from stateproc.query_plans.plan_conditions import filtered_out
from stateproc.query_plans.plan_matching import Pair
from stateproc.query_plans.query_evolution import query_evolution
from stateproc.query_plans.rank_order import (
    ADDED_ROWS,
    ALL_ROWS,
    FIRST_ROW,
    NUMBERS_OF_ALL_ROWS,
    keeps_kinds,
    kept_ranks,
    last_rank,
)
from stateproc.query_plans.row_conversion import RowConversion, input_of, is_known, kept_rows, names_in_keys
from stateproc.query_plans.split_conversion import SplitChange
from stateproc.readers.state_descriptor import StateKind
from stateproc.readers.state_names import rows_in
from stateproc.serializers import Serializer
from stateproc.serializers.table.serializers import RowData
from stateproc.snapshot.opening import open
from stateproc.snapshot.snapshot import Snapshot
from stateproc.storage.uris import absolute
from stateproc.types.text import read_type
from stateproc.writers.bootstrap.keyed_encoder import KEY, MAP_KEY
from stateproc.writers.bootstrap.new_operator import NewOperator
from stateproc.writers.bootstrap.operator_bootstrap import OperatorBootstrap
from stateproc.writers.bootstrap.state_registration import Type, check_name
from stateproc.writers.local.engine import LocalEngine
from stateproc.writers.plan.planning import WritePlan, plan_write
from stateproc.writers.plan.savepoint_plan import SavepointPlan
from stateproc.writers.rewrite.edits import DeleteEdit, RankEdit, TtlEdit, UpdateEdit
from stateproc.writers.rewrite.existing_operator import ExistingOperator
from stateproc.writers.rewrite.key_evolution import WiderKey
from stateproc.writers.rewrite.kind_evolution import KINDS
from stateproc.writers.rewrite.operator_row_edits import refuse_flatten
from stateproc.writers.rewrite.rekey import HashCodes
from stateproc.writers.rewrite.row_columns import ranked_change, row_change, with_names
from stateproc.writers.rewrite.source_moves import (
    consumed_partitions,
    consumed_shards,
    is_kinesis_consumer,
    states_left_out,
)
from stateproc.writers.rewrite.split_aggregates import split_operator, unsplit_operator
from stateproc.writers.rewrite.transform import (
    exact_read_options,
    exact_spark_options,
    transformation,
    typed_value,
)
from stateproc.writers.rewrite.type_changes import TypeChange, WiderKeys
from stateproc.writers.savepoint_options import SinkEdits
from stateproc.writers.scaled_operators import WriteSettings
from stateproc.writers.write_result import WriteResult, write_report
from stateproc.writers.write_snapshot import Engine, execute

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

# Check and convert arguments of the public methods.


def path_argument(path: object) -> str:
    """Return a path as text. Raises InvalidOption."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidOption(f"the path {path!r}", advice="give the directory as text, or a pathlib.Path")
    return os.fspath(path)


def time_argument(time: object, what: str) -> int:
    """Return a time in ms since the epoch, by default the current one. Raises InvalidOption."""
    if time is None:
        return time_ns() // 1_000_000
    if not isinstance(time, int) or not -(2**63) <= time < 2**63:
        raise InvalidOption(
            f"{what} {time!r}", advice="give whole milliseconds since the epoch: int(1000 * moment.timestamp())"
        )
    return time


# Choose the engine of a write.


def engine_of(spark: SparkSession | None) -> Engine:
    """Return the engine of a session; the local engine without one."""
    if spark is None:
        return LocalEngine()
    from stateproc.writers.spark.execution import SparkEngine  # Lazy: the local engine needs no Spark.

    return SparkEngine(spark)


_WAITING = "inputState"
"""The state of OVER with the rows that wait for the watermark, by their times."""


class SavepointWriter(SinkEdits):
    """Builds a savepoint operator by operator, and writes it; see docs/writing.md.

    Operators are named by uid, or by uid hash (32 hex digits). Methods return the writer itself, so that calls can be
    chained. Nothing is written before ``write``. States of hooks on the JobManager (master states) of an existing
    snapshot are always kept.

    Raises (all methods):
        NotFound: an operator or state does not exist.
        InvalidOption: an argument has a value that is not possible.
    """

    def __init__(self, spark: SparkSession | None, settings: WriteSettings, source: Snapshot | None = None) -> None:
        super().__init__(settings)
        self._spark, self._source = spark, source
        self._read_options: dict[str, str] = {}

    @classmethod
    def new_savepoint(cls, spark: SparkSession | None, max_parallelism: int = 128) -> SavepointWriter:
        """Create a writer of a new savepoint.

        Args:
            spark: the session that evaluates the DataFrames; None for the local engine, which writes in this process
                with all its cores, and needs no JVM.
            max_parallelism: the number of key groups of all operators, 1 to 32768; that of the job.

        Raises:
            InvalidOption: a max parallelism that Flink does not allow.
        """
        check_max_parallelism(max_parallelism)
        return cls(spark, WriteSettings(DEFAULT, max_parallelism))

    @classmethod
    def from_existing_savepoint(
        cls, spark: SparkSession | None, path: str | os.PathLike[str], options: Mapping[str, Any] | None = None
    ) -> SavepointWriter:
        """Create a writer that copies an existing snapshot and changes the copy.

        State that no other method names is copied bit for bit.

        Args:
            spark: the session that evaluates DataFrames and reads the snapshot; None for the local engine, which
                writes in this process with all its cores, and needs no JVM.
            path: a savepoint or checkpoint of any format and state backend.
            options: reading options of ``spark.read.format("savepoint")`` (classes, uids, pathMapping, fs.…), as text,
                or as the lists, dicts, booleans and numbers that the text represents.

        Raises:
            SnapshotError: the snapshot cannot be opened.
        """
        read_options = option_texts(options or {}) | {"path": absolute(path_argument(path))}
        source = open(read_options["path"], **open_arguments(parse_options(read_options)))
        writer = cls.from_snapshot(spark, source)
        writer._read_options = read_options
        return writer

    @classmethod
    def from_snapshot(cls, spark: SparkSession | None, source: Snapshot) -> SavepointWriter:
        """Create a writer that copies a snapshot that is open, and changes the copy.

        `transform_state`, which reads the snapshot once more, needs `from_existing_savepoint`.

        Args:
            spark: the session that evaluates DataFrames; None for the local engine.
            source: what ``stateproc.open`` returned.
        """
        # The newest release that writes this version of metadata.
        newest = {7: Release(2, 4), 6: Release(2, 3), 5: Release(2, 0), 4: Release(1, 20)}
        writer = cls(spark, WriteSettings(newest.get(source.metadata.version, Release(1, 15)), None), source)
        for operator in source.operators:
            writer._operators[operator.operator_id] = ExistingOperator(operator)
        return writer

    # --- operators -------------------------------------------------------------------------------------------

    def with_operator(self, uid: str, state: OperatorBootstrap) -> SavepointWriter:
        """Add an operator; it replaces an existing one of the same uid as a whole.

        Args:
            uid: the operator's uid, or its uid hash.
            state: all its states.
        """
        if not isinstance(state, OperatorBootstrap):
            raise InvalidOption(
                f"the state of operator {uid!r} is a {type(state).__name__}",
                advice="give an OperatorBootstrap: OperatorBootstrap().value_state('name', frame)",
            )
        check_name(uid, "an operator")
        operator = NewOperator(uid, state)
        self._operators[operator.operator_id] = operator
        return self

    def remove_operator(self, uid: str) -> SavepointWriter:
        """Leave out an operator and all its state.

        Args:
            uid: the operator's uid, or its uid hash.
        """
        del self._operators[self._found(uid)]
        return self

    def change_operator_identifier(self, old: str, new: str) -> SavepointWriter:
        """Give an operator another uid.

        Args:
            old: its uid or uid hash in the snapshot.
            new: its uid or uid hash in the job that restores the savepoint.

        Raises:
            InvalidOption: the savepoint has an operator of the new uid.
        """
        found, wanted = self._found(old), NewOperator.id_of(new)
        if wanted != found and wanted in self._operators:
            raise InvalidOption(f"there is an operator {new!r} already", advice="remove it first: remove_operator(…)")
        self._move({found: new})
        return self

    def move_source(
        self, uid: str, to: str, *, enumerator_version: int | None = None, stream_arn: str | None = None
    ) -> SavepointWriter:
        """Give the positions of a FlinkKafkaConsumer or FlinkKinesisConsumer to the source that takes its place.

        The consumer is left out. KafkaSource or KinesisStreamsSource has its partitions or shards, where the consumer
        was, also at Kafka offsets that were set before, in the same number of subtasks: readers' splits, and a
        coordinator that has discovered and assigned them.

        Args:
            uid: the consumer's uid or uid hash.
            to: the source's uid or uid hash; it may be the consumer's.
            enumerator_version: of Kafka the version of the coordinator's state: 1 for connector 3.0, 2 for 3.1 to 4.0
                (the default; later ones read it, too), 3 for 5.0.
            stream_arn: of Kinesis the ARN of the stream, which the consumer's state does not have.

        Raises:
            NotFound: there is no such operator.
            InvalidOption: it is no such consumer, an argument is for the other one, or there is an operator of the new
                uid.
            InvalidRows: a partition that a KafkaSource cannot have.
            UnsupportedSnapshot: a shard whose position only the job knows.
        """
        old, wanted = self._existing(uid), NewOperator.id_of(to)
        found, own = old.operator_id, old.operator
        if wanted != found and wanted in self._operators:
            raise InvalidOption(f"there is an operator {to!r} already", advice="remove it first: remove_operator(…)")
        notes = [f"left out with the consumer: {', '.join(names)}"] if (names := states_left_out(own)) else []
        state = OperatorBootstrap()
        if is_kinesis_consumer(own):
            if enumerator_version is not None:
                raise InvalidOption(f"{uid!r} reads Kinesis", advice="leave out the version of Kafka's enumerator")
            shards = consumed_shards(own, stream_arn)
            state.source_rows(replace(shards, frame=self._frame(shards.frame)))
            notes += shards.notes
        else:
            partitions = consumed_partitions(own, old.edits.offsets)
            if stream_arn is not None:
                raise InvalidOption(f"{uid!r} reads Kafka", advice="leave out the ARN of a stream")
            state.kafka_source(self._frame(partitions), enumerator_version=enumerator_version or 2)
        self._settings.notes.extend(f"{own.display}: {note}" for note in notes)
        groups = self._settings.own_max_parallelism.pop(found, self._settings.max_parallelism or own.max_parallelism)
        subtasks = self._parallelism.pop(found, own.parallelism)
        self.remove_operator(uid).with_operator(to, state)
        self._settings.own_max_parallelism[wanted], self._parallelism[wanted] = groups, subtasks
        return self

    def _frame(self, rows: pa.Table) -> Any:
        """Rows of the writer's own as its engine takes them."""
        return rows if self._spark is None else self._spark.createDataFrame(rows)

    def evolve(
        self,
        old: Any,
        new: Any,
        *,
        mapped: Mapping[str, str] | None = None,
        empty: Sequence[str] = (),
        new_aggregates: Literal["empty"] | None = None,
        emitted: Literal["keep"] | None = None,
        fill: Mapping[str, str] | None = None,
    ) -> SavepointWriter:
        """Carry the state of a SQL job over to a changed query, by the compiled plans of both.

        Nodes are matched by what they compute, sources and sinks by their tables; the state of matched nodes stays byte
        for byte, under the uids of the new plan. Aggregates over the same groups get other calls, kept rows of the same
        inputs other columns. All other state of the old query is left out.

        Args:
            old: the plan of the job that wrote the snapshot: the path of its JSON, its text, or the parsed JSON.
            new: the plan of the job that will restore it.
            mapped: uid of an operator of the old job → its uid in the new job, for nodes of which only what is before
                them changed.
            empty: uids of operators of the new job that begin without state. Each that would has to be named.
            new_aggregates: 'empty' lets calls of an aggregate begin that the old query did not compute, beside those
                that it did.
            emitted: 'keep' lets results stay as the old query emitted them, where the new one would have emitted others
                before: of a join that gets another type, TopN that returns other ranks or its ranks as a column, or
                a deduplication that returns the other row of each key.
            fill: what new columns have in rows that a join, a deduplication or TopN keeps: ``UID.column``, of joins
                also ``UID.left.column`` → an expression in SQL over the row's other columns. Else they are null.
        """
        begins = new_aggregates == "empty"
        given = fill or {}
        keeps = emitted == "keep"
        evolution = query_evolution(
            old, new, mapped or {}, empty, self._operators, begins=begins, keeps=keeps, fills=given
        )
        for found, pair in evolution.aggregates.items():
            self._convert_aggregate(self._existing(found), pair)
        for found, (pair, conversions) in evolution.rows.items():
            self._convert_rows(self._existing(found), pair, conversions)
            self._count_partners(self._existing(found), pair)
            self._keep_keys(self._existing(found), pair)
            self._limit_ranks(self._existing(found), pair, next(iter(conversions), None))
            self._filter_rows(self._existing(found), pair)
        for found, (pair, times) in evolution.times.items():
            if found in self._operators:
                self._convert_ttl(self._existing(found), pair, times)
        for found in evolution.timers:
            self._set_timers(self._existing(found))
        for found, key in evolution.keys.items():
            if self._existing(found).header.key is not None:
                self._existing(found).edits.set_key(WiderKey(key))
        partial = self._convert_splits(evolution.splits)
        for found in evolution.dropped:
            del self._operators[found]
        self._move(evolution.moved)
        for operator in partial:
            self._operators[operator.operator_id] = operator
        self._settings.notes.extend(evolution.notes)
        return self

    def _convert_aggregate(self, operator: ExistingOperator, pair: Pair) -> None:
        """Give the accumulators of an aggregate the types of other calls. Raises InvalidOption, NotFound."""
        name = state_of(pair.old)
        if name not in operator.header.names:
            return  # No row has come yet.
        state, names = operator.header.keyed(name), operator.operator.context.row_names
        value = (state if names is None else names.applied(state)).value
        if not isinstance(value, RowData):
            raise InvalidOption(f"{pair.old.label} has accumulators that are no rows", advice="give the job's plan")
        made = aggregate_conversion(pair, value, operator.header.names)
        shown = [[call.get("type") for call in node.items("aggCalls")] for node in (pair.old, pair.new)]
        if not made.changes(value) and not made.views and shown[0] == shown[1]:
            return
        if SQL_RETRACTED in operator.header.names:
            raise InvalidOption(
                f"{pair.old.label} emits results of windows before their end, and keeps them in {SQL_RETRACTED} with "
                "the columns of the old calls",
                where=Where(operator=operator.operator.display),
                advice="leave its calls as they are, or let it begin without state: --empty, with its new uid",
            )
        for view, wider in made.views.items():
            if view in operator.header.names:
                change = WiderKeys(wider.type) if wider.as_keys else TypeChange(wider.type, {}, ())
                operator.edits.set_type(view, change, of_elements=False)
        if not made.changes(value):
            return
        operator.edits.set_type(name, TypeChange(made.value, made.renames, made.assignments), of_elements=False)
        if made.frame is not None:
            operator.edits.frames[name] = made.frame
        for view, wanted in made.states.items():
            if wanted is None:
                operator.edits.dropped.add(view)
            elif wanted != view:
                operator.edits.renamed[view] = wanted

    def _convert_splits(self, splits: Mapping[str, SplitChange]) -> list[ExistingOperator]:
        """Give aggregates the state that they have with DISTINCT split, or without; return new operators.

        Raises InvalidOption.
        """
        made: list[ExistingOperator] = []
        for found, change in splits.items():
            partial = self._operators.get(operator_id(change.partial))
            if found in self._operators and change.is_new:
                new = split_operator(self._existing(found), change)
                made += [] if new is None else [new]
                if new is not None and not change.split.kept:
                    # Flink fixes the number of key groups at 1 only where there is no key.
                    self._settings.own_max_parallelism.setdefault(new.operator_id, self._most_key_groups())
            elif found in self._operators:
                own = partial if isinstance(partial, ExistingOperator) else None
                unsplit_operator(self._existing(found), own, change)
        return made

    def _most_key_groups(self) -> int:
        operators = (one for one in self._operators.values() if isinstance(one, ExistingOperator))
        return max(one.operator.max_parallelism for one in operators)

    def _convert_rows(
        self, operator: ExistingOperator, pair: Pair, conversions: Sequence[RowConversion | None]
    ) -> None:
        """Give the rows that a node keeps other columns. Raises InvalidOption, UnsupportedSnapshot."""
        for name in operator.header.names:
            side = input_of(pair.old, name)
            conversion = None if side is None or not conversions else conversions[side]
            state = operator.header.keyed(name)
            is_unknown = any(conversions) and not state.kind.is_queue and not is_known(pair.old, name)
            if is_unknown and any(rows_in(state.value)):
                raise UnsupportedSnapshot(
                    f"rows of {pair.old.label} in a state that is not known, so that they cannot get other columns",
                    advice="let the operator begin without state: --empty UID, with its uid in the new plan",
                ).at(operator=operator.operator.display, state=name)
            names = () if side is None else names_in_keys(pair.new, side)
            is_key = conversion is not None and conversion.as_keys
            type_ = state.user_key if is_key else state.value
            if type_ is None or state.kind.is_queue:
                continue
            with located(InvalidOption, operator=operator.operator.display, state=name):
                change = None if conversion is None else row_change(type_, conversion, names, state.user_key)
                if names and not is_key and state.user_key is not None:
                    operator.edits.set_key_names(name, state.user_key, with_names(state.user_key, names))
            if change is not None:
                operator.edits.set_type(name, change, of_elements=False)

    def _count_partners(self, operator: ExistingOperator, pair: Pair) -> None:
        """Give rows of a join of another type the numbers of their partners, or take these away."""
        names = operator.header.names
        for change, side in zip(partner_changes(pair.old, pair.new, pair.columns), ("right", "left"), strict=False):
            if change is not None and f"{change.side}-records" in names:
                other = f"{side}-records"
                operator.edits.partners[f"{change.side}-records"] = change, other if other in names else None

    def _keep_keys(self, operator: ExistingOperator, pair: Pair) -> None:
        """Keep of the rows of a deduplication only that there was one of each key, where the new node keeps no more."""
        if keeps_no_rows(pair.old) or not keeps_keys_only(pair.old, pair.new):
            return
        if DEDUPLICATED_STATE in operator.header.names:
            change = TypeChange(types.BOOLEAN, {}, ("value = TRUE",))
            operator.edits.set_type(DEDUPLICATED_STATE, change, of_elements=False)
            if waits(pair.new):
                operator.edits.renamed[DEDUPLICATED_STATE] = EMITTED_STATE

    def _limit_ranks(self, operator: ExistingOperator, pair: Pair, conversion: RowConversion | None) -> None:
        """Drop the rows of TopN that are beyond its last rank, and let the others be in the state where it has them.

        Raises InvalidOption, UnsupportedSnapshot.
        """
        ranks, names = kept_ranks(pair.old, pair.new), operator.header.names
        if last_rank(pair.old) is not None and keeps_kinds(pair.old) and ALL_ROWS in names:
            # As they are written anew all are insertions, as TopN looks for them.
            insertions = row_change(operator.header.keyed(ALL_ROWS).value, kept_rows(pair))
            if insertions is not None:
                operator.edits.types.setdefault(ALL_ROWS, insertions)
        if ranks is None or ranks.state not in names:
            return
        operator.edits.rows.setdefault(ranks.state, []).append(RankEdit(ranks))
        if ranks.becomes == ranks.state:
            return
        operator.edits.renamed[ranks.state] = ranks.becomes
        if NUMBERS_OF_ALL_ROWS in names:
            operator.edits.dropped.add(NUMBERS_OF_ALL_ROWS)
        if ranks.becomes == ADDED_ROWS:
            return
        rows = kept_rows(pair) if conversion is None else conversion
        kind = StateKind.VALUE if ranks.becomes == FIRST_ROW else StateKind.MAP
        with located(InvalidOption, operator=operator.operator.display, state=ranks.state):
            change = ranked_change(operator.header.keyed(ranks.state).value, rows, kind, ranks.unique)
        operator.edits.types[ranks.state] = change  # The rows' other columns are part of it.

    def _filter_rows(self, operator: ExistingOperator, pair: Pair) -> None:
        """Drop the rows of a normalization that the filter of the new node leaves out. Raises InvalidOption."""
        if not pair.filtered or pair.columns is None or DEDUPLICATED_STATE not in operator.header.names:
            return
        state, names = operator.header.keyed(DEDUPLICATED_STATE), operator.operator.context.row_names
        rows = (state if names is None else names.applied(state)).value
        if not isinstance(rows, RowData) or len(rows.names) != len(pair.old.input()):
            raise InvalidOption(
                f"{pair.old.label} keeps rows of other columns", advice="give the plan that the job ran"
            )
        columns = ['value."' + name.replace('"', '""') + '"' for name in rows.names]
        edit = DeleteEdit(filtered_out(pair.new, pair.columns[0], columns))
        operator.edits.rows.setdefault(DEDUPLICATED_STATE, []).append(edit)

    def _set_timers(self, operator: ExistingOperator) -> None:
        """Give the rows of OVER that wait a timer each, at their times. Raises InvalidOption, UnsupportedSnapshot."""
        if _WAITING not in operator.header.names:
            return  # No row has come yet.
        frame = self._rows_of(operator, _WAITING, flatten=True, columns=[KEY, MAP_KEY])
        operator.edits.states.append(lambda state: state.event_time_timers(frame, MAP_KEY))

    def _convert_ttl(self, operator: ExistingOperator, pair: Pair, times: Sequence[TimeToLive | None]) -> None:
        """Let states have a time to live from now on, or no more. Raises InvalidOption, UnsupportedSnapshot."""
        now = time_argument(None, "now")
        for name in (name for name in operator.header.names if name not in operator.edits.dropped):
            side = input_of(pair.old, name) or 0
            change, state = times[side if side < len(times) else 0], operator.header.keyed(name)
            if change is None or state.kind.is_queue or state.ttl == change.on:
                continue
            off = TtlEdit("off", ttl=change.milliseconds or 0, now=now)
            operator.edits.set_ttl(name, TtlEdit("on", last_access=now) if change.on else off)

    def _move(self, uids: Mapping[str, str]) -> None:
        """Give operators other uids; ``uids``: operator id → uid. Raises InvalidOption for one that there is."""
        others = self._operators.keys() - uids.keys()
        for uid in uids.values():
            if NewOperator.id_of(uid) in others:
                raise InvalidOption(f"there is an operator {uid!r} already", advice="remove it first: remove_operator")
        moved = {found: (NewOperator.id_of(uid), uid, self._operators.pop(found)) for found, uid in uids.items()}
        for wanted, uid, operator in moved.values():
            operator.operator_id = wanted
            operator.uid = None if uid.lower() == wanted else uid
            self._operators[wanted] = operator
        for numbers in (self._parallelism, self._settings.own_max_parallelism):
            taken = {found: numbers.pop(found) for found in moved if found in numbers}
            numbers.update({moved[found][0]: number for found, number in taken.items()})

    # --- states of existing operators ------------------------------------------------------------------------

    def with_states(self, uid: str, add: Callable[[OperatorBootstrap], object]) -> SavepointWriter:
        """Add keyed states to an existing operator; they replace those of the same names.

        Args:
            uid: the operator's uid or uid hash.
            add: called once, when the savepoint is planned or written, with a bootstrap of the operator's key type:
                ``lambda op: op.value_state("name", frame)``.
        """
        self._existing(uid).edits.states.append(add)
        return self

    def transform_state(
        self,
        uid: str,
        state: str,
        function: Callable[[Any], Any],
        *,
        value_type: Type = None,
        map_key_type: Type = None,
    ) -> SavepointWriter:
        """Replace the rows of a keyed state by a function of them.

        Columns that keep their type keep Flink's type; others get the default of their type, or the given one. Rows are
        exact: dates and times whose type has nanoseconds are ISO-8601 text, and what no column can hold is an error.
        The option ``temporal`` gives them as timestamps ('micros': digits below a microsecond are an error) or all as
        text ('exact').

        Args:
            uid: the operator's uid or uid hash.
            state: the state's name.
            function: receives the rows as ``spark.read`` gives them, and returns the new rows as a DataFrame. Without a
                session it receives a ``pyarrow.RecordBatchReader`` of them, and returns Arrow data.
            value_type: Flink's type of values, list elements or map values.
            map_key_type: Flink's type of map keys.

        Raises:
            InvalidOption: a timer state, or rows without the columns of the state.
        """
        operator = self._existing(uid)
        operator.check_state(state)
        keyed, own = operator.header.keyed(state), self._exact(operator)
        frame = self._rows_of(operator, state)
        typed = typed_value(own, state, frame)
        operator.edits.states.append(transformation(keyed, frame, function, value_type, map_key_type, typed))
        return self

    def _exact(self, operator: ExistingOperator) -> Operator:
        """Return the operator as it is read with exact rows, by the local engine."""
        own = operator.operator
        if self._spark is not None:
            return own
        return own.with_options(exact_read_options(own.options, self._read_options or None))

    def _rows_of(
        self, operator: ExistingOperator, state: str, *, flatten: bool = False, columns: list[str] | None = None
    ) -> Any:
        """Return the rows of a keyed state, which are read when they are asked for: a reader, or a DataFrame of Spark.

        Raises:
            InvalidOption: Spark reads the snapshot by its path, which is not known.
        """
        if self._spark is None:
            own = self._exact(operator).state(state)
            return own.to_reader(threads=1, flatten=flatten, columns=columns)
        if not self._read_options:
            raise InvalidOption(
                "the rows of a state are read by the snapshot's path",
                advice="create the writer with SavepointWriter.from_existing_savepoint(spark, path)",
            )
        selected = {"uidHash": operator.operator.operator_id, "state": state}
        selected |= {"flatten": "true"} if flatten else {}
        rows = self._spark.read.format("savepoint").options(**exact_spark_options(self._read_options), **selected)
        return rows.load() if columns is None else rows.load().select(columns)

    def drop_state(self, uid: str, state: str) -> SavepointWriter:
        """Leave out a keyed state.

        Args:
            uid: the operator's uid or uid hash.
            state: the state's name; of timers that of their queue.
        """
        operator = self._existing(uid)
        operator.check_state(state)
        operator.edits.dropped.add(state)
        return self

    def rename_state(self, uid: str, old: str, new: str) -> SavepointWriter:
        """Rename a keyed state.

        Args:
            uid: the operator's uid or uid hash.
            old: its name in the snapshot.
            new: its name in the job that restores the savepoint.
        """
        operator = self._existing(uid)
        operator.check_state(old)
        operator.edits.renamed[old] = new
        return self

    def enable_ttl(self, uid: str, state: str, last_access: int | None = None) -> SavepointWriter:
        """Enable time to live of a state, which Flink itself refuses to change. The duration is set in the job.

        Args:
            uid: the operator's uid or uid hash.
            state: the state's name.
            last_access: time of the last access of all entries, in ms since the epoch; default now.
        """
        edit = TtlEdit("on", last_access=time_argument(last_access, "the last access"))
        return self._edit_ttl(uid, state, edit)

    def disable_ttl(self, uid: str, state: str) -> SavepointWriter:
        """Disable time to live of a state. Expired entries become valid again: purge them in a write before.

        Args:
            uid: the operator's uid or uid hash.
            state: the state's name.
        """
        return self._edit_ttl(uid, state, TtlEdit("off"))

    def purge_expired(self, uid: str, state: str, ttl: timedelta, now: int | None = None) -> SavepointWriter:
        """Drop expired entries of a state with time to live.

        Args:
            uid: the operator's uid or uid hash.
            state: the state's name.
            ttl: entries expire so long after their last access.
            now: the time of comparison, in ms since the epoch; default now.
        """
        if not isinstance(ttl, timedelta):
            raise InvalidOption(f"a time to live of {ttl!r}", advice="give a timedelta: timedelta(days=7)")
        edit = TtlEdit("purge", ttl=ttl // timedelta(milliseconds=1), now=time_argument(now, "now"))
        return self._edit_ttl(uid, state, edit)

    def delete_rows(self, uid: str, state: str, where: str, *, flatten: bool = False) -> SavepointWriter:
        """Delete the rows of a state for which a condition is true. All others stay byte for byte.

        Args:
            uid: the operator's uid or uid hash.
            state: the name of a keyed state, of timers that of their queue; or of a list, union or broadcast state.
            where: the condition on the columns that reading returns, in SQL: ``key = 42 AND value.total < 10``. Rows
                for which it is null stay.
            flatten: each element of a list (``list_index``, ``list_element``) and each entry of a map (``map_key``,
                ``map_value``) is a row. Lists and maps that lose all of them are gone.
        """
        return self._edit_rows(uid, state, DeleteEdit(_condition(where, "delete_rows(uid, state"), flatten))

    def update_rows(
        self, uid: str, state: str, assignments: str | Sequence[str], where: str, *, flatten: bool = False
    ) -> SavepointWriter:
        """Set columns of the rows of a state for which a condition is true. All others stay byte for byte.

        Args:
            uid: the operator's uid or uid hash.
            state: the name of a keyed state, of timers that of their queue; or of a list, union or broadcast state.
            assignments: what is set, in SQL: ``value.total = 0``, or several such texts. Of values and elements of
                operator state ``value`` or its fields; of elements of keyed lists ``list_element``, of entries of maps
                and broadcast state ``map_value``, or their fields; of timers ``timestamp``. Keys cannot be set.
            where: the condition on the columns that reading returns, in SQL. Rows for which it is null stay.
            flatten: each element of a list and each entry of a map is a row, which is needed to set them.
        """
        texts = (assignments,) if isinstance(assignments, str) else tuple(assignments)
        if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
            raise InvalidOption(
                f"the assignments {assignments!r}", advice="give them as text: update_rows(uid, state, 'value = 0', …)"
            )
        return self._edit_rows(uid, state, UpdateEdit(texts, _condition(where, "update_rows(uid, state, set"), flatten))

    def evolve_type(
        self,
        uid: str,
        state: str,
        to: Type,
        *,
        rename: Mapping[str, str] | None = None,
        assignments: str | Sequence[str] = (),
        kind: str | None = None,
        map_key_type: Type = None,
    ) -> SavepointWriter:
        """Give the values of a state another type. Fields are matched by name; keys and all else stay.

        Fields that both types have are kept, and widened where the new type is wider; fields that the new type does
        not have are removed. A field that the old type does not have needs a rename or an assignment.

        Args:
            uid: the operator's uid or uid hash.
            state: the name of a keyed state (value, reducing, aggregating, list, map), or of a list, union or broadcast
                state.
            to: the new type of values, of list elements, of map values: one of ``stateproc.types``, its text, the name
                of a class that the option ``classes`` describes, or ``@FILE`` (`read_type`).
            rename: fields with another name, as they were and as they are: ``{"address.zip": "address.postcode"}``.
            assignments: fields that are given by SQL expressions over the old columns: ``value.note = 'none'``. Of
                elements of keyed lists ``list_element.note``, of values of maps and broadcast state ``map_value.note``.
            kind: the kind that a keyed state becomes, with the type ``to``: ``value``, ``reducing``, ``aggregating``,
                ``list`` or ``map``. A value becomes the only element of a list; a value that is a list its elements,
                one that is a map its entries, and the other way round; anything else an expression says, such as
                ``value = value[-1]``, of which ``value`` is the whole list or map.
            map_key_type: the type of the keys of a ``map`` that the state becomes.
        """
        operator = self._existing(uid)
        of_elements = operator.is_operator_state(state)
        if not of_elements:
            operator.check_state(state)
        change = _type_change(operator, to, rename, assignments, "value.note = 'none'")
        if kind is not None or map_key_type is not None:
            if of_elements:
                raise InvalidOption(
                    "operator state becomes no other kind of state",
                    where=Where(operator=operator.operator.display, state=state),
                    advice="leave out the kind (kind, --kind)",
                )
            change = _kind_change(change, kind, map_key_type, operator.operator.options.context.classes)
        operator.edits.set_type(state, change, of_elements=of_elements)
        return self

    def evolve_key(
        self,
        uid: str,
        to: Type,
        *,
        rename: Mapping[str, str] | None = None,
        assignments: str | Sequence[str] = (),
    ) -> SavepointWriter:
        """Give the keys of an operator another type, in all of its keyed states and timers. Values stay.

        Fields are matched as `evolve_type` does. Each entry moves to the key group of its new key. For keys of a class
        with a hashCode of its own, `with_hash_function` gives that of the new class. Keys that would become one key are
        an error of the write that shows them.

        Args:
            uid: the operator's uid or uid hash.
            to: the new type, as of `evolve_type`.
            rename: fields with another name, as they were and as they are.
            assignments: fields that are given by SQL expressions over the column ``key``: ``key.region = 'EU'``, or
                the whole key: ``key = CAST(key AS VARCHAR)``.
        """
        operator = self._existing(uid)
        if operator.header.key is None:
            raise InvalidOption(
                "the operator has no keyed state, so that it has no keys",
                where=Where(operator=operator.operator.display),
                advice="name an operator with keyed state: stateproc inspect lists the states of each",
            )
        operator.edits.set_key(_type_change(operator, to, rename, assignments, "key.region = 'EU'"))
        return self

    def with_hash_function(self, uid: str, hash_function: str | HashCodes) -> SavepointWriter:
        """Specify the ``hashCode`` of keys whose class has its own (POJOs, case classes).

        It is needed for rows of such keys and for another max parallelism.

        Args:
            uid: the operator's uid or uid hash.
            hash_function: the formula of the class's method: 'Objects.hash', 'record', 'kotlin', 'lombok',
                'scala-2.12', 'scala-2.13'; the fields in the method's order may follow: 'record:name,count'. Or a
                function from an Arrow array of keys to their hash codes (int32). Keys at the source have to confirm it.
        """
        self._existing(uid).edits.hash_function = hash_function
        return self

    # --- the savepoint ---------------------------------------------------------------------------------------

    def write(
        self, path: str | os.PathLike[str], mode: Literal["error", "overwrite"] = "error", *, verify: bool = True
    ) -> WriteResult:
        """Write the savepoint. It can be loaded once all files are complete; a write that fails leaves no files.

        Args:
            path: the directory.
            mode: 'overwrite' replaces an existing snapshot once the new one is complete; 'error' refuses it.
            verify: read every file back and count its entries.

        Returns:
            The path, and a report of what was written; usable as the path.

        Raises:
            InvalidOption: the directory is not empty or is a source; or the edits contradict each other.
            InvalidRows: a row cannot be encoded.
            DuplicateKey: two rows have the same key.
            WriteFailed: storage fails, or verification finds a difference.
                Spark wraps errors of its tasks in its own exceptions, with the same text.
        """
        if mode not in ("error", "overwrite"):
            raise InvalidOption(f"mode {mode!r}", advice="give 'error' or 'overwrite'")
        directory = path_argument(path)
        engine_of(self._spark).check()
        return self.execute(self.planned_write(directory, mode, verify=verify))

    def plan(
        self, path: str | os.PathLike[str] | None = None, mode: Literal["error", "overwrite"] = "error"
    ) -> SavepointPlan:
        """Say what `write` would do, from ``_metadata`` and the headers of state files; nothing is written.

        Callbacks of `with_states` are called; rows are not read, but to count those that `delete_rows` deletes and
        `update_rows` sets.

        Args:
            path: the directory, to check whether it can be written to.
            mode: as of `write`.

        Returns:
            What happens to each operator and state and why, files and bytes, and what restoring needs.

        Raises:
            SnapshotError: what `write` would refuse before it writes.
        """
        return self.planned_write(path, mode, count=True).savepoint

    def planned_write(
        self,
        path: str | os.PathLike[str] | None,
        mode: Literal["error", "overwrite"] = "error",
        *,
        verify: bool = True,
        count: bool = False,
    ) -> WritePlan:
        """Plan a write for `execute`. Arguments and errors are those of `plan` and `write`.

        ``count``: count the rows that are deleted or updated, by reading their states.
        """
        return plan_write(
            self._operators.values(),
            self._settings,
            self._parallelism,
            self._source,
            engine_of(self._spark).default_parallelism,
            path=None if path is None else path_argument(path),
            overwrite=mode == "overwrite",
            verify=verify,
            count=count,
        )

    def execute(self, plan: WritePlan) -> WriteResult:
        """Write what `planned_write` has planned. Returns and raises as `write`."""
        engine = engine_of(self._spark)
        written = execute(engine, plan)
        return WriteResult(str(plan.path), write_report(plan.savepoint, written, engine.name))

    def __repr__(self) -> str:
        try:
            return repr(self.plan())
        except SnapshotError as error:
            return f"Plan that is refused: {error}"

    def _repr_html_(self) -> str:
        """Show the plan in a notebook."""
        from stateproc.writers.plan.savepoint_plan import refused_card  # Lazy: start-up.

        try:
            return self.plan()._repr_html_()
        except SnapshotError as error:
            return refused_card(str(error)).html()

    def _edit_rows(self, uid: str, state: str, edit: DeleteEdit | UpdateEdit) -> SavepointWriter:
        operator = self._existing(uid)
        if operator.is_operator_state(state):
            refuse_flatten(operator.operator.display, state, flatten=edit.flatten)
            operator.edits.elements.setdefault(state, []).append(edit)
            return self
        operator.check_state(state)
        operator.edits.rows.setdefault(state, []).append(edit)
        return self

    def _edit_ttl(self, uid: str, state: str, edit: TtlEdit) -> SavepointWriter:
        operator = self._existing(uid)
        operator.check_state(state)
        operator.edits.set_ttl(state, edit)
        return self


def _condition(where: Any, call: str) -> str:
    """Return a condition that a user gave. Raises InvalidOption for what is no text."""
    if not isinstance(where, str) or not where.strip():
        raise InvalidOption(f"the condition {where!r}", advice=f"give it as text: {call}, 'key = 42')")
    return where


def _type_change(
    operator: ExistingOperator,
    to: Type,
    rename: Mapping[str, str] | None,
    assignments: str | Sequence[str],
    example: str,
) -> TypeChange:
    """Return the type that a user wants. Raises InvalidOption, MissingFile."""
    texts = (assignments,) if isinstance(assignments, str) else tuple(assignments)
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise InvalidOption(f"the assignments {assignments!r}", advice=f'give them as text: assignments="{example}"')
    return TypeChange(_type_of(to, operator.operator.options.context.classes), dict(rename or {}), texts)


def _kind_change(change: TypeChange, kind: str | None, map_key_type: Type, classes: Mapping[str, Any]) -> TypeChange:
    """Return the change with the kind of state that a user wants. Raises InvalidOption, MissingFile."""
    names = {one.value: one for one in KINDS}
    if kind is not None and kind not in names:
        raise not_found("kind of state", kind, list(names))
    if (kind == "map") != (map_key_type is not None):
        raise InvalidOption(
            "a map state without a type of keys" if map_key_type is None else "a type of keys without a map state",
            advice="give both: kind='map', map_key_type='String' (--kind map --map-key-type String)",
        )
    user_key = None if map_key_type is None else _type_of(map_key_type, classes)
    return replace(change, kind=None if kind is None else names[kind], user_key=user_key)


def _type_of(given: Type, classes: Mapping[str, Any]) -> Serializer:
    """Return a type that a user gave. Raises InvalidOption, MissingFile."""
    if isinstance(given, str) and given.startswith("@"):
        return read_type(given[1:])
    return types.Extracted(given, classes) if isinstance(given, str) and given in classes else types.of(given)
