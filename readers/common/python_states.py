"""Give the states of Python functions the types that users name (option ``value_type``).

PyFlink stores value, list, reducing and aggregating state as list state of byte arrays under the name
``python-state-…``, and map state as map state of byte arrays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from stateproc.errors import InvalidOption
from stateproc.readers.common.state_descriptor import KeyedState, StateKind
from stateproc.serializers import Serializer
from stateproc.serializers.pyflink import NoMapType, PythonElement, parse_python_type

PREFIX = "python-state-"
WINDOW_SET = f"{PREFIX}merging-window-set"
ANY_STATE = ""
"""Stands for all states of Python functions in a mapping of names to types."""
_WINDOWS = "MAP<TIME_WINDOW, TIME_WINDOW>"
_parsed = cache(parse_python_type)


def with_python_type(state: KeyedState, types: Mapping[str, str]) -> KeyedState:
    """Return the state with the type that is given for it; the state itself if there is none.

    Raises InvalidOption if the type is none of PyFlink. A type that is none of a map makes a map's values undecodable.
    """
    if not state.name.startswith(PREFIX):
        return state
    text = types.get(state.name, types.get(state.name.removeprefix(PREFIX)))
    if text is None:
        text = _WINDOWS if state.name == WINDOW_SET else types.get(ANY_STATE)
    if text is None:
        return state
    type_ = _parsed(text)
    if state.kind is StateKind.MAP and state.user_key is not None and _is_bytes(state.user_key, state.value):
        if type_.name != "MAP":
            return replace(state, value=NoMapType(type_, state.value))
        key, value = type_.parts
        return replace(state, user_key=PythonElement(key, state.user_key), value=PythonElement(value, state.value))
    if state.kind is StateKind.LIST and _is_bytes(state.value):
        many = type_.name == "LIST"
        return replace(state, value=PythonElement(type_.parts[0] if many else type_, state.value, many))
    return state


def _is_bytes(*serializers: Serializer) -> bool:
    return all(item.type_name == "byte[]" for item in serializers)


def parse_value_types(given: Any) -> dict[str, str]:
    """Parse the option: one type, a mapping from states to types, or that as JSON. Raises InvalidOption."""
    if given is None:
        return {}
    if isinstance(given, str) and given.lstrip().startswith("{"):
        try:
            given = json.loads(given)
        except ValueError:
            given = None
    types = {ANY_STATE: given} if isinstance(given, str) else given
    if not isinstance(types, Mapping) or not all(isinstance(item, str) for pair in types.items() for item in pair):
        raise InvalidOption("value_type is no type", advice='such as LONG, or {"count": "LONG"}')
    for text in types.values():
        _parsed(text)
    return dict(types)
