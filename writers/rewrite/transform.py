"""Transform the rows of an existing state with a function of DataFrames, or of Arrow data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from stateproc.errors import InvalidOption, Where
from stateproc.model.operator import Operator
from stateproc.readers.row_schema import KEY_GROUP
from stateproc.readers.state_descriptor import KeyedState, StateKind
from stateproc.serializers import Serializer
from stateproc.serializers.runtime.ttl import LAST_ACCESS
from stateproc.writers.bootstrap.column_type import ColumnType
from stateproc.writers.bootstrap.frame_columns import columns_like, columns_of, is_spark
from stateproc.writers.bootstrap.keyed_encoder import KEY, NAMESPACE, VALUE
from stateproc.writers.bootstrap.operator_bootstrap import OperatorBootstrap
from stateproc.writers.bootstrap.validation import Type
from stateproc.writers.rewrite.exact_rows import is_alike

_SINGLE = {
    StateKind.VALUE: "value_state", StateKind.REDUCING: "reducing_state", StateKind.AGGREGATING: "aggregating_state",
}  # fmt: skip


def state_reader(operator: Operator, state: str) -> pa.RecordBatchReader:
    """Return a reader of a keyed state's rows, which reads them when it is asked for them, in the thread that asks.

    Raises:
        NotFound, UnsupportedSnapshot: There is no such state, or its types are not known.
    """
    return operator.state(state).to_reader(threads=1)


def typed_value(operator: Operator, state: str, frame: Any) -> ColumnType | None:
    """Return the type of a state's values with Arrow's dates and times, as the library of ``frame`` has it.

    None if that library has no such type.
    """
    schema = operator.state(state).with_temporal("micros").schema()
    try:
        columns = columns_like(frame, schema)
    except InvalidOption:
        return None
    value: ColumnType = columns.types[schema.get_field_index(VALUE)]
    return value


def transformation(
    state: KeyedState,
    frame: Any,
    function: Callable[[Any], Any],
    value_type: Type,
    map_key_type: Type,
    typed: ColumnType | None,
) -> Callable[[OperatorBootstrap], object]:
    """Return a callback that adds the transformed rows to a bootstrap. Raises InvalidOption for timers.

    Args:
        state: the state.
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
    found, was = columns.types[list(columns.names).index(VALUE)], before.types[list(before.names).index(VALUE)]

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
