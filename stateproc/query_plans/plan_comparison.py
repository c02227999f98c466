"""Compare plans whose columns became wider or whose state gets a time to live: what goes on, and in which type.

Wider are BIGINT than INT, DOUBLE than FLOAT, decimals of more digits, longer text and bytes, times of more digits, and
NULL than NOT NULL. State that is found by a column, as by a key, is not found by one of another type.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from stateproc.errors import InvalidOption
from stateproc.query_plans.node_definitions import (
    MULTI_JOIN,
    SIDES,
    TRACED,
    TTL_OPTION,
    WAITING_JOINS,
    WAITING_ROWS,
    is_on,
    joined_by,
)
from stateproc.query_plans.over_aggregates import over_order
from stateproc.query_plans.plan_file import CompiledPlan, PlanNode, invalid_plan, row_type_names, row_type_types
from stateproc.query_plans.plan_lineage import in_order
from stateproc.query_plans.plan_tables import SINK, primary_key
from stateproc.query_plans.rank_order import keys_of_rows, ordered_by
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.type_text import parse_sql_type

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_FLOATING = ("FLOAT", "DOUBLE")
_TYPE_NAMES = frozenset({"type", "dataType", "fieldType"})
_FAMILIES = {
    "INTEGER": r"TINYINT|SMALLINT|INT|BIGINT",
    "FLOATING": r"FLOAT|DOUBLE",
    "DECIMAL": r"DECIMAL\(\d+, \d+\)",
    "TEXT": r"VARCHAR\(\d+\)|STRING",
    "BYTES": r"VARBINARY\(\d+\)|BYTES",
    "TIMESTAMP": r"TIMESTAMP\(\d\)",
    "TIMESTAMP_LTZ": r"TIMESTAMP\(\d\) WITH LOCAL TIME ZONE|TIMESTAMP_LTZ\(\d\)",
}
_FAMILY = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _FAMILIES.items()))


def comparable(plan: CompiledPlan, *, types: bool) -> CompiledPlan:
    """Return a plan in which nodes are the same whether or not their state has a time to live, or rows come in batches.

    Nodes whose columns are not traced stay as they are.

    Args:
        types: Whether types that differ by their width are the same, too; of nodes that are not traced neither those
            of their inputs.
    """
    made: dict[int, PlanNode] = {}
    try:
        for node in in_order(plan):
            attributes = dict(node.attributes)
            if node.kind in TRACED:
                if has_time_to_live(node):
                    attributes = _timeless(attributes)
                if types:
                    attributes = {name: _wide(name, value) for name, value in attributes.items()}
            elif types:
                attributes["inputs"] = [row_type_types(one.attributes.get("outputType")) for one in node.sources]
            if types and isinstance(attributes.get("outputType"), str):
                attributes["outputType"] = _row(attributes["outputType"], node.kind in TRACED)
            sources = tuple(made[one.id] for one in node.sources)
            made[node.id] = replace(node, attributes=attributes, sources=sources)
    except RecursionError as error:
        raise invalid_plan("an expression is too deep") from error
    return CompiledPlan(plan.flink_version, [made[node.id] for node in plan.nodes])


def has_time_to_live(node: PlanNode) -> bool:
    """Whether state of a node gets a time to live from its serializer, and not from timers (OVER, temporal joins)."""
    return node.kind in TRACED and node.kind not in (*WAITING_ROWS, *WAITING_JOINS)


_SETTINGS = (TTL_OPTION, "table.exec.mini-batch.enabled", "table.exec.mini-batch.size")


def _timeless(attributes: dict[str, Any]) -> dict[str, Any]:
    # Flink before 1.18 says nothing of states; their names follow from the type of the node.
    attributes.pop("state", None)
    settings = attributes.get("configuration")
    if isinstance(settings, dict):
        attributes["configuration"] = {name: value for name, value in settings.items() if name not in _SETTINGS}
    return attributes


def _row(written: str, wide: bool) -> dict[str, Any]:
    types = row_type_types(written)[:-1]
    fields = [
        {"name": str(name), "fieldType": _family(type_) if wide else type_}
        for name, type_ in zip(row_type_names(written), types, strict=True)
    ]
    return {"type": "ROW", "fields": fields}


def _wide(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        # A cast that gives the values of its operand, in a type that is as wide or wider.
        if value.get("kind") == "CALL" and "CAST" in str(value.get("internalName")) and _keeps_all(value):
            return _wide(name, value["operands"][0])
        made = {inner: _wide(inner, one) for inner, one in value.items()}
        if "argList" in value:
            made["type"] = _collection(value.get("type"))
        if value.get("kind") == "CALL" and not (_keeps_all(value) or _writes_whole_number(value)):
            made["type"], made["operand types"] = value.get("type"), _operand_types(value)
        return made
    if isinstance(value, list):
        return [_wide("", one) for one in value]
    return _family(value) if isinstance(value, str) and name in _TYPE_NAMES else value


def _writes_whole_number(call: dict[str, Any]) -> bool:
    """Return whether a call gives a whole number as text, which is the same in all of their types."""
    type_, operands, name = _parsed(call.get("type")), _operand_types(call), str(call.get("internalName"))
    before = _parsed(operands[0]) if len(operands) == 1 else None
    is_text = type_ is not None and type_.kind in ("CHAR", "VARCHAR") and ("CAST" in name or name.startswith(_AS_JSON))
    return is_text and before is not None and before.kind in _INTEGERS


_TEXT = ("CHAR", "VARCHAR", "BINARY", "VARBINARY")
_AS_JSON = "$JSON_STRING$"
"""A function that gives a value as JSON, which JSON_ARRAYAGG and JSON_OBJECTAGG keep."""


def _keeps_all(call: dict[str, Any]) -> bool:
    """Return whether a call over wider columns gives what it gives over these, in a type that may be wider.

    What a cast or a decimal's scale cut off is lost, and text has the digits of a number's or a time's type.
    """
    type_, operands = _parsed(call.get("type")), [_parsed(one) for one in _operand_types(call)]
    if "CAST" in str(call.get("internalName")):
        before = operands[0] if operands else None
        return type_ is not None and before is not None and goes_on(_nullable(before), _nullable(type_))
    if type_ is not None and type_.kind in _TEXT:
        return all(one is not None and one.kind in _TEXT for one in operands)
    return type_ is None or type_.kind != "DECIMAL"


def _operand_types(call: dict[str, Any]) -> list[Any]:
    operands = call.get("operands")
    return (
        [one.get("type") if isinstance(one, dict) else None for one in operands] if isinstance(operands, list) else []
    )


def _parsed(written: Any) -> LogicalType | None:
    try:
        return parse_sql_type(written) if isinstance(written, str) else None
    except InvalidOption:
        return None


def _nullable(type_: LogicalType) -> LogicalType:
    return replace(type_, nullable=True)


def _family(written: str) -> str:
    text = written.removesuffix(" NOT NULL")
    found = _FAMILY.fullmatch(text)
    return text if found is None else str(found.lastgroup)


_COLLECTION = re.compile(r"(ARRAY|MULTISET)<(.*)>( NOT NULL)?")


def _collection(written: Any) -> Any:
    """Return the type of the result of an aggregate call; of one that collects values whatever their width is."""
    found = _COLLECTION.fullmatch(written) if isinstance(written, str) else None
    if found is None:
        return _family(written) if isinstance(written, str) else written
    return f"{found[1]}<{_family(found[2])}>"


def goes_on(old: LogicalType, new: LogicalType) -> bool:
    """Return whether all values of a type are values of another one, which is as wide or wider."""
    if (old.nullable and not new.nullable) or _time_kind(old) != _time_kind(new):
        return False
    for order in (_INTEGERS, _FLOATING):
        if old.kind in order and new.kind in order:
            return order.index(old.kind) <= order.index(new.kind)
    if old.kind == new.kind == "DECIMAL":
        return old.scale <= new.scale and old.precision - old.scale <= new.precision - new.scale
    if old.kind == new.kind and old.kind in ("VARCHAR", "VARBINARY"):
        return old.length <= new.length
    if old.kind == new.kind and old.kind.startswith("TIMESTAMP_"):
        return old.precision <= new.precision
    return _nullable(old) == _nullable(new)


def is_same(old: LogicalType, new: LogicalType) -> bool:
    """Return whether values of two types are written alike, and Flink takes one for the other."""
    return old == new and _time_kind(old) == _time_kind(new)


def _time_kind(type_: LogicalType) -> str | None:
    """Return whether a time is one of rows or of processing; serializers say of others that they are REGULAR."""
    return None if type_.attribute == "REGULAR" else type_.attribute


def is_written_alike(old: LogicalType, new: LogicalType) -> bool:
    """Return whether values of a type are written in a row as those of another one, which is as wide or wider.

    Text and bytes of any length are, and what may be null; decimals of up to 18 digits are numbers and others bytes,
    and times of up to milliseconds have no nanoseconds (BinaryRowData).
    """
    if not goes_on(old, new) or old.kind != new.kind:
        return False
    if old.kind == "DECIMAL":
        return old.scale == new.scale and (old.precision <= _COMPACT_DIGITS) == (new.precision <= _COMPACT_DIGITS)
    if old.kind.startswith("TIMESTAMP_"):
        return (old.precision <= _MILLIS) == (new.precision <= _MILLIS)
    return True


_COMPACT_DIGITS, _MILLIS = 18, 3


def operator_key(node: PlanNode) -> list[tuple[int, int]]:
    """Return by which columns a node's operator is keyed: the number of the input, and the position."""
    lists = [(0, primary_key(node))] if node.kind == SINK else [(0, node.items(*path)) for path in _KEYS]
    lists += [(index, node.items(*path, f"{side}Keys")) for path in _JOINS for index, side in enumerate(SIDES)]
    if node.kind == MULTI_JOIN:
        given = [one.get("requiredDistribution") for one in node.items("inputProperties") if isinstance(one, dict)]
        lists += [(index, (one or {}).get("keys") or []) for index, one in enumerate(given)]
    return [(index, at) for index, positions in lists for at in positions]


