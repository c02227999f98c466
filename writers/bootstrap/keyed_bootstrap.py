"""Define the keyed state of a new operator by DataFrames: one method for each kind of state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stateproc import types
from stateproc.errors import InvalidOption, Where
from stateproc.keygroups.key_group_assignment import HASH_COLUMN
from stateproc.readers.state_descriptor import StateKind, timer_state_name
from stateproc.serializers import Serializer
from stateproc.serializers.java.scalars import VOID_NAMESPACE
from stateproc.serializers.runtime.ttl import LAST_ACCESS
from stateproc.writers.bootstrap.keyed_encoder import KEY, MAP_KEY, MAP_VALUE, NAMESPACE, TIMESTAMP, VALUE
from stateproc.writers.bootstrap.state_registration import (
    USER_TIMERS,
    RegisteredState,
    Type,
    check_name,
    check_time,
    check_whole,
    column_type,
    state_type,
    type_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from typing_extensions import Self


@dataclass(frozen=True)
class KeyedRows:
    """A keyed state and the DataFrame that fills it; ``columns``: the names of its columns by their roles."""

    declared: RegisteredState
    frame: DataFrame = field(repr=False)
    columns: Mapping[str, str]


class KeyedBootstrap:
    """The keyed state of one operator, from DataFrames; arguments as for `OperatorBootstrap`."""

    def __init__(
        self, key: str = KEY, *, key_type: Type = None, hash_column: str | None = None, hash: str | None = None
    ) -> None:
        self._key, self._hash_column = key, hash_column
        self._key_type = None if key_type is None else type_of(key_type)
        self.hash = hash
        self.keyed: list[KeyedRows] = []

    @property
    def key_type(self) -> Serializer:
        """The type of keys: the one given, or that of the key column of the first DataFrame. Raises InvalidOption."""
        if self._key_type is None:
            raise InvalidOption("there is no keyed state, so that the key has no type")
        return self._key_type

    def value_state(
        self,
        name: str,
        frame: DataFrame,
        value: str = VALUE,
        *,
        type: Type = None,
        ttl: bool = False,
        last_access: str | None = None,
        namespace: str | None = None,
        namespace_type: Type = None,
    ) -> Self:
        """Add a ValueState.

        Args:
            name: the name of the state's descriptor.
            frame: one row per key (and namespace).
            value: the column of values; rows in which it is null have no state.
            type: the type of the value; by default that of the column.
            ttl: whether the job's state descriptor has a time to live.
            last_access: the column of last accesses (timestamp, or ms since the epoch), for state with a time to live;
                by default the time of writing.
            namespace: the column of namespaces, for states of windows and triggers.
            namespace_type: its type; by default that of the column.

        Returns:
            This object.

        Raises:
            NotFound: a column is missing.
            InvalidOption: a column has a type that the state cannot have.
        """
        return self._single(name, StateKind.VALUE, frame, value, type, ttl, last_access, namespace, namespace_type)

    def reducing_state(
        self,
        name: str,
        frame: DataFrame,
        value: str = VALUE,
        *,
        type: Type = None,
        ttl: bool = False,
        last_access: str | None = None,
        namespace: str | None = None,
        namespace_type: Type = None,
    ) -> Self:
        """Add a ReducingState: ``value`` is the reduced value; arguments, result and errors as for `value_state`."""
        return self._single(name, StateKind.REDUCING, frame, value, type, ttl, last_access, namespace, namespace_type)

    def aggregating_state(
        self,
        name: str,
        frame: DataFrame,
        value: str = VALUE,
        *,
        type: Type = None,
        ttl: bool = False,
        last_access: str | None = None,
        namespace: str | None = None,
        namespace_type: Type = None,
    ) -> Self:
        """Add an AggregatingState: ``value`` is the accumulator; arguments, result and errors as for `value_state`."""
        kind = StateKind.AGGREGATING
        return self._single(name, kind, frame, value, type, ttl, last_access, namespace, namespace_type)

    def list_state(
        self,
        name: str,
        frame: DataFrame,
        value: str = VALUE,
        *,
        element_type: Type = None,
        ttl: bool = False,
        last_access: str | None = None,
        namespace: str | None = None,
        namespace_type: Type = None,
    ) -> Self:
        """Add a ListState.

        Args:
            name: the name of the state's descriptor.
            frame: one row per key (and namespace).
            value: the column of arrays with all elements, none of them null; null and empty arrays are no state.
            element_type: the type of elements; by default that of the array's.
            ttl: whether the job's state descriptor has a time to live.
            last_access: the column of last accesses (timestamp, or ms since the epoch), for state with a time to live;
                by default the time of writing.
            namespace: the column of namespaces, for states of windows and triggers.
            namespace_type: its type; by default that of the column.

        Returns:
            This object.

        Raises:
            NotFound: a column is missing.
            InvalidOption: a column has a type that the state cannot have.
        """
        column = column_type(frame, value, name)
        if column.kind != "list":
            raise InvalidOption(
                f"column '{value}' is {column.text}, where a list state needs an array of all elements",
                where=Where(state=name),
                advice=f"gather them: frame.groupBy(…).agg(collect_list('{value}').alias('{value}'))",
            )
        found = state_type(element_type, column.children[0], name)
        roles = {VALUE: value}
        return self._add(name, StateKind.LIST, frame, found, None, roles, ttl, last_access, namespace, namespace_type)

    def map_state(
        self,
        name: str,
        frame: DataFrame,
        value: str = VALUE,
        *,
        map_key: str | None = None,
        map_value: str | None = None,
        map_key_type: Type = None,
        map_value_type: Type = None,
        ttl: bool = False,
        last_access: str | None = None,
        namespace: str | None = None,
        namespace_type: Type = None,
    ) -> Self:
        """Add a MapState, from a row per key with a map, or a row per entry.

        Args:
            name: the name of the state's descriptor.
            frame: one row per key (and namespace), or per entry if ``map_key`` and ``map_value`` are given.
            value: the column of maps; null and empty maps are no state.
            map_key: the column of the entries' keys.
            map_value: the column of the entries' values.
            map_key_type: the type of the entries' keys; by default that of the column.
            map_value_type: the type of the entries' values; by default that of the column.
            ttl: whether the job's state descriptor has a time to live.
            last_access: the column of last accesses (timestamp, or ms since the epoch), for state with a time to live;
                by default the time of writing.
            namespace: the column of namespaces, for states of windows and triggers.
            namespace_type: its type; by default that of the column.

        Returns:
            This object.

        Raises:
            NotFound: a column is missing.
            InvalidOption: a column has a type that the state cannot have.
        """
        if (map_key is None) != (map_value is None):
            raise InvalidOption("map_key and map_value name a column each, or neither does", where=Where(state=name))
        if map_key is not None and map_value is not None:
            pair = (column_type(frame, map_key, name), column_type(frame, map_value, name))
            roles = {MAP_KEY: map_key, MAP_VALUE: map_value}
        else:
            column = column_type(frame, value, name)
            if column.kind != "map":
                raise InvalidOption(
                    f"column '{value}' is {column.text}, where a map state needs a map",
                    where=Where(state=name),
                    advice="give a map column, or map_key='…', map_value='…' with a row for each entry",
                )
            pair, roles = (column.children[0], column.children[1]), {VALUE: value}
        user_key = state_type(map_key_type, pair[0], name)
        user_value = state_type(map_value_type, pair[1], name)
        return self._add(
            name, StateKind.MAP, frame, user_value, user_key, roles, ttl, last_access, namespace, namespace_type
        )

    def event_time_timers(
        self,
        frame: DataFrame,
        timestamp: str = TIMESTAMP,
        *,
        service: str = USER_TIMERS,
        namespace: str | None = None,
        namespace_type: Type = None,
    ) -> Self:
        """Add event-time timers of a timer service.

        Args:
            frame: one row per timer.
            timestamp: the column of times: timestamps, or ms since the epoch.
            service: the name of the timer service; by default that of KeyedProcessFunction.
            namespace: the column of namespaces, for states of windows and triggers.
            namespace_type: its type; by default that of the column.

        Returns:
            This object.

        Raises:
            NotFound: a column is missing.
            InvalidOption: a column has a type that the state cannot have.
        """
        return self._timers(StateKind.EVENT_TIMERS, frame, timestamp, service, namespace, namespace_type)

    def processing_time_timers(
        self,
        frame: DataFrame,
        timestamp: str = TIMESTAMP,
        *,
        service: str = USER_TIMERS,
        namespace: str | None = None,
        namespace_type: Type = None,
    ) -> Self:
        """Add processing-time timers of a timer service; arguments, result and errors as for `event_time_timers`."""
        return self._timers(StateKind.PROCESSING_TIMERS, frame, timestamp, service, namespace, namespace_type)

    def _single(
        self,
        name: str,
        kind: StateKind,
        frame: DataFrame,
        value: str,
        type_: Type,
        ttl: bool,
        last_access: str | None,
        namespace: str | None,
        namespace_type: Type,
    ) -> Self:
        found = state_type(type_, column_type(frame, value, name), name)
        roles = {VALUE: value}
        return self._add(name, kind, frame, found, None, roles, ttl, last_access, namespace, namespace_type)

    def _timers(
        self,
        kind: StateKind,
        frame: DataFrame,
        timestamp: str,
        service: str,
        namespace: str | None,
        namespace_type: Type,
    ) -> Self:
        name = timer_state_name(service, event=kind is StateKind.EVENT_TIMERS)
        check_time(frame, timestamp, name, "a timer's time")
        roles = {TIMESTAMP: timestamp}
        return self._add(name, kind, frame, None, None, roles, False, None, namespace, namespace_type)

    def _add(
        self,
        name: str,
        kind: StateKind,
        frame: DataFrame,
        value: Serializer | None,
        user_key: Serializer | None,
        roles: Mapping[str, str],
        ttl: bool,
        last_access: str | None,
        namespace: str | None,
        namespace_type: Type,
    ) -> Self:
        """Add a state. ``roles``: the columns of what is below key and namespace."""
        check_name(name, "a state")
        columns = {KEY: self._key}
        key = column_type(frame, self._key, name)
        if self._key_type is None:
            self._key_type = state_type(None, key, name)
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
        declared = RegisteredState(name, kind, value, space, user_key, ttl or last_access is not None)
        self.keyed.append(KeyedRows(declared, frame, {**columns, **roles}))
        return self
