"""The kinds of states in job files: the method of OperatorBootstrap that adds each, and its arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
COLUMN = {**TEXT, "description": "a column of the source"}
TYPE = {**TEXT, "description": "a Flink type in the words of stateproc.types, such as Tuple2<Long, String>"}
FLAG: dict[str, Any] = {"type": "boolean"}
_SPACE = {"namespace": COLUMN, "namespace_type": TYPE}
_KEPT = {"ttl": {**FLAG, "description": "whether the state's descriptor has a time to live"}, "last_access": COLUMN}
_SINGLE = {"value": COLUMN, "type": TYPE, **_KEPT, **_SPACE}
_TIMERS = {"timestamp": COLUMN, "service": TEXT, **_SPACE}
_ELEMENTS = {"value": COLUMN, "type": TYPE, "subtask": COLUMN}
_WINDOW: dict[str, Any] = {
    "value": COLUMN,
    "type": TYPE,
    "assigner": {"enum": ["tumbling", "sliding", "session", "global"]},
    "contents": {"enum": ["list", "evict", "reduce", "aggregate"]},
    "window": {
        "oneOf": [COLUMN, {"type": "array", "items": COLUMN, "minItems": 2, "maxItems": 2}],
        "description": "a column of structs of start and end, or the columns of both",
    },
    "time": {"enum": ["event", "processing"]},
    "allowed_lateness": {"type": "integer", "minimum": 0, "description": "milliseconds"},
    "count": COLUMN,
    "fired": COLUMN,
    "state_window": COLUMN,
}
_KAFKA: dict[str, Any] = {
    **dict.fromkeys(("topic", "partition", "offset", "stopping_offset", "subtask"), COLUMN),
    "enumerator_version": {"enum": [1, 2, 3]},
}


@dataclass(frozen=True)
class JobStateKind:
    """One kind of state.

    Attributes:
        method: The method of OperatorBootstrap that adds it.
        arguments: Its keyword arguments, each with the JSON Schema of its value.
        named: Whether the state has a name of its own, the first argument.
        help: What the state is.
    """

    method: str
    arguments: dict[str, Any]
    help: str
    named: bool = True


STATE_KINDS: dict[str, JobStateKind] = {
    "value": JobStateKind("value_state", _SINGLE, "a ValueState, a row per key"),
    "reducing": JobStateKind("reducing_state", _SINGLE, "a ReducingState, the reduced value per key"),
    "aggregating": JobStateKind("aggregating_state", _SINGLE, "an AggregatingState, the accumulator per key"),
    "list": JobStateKind(
        "list_state",
        {"value": COLUMN, "element_type": TYPE, **_KEPT, **_SPACE},
        "a ListState, an array of all elements per key",
    ),
    "map": JobStateKind(
        "map_state",
        {
            "value": COLUMN,
            "map_key": COLUMN,
            "map_value": COLUMN,
            "map_key_type": TYPE,
            "map_value_type": TYPE,
            **_KEPT,
            **_SPACE,
        },
        "a MapState, a map per key, or a row per entry",
    ),
    "event-timers": JobStateKind("event_time_timers", _TIMERS, "event-time timers, a row each", named=False),
    "processing-timers": JobStateKind("processing_time_timers", _TIMERS, "processing-time timers", named=False),
    "window": JobStateKind("window_state", _WINDOW, "all states and timers of a window operator", named=False),
    "operator-list": JobStateKind("operator_list_state", _ELEMENTS, "an operator's ListState, a row per element"),
    "union": JobStateKind("union_list_state", _ELEMENTS, "a union ListState, a row per element"),
    "broadcast": JobStateKind(
        "broadcast_state",
        {"map_key": COLUMN, "map_value": COLUMN, "map_key_type": TYPE, "map_value_type": TYPE},
        "a broadcast state, a row per entry",
    ),
    "kafka-source": JobStateKind("kafka_source", _KAFKA, "offsets of a KafkaSource, a row per partition", named=False),
}
"""By the value of ``kind``, as ``stateKind`` of ``df.write`` names them."""
