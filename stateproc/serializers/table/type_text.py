"""Parse SQL types, as Flink's DDL and ``LogicalType.asSummaryString`` write them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from stateproc.errors import InvalidOption
from stateproc.serializers.core.base import Serializer
from stateproc.serializers.java.collections import PRIMITIVE_ARRAYS, MaskedListOf, PlainArray
from stateproc.serializers.java.scalars import SCALARS, Scalar
from stateproc.serializers.table.collections import NULL_VALUE
from stateproc.serializers.table.java_streams import is_view, java_data_type, java_list_type, java_longs_type
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.serializers import (
    DecimalData,
    External,
    RawValue,
    RowData,
    SqlCollection,
    StringData,
    TimestampData,
)
from stateproc.serializers.table.variants import BITMAP_VALUE, VARIANT_VALUE

MAX_DEPTH, MAX_TEXT = 32, 1 << 16
_LONGEST = 2**31 - 1
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|'(?:[^']|'')*'|[A-Za-z_$][\w$]*|\d+|[<>(),])")

# Words of a type → LogicalTypeRoot, for types without parameters.
_PLAIN = {
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INT": "INTEGER",
    "INTEGER": "INTEGER",
    "BIGINT": "BIGINT",
    "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE",
    "DATE": "DATE",
    "NULL": "NULL",
    "VARIANT": "VARIANT",
    "BITMAP": "BITMAP",
    "UUID": "UUID",
}
_LENGTHS = frozenset(("CHAR", "VARCHAR", "BINARY", "VARBINARY"))
_UNBOUNDED = {"STRING": "VARCHAR", "BYTES": "VARBINARY"}
_DECIMALS = frozenset(("DECIMAL", "DEC", "NUMERIC"))
_LOCAL = "TIMESTAMP_WITH_LOCAL_TIME_ZONE"


def parse_sql_type(text: str) -> LogicalType:
    """Parse the text of a SQL type, such as ``DECIMAL(10, 2) NOT NULL`` or ``ROW<id BIGINT, tags ARRAY<STRING>>``.

    Raises InvalidOption, with the place, for anything else.
    """
    return _SqlTypeParser(text).whole()


class _SqlTypeParser:
    def __init__(self, text: str) -> None:
        if len(text) > MAX_TEXT:
            raise InvalidOption(f"a SQL type of {len(text)} characters", advice=f"at most {MAX_TEXT} are read")
        self.text = text
        self.tokens: list[str] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                raise self.bad(f"what is {text[at:].strip()[0]!r}?")
            self.tokens.append(found[1])
            at = found.end()
        self.at = 0

    def bad(self, why: str) -> InvalidOption:
        return InvalidOption(
            f"{self.text[:200]!r} is no SQL type: {why}",
            advice="such as INT, BIGINT NOT NULL, STRING, VARCHAR(20), DECIMAL(10, 2), TIMESTAMP(3), "
            "TIMESTAMP_LTZ(3), ARRAY<INT>, MAP<STRING, INT>, ROW<id BIGINT, name STRING>",
        )

    def whole(self) -> LogicalType:
        type_ = self.type(0)
        if self.at < len(self.tokens):
            raise self.bad(f"{self.tokens[self.at]!r} is too much")
        return type_

    def peek(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def expect(self, token: str) -> None:
        if self.next() != token:
            raise self.bad(f"{token!r} is missing")

    def words(self, *words: str) -> bool:
        """Pass these words if they follow."""
        found = [self.peek(ahead).upper() for ahead in range(len(words))] == list(words)
        self.at += len(words) if found else 0
        return found

    def type(self, depth: int) -> LogicalType:
        if depth > MAX_DEPTH:
            raise self.bad("it is nested too deep")
        type_ = self.nullable(depth)
        if self.words("NOT", "NULL"):
            return replace(type_, nullable=False)
        # NULL after a type is the default; alone it is a type.
        self.words("NULL")
        return type_

    def nullable(self, depth: int) -> LogicalType:
        word = self.next().upper()
        if word in _PLAIN:
            return LogicalType(_PLAIN[word])
        if word in _UNBOUNDED:
            return LogicalType(_UNBOUNDED[word], length=_LONGEST)
        if word in _LENGTHS:
            return LogicalType(word, length=self.number(1, 1, _LONGEST))
        if word in _DECIMALS:
            return self.decimal()
        if word == "TIME":
            type_ = LogicalType("TIME_WITHOUT_TIME_ZONE", precision=self.number(0, 0, 9))
            self.words("WITHOUT", "TIME", "ZONE")
            return type_
        if word == "TIMESTAMP_LTZ":
            return LogicalType(_LOCAL, precision=self.number(6, 0, 9))
        if word == "TIMESTAMP":
            return self.timestamp()
        read = _COMPOSITES.get(word)
        if read is not None:
            return read(self, depth + 1)
        raise self.bad(f"{word!r} is none" if word else "a type is missing")

    def number(self, default: int, least: int, most: int) -> int:
        """Parse a parameter in brackets, or return the default."""
        if self.peek() != "(":
            return default
        self.next()
        value = self.bounded(least, most)
        self.expect(")")
        return value

    def bounded(self, least: int, most: int) -> int:
        token = self.next()
        if not token.isdecimal() or len(token) > 10 or not least <= int(token) <= most:
            raise self.bad(f"{token or 'nothing'!r} where a number from {least} to {most} belongs")
        return int(token)

    def decimal(self) -> LogicalType:
        precision, scale = 10, 0
        if self.peek() == "(":
            self.next()
            precision = self.bounded(1, 38)
            if self.peek() == ",":
                self.next()
                scale = self.bounded(0, precision)
            self.expect(")")
        return LogicalType("DECIMAL", precision=precision, scale=scale)

    def timestamp(self) -> LogicalType:
        precision = self.number(6, 0, 9)
        if self.words("WITH", "LOCAL", "TIME", "ZONE"):
            return LogicalType(_LOCAL, precision=precision)
        if self.words("WITH", "TIME", "ZONE"):
            raise self.bad("TIMESTAMP WITH TIME ZONE has no serializer in Flink; TIMESTAMP_LTZ has")
        self.words("WITHOUT", "TIME", "ZONE")
        return LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=precision)

    def one(self, kind: str, depth: int) -> LogicalType:
        self.expect("<")
        child = self.type(depth)
        self.expect(">")
        return LogicalType(kind, children=(child,))

    def map(self, depth: int) -> LogicalType:
        self.expect("<")
        key = self.type(depth)
        self.expect(",")
        value = self.type(depth)
        self.expect(">")
        return LogicalType("MAP", children=(key, value))

    def row(self, depth: int) -> LogicalType:
        closing = {"<": ">", "(": ")"}.get(self.next())
        if closing is None:
            raise self.bad("the fields of a ROW are missing")
        names: list[str] = []
        children: list[LogicalType] = []
        while self.peek() != closing:
            if names:
                self.expect(",")
            names.append(self.name())
            children.append(self.type(depth))
            if self.peek().startswith("'"):
                self.next()  # a comment, which is no part of what is stored
        self.next()
        if len(set(names)) != len(names):
            raise self.bad("a ROW has two fields of one name")
        return LogicalType("ROW", names=tuple(names), children=tuple(children))

    def name(self) -> str:
        token = self.next()
        if token.startswith("`"):
            return token[1:-1].replace("``", "`")
        if not re.fullmatch(r"[A-Za-z_$][\w$]*", token):
            raise self.bad(f"{token or 'nothing'!r} where a field's name belongs")
        return token


_COMPOSITES: dict[str, Callable[[_SqlTypeParser, int], LogicalType]] = {
    "ARRAY": lambda parser, depth: parser.one("ARRAY", depth),
    "MULTISET": lambda parser, depth: parser.one("MULTISET", depth),
    "MAP": _SqlTypeParser.map,
    "ROW": _SqlTypeParser.row,
}


# Find the serializers of SQL types: org.apache.flink.table.runtime.typeutils.InternalSerializers.

_COUNT = LogicalType("INTEGER", nullable=False)
_SCALARS = {row[0]: Scalar(*row) for row in SCALARS}
_BYTES = PlainArray("byte", dict(PRIMITIVE_ARRAYS)["Byte"])
_WITHOUT_ARGUMENTS: dict[str, Serializer] = {
    "CHAR": StringData(),
    "VARCHAR": StringData(),
    "BINARY": _BYTES,
    "VARBINARY": _BYTES,
    "UUID": _BYTES,
    "BOOLEAN": _SCALARS["Boolean"],
    "TINYINT": _SCALARS["Byte"],
    "SMALLINT": _SCALARS["Short"],
    "INTEGER": _SCALARS["Int"],
    "DATE": _SCALARS["Int"],
    "TIME_WITHOUT_TIME_ZONE": _SCALARS["Int"],
    "INTERVAL_YEAR_MONTH": _SCALARS["Int"],
    "BIGINT": _SCALARS["Long"],
    "INTERVAL_DAY_TIME": _SCALARS["Long"],
    "FLOAT": _SCALARS["Float"],
    "DOUBLE": _SCALARS["Double"],
    "VARIANT": VARIANT_VALUE,
    "BITMAP": BITMAP_VALUE,
}


def internal_serializer(type_: LogicalType) -> Serializer:
    """Return the serializer of a SQL type. Raises InvalidOption for types whose values cannot be written."""
    plain = _WITHOUT_ARGUMENTS.get(type_.kind)
    if plain is not None:
        return plain
    if type_.kind == "DECIMAL":
        return DecimalData(type_.precision, type_.scale)
    if type_.kind in ("TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE"):
        return TimestampData(type_.precision)
    if type_.kind == "ARRAY" or type_.kind == "MAP":
        return SqlCollection(LogicalType(type_.kind, children=type_.children))
    if type_.kind == "MULTISET":
        return SqlCollection(LogicalType("MAP", children=(*type_.children, _COUNT)))
    if type_.kind in ("ROW", "STRUCTURED_TYPE"):
        return row_data(type_)
    if is_view(type_):
        return RawValue(NULL_VALUE)
    if type_.serializer is not None and type_.serializer.element is not None:
        return RawValue(MaskedListOf(internal_serializer(type_.serializer.element), has_mask=True))
    raise InvalidOption(
        f"values of the SQL type {type_.sql} cannot be written",
        advice="use a ROW in place of a structured type, BYTES in place of a RAW one",
    )


def row_data(row: LogicalType) -> RowData:
    """Return the RowDataSerializer of a ROW type."""
    return RowData(row.children, row.names, tuple(internal_serializer(child) for child in row.children))


def external(type_: LogicalType) -> External:
    """Return the serializer of a SQL type's values in a view. Raises UnsupportedSnapshot for types with others in them.

    They are not in the form that the flag calls internal, though their classes are those of operators.
    """
    return External(type_, internal_serializer(type_), java_data_type(type_) + b"\x00")


def external_list(element: LogicalType) -> External:
    """Return the serializer of a list of a SQL type's values in a view. Raises UnsupportedSnapshot as `external`."""
    type_ = LogicalType("ARRAY", children=(element,))
    return External(type_, internal_serializer(type_), java_list_type(type_) + b"\x00")


def external_longs() -> External:
    """Return the serializer of a Java array of long in a view."""
    type_ = LogicalType("ARRAY", children=(LogicalType("BIGINT", nullable=False),))
    return External(type_, internal_serializer(type_), java_longs_type(type_) + b"\x00")
