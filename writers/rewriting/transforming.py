"""An existing state's rows through a function, and back into the operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from stateproc.errors import InvalidOption, Where
from stateproc.readers.rows import KEY_GROUP
from stateproc.readers.states import KeyedState, StateKind
from stateproc.serializers import Serializer
from stateproc.serializers.runtime import LAST_ACCESS
from stateproc.writers.bootstrapping.bootstrap import OperatorBootstrap
from stateproc.writers.bootstrapping.checking import Type
from stateproc.writers.bootstrapping.rows import KEY, NAMESPACE, VALUE

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
    """What puts ``function`` of the state's rows into a bootstrap. Raises InvalidOption for states of no rows.

    The rows tell their key groups, for keys whose hashes nothing else tells.
    """
    if state.kind not in (*_SINGLE, StateKind.LIST, StateKind.MAP):
        raise InvalidOption(
            f"rows of a state of the kind {state.kind.value} cannot be transformed",
            where=Where(state=state.name),
            advice="drop it, or leave it as it is",
        )
    before = {field.name: field.dataType for field in frame.schema}
    after = function(frame)
    missing = [name for name in (KEY, VALUE) if name not in after.columns]
    if missing:
        raise InvalidOption(
            f"the function's rows have no column '{missing[0]}'",
            where=Where(state=state.name),
            advice="keep the columns that the state has: " + ", ".join(frame.columns),
        )
    same = after.schema[VALUE].dataType == before[VALUE]

    def kept(given: Type, own: Serializer | None) -> Type:
        return own if given is None and same else given

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
        value = kept(value_type, state.value)
        if state.kind is StateKind.LIST:
            return bootstrap.list_state(state.name, after, VALUE, element_type=value, **common)
        if state.kind is StateKind.MAP:
            user_key = kept(map_key_type, state.user_key)
            return bootstrap.map_state(state.name, after, VALUE, map_key_type=user_key, map_value_type=value, **common)
        return getattr(bootstrap, _SINGLE[state.kind])(state.name, after, VALUE, type=value, **common)

    return add
