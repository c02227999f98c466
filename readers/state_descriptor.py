"""Describe keyed states as the backend header does: kind, serializers, time to live."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from stateproc.errors import InvalidOption
from stateproc.metadata.backend import KEY_VALUE, KEY_VALUE_V2, PRIORITY_QUEUE, KeyedHeader, StateMetaInfo
from stateproc.serializers import Serializer
from stateproc.serializers.core.opaque import Opaque
from stateproc.serializers.java.collections import ListOf, MapOf
from stateproc.serializers.pyflink import NoMapType, PythonElement, parse_python_type
from stateproc.serializers.runtime.streaming import Timer
from stateproc.serializers.runtime.ttl import TtlSerializer

TIMER_PREFIX = "_timer_state/"


def timer_state_name(service: str, *, event: bool) -> str:
    """The priority queue of a timer service (InternalTimeServiceManagerImpl)."""
    return f"{TIMER_PREFIX}{'event' if event else 'processing'}_{service}"


class StateKind(enum.Enum):
    """Flink's StateDescriptor.Type, and timers."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    REDUCING = "reducing"
    AGGREGATING = "aggregating"
    FOLDING = "folding"
    UNKNOWN = "unknown"
    EVENT_TIMERS = "event timers"
    PROCESSING_TIMERS = "processing timers"
    QUEUE = "priority queue"

    @property
    def is_queue(self) -> bool:
        return self in (StateKind.EVENT_TIMERS, StateKind.PROCESSING_TIMERS, StateKind.QUEUE)


@dataclass(frozen=True)
class StateDescriptor:
    """A keyed state as a header declares it.

    ``value``: for LIST the element, for MAP the user value, else the value; TTL is reported by ``ttl`` and not part of
    it. ``user_key``: of MAP. ``state_id``: its position.
    """

    name: str
    kind: StateKind
    state_id: int
    key: Serializer
    namespace: Serializer
    value: Serializer
    user_key: Serializer | None = None
    ttl: bool = False

    @property
    def serializers(self) -> tuple[Serializer, ...]:
        """Return the types of all parts of an entry."""
        return tuple(part for part in (self.key, self.namespace, self.user_key, self.value) if part is not None)

    @property
    def has_namespace(self) -> bool:
        return self.namespace.type_name != "VoidNamespace"


def keyed_state(info: StateMetaInfo, state_id: int, key: Serializer) -> StateDescriptor | None:
    """The state that ``info`` registers; None if its serializers are not those a state has."""
    value = info.value_serializer
    if value is None:
        return None
    if info.backend_type == PRIORITY_QUEUE:
        return _queue(info.name, state_id, value)
    namespace = info.namespace_serializer
    if info.backend_type not in (KEY_VALUE, KEY_VALUE_V2) or namespace is None:
        return None
    kind = _kind(info.options.get("KEYED_STATE_TYPE", "UNKNOWN"))
    user_key: Serializer | None = None
    if info.backend_type == KEY_VALUE_V2:
        user_key = info.serializers.get("USER_KEY_SERIALIZER") if kind is StateKind.MAP else None
        element = value
    elif kind is StateKind.LIST and isinstance(value, ListOf):
        element = value.element
    elif kind is StateKind.MAP and isinstance(value, MapOf):
        user_key, element = value.key, value.value
    elif kind is StateKind.LIST and isinstance(value, Opaque):
        element = value
    elif kind is StateKind.MAP and isinstance(value, Opaque):
        user_key = element = value
    elif kind in (StateKind.LIST, StateKind.MAP):
        return None
    else:
        element = value
    if kind is StateKind.MAP and user_key is None:
        return None
    ttl = isinstance(element, TtlSerializer)
    plain = element.value if isinstance(element, TtlSerializer) else element
    return StateDescriptor(info.name, kind, state_id, key, namespace, plain, user_key, ttl)


def header_states(header: KeyedHeader) -> list[StateDescriptor | str]:
    """Return the header's states by id; the name only of one whose serializers are not those of a state."""
    return [keyed_state(info, index, header.key) or info.name for index, info in enumerate(header.states)]


def find_state(header: KeyedHeader, name: str) -> StateDescriptor | None:
    """Return the header's keyed state of that name; None if it has none."""
    for index, info in enumerate(header.states):
        if info.name == name:
            return keyed_state(info, index, header.key)
    return None


def _kind(name: str) -> StateKind:
    return StateKind[name] if name in StateKind.__members__ else StateKind.UNKNOWN


def _queue(name: str, state_id: int, element: Serializer) -> StateDescriptor | None:
    if not isinstance(element, Timer):
        return None
    kind = StateKind.QUEUE
    if name.startswith(TIMER_PREFIX + "event_"):
        kind = StateKind.EVENT_TIMERS
    elif name.startswith(TIMER_PREFIX + "processing_"):
        kind = StateKind.PROCESSING_TIMERS
    return StateDescriptor(name, kind, state_id, element.key, element.namespace, element)


# Give the states of Python functions the types that users name (option ``value_type``).
#
# PyFlink stores value, list, reducing and aggregating state as list state of byte arrays under the name
# ``python-state-…``, and map state as map state of byte arrays.

PREFIX = "python-state-"
WINDOW_SET = f"{PREFIX}merging-window-set"
ANY_STATE = ""
"""Stands for all states of Python functions in a mapping of names to types."""
_WINDOWS = "MAP<TIME_WINDOW, TIME_WINDOW>"
_parsed = cache(parse_python_type)


def with_python_type(state: StateDescriptor, types: Mapping[str, str]) -> StateDescriptor:
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
