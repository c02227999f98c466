"""Register states of a new operator: kind, types, and their entries in headers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from stateproc import types
from stateproc.errors import InvalidOption, Where, not_found
from stateproc.flink_versions import Release
from stateproc.metadata.backend import BROADCAST, DISTRIBUTION_MODE, KEY_VALUE, OPERATOR, PRIORITY_QUEUE, StateMetaInfo
from stateproc.metadata.operator_handles import DistributionMode
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import Serializer
from stateproc.serializers.core.registry import proxied_snapshot
from stateproc.serializers.java.collections import ListOf, MapOf
from stateproc.serializers.java.scalars import VOID_NAMESPACE
from stateproc.serializers.runtime.streaming import Timer
from stateproc.serializers.runtime.ttl import TtlSerializer
from stateproc.writers.bootstrap.column_types import ColumnType, has_positional_names
from stateproc.writers.bootstrap.frame_columns import columns_of, type_given
from stateproc.writers.formats.keyed_file import KeyedStateHeader

USER_TIMERS = "user-timers"
"""The timer service of KeyedProcessFunction."""


@dataclass(frozen=True)
class RegisteredState:
    """A keyed state: ``value`` is the element of a list, the user value of a map; None for timers."""

    name: str
    kind: StateKind
    value: Serializer | None
    namespace: Serializer = VOID_NAMESPACE
    user_key: Serializer | None = None
    ttl: bool = False

    def state(self, key: Serializer, state_id: int) -> StateDescriptor:
        """The state under its id in the operator's header."""
        value = Timer(key, self.namespace) if self.value is None else self.value
        return StateDescriptor(self.name, self.kind, state_id, key, self.namespace, value, self.user_key, self.ttl)

    def info(self, key: Serializer, release: Release) -> StateMetaInfo:
        """The state's entry in the header, as a release of Flink writes it."""
        if self.value is None:
            return meta_info(self.name, PRIORITY_QUEUE, {}, {"VALUE_SERIALIZER": Timer(key, self.namespace)}, release)
        element: Serializer = TtlSerializer(self.value) if self.ttl else self.value
        stored = element
        if self.kind is StateKind.LIST:
            stored = ListOf("List", element)
        elif self.user_key is not None:
            stored = MapOf(self.user_key, element)
        serializers = {"NAMESPACE_SERIALIZER": self.namespace, "VALUE_SERIALIZER": stored}
        return meta_info(self.name, KEY_VALUE, {"KEYED_STATE_TYPE": self.kind.name}, serializers, release)


def keyed_part(key: Serializer, states: Sequence[RegisteredState], release: Release) -> KeyedStateHeader:
    """The header of these states, in their order. Raises InvalidOption for two states of one name."""
    names = [state.name for state in states]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidOption(f"two states are called {twice!r}", advice="a name stands for one state of its operator")
    infos = tuple(state.info(key, release) for state in states)
    return KeyedStateHeader(key, proxied_snapshot(key, release), infos)


def list_info(name: str, element: Serializer, mode: DistributionMode, release: Release) -> StateMetaInfo:
    """An operator's list or union state."""
    return meta_info(name, OPERATOR, {DISTRIBUTION_MODE: mode}, {"VALUE_SERIALIZER": element}, release)


def broadcast_info(name: str, key: Serializer, value: Serializer, release: Release) -> StateMetaInfo:
    """A broadcast state."""
    serializers = {"KEY_SERIALIZER": key, "VALUE_SERIALIZER": value}
    return meta_info(name, BROADCAST, {DISTRIBUTION_MODE: "BROADCAST"}, serializers, release)


def meta_info(
    name: str, backend_type: str, options: dict[str, str], serializers: dict[str, Serializer], release: Release
) -> StateMetaInfo:
    """A state's entry in a header, with the snapshots that ``release`` writes of its serializers."""
    snapshots = {role: proxied_snapshot(serializer, release) for role, serializer in serializers.items()}
    return StateMetaInfo(name, backend_type, options, serializers, snapshots)


