"""What an operator of a new savepoint holds, told in DataFrames: one method for each kind of state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, MapType

from stateproc import types
from stateproc.errors import InvalidOption, Where
from stateproc.metadata.operator_handles import DistributionMode
from stateproc.readers.common.state_descriptor import StateKind, timer_state_name
from stateproc.serializers import Serializer
from stateproc.serializers.java.scalars import VOID_NAMESPACE
from stateproc.serializers.runtime.stream_elements import StreamElement
from stateproc.serializers.runtime.ttl import LAST_ACCESS
from stateproc.writers.bootstrap.kafka_source import READER_STATE, SPLIT, SPLIT_SUBTASK, KafkaRows, kafka_rows
from stateproc.writers.bootstrap.key_group_assignment import HASH_COLUMN
from stateproc.writers.bootstrap.keyed_encoder import KEY, MAP_KEY, MAP_VALUE, NAMESPACE, TIMESTAMP, VALUE
from stateproc.writers.bootstrap.state_registration import USER_TIMERS, RegisteredState
from stateproc.writers.bootstrap.validation import (
    Type,
    check_name,
    check_time,
    check_whole,
    column_type,
    type_of,
)
from stateproc.writers.bootstrap.windows import (
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


@dataclass(frozen=True)
class KeyedRows:
    """A keyed state and the DataFrame that fills it; ``columns``: what each column is called there, by its role."""

    declared: RegisteredState
    frame: DataFrame = field(repr=False)
    columns: Mapping[str, str]


@dataclass(frozen=True)
class OperatorRows:
    """An operator state and the DataFrame that fills it. ``key``: of broadcast states, None of lists."""

    name: str
    mode: DistributionMode
    value: Serializer
    key: Serializer | None
    frame: DataFrame = field(repr=False)
    columns: Mapping[str, str]


class OperatorBootstrap:
    """The state of one operator, from DataFrames.

    key: the column that holds the key, in every DataFrame of keyed state; key_type: its Flink type, by default that of
    the column. hash_column: a column of ints with Java's hashCode of the key, for types whose hashCode is the user's
    own; hash: 'Objects.hash' for classes that use java.util.Objects.hash on all their fields. Methods return the
    operator itself, so that they can be chained. They raise InvalidOption for columns that are not there or of a type
    that state cannot have.
    """

    def __init__(
        self, key: str = KEY, *, key_type: Type = None, hash_column: str | None = None, hash: str | None = None
    ) -> None:
        self._key, self._hash_column = key, hash_column
        self._key_type = None if key_type is None else type_of(key_type)
        self.hash = hash
        self.keyed: list[KeyedRows] = []
        self.operator: list[OperatorRows] = []
        self.source: KafkaRows | None = None

    @property
    def key_type(self) -> Serializer:
        """The key's type: as told, or that of the key column of the first DataFrame."""
        if self._key_type is None:
            raise InvalidOption("no keyed state is told, so that the key has no type")
        return self._key_type

    def value_state(
        self, name: str, frame: DataFrame, value: str = VALUE, *, type: Type = None, ttl: bool = False,
        last_access: str | None = None, namespace: str | None = None, namespace_type: Type = None,
    ) -> OperatorBootstrap:  # fmt: skip
        """A ValueState: one row per key (and namespace), ``value`` its value; where it is null, there is no state.

        ttl: the job's state descriptor has a time to live; ``last_access`` names the column of the last access
        (timestamp, or ms since the epoch), without it that is now. namespace: a column, for states of windows.
        """
        return self._single(name, StateKind.VALUE, frame, value, type, ttl, last_access, namespace, namespace_type)

    def reducing_state(
        self, name: str, frame: DataFrame, value: str = VALUE, *, type: Type = None, ttl: bool = False,
        last_access: str | None = None, namespace: str | None = None, namespace_type: Type = None,
    ) -> OperatorBootstrap:  # fmt: skip
        """A ReducingState: ``value`` is what was reduced so far; otherwise as `value_state`."""
        return self._single(name, StateKind.REDUCING, frame, value, type, ttl, last_access, namespace, namespace_type)

    def aggregating_state(
        self, name: str, frame: DataFrame, value: str = VALUE, *, type: Type = None, ttl: bool = False,
        last_access: str | None = None, namespace: str | None = None, namespace_type: Type = None,
    ) -> OperatorBootstrap:  # fmt: skip
        """An AggregatingState: ``value`` is the accumulator, ``type`` its type; otherwise as `value_state`."""
        kind = StateKind.AGGREGATING
        return self._single(name, kind, frame, value, type, ttl, last_access, namespace, namespace_type)

    def list_state(
        self, name: str, frame: DataFrame, value: str = VALUE, *, element_type: Type = None, ttl: bool = False,
        last_access: str | None = None, namespace: str | None = None, namespace_type: Type = None,
    ) -> OperatorBootstrap:  # fmt: skip
        """A ListState: one row per key (and namespace), ``value`` an array of all its elements, none of them null."""
        column = column_type(frame, value, name)
        if not isinstance(column, ArrayType):
            raise InvalidOption(
                f"column '{value}' is {column.simpleString()}, where a list state needs an array of all elements",
                where=Where(state=name),
                advice=f"gather them: frame.groupBy(…).agg(collect_list('{value}').alias('{value}'))",
            )
        found = type_of(element_type, column.elementType)
        declared, columns = self._declared(
            name, StateKind.LIST, frame, found, None, ttl, last_access, namespace, namespace_type
        )
        return self._add(declared, frame, {**columns, VALUE: value})

    def map_state(
        self, name: str, frame: DataFrame, value: str = VALUE, *, map_key: str | None = None,
        map_value: str | None = None, map_key_type: Type = None, map_value_type: Type = None, ttl: bool = False,
        last_access: str | None = None, namespace: str | None = None, namespace_type: Type = None,
    ) -> OperatorBootstrap:  # fmt: skip
        """A MapState: one row per key, ``value`` a map; or, with ``map_key`` and ``map_value``, one row per entry."""
        if (map_key is None) != (map_value is None):
            raise InvalidOption("map_key and map_value name a column each, or neither does", where=Where(state=name))
        if map_key is not None and map_value is not None:
            pair = (column_type(frame, map_key, name), column_type(frame, map_value, name))
            roles = {MAP_KEY: map_key, MAP_VALUE: map_value}
        else:
            column = column_type(frame, value, name)
            if not isinstance(column, MapType):
                raise InvalidOption(
                    f"column '{value}' is {column.simpleString()}, where a map state needs a map",
                    where=Where(state=name),
                    advice="give a map column, or map_key='…', map_value='…' with a row for each entry",
                )
            pair, roles = (column.keyType, column.valueType), {VALUE: value}
        user_key, user_value = type_of(map_key_type, pair[0]), type_of(map_value_type, pair[1])
        declared, columns = self._declared(
            name, StateKind.MAP, frame, user_value, user_key, ttl, last_access, namespace, namespace_type
        )
        return self._add(declared, frame, {**columns, **roles})

    def event_time_timers(
        self, frame: DataFrame, timestamp: str = TIMESTAMP, *, service: str = USER_TIMERS,
        namespace: str | None = None, namespace_type: Type = None,
    ) -> OperatorBootstrap:  # fmt: skip
        """Event-time timers of a timer service: one row per timer, ``timestamp`` a timestamp, or ms since the epoch."""
        return self._timers(StateKind.EVENT_TIMERS, frame, timestamp, service, namespace, namespace_type)

    def processing_time_timers(
        self, frame: DataFrame, timestamp: str = TIMESTAMP, *, service: str = USER_TIMERS,
        namespace: str | None = None, namespace_type: Type = None,
    ) -> OperatorBootstrap:  # fmt: skip
        """Processing-time timers, as `event_time_timers`."""
        return self._timers(StateKind.PROCESSING_TIMERS, frame, timestamp, service, namespace, namespace_type)

    def window_state(
        self, frame: DataFrame, value: str = VALUE, *, assigner: Assigner = "tumbling", contents: Contents = "list",
        type: Type = None, window: WindowColumns = None, time: Time = "event", allowed_lateness: timedelta | int = 0,
        count: str | None = None, fired: str | None = None, state_window: str | None = None,
    ) -> OperatorBootstrap:  # fmt: skip
        """The state of a window operator (WindowOperator): one row per key and window, with the trigger's timers.

        window: the column of a struct of start and end (timestamps, or ms since the epoch; the end is exclusive), or
        a pair of columns; by default ``window``, or ``window_start`` and ``window_end``. Global windows have none.
        contents: what ``value`` holds: the elements of a ``process`` or ``apply`` (``list``: an array), those of a
        window with an evictor (``evict``: array<struct<timestamp, value>>), the value of ``reduce``, the accumulator
        of ``aggregate``; ``type`` is the type of elements, value or accumulator. Null: nothing is held (any more).
        time: event or processing time; in event time ``allowed_lateness`` (ms) puts the cleanup behind the end.
        count: the window has a CountTrigger, and this column what it counted; without it the trigger is the
        assigner's own. fired: a column of booleans, true for windows that have fired and wait for late elements.
        state_window: of sessions, the window under which contents are stored, by default the window itself.
        """
        windowing = Windowing(assigner, contents, time, allowed_lateness)
        for column in (self._key, value, count, fired, state_window):
            if column is not None:
                column_type(frame, column, CONTENTS)
        kept = [self._key] if self._hash_column is None else [self._key, self._hash_column]
        for column in kept:
            column_type(frame, column, CONTENTS)
        made = windowing.rows(frame, kept, value, window, state_window, count, fired)
        space: dict[str, Any] = {"namespace_type": windowing.namespace}
        under, stored = (space, space) if windowing.is_global else (
            {**space, "namespace": WINDOW}, {**space, "namespace": STORED})  # fmt: skip
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
            column = rows.schema[HELD].dataType.elementType["value"].dataType
            self.list_state(CONTENTS, rows, HELD, element_type=StreamElement(type_of(type_, column)), **space)

    def operator_list_state(
        self, name: str, frame: DataFrame, value: str = VALUE, *, type: Type = None, subtask: str | None = None
    ) -> OperatorBootstrap:
        """An operator's ListState (split over subtasks): one row per element; ``subtask``: a column that says whose it
        is, without it they are dealt out evenly."""
        return self._elements(name, "SPLIT_DISTRIBUTE", frame, value, type, subtask)

    def union_list_state(
        self, name: str, frame: DataFrame, value: str = VALUE, *, type: Type = None, subtask: str | None = None
    ) -> OperatorBootstrap:
        """A union ListState, of which every subtask gets all elements; as `operator_list_state`."""
        return self._elements(name, "UNION", frame, value, type, subtask)

    def kafka_source(
        self, offsets: DataFrame, *, topic: str = "topic", partition: str = "partition", offset: str = "offset",
        stopping_offset: str | None = None, subtask: str | None = None, enumerator_version: int = 2,
    ) -> OperatorBootstrap:  # fmt: skip
        """The state of a KafkaSource that goes on at ``offsets``: one row per partition, which is collected here.

        offset: the first record to be read, or -1 latest, -2 earliest, -3 what the consumer group has committed; null
        for a partition that is known and given to no reader. stopping_offset: where a bounded source ends, null for
        never. subtask: the reader that has it, without it they are dealt out evenly. enumerator_version: of the
        coordinator's state: 1 for connector 3.0, 2 for 3.1 to 4.0 (newer ones read it too), 3 has splits.
        Raises InvalidRows for offsets that Kafka cannot have, or a partition twice.
        """
        self.source = kafka_rows(offsets, topic, partition, offset, stopping_offset, subtask, enumerator_version)
        whose = None if subtask is None else SPLIT_SUBTASK
        return self.operator_list_state(READER_STATE, self.source.frame, SPLIT, type=types.BYTES, subtask=whose)

    def broadcast_state(
        self, name: str, frame: DataFrame, *, map_key: str = MAP_KEY, map_value: str = MAP_VALUE,
        map_key_type: Type = None, map_value_type: Type = None,
    ) -> OperatorBootstrap:  # fmt: skip
        """A broadcast state: one row per entry."""
        check_name(name, "a state")
        key = type_of(map_key_type, column_type(frame, map_key, name))
        value = type_of(map_value_type, column_type(frame, map_value, name))
        columns = {KEY: map_key, VALUE: map_value}
        self.operator.append(OperatorRows(name, "BROADCAST", value, key, frame, columns))
        return self

    def _single(
        self, name: str, kind: StateKind, frame: DataFrame, value: str, type_: Type, ttl: bool,
        last_access: str | None, namespace: str | None, namespace_type: Type,
    ) -> OperatorBootstrap:  # fmt: skip
        found = type_of(type_, column_type(frame, value, name))
        declared, columns = self._declared(name, kind, frame, found, None, ttl, last_access, namespace, namespace_type)
        return self._add(declared, frame, {**columns, VALUE: value})

    def _timers(
        self, kind: StateKind, frame: DataFrame, timestamp: str, service: str, namespace: str | None,
        namespace_type: Type,
    ) -> OperatorBootstrap:  # fmt: skip
        name = timer_state_name(service, event=kind is StateKind.EVENT_TIMERS)
        check_time(frame, timestamp, name, "a timer's time")
        declared, columns = self._declared(name, kind, frame, None, None, False, None, namespace, namespace_type)
        return self._add(declared, frame, {**columns, TIMESTAMP: timestamp})

    def _elements(
        self, name: str, mode: DistributionMode, frame: DataFrame, value: str, type_: Type, subtask: str | None
    ) -> OperatorBootstrap:
        check_name(name, "a state")
        found = type_of(type_, column_type(frame, value, name))
        columns = {VALUE: value} if subtask is None else {VALUE: value, "subtask": subtask}
        if subtask is not None:
            check_whole(frame, subtask, name, "a subtask")
        self.operator.append(OperatorRows(name, mode, found, None, frame, columns))
        return self

    def _declared(
        self, name: str, kind: StateKind, frame: DataFrame, value: Serializer | None, user_key: Serializer | None,
        ttl: bool, last_access: str | None, namespace: str | None, namespace_type: Type,
    ) -> tuple[RegisteredState, dict[str, str]]:  # fmt: skip
        check_name(name, "a state")
        columns = {KEY: self._key}
        key = column_type(frame, self._key, name)
        if self._key_type is None:
            self._key_type = type_of(None, key)
        space: Serializer = VOID_NAMESPACE
        if namespace is not None:
            space = type_of(namespace_type, column_type(frame, namespace, name))
            columns[NAMESPACE] = namespace
        elif namespace_type is not None:
            space = type_of(namespace_type)
            if space.type_name not in (VOID_NAMESPACE.type_name, types.GLOBAL_WINDOW.type_name):
                raise InvalidOption(
                    f"no column has the namespaces of the type {space.type_name}",
                    where=Where(state=name),
                    advice="name it: namespace='…'",
                )
        if last_access is not None:
            check_time(frame, last_access, name, "the last access", nested=kind in (StateKind.LIST, StateKind.MAP))
            columns[LAST_ACCESS] = last_access
        if self._hash_column is not None:
            check_whole(frame, self._hash_column, name, "a hash code")
            columns[HASH_COLUMN] = self._hash_column
        return RegisteredState(name, kind, value, space, user_key, ttl or last_access is not None), columns

    def _add(self, declared: RegisteredState, frame: DataFrame, columns: dict[str, str]) -> OperatorBootstrap:
        self.keyed.append(KeyedRows(declared, frame, columns))
        return self
