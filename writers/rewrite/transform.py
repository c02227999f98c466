"""Transform the rows of an existing state with a function of DataFrames, or of Arrow data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from stateproc.errors import InvalidOption, Where
from stateproc.model.operator import Operator
from stateproc.readers.read_options import ReadOptions
from stateproc.readers.row_schema import KEY_GROUP
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import Serializer
from stateproc.serializers.runtime.ttl import LAST_ACCESS
from stateproc.writers.bootstrap.column_types import ColumnType
from stateproc.writers.bootstrap.frame_columns import columns_like, columns_of, is_spark
from stateproc.writers.bootstrap.keyed_encoder import KEY, NAMESPACE, VALUE
from stateproc.writers.bootstrap.operator_bootstrap import OperatorBootstrap
from stateproc.writers.bootstrap.state_registration import Type

# How writers read the rows of a state: exactly, unless the user chose otherwise.
#
# By default dates and times are text (ISO-8601) where the type of their values has nanoseconds, which neither Spark's
# timestamps nor most functions of Arrow have, and Arrow's types where microseconds are all the type has. Whatever a
# column cannot hold is an error: digits below a microsecond where the user chose ``temporal='micros'``, a RowKind other
# than +I without ``row_kind``, half of a surrogate pair.

EXACT_ROWS = {"temporal": "lossless", "on_loss": "fail"}
"""The options of reading with which rows are exact, by their names in Python."""
_SPARK_NAMES = {"temporal": "temporal", "on_loss": "onLoss"}


def exact_open_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Add what makes rows exact to arguments of ``stateproc.open``, unless they are given."""
    return {**EXACT_ROWS, **given}


def exact_spark_options(given: Mapping[str, str]) -> dict[str, str]:
    """Add the options of exact rows to those of the data source, unless they are given in any spelling."""
    names = {name.lower().replace("_", "") for name in given}
    added = {_SPARK_NAMES[name]: value for name, value in EXACT_ROWS.items() if name.replace("_", "") not in names}
    return {**added, **given}


def exact_read_options(options: ReadOptions, given: Mapping[str, str] | None) -> ReadOptions:
    """Return the options with which a snapshot was opened, with those that make rows exact.

    Args:
        given: Those that the user gave, by Spark's names; None if that is not known: then what is the default of
            reading was not chosen.
    """
    if given is None:
        loose = {"temporal": "micros", "on_loss": "cut"}
        chosen = {name for name, value in loose.items() if getattr(options, name) != value}
    else:
        names = {name.lower().replace("_", "") for name in given}
        chosen = {name for name in EXACT_ROWS if name.replace("_", "") in names}
    added: dict[str, Any] = {name: value for name, value in EXACT_ROWS.items() if name not in chosen}
    return replace(options, **added)


def is_alike(now: ColumnType, before: ColumnType, typed: ColumnType | None) -> bool:
    """Return whether a column has the type that it had before, so that Flink's type is the same.

    Args:
        now: The type of the column.
        before: The type that it was read as.
        typed: The same with Arrow's dates and times instead of text.
    """
    # What may be null is said of columns only: Flink's types are the same without it.
    if now.text == before.text or (typed is not None and now.text == typed.text):
        return True
    if typed is None or not now.fields or not now.kind == before.kind == typed.kind:
        return False
    names = [[name for name, _ in type_.fields] for type_ in (now, before, typed)]
    if names[0] != names[1] or names[1] != names[2]:
        return False
    return all(map(is_alike, now.children, before.children, typed.children))


_SINGLE = {
    StateKind.VALUE: "value_state",
    StateKind.REDUCING: "reducing_state",
    StateKind.AGGREGATING: "aggregating_state",
}


def typed_value(operator: Operator, state: str, frame: Any) -> ColumnType | None:
    """Return the type of a state's values with Arrow's dates and times, as the library of ``frame`` has it.

    None if that library has no such type.
    """
    schema = operator.state(state).with_temporal("micros").schema()
    try:
        columns = columns_like(frame, schema)
    except InvalidOption:
        return None
    return columns.type_of(VALUE)


def transformation(
    state: StateDescriptor,
    frame: Any,
    function: Callable[[Any], Any],
    value_type: Type,
    map_key_type: Type,
    typed: ColumnType | None,
) -> Callable[[OperatorBootstrap], object]:
    """Return a callback that adds the transformed rows to a bootstrap. Raises InvalidOption for timers.

    Args:
        frame: its rows, as a DataFrame of Spark or in Arrow's form.
        function: receives the rows and returns the new ones.
        value_type: Flink's type of values, if it is given.
        map_key_type: Flink's type of map keys, if it is given.
        typed: the type of values if dates and times are not read as text.

    The rows keep their key groups, which do not follow from keys with a hashCode of their own.
    """
    if state.kind not in (*_SINGLE, StateKind.LIST, StateKind.MAP):
        raise InvalidOption(
            f"rows of a state of the kind {state.kind.value} cannot be transformed",
            where=Where(state=state.name),
            advice="drop it, or leave it as it is",
        )
    before = columns_of(frame)
    after = function(frame)
    columns = columns_of(after)
    if columns is None or before is None or is_spark(frame) != is_spark(after):
        raise InvalidOption(
            f"the function gave a {type(after).__name__}",
            where=Where(state=state.name),
            advice="it gets the state's rows as a DataFrame, and returns those that the state shall have; without a "
            "session it gets a pyarrow.RecordBatchReader, and returns Arrow data",
        )
    missing = [name for name in (KEY, VALUE) if name not in columns.names]
    if missing:
        raise InvalidOption(
            f"the function's rows have no column '{missing[0]}'",
            where=Where(state=state.name),
            advice="keep the columns that the state has: " + ", ".join(before.names),
        )
    found, was = columns.type_of(VALUE), before.type_of(VALUE)

    def kept(given: Type, own: Serializer | None, *path: int) -> Type:
        now, then, as_times = found, was, typed
        for step in path:
            now, then = now.children[step], then.children[step]
            as_times = as_times.children[step] if as_times is not None and as_times.children else None
        return own if given is None and is_alike(now, then, as_times) else given

    def add(bootstrap: OperatorBootstrap) -> object:
        state_added = put(bootstrap)
        if KEY_GROUP in columns.names:
            rows = bootstrap.keyed[-1]
            bootstrap.keyed[-1] = replace(rows, columns={**rows.columns, KEY_GROUP: KEY_GROUP})
        return state_added

    def put(bootstrap: OperatorBootstrap) -> object:
        common: dict[str, Any] = {
            "ttl": state.ttl,
            "last_access": LAST_ACCESS if state.ttl and LAST_ACCESS in columns.names else None,
            "namespace": NAMESPACE if state.has_namespace else None,
            "namespace_type": state.namespace,
        }
        if state.kind is StateKind.MAP and found.kind == was.kind == "map":
            user_key, value = kept(map_key_type, state.user_key, 0), kept(value_type, state.value, 1)
            return bootstrap.map_state(state.name, after, VALUE, map_key_type=user_key, map_value_type=value, **common)
        value = kept(value_type, state.value)
        if state.kind is StateKind.LIST:
            return bootstrap.list_state(state.name, after, VALUE, element_type=value, **common)
        if state.kind is StateKind.MAP:
            return bootstrap.map_state(state.name, after, VALUE, **common)  # says what the column should be
        return getattr(bootstrap, _SINGLE[state.kind])(state.name, after, VALUE, type=value, **common)

    return add