_KEYS = (
    ("grouping",), ("uniqueKeys",), ("partition", "fields"), ("partitionKeys",), ("partitionSpec", "fields"),
    ("overSpec", "partition", "fields"),
)  # fmt: skip
_JOINS = (("joinSpec",), ("intervalJoinSpec", "joinSpec"))


def found_by(node: PlanNode) -> list[tuple[int, int]]:
    """Return by which columns a node finds its state below a key: the number of the input, and the position.

    Those of joins and of TopN are `unique_columns`.
    """
    lists = [(0, ordered_by(node) + over_order(node))]
    if node.kind == MULTI_JOIN:
        lists += [(index, one) for index, many in enumerate(node.items("inputUniqueKeys")) for one in many]
        lists += [(index, list(joined_by(node, index))) for index in range(len(node.sources))]
    return [(index, at) for index, positions in lists for at in positions]


def unique_keys(node: PlanNode, side: int) -> list[list[int]]:
    """Return the unique keys of an input of a join, of columns by their positions."""
    name = SIDES[side]
    return [*node.items(f"{name}UpsertKeys"), *node.items(f"{name}UniqueKeys")]  # Flink 1.15 calls them unique keys.


def unique_columns(node: PlanNode) -> list[tuple[int, int]]:
    """Return the columns that are keys of maps of rows, which get wider types with these, and by which a join's inputs
    are unique: the number of the input, and the position."""
    keys = [(0, at) for at in keys_of_rows(node)]
    return keys + [(side, at) for side in range(len(SIDES)) for key in unique_keys(node, side) for at in key]


