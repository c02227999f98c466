"""Define the state of a new operator by DataFrames: one method for each kind of state."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from stateproc import types
from stateproc.errors import InvalidOption, not_found
from stateproc.html.cards import MOST_ROWS, Card, CardCell, Head, short
from stateproc.html.units import counted
from stateproc.metadata.operator_handles import DistributionMode
from stateproc.query_plans import read_plan
from stateproc.query_plans.node_states import node_states
from stateproc.query_plans.state_parts import Slices, Windows
from stateproc.readers.state_descriptor import StateKind
from stateproc.serializers import Serializer
from stateproc.serializers.runtime.streaming import StreamElement
from stateproc.writers.bootstrap.arrow_frames import is_arrow
from stateproc.writers.bootstrap.frame_columns import is_spark
from stateproc.writers.bootstrap.kafka_source import READER_STATE, SPLIT, SPLIT_SUBTASK, SourceRows, kafka_rows
from stateproc.writers.bootstrap.keyed_bootstrap import KeyedBootstrap
from stateproc.writers.bootstrap.keyed_encoder import KEY, MAP_KEY, MAP_VALUE, NAMESPACE, TIMESTAMP, VALUE
from stateproc.writers.bootstrap.plan_frames import add_derived, frame_of, kept_rows
from stateproc.writers.bootstrap.plan_rows import read_again, rows_of_state
from stateproc.writers.bootstrap.plan_windows import WATERMARK, open_slices, slice_timers, watermark_of, watermark_rows
from stateproc.writers.bootstrap.state_registration import (
    Type,
    check_name,
    check_whole,
    column_type,
    state_type,
)
from stateproc.writers.bootstrap.timed_rows import add_next, add_timers, rows_as_of, waiting_rows
from stateproc.writers.bootstrap.windowing import (
    CONTENTS,
    COUNT,
    COUNTED,
    HELD,
    MERGING,
    PAIRS,
    STORED,
    TIME,
    WINDOW,
    WINDOW_PAIR,
    WINDOW_TIMERS,
    Assigner,
    Contents,
    Time,
    WindowColumns,
    Windowing,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Show what an operator's bootstrap contains: its states with their types, and the columns that fill them.

_MODES = {"SPLIT_DISTRIBUTE": "operator list", "UNION": "union list", "BROADCAST": "broadcast"}
_HEADS = (Head("state"), Head("kind"), Head("type"), Head("columns"))


@dataclass(frozen=True)
class StateSummary:
    """One state: its name, its kind, Flink's type of its values, and the columns by their roles."""

    name: str
    kind: str
    type: str
    columns: str

    @property
    def line(self) -> str:
        """The state in one line."""
        return f"{self.kind} {self.name}: {self.type}" + (f", from {self.columns}" if self.columns else "")


def _value_type(value: Serializer, key: Serializer | None, is_list: bool) -> str:
    if key is not None:
        return f"Map<{key.type_name}, {value.type_name}>"
    return f"List<{value.type_name}>" if is_list else value.type_name


def _columns(columns: Mapping[str, str]) -> str:
    return ", ".join(name if name == role else f"{name} as {role}" for role, name in columns.items())


def _namespace(slices: Slices | Windows) -> dict[str, Any]:
    """Return the arguments that say which namespaces the rows of windows have."""
    return {"namespace": NAMESPACE, "namespace_type": slices.namespace.serializer}


@dataclass(frozen=True)
class OperatorRows:
    """An operator state and the DataFrame that fills it. ``key``: of broadcast states, None of lists."""

    name: str
    mode: DistributionMode
    value: Serializer
    key: Serializer | None
    frame: DataFrame = field(repr=False)
    columns: Mapping[str, str]