# Check the arguments of a bootstrap before anything runs: rows, names, columns and their types.

Type: TypeAlias = "Serializer | str | pa.DataType | Any | None"
"""A type of stateproc.types, its text, an Arrow or Spark type for its default, or None for that of the column."""


def column_type(frame: Any, column: str, state: str) -> ColumnType:
    """The type of a column. Raises NotFound; InvalidOption for no DataFrame, or two columns of one name."""
    columns = columns_of(frame)
    if columns is None:
        raise InvalidOption(
            f"the rows are a {type(frame).__name__}, and no DataFrame of Spark or Arrow data",
            where=Where(state=state),
            advice="make one: spark.createDataFrame(…) takes pandas DataFrames, Arrow tables and lists of rows; "
            "pyarrow.Table.from_pylist(…) and .from_pandas(…) for the local engine",
        )
    names = list(columns.names)
    if column not in names:
        raise not_found("column", column, names).at(state=state)
    if names.count(column) > 1:
        raise InvalidOption(
            f"two columns are called '{column}'",
            where=Where(state=state),
            advice="rename one: frame.toDF(…), table.rename_columns(…)",
        )
    return columns.type_of(column)


def check_whole(frame: Any, column: str, state: str, what: str) -> None:
    """Raise InvalidOption unless the column is of whole numbers; ``what`` they mean."""
    found = column_type(frame, column, state)
    if found.kind != "whole":
        raise InvalidOption(
            f"column '{column}' is {found.text}, where {what} is a whole number",
            where=Where(state=state),
            advice=f"cast it: frame.withColumn('{column}', col('{column}').cast('int')), or Arrow data to int32",
        )


def check_time(frame: Any, column: str, state: str, what: str, *, nested: bool = False) -> None:
    """Raise InvalidOption unless the column is of timestamps or whole numbers; ``what`` they mean.

    nested: it may as well be of arrays or maps of them, a time for each element.
    """
    found = column_type(frame, column, state)
    inner = found.children[-1] if nested and found.kind in ("list", "map") else found
    if inner.kind not in ("whole", "time"):
        raise InvalidOption(
            f"column '{column}' is {found.text}, where {what} is a timestamp, or ms since the epoch",
            where=Where(state=state),
            advice=f"cast it: col('{column}').cast('timestamp'), or .cast('long') if it is in milliseconds; Arrow data "
            "to timestamp or int64",
        )


def check_name(name: object, what: str) -> None:
    """Raise InvalidOption unless ``name`` is text."""
    if not isinstance(name, str):
        raise InvalidOption(f"{what} is called by text, and not by {name!r}", advice="give its name as a string")


def type_of(given: Type, column: ColumnType | None = None) -> Serializer:
    """The type given, or the default of a column's type. Raises InvalidOption."""
    of_frame = type_given(given)
    if of_frame is not None:
        given, column = None, of_frame
    if given is not None:
        return types.of(given)
    if column is None:
        raise InvalidOption("no type is given, and no column to take it from")
    if column.arrow is None:
        raise InvalidOption(f"a column of type {column.text} has no Flink type by default", advice=column.advice)
    return types.of_arrow(column.arrow)


def state_type(given: Type, column: ColumnType, state: str) -> Serializer:
    """The type given for a state, or the default of its column; warns if that loses the names of struct fields.

    Raises:
        InvalidOption: the column has no default type.
    """
    lost = [] if given is not None else list(_lost_names(column))
    if lost:
        warnings.warn(
            f"state '{state}': struct fields are written as fields of Flink's Row, by position: the names "
            f"{', '.join(lost)} are not stored; give a type with names (types.Pojo, types.Avro) to keep them, or "
            "types.Row to write the fields without names",
            stacklevel=4,
        )
    return type_of(given, column)


def _lost_names(found: ColumnType) -> Iterator[str]:
    """The names of struct fields other than f0, f1 … and _1, _2 …, which name positions."""
    names = [name for name, _ in found.fields]
    if found.kind == "struct" and not has_positional_names(names):
        yield from names
    for child in found.children:
        yield from _lost_names(child)