def input_names(number: int) -> tuple[str, ...]:
    """Return how so many inputs of a node are called: of joins left and right, of a multi-join by their numbers."""
    return SIDES if number == len(SIDES) else tuple(f"input-{at}" for at in range(number))


_MILLISECONDS = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d{1,15}) ?(ms|s|min|h|d)")


@dataclass(frozen=True)
class TimeToLive:
    """A time to live that state gets or loses.

    Attributes:
        on: Whether it gets one.
        milliseconds: How long it is, or was; None where the plan does not say.
    """

    on: bool
    milliseconds: int | None

    @property
    def words(self) -> str:
        """What becomes of the state."""
        if self.on:
            return "a time to live from now on"
        known = self.milliseconds is not None
        return "no time to live any more" + ("" if known else ", and what has expired is valid again")


def times_to_live(old: PlanNode, new: PlanNode) -> tuple[TimeToLive | None, ...]:
    """Return what the states of each input of a node get or lose; None for a state whose time to live stays."""
    if not has_time_to_live(new):
        return ()
    before, after = _times_of(old), _times_of(new)
    found: list[TimeToLive | None] = []
    for index, now in enumerate(after):
        was = before[min(index, len(before) - 1)]
        on = is_on(now)
        duration = _DURATION.fullmatch(str(now if on else was))
        length = None if duration is None else int(duration[1]) * _MILLISECONDS[duration[2]]
        found.append(None if is_on(was) == on else TimeToLive(on, length))
    return tuple(found)


def time_words(times: Sequence[TimeToLive | None]) -> list[str]:
    """Return what becomes of the states of each input."""
    words = [None if one is None else one.words for one in times]
    if len(set(words)) == 1:
        return [words[0]] if words[0] else []
    return [f"{side}: {text}" for side, text in zip(input_names(len(words)), words, strict=True) if text]


def _times_of(node: PlanNode) -> list[Any]:
    """Return the times to live of the states of a node, of each input; releases before 1.18 have one for all."""
    listed = [item.get("ttl") if isinstance(item, dict) else None for item in node.items("state")]
    return listed or [node.at("configuration", TTL_OPTION)]