class OperatorBootstrap(KeyedBootstrap):
    """The state of one operator, from DataFrames. Methods return the object itself, so that calls can be chained.

    Args:
        key: the column of keys in every DataFrame of keyed state.
        key_type: the Flink type of keys (`stateproc.types`, or its text); by default that of the column.
        hash_column: a column of ints with Java's hashCode of the key, for classes with a hashCode of their own.
        hash: ``"Objects.hash"`` for classes whose hashCode is java.util.Objects.hash of all their fields.

    Raises:
        InvalidOption: ``key_type`` is no type.
    """

    def __init__(
        self, key: str = KEY, *, key_type: Type = None, hash_column: str | None = None, hash: str | None = None
    ) -> None:
        super().__init__(key, key_type=key_type, hash_column=hash_column, hash=hash)
        self.operator: list[OperatorRows] = []
        self.shared: list[DataFrame] = []
        """DataFrames from which those of several states are derived."""
        self.source: SourceRows | None = None
        self.max_parallelism: int | None = None
        """The number of key groups that Flink fixes, 1 of what is not parallel in SQL; None where a writer decides."""

    @classmethod
    def from_plan(
        cls,
        plan: str | os.PathLike[str] | Mapping[str, Any],
        uid: str,
        rows: DataFrame | Mapping[str, DataFrame],
        *,
        ttl: bool | None = None,
    ) -> OperatorBootstrap:
        """Fill the state of an operator of a SQL job from rows under the column names of its plan, with its types.

        Aggregates over groups (COUNT, SUM, MIN, MAX, AVG, FIRST_VALUE, LAST_VALUE, LISTAGG, ARRAY_AGG, COLLECT; the
        columns are the keys and the accumulators, an average has ``…_sum`` and ``…_count``; in ``distinctAcc_0`` and so
        on the values that DISTINCT has seen; in ``agg0$map``, ``agg1$list`` and so on what the calls of these numbers
        keep of many rows: values with their ``count``, or arrays of values in their order), aggregates of TUMBLE, HOP,
        CUMULATE and SESSION windows (also ``window_end`` or ``slice_end``, of sessions ``window_start``, too; in
        ``watermark`` one row with the watermark, and windows that are closed by then are left out), aggregates of OVER
        (``accState``, of the rows up to ``watermark`` in their frames; ``inputState`` with the rows that are kept,
        arrays ``rows`` with the columns of PARTITION BY and their time), joins (``left-records`` and
        ``right-records``: the rows of each input, once, with their ``count`` where they have no unique key, and
        ``associations`` where an outer join keeps them), interval joins (``IntervalJoinLeftCache`` and
        ``IntervalJoinRightCache``: arrays ``rows`` with the key and a time each, whose rows have ``joined`` where an
        outer join keeps it; by row time ``watermark``), temporal joins by row time (``left``: rows with their number
        ``index``, ``right``: versions, and ``watermark``), the last row and the first by processing time of a
        deduplication, changelog normalization, of TopN over rows that are only added the first row, or arrays ``rows``
        with a sort key each, and sinks that keep rows (arrays ``rows`` with a primary key each).

        Args:
            plan: the compiled plan: the path of its JSON, its text, or the parsed JSON.
            uid: the uid of the operator, such as ``6_group-aggregate``.
            rows: a DataFrame; of an operator with several states one for each by its name. Arrow data that comes as a
                stream is held in memory for windows, OVER and what DISTINCT has seen, which are read twice.
            ttl: whether the job's state has a time to live; by default as the plan says (Flink 1.18 and later), of OVER
                without rows that it has none.

        Returns:
            The bootstrap.

        Raises:
            NotFound: the plan has no such operator, it has no such state, or a column is missing.
            InvalidOption: the plan cannot be read; a state without rows; a column of a type that the state cannot have.
            InvalidRows: a number of rows is null or below 1; a window that the query does not have; a frame of OVER
                with another number of rows than its accumulators say.
            UnsupportedSnapshot: the operator's state contains what rows do not give.
        """
        states = node_states(read_plan(plan), uid)
        filled = [state.name for state in states if state.rows is None and not state.is_derived]
        slices, frame_of_over = states[0].slices, frame_of(states)
        waiting = {state.name: state.waiting for state in states if state.waiting is not None}
        has_watermark = slices is not None or (frame_of_over is not None and frame_of_over.by_row_time)
        is_temporal = states[0].as_of is not None
        has_watermark |= is_temporal or any(one.by_row_time for one in waiting.values())
        filled += [WATERMARK] if has_watermark else []
        given = rows if isinstance(rows, Mapping) else {states[0].name: rows}
        if not isinstance(rows, Mapping) and len(filled) > 1:
            names = ", ".join(f"'{name}': rows" for name in filled)
            raise InvalidOption(
                f"the operator '{uid}' has {len(filled)} states, and rows are given once",
                advice=f"give them for each: {{{names}}}; a state without rows gets an empty DataFrame",
            )
        for name in given:
            if name not in filled:
                raise not_found("state", name, filled, f"operator '{uid}'")
        needed = {state.name: state.columns for state in states} | {WATERMARK: (WATERMARK,)}
        for name in filled:
            if name not in given:
                raise InvalidOption(
                    f"the state {name} of operator '{uid}' has no rows",
                    advice="give them; a state without any gets an empty DataFrame with its columns: "
                    + ", ".join(needed[name]),
                )
        shared = {state.rows for state in states if not state.is_empty}
        shared |= set() if frame_of_over is None else {frame_of_over.accumulators}
        given = {name: read_again(frame) if name in shared else frame for name, frame in given.items()}
        watermark = watermark_of(given[WATERMARK]) if has_watermark else None
        if slices is not None:
            keys = {states[0].name: states[0].key.given}
            given = {
                name: open_slices(given[name], slices, watermark, keys.get(name))
                for name in filled
                if name != WATERMARK
            }
        if frame_of_over is not None:
            given["inputState"] = kept_rows(given["inputState"], frame_of_over, watermark)
            shared.add("inputState")
        for name, kept in waiting.items():
            given[name] = waiting_rows(given[name], name, kept, watermark)
            shared.add(name)
        shared |= {state.name for state in states if state.as_of is not None}
        made = cls(key_type=states[0].key.serializer)
        twice = shared if slices is None else {*shared, states[0].name}
        made.shared += [frame for name, frame in given.items() if name in twice and is_spark(frame)]
        made.max_parallelism = None if states[0].key.columns else 1
        nested: dict[str, Any] = {}
        for state in states:
            if state.is_derived:
                continue
            frame = rows_of_state(given[state.rows or state.name], state)
            if state.as_of is not None:
                frame = rows_as_of(frame, state.as_of, state.key, watermark)
            nested[state.name] = frame
            by_time = slices is not None or frame_of_over is not None or waiting or is_temporal
            lives = state.ttl if ttl is None or by_time else ttl
            space = {} if state.slices is None else _namespace(state.slices)
            if state.is_list:
                made.list_state(state.name, frame, element_type=state.value.serializer, ttl=bool(lives))
                continue
            if state.map_key is None:
                made.value_state(state.name, frame, type=state.value.serializer, ttl=bool(lives), **space)
                continue
            made.map_state(
                state.name,
                frame,
                map_key=MAP_KEY,
                map_value=MAP_VALUE,
                map_key_type=state.map_key.serializer,
                map_value_type=state.value.serializer,
                ttl=bool(lives),
                **space,
            )
        if slices is not None:
            timers = slice_timers(rows_of_state(given[states[0].name], states[0]), slices, watermark)
            made.event_time_timers(timers, TIMESTAMP, service=WINDOW_TIMERS, **_namespace(slices))
            if not isinstance(slices, Windows) or slices.restores_watermark:
                made.union_list_state(WATERMARK, watermark_rows(timers, watermark), type=types.LONG)
        if frame_of_over is not None:
            add_derived(made, states, nested, watermark)
        if waiting:
            add_timers(made, states, nested)
        if is_temporal:
            add_next(made, states, nested, watermark)
        return made

    def window_state(
        self,
        frame: DataFrame,
        value: str = VALUE,
        *,
        assigner: Assigner = "tumbling",
        contents: Contents = "list",
        type: Type = None,
        window: WindowColumns = None,
        time: Time = "event",
        allowed_lateness: timedelta | int = 0,
        count: str | None = None,
        fired: str | None = None,
        state_window: str | None = None,
    ) -> OperatorBootstrap:
        """Add the states and timers of a window operator (WindowOperator).

        Args:
            frame: one row per key and window. It is persisted during the write, because several states are derived
                from it: contents, timers, the merging window set.
            value: the column of contents; null: the window has none (any more).
            assigner: ``tumbling``, ``sliding``, ``session`` or ``global``.
            contents: ``list`` for the elements of ``process`` or ``apply`` (an array), ``evict`` for those of a window
                with an evictor (array<struct<timestamp, value>>), ``reduce`` for the reduced value, ``aggregate`` for
                the accumulator.
            type: the type of elements, of the reduced value or of the accumulator; by default that of the column.
            window: the column of structs of start and end (timestamps, or ms since the epoch; the end is exclusive),
                or a pair of columns; by default ``window``, or ``window_start`` and ``window_end``. Global windows have
                none.
            time: ``event`` or ``processing``.
            allowed_lateness: the time between a window's end and its cleanup in event time, a timedelta or ms.
            count: the column of what a CountTrigger counted; without it, the trigger is the assigner's default.
            fired: a column of booleans, true for windows that have fired and wait for late elements.
            state_window: for sessions, the column of the window under which contents are stored; by default the window.

        Returns:
            This object.

        Raises:
            NotFound: a column is missing.
            InvalidOption: a column has a type that the state cannot have.
        """
        windowing = Windowing(assigner, contents, time, allowed_lateness)
        if is_arrow(frame) and not is_spark(frame):
            raise InvalidOption(
                "windows are derived from rows by Spark, and the rows are Arrow data",
                advice="give a DataFrame of Spark and its session; or add the states and timers one by one, with "
                "namespaces (list_state, event_time_timers)",
            )
        for column in (self._key, value, count, fired, state_window):
            if column is not None:
                column_type(frame, column, CONTENTS)
        kept = [self._key] if self._hash_column is None else [self._key, self._hash_column]
        for column in kept:
            column_type(frame, column, CONTENTS)
        from stateproc.writers.bootstrap.windows import window_rows  # Lazy: the only method that computes with Spark.

        made = window_rows(windowing, frame, kept, value, window, state_window, count, fired)
        space: dict[str, Any] = {"namespace_type": windowing.namespace}
        under, stored = space, space
        if not windowing.is_global:
            under, stored = {**space, "namespace": WINDOW}, {**space, "namespace": STORED}
        if made.timers is not None or made.merging is not None:
            self.shared.append(frame)
        self._contents(made.rows, windowing.contents, type, stored)
        if made.merging is not None:
            self.list_state(MERGING, made.merging, PAIRS, element_type=WINDOW_PAIR)
        if count is not None:
            self.reducing_state(COUNT, made.rows, COUNTED, type=types.LONG, **under)
        if made.timers is not None:
            timers = self.event_time_timers if windowing.time == "event" else self.processing_time_timers
            timers(made.timers, TIME, service=WINDOW_TIMERS, **under)
        return self

    def _contents(self, rows: DataFrame, contents: Contents, type_: Type, space: Mapping[str, Any]) -> None:
        """What windows hold, in WindowOperator's state."""
        if contents == "reduce":
            self.reducing_state(CONTENTS, rows, HELD, type=type_, **space)
        elif contents == "aggregate":
            self.aggregating_state(CONTENTS, rows, HELD, type=type_, **space)
        elif contents == "list":
            self.list_state(CONTENTS, rows, HELD, element_type=type_, **space)
        else:
            (elements,) = column_type(rows, HELD, CONTENTS).children
            element = StreamElement(state_type(type_, dict(elements.fields)["value"], CONTENTS))
            self.list_state(CONTENTS, rows, HELD, element_type=element, **space)

    def operator_list_state(
        self, name: str, frame: DataFrame, value: str = VALUE, *, type: Type = None, subtask: str | None = None
    ) -> OperatorBootstrap:
        """Add an operator's ListState, whose elements are split over subtasks.

        Args:
            name: the name of the state's descriptor.
            frame: one row per element.
            value: the column of elements.
            type: the type of elements; by default that of the column.
            subtask: the column of each element's subtask, counted from 0; without it, elements are distributed evenly.

        Returns:
            This object.

        Raises:
            NotFound: a column is missing.
            InvalidOption: a column has a type that the state cannot have.
        """
        return self._elements(name, "SPLIT_DISTRIBUTE", frame, value, type, subtask)

    def union_list_state(
        self, name: str, frame: DataFrame, value: str = VALUE, *, type: Type = None, subtask: str | None = None
    ) -> OperatorBootstrap:
        """Add a union ListState, of which every subtask gets all elements; all else as for `operator_list_state`."""
        return self._elements(name, "UNION", frame, value, type, subtask)

    def kafka_source(
        self,
        offsets: DataFrame,
        *,
        topic: str = "topic",
        partition: str = "partition",
        offset: str = "offset",
        stopping_offset: str | None = None,
        subtask: str | None = None,
        enumerator_version: int = 2,
    ) -> OperatorBootstrap:
        """Add the state of a KafkaSource that continues at ``offsets``, which are collected here.

        Args:
            offsets: one row per partition.
            topic: the column of topics.
            partition: the column of partition numbers.
            offset: the column of the next offset, or -1 latest, -2 earliest, -3 the consumer group's committed offset;
                null for a known partition that no reader has.
            stopping_offset: the column of the offsets at which a bounded source stops; null for never.
            subtask: the column of the subtask that reads a partition; without it, partitions are distributed evenly.
            enumerator_version: the version of the coordinator's state: 1 for connector 3.0, 2 for 3.1 to 4.0 (later
                ones read it, too), 3 for 5.0, with a split per partition.

        Returns:
            This object.

        Raises:
            NotFound: a column is missing.
            InvalidOption: a column is not of whole numbers; an unknown version.
            InvalidRows: offsets that Kafka cannot have, or a partition twice.
        """
        rows = kafka_rows(offsets, topic, partition, offset, stopping_offset, subtask, enumerator_version)
        return self.source_rows(rows, None if subtask is None else SPLIT_SUBTASK)

    def source_rows(self, rows: SourceRows, subtask: str | None = None) -> OperatorBootstrap:
        """Add the state of a source: its readers' splits, in the column SPLIT, and its coordinator's state."""
        self.source = rows
        return self.operator_list_state(READER_STATE, rows.frame, SPLIT, type=types.BYTES, subtask=subtask)

    def broadcast_state(
        self,
        name: str,
        frame: DataFrame,
        *,
        map_key: str = MAP_KEY,
        map_value: str = MAP_VALUE,
        map_key_type: Type = None,
        map_value_type: Type = None,
    ) -> OperatorBootstrap:
        """Add a broadcast state.

        Args:
            name: the name of the state's descriptor.
            frame: one row per entry.
            map_key: the column of the entries' keys.
            map_value: the column of the entries' values.
            map_key_type: the type of keys; by default that of the column.
            map_value_type: the type of values; by default that of the column.

        Returns:
            This object.

        Raises:
            NotFound: a column is missing.
            InvalidOption: a column has a type that the state cannot have.
        """
        check_name(name, "a state")
        key = state_type(map_key_type, column_type(frame, map_key, name), name)
        value = state_type(map_value_type, column_type(frame, map_value, name), name)
        columns = {KEY: map_key, VALUE: map_value}
        self.operator.append(OperatorRows(name, "BROADCAST", value, key, frame, columns))
        return self

    def __repr__(self) -> str:
        found = self._summaries()
        keyed = f", keys {self.key_type.type_name}" if self.keyed else ""
        return "\n".join([f"Bootstrap of {counted(len(found), 'state')}{keyed}", *(f"  {one.line}" for one in found)])

    def _repr_html_(self) -> str:
        """Show the states in a notebook."""
        found = self._summaries()
        rows = [
            [
                CardCell(short(it.name), strong=True),
                CardCell(it.kind),
                CardCell(short(it.type), code=True),
                CardCell(short(it.columns)),
            ]
            for it in found[:MOST_ROWS]
        ]
        more = [f"and {len(found) - MOST_ROWS:,} more"] if len(found) > MOST_ROWS else []
        facts = [("keys", short(self.key_type.type_name))] if self.keyed else []
        title = "State of an operator"
        return Card(title, counted(len(found), "state"), facts, heads=_HEADS, rows=rows, notes=more).html()

    def _summaries(self) -> list[StateSummary]:
        found = []
        for rows in self.keyed:
            state = rows.declared
            is_list = state.kind is StateKind.LIST
            type_ = "–" if state.value is None else _value_type(state.value, state.user_key, is_list)
            type_ += ", time to live" if state.ttl else ""
            kind = state.kind.value.replace("_", " ").lower()
            found.append(StateSummary(state.name, kind, type_, _columns(rows.columns)))
        for one in self.operator:
            type_ = _value_type(one.value, one.key, False)
            found.append(StateSummary(one.name, _MODES[one.mode], type_, _columns(one.columns)))
        return found

    def _elements(
        self, name: str, mode: DistributionMode, frame: DataFrame, value: str, type_: Type, subtask: str | None
    ) -> OperatorBootstrap:
        check_name(name, "a state")
        found = state_type(type_, column_type(frame, value, name), name)
        columns = {VALUE: value} if subtask is None else {VALUE: value, "subtask": subtask}
        if subtask is not None:
            check_whole(frame, subtask, name, "a subtask")
        self.operator.append(OperatorRows(name, mode, found, None, frame, columns))
        return self
