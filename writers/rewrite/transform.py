"""Transform the rows of an existing state with a function of DataFrames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, MapType, StructType

from stateproc.errors import InvalidOption, Where
from stateproc.readers.common.row_schema import KEY_GROUP
from stateproc.readers.common.state_descriptor import KeyedState, StateKind
from stateproc.serializers import Serializer
from stateproc.serializers.runtime.ttl import LAST_ACCESS
from stateproc.writers.bootstrap.keyed_encoder import KEY, NAMESPACE, VALUE
from stateproc.writers.bootstrap.operator_bootstrap import OperatorBootstrap
from stateproc.writers.bootstrap.validation import Type

_SINGLE = {
    StateKind.VALUE: "value_state", StateKind.REDUCING: "reducing_state", StateKind.AGGREGATING: "aggregating_state",
}  # fmt: skip


def transformation(
    state: KeyedState,
    frame: DataFrame,
    function: Callable[[DataFrame], DataFrame],
    value_type: Type,
    map_key_type: Type,
) -> Callable[[OperatorBootstrap], object]:
    """Return a callback that adds the transformed rows to a bootstrap. Raises InvalidOption for timers.

    The rows keep their key groups, which do not follow from keys with a hashCode of their own.
    """
    if state.kind not in (*_SINGLE, StateKind.LIST, StateKind.MAP):
        raise InvalidOption(
            f"rows of a state of the kind {state.kind.value} cannot be transformed",
            where=Where(state=state.name),
            advice="drop it, or leave it as it is",
        )
    before = {field.name: field.dataType for field in frame.schema}
    after = function(frame)
    if not isinstance(getattr(after, "schema", None), StructType):
        raise InvalidOption(
            f"the function gave a {type(after).__name__}",
            where=Where(state=state.name),
            advice="it gets the state's rows as a DataFrame, and returns those that the state shall have",
        )
    missing = [name for name in (KEY, VALUE) if name not in after.columns]
    if missing:
        raise InvalidOption(
            f"the function's rows have no column '{missing[0]}'",
            where=Where(state=state.name),
            advice="keep the columns that the state has: " + ", ".join(frame.columns),
        )
    found, was = after.schema[VALUE].dataType, before[VALUE]

    def kept(given: Type, own: Serializer | None, now: DataType, then: DataType) -> Type:
        # What may be null is said of columns only: Flink's types are the same without it.
        return own if given is None and now.simpleString() == then.simpleString() else given

    def add(bootstrap: OperatorBootstrap) -> object:
        state_added = put(bootstrap)
        if KEY_GROUP in after.columns:
            rows = bootstrap.keyed[-1]
            bootstrap.keyed[-1] = replace(rows, columns={**rows.columns, KEY_GROUP: KEY_GROUP})
        return state_added

    def put(bootstrap: OperatorBootstrap) -> object:
        common: dict[str, Any] = {
            "ttl": state.ttl,
            "last_access": LAST_ACCESS if state.ttl and LAST_ACCESS in after.columns else None,
            "namespace": NAMESPACE if state.has_namespace else None,
            "namespace_type": state.namespace,
        }
        if state.kind is StateKind.MAP and isinstance(found, MapType) and isinstance(was, MapType):
            user_key = kept(map_key_type, state.user_key, found.keyType, was.keyType)
            value = kept(value_type, state.value, found.valueType, was.valueType)
            return bootstrap.map_state(state.name, after, VALUE, map_key_type=user_key, map_value_type=value, **common)
        value = kept(value_type, state.value, found, was)
        if state.kind is StateKind.LIST:
            return bootstrap.list_state(state.name, after, VALUE, element_type=value, **common)
        if state.kind is StateKind.MAP:
            return bootstrap.map_state(state.name, after, VALUE, **common)  # says what the column should be
        return getattr(bootstrap, _SINGLE[state.kind])(state.name, after, VALUE, type=value, **common)

    return add
