"""Write conditions of a plan in SQL, as DuckDB computes what Flink computes: of a join beside its keys, of a filter.

Which rows of a join are partners decides about their numbers, and a filter about which are kept. Taken are comparisons
of columns and literals, also cast to a type as wide or wider, IN, BETWEEN, and AND, OR, NOT and IS of these, over types
that are compared as they are, or in one that has all values of both:

    whole numbers, decimals     of 38 digits at most together
    FLOAT, DOUBLE               and whole numbers of up to 4 bytes; NaN is neither equal to any number nor greater. Not
                                IN, for which Flink distinguishes 0.0 and -0.0
    text                        by its bytes in UTF-8
    DATE, TIME, TIMESTAMP       of one kind, of up to microseconds
    BOOLEAN                     = and <>

Other calls, such as arithmetic, which overflows otherwise, are only known to Flink.

Source: ScalarOperatorGens of org.apache.flink.table.planner.codegen.calls; RexNodeJsonSerializer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from stateproc.errors import InvalidOption
from stateproc.query_plans.node_definitions import SIDES
from stateproc.query_plans.plan_comparison import goes_on
from stateproc.query_plans.plan_file import PlanNode
from stateproc.query_plans.row_conversion import column_type
from stateproc.serializers.table.logical_types import LogicalType

_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19}
_FLOATING = ("FLOAT", "DOUBLE")
_TEXT = ("CHAR", "VARCHAR")
_TIMES = ("DATE", "TIME_WITHOUT_TIME_ZONE", "TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE")
_COMPARED = (*_DIGITS, "DECIMAL", *_FLOATING, *_TEXT, *_TIMES, "BOOLEAN")
_MOST_DIGITS, _MICROSECONDS, _EXACT_DIGITS = 38, 6, 15
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_WRITTEN_TIMES = {
    "DATE": ("DATE", re.compile(r"\d{4}-\d{2}-\d{2}")),
    "TIMESTAMP_WITHOUT_TIME_ZONE": (
        "TIMESTAMP",
        re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d{1,6})?"),
    ),
}
"""Type of a literal → what DuckDB calls it, and how Flink writes it."""
_RANGES = {"lower": {"CLOSED": ">=", "OPEN": ">"}, "upper": {"CLOSED": "<=", "OPEN": "<"}}
_NULL_AS = {"UNKNOWN": "{1}", "TRUE": "({0} IS NULL OR {1})", "FALSE": "({0} IS NOT NULL AND {1})"}
"""What a search in ranges is for a null."""
_TRUTHS = ("IS TRUE", "IS FALSE", "IS NOT TRUE", "IS NOT FALSE")


@dataclass(frozen=True)
class JoinCondition:
    """A condition on a row of each input.

    Attributes:
        sql: The condition, over columns that are called ``left_0``, ``right_0``, by their positions in the rows.
        columns: The positions of the columns of each input that it is over.
    """

    sql: str
    columns: tuple[tuple[int, ...], tuple[int, ...]]


def join_condition(node: PlanNode) -> JoinCondition | None:
    """Return the condition of a join beside its keys; None if it has none.

    Raises:
        InvalidOption: Only Flink computes it.
    """
    written = node.at("joinSpec", "nonEquiCondition")
    if written is None:
        return None
    writer = _Writer(node, "its condition beside its keys", "which rows are partners by it")
    sql = writer.condition(written)
    return JoinCondition(sql, (tuple(sorted(writer.columns[0])), tuple(sorted(writer.columns[1]))))


def filtered_out(node: PlanNode, columns: Sequence[int | None], names: Sequence[str]) -> str:
    """Return which of the rows that a state has the filter of a node with one input leaves out, in SQL.

    Args:
        node: The node, which has a filter.
        columns: For each column of its input its position in the rows of the state; None for one that these lack.
        names: What the columns of these rows are called in SQL.

    Raises:
        InvalidOption: Only Flink computes it.
    """
    stored = [None if position is None else names[position] for position in columns]
    writer = _Writer(node, "its filter", "which rows it keeps", stored)
    return f"({writer.condition(node.at('filterCondition'))}) IS NOT TRUE"


class _Writer:
    """Writes expressions of a plan over the columns of both inputs, and collects which columns these are."""

    def __init__(self, node: PlanNode, subject: str, decides: str, names: Sequence[str | None] = ()) -> None:
        self._node, self._subject, self._decides, self._names = node, subject, decides, names
        self.columns: tuple[set[int], set[int]] = (set(), set())

    def refused(self, what: str) -> InvalidOption:
        return InvalidOption(
            f"{self._subject} has {what}, and only Flink knows {self._decides}",
            advice="let the operator begin without state: --empty",
        )

    def condition(self, written: Any) -> str:
        """Return an expression that is true or not in SQL."""
        sql, type_ = self.expression(written)
        if type_.kind != "BOOLEAN":
            raise self.refused(f"a value of the type {type_.sql}")
        return sql

    def expression(self, written: Any) -> tuple[str, LogicalType]:
        """Return an expression in SQL, and its type."""
        kind = written.get("kind") if isinstance(written, dict) else None
        if kind == "INPUT_REF":
            return self._column(written)
        if kind == "LITERAL":
            return self._literal(written)
        if kind == "CALL":
            return self._call(written)
        raise self.refused(f"an expression of the kind {kind}")

    def _type(self, written: Mapping[str, Any]) -> LogicalType:
        type_ = column_type(self._node, "of a condition", written.get("type"))
        is_time = type_.kind in _TIMES
        if type_.kind not in _COMPARED or type_.attribute == "PROCTIME":
            raise self.refused(f"a value of the type {type_.sql}")
        if is_time and (type_.precision or 0) > _MICROSECONDS:
            raise self.refused(f"a time with nanoseconds ({type_.sql})")
        return type_

    def _column(self, written: Mapping[str, Any]) -> tuple[str, LogicalType]:
        first, position = len(self._node.input()), int(written["inputIndex"])  # One of the columns, by its definition.
        side, at = (0, position) if position < first else (1, position - first)
        type_ = self._type(written)
        self.columns[side].add(at)
        name = self._names[at] if self._names else f"{SIDES[side]}_{at}"
        if name is None:
            raise self.refused(f"the column {self._node.input()[at]}, which rows from before do not have")
        return name, type_

    def _literal(self, written: Mapping[str, Any]) -> tuple[str, LogicalType]:
        value, type_ = written.get("value"), self._type(written)
        unknown = self.refused(f"a literal of the type {type_.sql}")
        if type_.kind == "BOOLEAN" and isinstance(value, bool):
            return str(value).upper(), type_
        is_padded = isinstance(value, str) and type_.kind == "CHAR" and len(value) != type_.length
        if type_.kind in _TEXT and isinstance(value, str) and "\0" not in value and not is_padded:
            return "'" + value.replace("'", "''") + "'", type_
        if type_.kind in _WRITTEN_TIMES and isinstance(value, str):
            name, written_as = _WRITTEN_TIMES[type_.kind]
            if written_as.fullmatch(value):
                return f"{name} '{value}'", type_
        if isinstance(value, bool) or not isinstance(value, int | float | str) or type_.kind in (*_TEXT, *_TIMES):
            raise unknown
        try:
            number = Decimal(repr(value) if isinstance(value, float) else value)
        except InvalidOperation as error:
            raise unknown from error
        # JSON has decimals as numbers, of which Python keeps so many digits.
        is_cut = isinstance(value, float) and type_.kind == "DECIMAL" and type_.precision > _EXACT_DIGITS
        if not number.is_finite() or is_cut:
            raise unknown
        if type_.kind in _DIGITS and number == number.to_integral_value():
            return f"CAST({int(number)} AS BIGINT)", type_
        if type_.kind == "DECIMAL":
            return f"CAST('{number:f}' AS DECIMAL({type_.precision}, {type_.scale}))", type_
        if type_.kind == "DOUBLE" and math.isfinite(float(number)):
            return f"CAST('{float(number)!r}' AS DOUBLE)", type_
        raise unknown

    def _call(self, written: Mapping[str, Any]) -> tuple[str, LogicalType]:
        name = str(written.get("internalName")).removeprefix("$").rpartition("$")[0]
        operands = written.get("operands")
        operands = operands if isinstance(operands, list) else []
        if name in ("AND", "OR") and len(operands) > 1:
            return "(" + f" {name} ".join(self.condition(one) for one in operands) + ")", _BOOLEAN
        if name == "NOT" and len(operands) == 1:
            return f"(NOT {self.condition(operands[0])})", _BOOLEAN
        if name in _TRUTHS and len(operands) == 1:
            return f"({self.condition(operands[0])} {name})", _BOOLEAN
        if name in ("IS NULL", "IS NOT NULL") and len(operands) == 1:
            return f"({self.expression(operands[0])[0]} {name})", _BOOLEAN
        if name == "SEARCH" and len(operands) == 2 and isinstance(operands[1], dict):
            return self._in_ranges(self.expression(operands[0]), operands[1]), _BOOLEAN
        if name in _COMPARISONS and len(operands) == 2:
            return self._compared(name, [self.expression(one) for one in operands]), _BOOLEAN
        if name == "CAST" and len(operands) == 1:
            return self._cast(*self.expression(operands[0]), self._type(written))
        raise self.refused(f"a call of {name or written.get('class') or written.get('sqlKind')}")

    def _in_ranges(self, value: tuple[str, LogicalType], written: Mapping[str, Any]) -> str:
        """Return whether a value is in one of some ranges, as Flink writes IN, BETWEEN, <> and OR of comparisons."""
        found = written.get("sarg")
        ranges = found.get("ranges") if isinstance(found, dict) else None
        null_as = _NULL_AS.get(str(found.get("nullAs"))) if isinstance(found, dict) else None
        refused = self.refused(f"a search of {value[1].sql} in ranges")
        if not isinstance(ranges, list) or not ranges or null_as is None or value[1].kind in _FLOATING:
            raise refused
        each: list[str] = []
        for one in ranges:
            bounds = one if isinstance(one, dict) and one.keys() <= _RANGES.keys() else {}
            compared: list[str] = []
            for side, bound in bounds.items():
                name = _RANGES[side].get(str(bound.get("boundType"))) if isinstance(bound, dict) else None
                if name is None:
                    raise refused
                literal = self._literal({"value": bound.get("value"), "type": written.get("type")})
                compared.append(self._compared(name, [value, literal]))
            if not compared:
                raise refused
            each.append(f"({' AND '.join(compared)})")
        return null_as.format(value[0], f"({' OR '.join(each)})")

    def _cast(self, sql: str, old: LogicalType, to: LogicalType) -> tuple[str, LogicalType]:
        """Return a value in a type that has all values of its own."""
        before, after = (replace(one, nullable=True) for one in (old, to))
        if goes_on(before, after) and old.kind not in _FLOATING:
            return sql, to
        raise self.refused(f"a cast from {old.sql} to {to.sql}")

    def _compared(self, name: str, operands: Sequence[tuple[str, LogicalType]]) -> str:
        (one, first), (two, second) = operands
        both = first.kind, second.kind
        refused = self.refused(f"a comparison of {first.sql} and {second.sql}")
        if all(kind in _DIGITS for kind in both) or all(kind in _TEXT for kind in both):
            return f"({one} {name} {two})"
        if both[0] == both[1] and (both[0] in _TIMES or (both[0] == "BOOLEAN" and name in ("=", "<>"))):
            return f"({one} {name} {two})"
        if all(kind in _DIGITS or kind == "DECIMAL" for kind in both):
            scale = max(_scale(first), _scale(second))
            digits = max(_whole_digits(first), _whole_digits(second)) + scale
            if digits > _MOST_DIGITS:
                raise refused
            return f"(CAST({one} AS DECIMAL({digits}, {scale})) {name} CAST({two} AS DECIMAL({digits}, {scale})))"
        narrow = [kind for kind in both if kind not in _FLOATING]
        # Java compares a FLOAT with an INT as FLOAT, which does not have all of these.
        exact = ("TINYINT", "SMALLINT") if "FLOAT" in both else ("TINYINT", "SMALLINT", "INTEGER")
        if len(narrow) < 2 and all(kind in exact for kind in narrow):
            one, two = (f"CAST({sql} AS DOUBLE)" for sql in (one, two))
            # In DuckDB NaN is the greatest number.
            return (
                f"(CASE WHEN {one} IS NULL OR {two} IS NULL THEN NULL WHEN isnan({one}) OR isnan({two}) "
                f"THEN {str(name == '<>').upper()} ELSE {one} {name} {two} END)"
            )
        raise refused


_BOOLEAN = LogicalType("BOOLEAN")


def _scale(type_: LogicalType) -> int:
    return type_.scale if type_.kind == "DECIMAL" else 0


def _whole_digits(type_: LogicalType) -> int:
    return type_.precision - type_.scale if type_.kind == "DECIMAL" else _DIGITS[type_.kind]
