"""Real Flink restores savepoints that are written from DataFrames: the matrix of types, kinds of state and keys."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from stateproc import OperatorBootstrap, SavepointWriter, types
from stateproc.serializers import Serializer
from tests.helpers.flink.canonical_bytes import differences as byte_differences
from tests.helpers.flink.restoration import HUNDRED_YEARS, Operator, Restored, Spec, State, Timers, restore
from tests.helpers.flink.restored_state import differences
from tests.helpers.value_comparison import plain

# The matrix of written savepoints: type families with values at their edges, key types, kinds of state.


UTC = "UTC"
MICROS, LOCAL_MICROS = pa.timestamp("us", UTC), pa.timestamp("us")
POINT = pa.struct({"x": pa.int32(), "y": pa.int32()})
ADDRESS = pa.struct({"house": pa.int16(), "street": pa.string()})
POINT_TYPE = "Pojo restoring.Shapes$Point {x: Integer, y: Integer}"
ADDRESS_TYPE = "Pojo fixtures.Profile$Address {house: Short, street: String}"
LEVEL_TYPE = "Enum restoring.Shapes$Level {LOW, MIDDLE, HIGH}"
TEA = "\U0001f375"
CLICK = (
    '{"type": "record", "name": "Click", "namespace": "fixtures", "fields": [{"name": "url", "type": "string"}, '
    '{"name": "at", "type": ["null", "long"], "default": null}, {"name": "score", "type": "double"}, '
    '{"name": "tags", "type": {"type": "array", "items": "string"}}]}'
)
SIGHTING = (
    '{"type": "record", "name": "Sighting", "namespace": "fixtures.Corners$", "fields": ['
    '{"name": "product", "type": "string"}, {"name": "time", "type": "long"}, '
    '{"name": "amount", "type": ["null", "double"], "default": null}, '
    '{"name": "numbers", "type": {"type": "array", "items": "int"}}]}'
)


def moment(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.timezone.utc)  # type: ignore[misc,arg-type]


@dataclass(frozen=True)
class Family:
    """A type: ours, as the harness calls it, its column, and values at its edges. ``since`` a release of Flink."""

    name: str
    ours: str | Serializer
    flink: str
    column: pa.DataType
    values: Sequence[Any]
    since: str = "1.20"

    @property
    def type(self) -> Serializer:
        return types.of(self.ours)


def signed(bits: int) -> list[int]:
    return [-(2 ** (bits - 1)), -1, 0, 1, 2 ** (bits - 1) - 1]


NAN, INFINITY = math.nan, math.inf
TEXTS = ["", "\0", "a\0b", "név", TEA, "\uffff", "x" * 300, "\x7f\x80߿ࠀ"]
FLOATS = [0.0, -0.0, NAN, INFINITY, -INFINITY, 1.401298464324817e-45, 3.4028234663852886e38, -1.5]
DOUBLES = [0.0, -0.0, NAN, INFINITY, -INFINITY, 5e-324, 1.7976931348623157e308, 0.1]
INSTANTS = [moment(1970, 1, 1), moment(1969, 12, 31, 23, 59, 59, 999999), moment(1, 1, 1), moment(9999, 12, 31, 23, 59)]
MILLIS = [moment(1970, 1, 1), moment(1969, 12, 31, 23, 59, 59, 999000), moment(2024, 2, 29, 1, 2, 3, 4000)]
LOCALS = [item.replace(tzinfo=None) for item in INSTANTS]
DAYS = [dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31)]
TIMES = [dt.time(0), dt.time(23, 59, 59, 999999), dt.time(12, 30), dt.time(1, 2, 3)]
BYTES = [b"", b"\0", b"\xff\x00\x80", bytes(range(256))]


def everything(row: int) -> dict[str, Any]:
    """Row 0 has no nulls, row 1 nothing but, row 2 and on the edges of ranges."""
    low, high = (lambda bits: -(2 ** (bits - 1))), (lambda bits: 2 ** (bits - 1) - 1)
    of = (lambda bits: 7) if row == 0 else low if row % 2 else high
    primitive = {
        "flag": bool(row % 2), "tiny": of(8), "small": of(16), "number": of(32), "big": of(64), "ratio": FLOATS[row],
        "exact": DOUBLES[row], "letter": "a\0\uffffé"[row],
    }  # fmt: skip
    if row == 1:
        return {**dict.fromkeys(EVERYTHING_COLUMNS), **primitive}
    return {
        **primitive,
        "boxedFlag": not row, "boxedTiny": of(8), "boxedSmall": of(16), "boxedNumber": of(32), "boxedBig": of(64),
        "boxedRatio": FLOATS[-row], "boxedExact": DOUBLES[-row], "boxedLetter": "z", "text": TEXTS[row],
        "decimal": "-12.50" if row else "0", "integer": str(-(2**80)), "date": MILLIS[row % 3],
        "instant": INSTANTS[row], "bytes": BYTES[row], "longs": [of(64)] * row, "texts": [None, *TEXTS[:row]],
        "numbers": [None, of(32)] if row else [], "level": ["LOW", "MIDDLE", "HIGH"][row % 3],
        "point": {"x": of(32), "y": 0}, "points": [{"x": 1, "y": row}, None],
    }  # fmt: skip


EVERYTHING_COLUMNS = {
    "flag": pa.bool_(), "tiny": pa.int8(), "small": pa.int16(), "number": pa.int32(), "big": pa.int64(),
    "ratio": pa.float32(), "exact": pa.float64(), "letter": pa.string(), "boxedFlag": pa.bool_(),
    "boxedTiny": pa.int8(), "boxedSmall": pa.int16(), "boxedNumber": pa.int32(), "boxedBig": pa.int64(),
    "boxedRatio": pa.float32(), "boxedExact": pa.float64(), "boxedLetter": pa.string(), "text": pa.string(),
    "decimal": pa.string(), "integer": pa.string(), "date": MICROS, "instant": MICROS, "bytes": pa.binary(),
    "longs": pa.list_(pa.int64()), "texts": pa.list_(pa.string()), "numbers": pa.list_(pa.int32()),
    "level": pa.string(), "point": POINT, "points": pa.list_(POINT),
}  # fmt: skip
EVERYTHING_TYPE = (
    "Pojo restoring.Everything {flag: Boolean, tiny: Byte, small: Short, number: Integer, big: Long, ratio: Float, "
    "exact: Double, letter: Character, boxedFlag: Boolean, boxedTiny: Byte, boxedSmall: Short, boxedNumber: Integer, "
    "boxedBig: Long, boxedRatio: Float, boxedExact: Double, boxedLetter: Character, text: String, "
    "decimal: BigDecimal, integer: BigInteger, date: java.util.Date, instant: Instant, bytes: byte[], longs: long[], "
    f"texts: String[], numbers: Integer[], level: {LEVEL_TYPE}, point: {POINT_TYPE}, points: {POINT_TYPE}[]}}"
)
SQL_ROW = {
    "flag": ("BOOLEAN", pa.bool_()), "tiny": ("TINYINT NOT NULL", pa.int8()), "small": ("SMALLINT", pa.int16()),
    "number": ("INT", pa.int32()), "big": ("BIGINT NOT NULL", pa.int64()), "ratio": ("FLOAT", pa.float32()),
    "exact": ("DOUBLE", pa.float64()), "text": ("STRING", pa.string()), "name": ("VARCHAR(9)", pa.string()),
    "data": ("BYTES", pa.binary()), "price": ("DECIMAL(10, 2)", pa.decimal128(10, 2)),
    "huge": ("DECIMAL(38, 18)", pa.decimal128(38, 18)), "born": ("DATE", pa.date32()),
    "at": ("TIMESTAMP(3)", LOCAL_MICROS), "exactly": ("TIMESTAMP(9)", LOCAL_MICROS),
    "zoned": ("TIMESTAMP_LTZ(6)", MICROS), "items": ("ARRAY<STRING>", pa.list_(pa.string())),
    "longs": ("ARRAY<BIGINT NOT NULL>", pa.list_(pa.int64())),
    "counts": ("MAP<STRING, INT>", pa.map_(pa.string(), pa.int32())),
    "inner": ("ROW<a INT, b STRING>", pa.struct({"a": pa.int32(), "b": pa.string()})),
}  # fmt: skip


def sql_row(row: int) -> dict[str, Any]:
    least = {**dict.fromkeys(SQL_ROW), "tiny": -128, "big": -(2**63)}
    if row == 1:
        return least
    local = [dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999000), dt.datetime(9999, 1, 2, 3)]
    return {
        "flag": True, "tiny": 127, "small": -32768, "number": 2**31 - 1, "big": 2**63 - 1, "ratio": FLOATS[row],
        "exact": DOUBLES[row], "text": TEXTS[row + 3], "name": TEXTS[row], "data": BYTES[row],
        "price": Decimal("-99999999.99"), "huge": Decimal("12345678901234567890.123456789012345678"),
        "born": DAYS[row], "at": local[row], "exactly": LOCALS[row], "zoned": INSTANTS[row],
        "items": [None, *TEXTS[:row]], "longs": [-1] * row, "counts": [("a", 1), ("longer than seven", None)][:row],
        "inner": {"a": row or None, "b": "eight or more bytes"},
    }  # fmt: skip


def pairs(**fields: pa.DataType) -> pa.DataType:
    return pa.struct(fields)


def scalar(name: str, flink: str, column: pa.DataType, values: Sequence[Any], since: str = "1.20") -> Family:
    return Family(flink.lower(), name, flink, column, values, since)


FAMILIES: tuple[Family, ...] = (
    scalar("Boolean", "BOOLEAN", pa.bool_(), [False, True]),
    scalar("Byte", "BYTE", pa.int8(), signed(8)),
    scalar("Short", "SHORT", pa.int16(), signed(16)),
    scalar("Integer", "INT", pa.int32(), signed(32)),
    scalar("Long", "LONG", pa.int64(), signed(64)),
    scalar("Float", "FLOAT", pa.float32(), FLOATS),
    scalar("Double", "DOUBLE", pa.float64(), DOUBLES),
    scalar("Character", "CHAR", pa.string(), ["\0", "a", "é", "\uffff", "紅"]),
    scalar("String", "STRING", pa.string(), TEXTS),
    scalar("BigDecimal", "BIG_DEC", pa.decimal128(38, 18), [Decimal(0), Decimal("-1.5"), Decimal(10) ** 19]),
    Family("big_dec_text", "BigDecimal", "BIG_DEC", pa.string(),
           ["0", "0.000000000000000000000000000001", "-" + "9" * 60, "0.000", "10"]),
    scalar("BigInteger", "BIG_INT", pa.string(), ["0", "-1", "128", "-" + "9" * 60, str(2**64)]),
    scalar("java.util.Date", "DATE", MICROS, MILLIS),
    scalar("java.sql.Date", "SQL_DATE", MICROS, [moment(1970, 1, 1), moment(2024, 2, 29)]),
    scalar("java.sql.Time", "SQL_TIME", MICROS, [moment(1970, 1, 1), moment(1970, 1, 1, 23, 59, 59)]),
    scalar("java.sql.Timestamp", "SQL_TIMESTAMP", MICROS, [*MILLIS, moment(2024, 1, 1, 0, 0, 0, 123456)]),
    scalar("LocalDate", "LOCAL_DATE", pa.date32(), DAYS),
    Family("local_time", "LocalTime", "LOCAL_TIME", pa.string(),
           ["00:00:00.000000000", "23:59:59.999999999", "12:30:00.500000000"]),
    scalar("LocalDateTime", "LOCAL_DATE_TIME", LOCAL_MICROS, LOCALS),
    scalar("Instant", "INSTANT", MICROS, INSTANTS),
    Family("instant_text", "Instant", "INSTANT", pa.string(), 
           ["2024-02-29T12:30:00.000000001Z", "1969-12-31T00:00:00.000000000Z"]),
    scalar("byte[]", "BYTES", pa.binary(), BYTES),
    Family("int_array", "int[]", "PRIMITIVE_ARRAY(INT)", pa.list_(pa.int32()), [[], signed(32)]),
    Family("long_array", "long[]", "PRIMITIVE_ARRAY(LONG)", pa.list_(pa.int64()), [[], signed(64)]),
    Family("short_array", "short[]", "PRIMITIVE_ARRAY(SHORT)", pa.list_(pa.int16()), [[], signed(16)]),
    Family("float_array", "float[]", "PRIMITIVE_ARRAY(FLOAT)", pa.list_(pa.float32()), [[], FLOATS]),
    Family("double_array", "double[]", "PRIMITIVE_ARRAY(DOUBLE)", pa.list_(pa.float64()), [[], DOUBLES]),
    Family("boolean_array", "boolean[]", "PRIMITIVE_ARRAY(BOOLEAN)", pa.list_(pa.bool_()), [[], [True, False]]),
    Family("char_array", "char[]", "PRIMITIVE_ARRAY(CHAR)", pa.list_(pa.string()), [[], ["\0", "紅"]]),
    Family("string_array", "String[]", "BASIC_ARRAY(STRING)", pa.list_(pa.string()), [[], [None, "", TEA], ["\0"]]),
    Family("boxed_array", "Long[]", "BASIC_ARRAY(LONG)", pa.list_(pa.int64()), [[], [None, -1], signed(64)]),
    Family("pojo_array", f"{POINT_TYPE}[]", "OBJECT_ARRAY(POJO(restoring.Shapes$Point))", pa.list_(POINT),
           [[], [None, {"x": 1, "y": -1}]]),
    Family("list", "List<String>", "LIST(STRING)", pa.list_(pa.string()), [[], ["", TEA, "\0"]]),
    Family("map", "Map<String, Long>", "MAP(STRING, LONG)", pa.map_(pa.string(), pa.int64()),
           [[], [("", None), ("\0", 1)]]),
    Family("set", "Set<String>", "SET(STRING)", pa.list_(pa.string()), [[], ["", "a", "b"]], "2.3"),
    Family("nested", "Map<String, List<Tuple2<Long, String>>>", "MAP(STRING, LIST(TUPLE(LONG, STRING)))",
           pa.map_(pa.string(), pa.list_(pairs(f0=pa.int64(), f1=pa.string()))),
           [[], [("a", [{"f0": 1, "f1": ""}]), ("b", [])]]),
    Family("tuple", "Tuple3<Long, String, Double>", "TUPLE(LONG, STRING, DOUBLE)",
           pairs(f0=pa.int64(), f1=pa.string(), f2=pa.float64()),
           [{"f0": -1, "f1": "", "f2": -0.0}, {"f0": 2**63 - 1, "f1": TEA, "f2": NAN}]),
    Family("nullables", "Tuple2<Long?, String?>", "TUPLE(NULLABLE(LONG), NULLABLE(STRING))",
           pairs(f0=pa.int64(), f1=pa.string()),
           [{"f0": None, "f1": None}, {"f0": 0, "f1": ""}, {"f0": 1, "f1": None}]),
    Family("nullable", "Long?", "NULLABLE(LONG)", pa.int64(), signed(64)),
    Family("padded", types.Nullable(types.LONG, padded=True), "NULLABLE_PADDED(LONG)", pa.int64(), signed(64)),
    Family("row", "Row<Integer, String, Row<Long, Boolean>>", "ROW(INT, STRING, ROW(LONG, BOOLEAN))",
           pairs(f0=pa.int32(), f1=pa.string(), f2=pairs(f0=pa.int64(), f1=pa.bool_())),
           [{"f0": None, "f1": None, "f2": None}, {"f0": 1, "f1": TEA, "f2": {"f0": None, "f1": True}}]),
    Family("either", "Either<String, Long>", "EITHER(STRING, LONG)", pairs(left=pa.string(), right=pa.int64()),
           [{"left": "", "right": None}, {"left": None, "right": -1}]),
    Family("enum", LEVEL_TYPE, "ENUM(restoring.Shapes$Level)", pa.string(), ["LOW", "MIDDLE", "HIGH"]),
    Family("pojo", EVERYTHING_TYPE, "POJO(restoring.Everything)", pa.struct(EVERYTHING_COLUMNS),
           [everything(row) for row in range(4)]),
    Family("pojos", f"List<{ADDRESS_TYPE}>", "LIST(POJO(fixtures.Profile$Address))", pa.list_(ADDRESS),
           [[], [{"house": None, "street": None}, {"house": -1, "street": TEA}]]),
    Family("avro_generic", types.Avro(CLICK), f"AVRO_GENERIC('{CLICK}')",
           pairs(url=pa.string(), at=pa.int64(), score=pa.float64(), tags=pa.list_(pa.string())),
           [{"url": "", "at": None, "score": NAN, "tags": []},
            {"url": TEA, "at": -(2**63), "score": -0.0, "tags": ["", "\0"]}]),
    Family("avro_specific", types.Avro(SIGHTING, "fixtures.Corners$Sighting"),
           "AVRO_SPECIFIC(fixtures.Corners$Sighting)",
           pairs(product=pa.string(), time=pa.int64(), amount=pa.float64(), numbers=pa.list_(pa.int32())),
           [{"product": "\0", "time": 2**63 - 1, "amount": None, "numbers": [-(2**31)]},
            {"product": "", "time": 0, "amount": -0.5, "numbers": []}]),
    Family("sql_row", types.RowData({name: sql for name, (sql, _) in SQL_ROW.items()}),
           "SQL('ROW<" + ", ".join(f"{name} {sql}" for name, (sql, _) in SQL_ROW.items()) + ">')",
           pa.struct({name: column for name, (_, column) in SQL_ROW.items()}), [sql_row(row) for row in range(3)]),
    Family("sql_string", "SQL STRING", "SQL('STRING')", pa.string(), TEXTS),
    Family("sql_decimal", "DECIMAL(38, 18)", "SQL('DECIMAL(38, 18)')", pa.decimal128(38, 18),
           [Decimal(0), Decimal("-12345678901234567890.123456789012345678")]),
    Family("sql_money", "DECIMAL(10, 2)", "SQL('DECIMAL(10, 2)')", pa.decimal128(10, 2),
           [Decimal("0.00"), Decimal("-99999999.99")]),
    Family("sql_moment", "SQL TIMESTAMP(9)", "SQL('TIMESTAMP(9)')", LOCAL_MICROS, LOCALS),
    Family("sql_array", "SQL ARRAY<STRING>", "SQL('ARRAY<STRING>')", pa.list_(pa.string()), [[], [None, "", TEA * 3]]),
    Family("sql_map", "SQL MAP<INT, DECIMAL(20, 2)>", "SQL('MAP<INT, DECIMAL(20, 2)>')",
           pa.map_(pa.int32(), pa.decimal128(20, 2)), [[], [(-1, None), (2, Decimal("0.01"))]]),
)  # fmt: skip


def families(release: str) -> tuple[Family, ...]:
    """Those that a release has."""
    return tuple(family for family in FAMILIES if family.since <= release)


@dataclass(frozen=True)
class Key:
    """A type of keys; ``hash`` names how it is hashed, or ``codes`` are the hash codes of the values."""

    name: str
    ours: str | Serializer
    flink: str
    column: pa.DataType
    values: Sequence[Any]
    hash: str | None = None
    codes: Sequence[int] | None = None


KEYS: tuple[Key, ...] = (
    *(Key(item.name, item.ours, item.flink, item.column, item.values) for item in FAMILIES
      if item.flink in ("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "CHAR", "STRING", "BIG_DEC",
                        "BIG_INT", "DATE", "SQL_TIMESTAMP", "LOCAL_DATE", "LOCAL_TIME", "LOCAL_DATE_TIME", "INSTANT")),
    Key("tuple", "Tuple2<String, Integer>", "TUPLE(STRING, INT)", pairs(f0=pa.string(), f1=pa.int32()),
        [{"f0": "", "f1": -1}, {"f0": TEA, "f1": 2**31 - 1}, {"f0": "\0", "f1": 0}]),
    Key("row", "Row<String, Long>", "ROW(STRING, LONG)", pairs(f0=pa.string(), f1=pa.int64()),
        [{"f0": None, "f1": None}, {"f0": "", "f1": 0}, {"f0": TEA, "f1": None}, {"f0": None, "f1": -(2**63)}]),
    Key("sql", "ROW<a BIGINT NOT NULL, b STRING, c TIMESTAMP(3)>",
        "SQL('ROW<a BIGINT NOT NULL, b STRING, c TIMESTAMP(3)>')",
        pairs(a=pa.int64(), b=pa.string(), c=LOCAL_MICROS),
        [{"a": 0, "b": None, "c": None}, {"a": -1, "b": "", "c": LOCALS[0]},
         {"a": 2**63 - 1, "b": TEA * 4, "c": None}]),
    Key("pojo_by_column", POINT_TYPE, "POJO(restoring.Shapes$Point)", POINT,
        [{"x": 0, "y": 0}, {"x": -1, "y": 2}, {"x": 100, "y": -7}], codes=[961, 932, 4054]),
    Key("pojo_by_name", POINT_TYPE, "POJO(restoring.Shapes$Point)", POINT,
        [{"x": 0, "y": 0}, {"x": -1, "y": 2}, {"x": 2**31 - 1, "y": -(2**31)}], hash="Objects.hash"),
)  # fmt: skip


# Savepoints of the matrix: written from DataFrames, as a job that reads them back registers them, what they hold.


ROWS = 8
FAMILIES_A_SAVEPOINT = 8
"""Families in one operator: RocksDB lists all column families whenever it makes one, so that hundreds take minutes."""
ACCESS = dt.datetime(2026, 1, 2, 3, 4, 5, 678000, dt.timezone.utc)
ACCESS_MS = 1_767_323_045_678
FIRST_TIMER = 1_700_000_000_000
Line = dict[str, Any]


@dataclass(frozen=True)
class Written:
    """A savepoint: its release, and what differs between those that are written."""

    release: str
    max_parallelism: int
    compressed: bool
    ttl: bool

    @property
    def name(self) -> str:
        packed = "compressed" if self.compressed else "plain"
        return f"{self.release}-{self.max_parallelism}-{packed}{'-ttl' if self.ttl else ''}"


@dataclass(frozen=True)
class Kind:
    """A kind of state: how a job calls the state of a family, its column, how it is written, its contents by row."""

    kind: str
    type: str
    value: Callable[[Family, int], Any]
    add: Callable[[OperatorBootstrap, str, DataFrame, Family, dict[str, Any]], object]

    @property
    def keyed(self) -> bool:
        return not self.kind.startswith(("operator-", "broadcast"))


def at(family: Family, row: int) -> Any:
    """The family's value in a row: all of them, over and over."""
    return family.values[row % len(family.values)]


def some(family: Family, row: int) -> list[Any]:
    """A list of one more value for each row."""
    return list(islice(cycle(family.values), row + 1))


def entries(family: Family, row: int) -> list[tuple[str, Any]]:
    """A map: its keys are strings."""
    return [(f"k{n}", value) for n, value in enumerate(some(family, row))]


KINDS: dict[str, Kind] = {
    "value": Kind("value", "{}", at, lambda op, name, rows, of, ttl: op.value_state(
        name, rows, of.name, type=of.type, **ttl)),
    "list": Kind("list", "LIST({})", some, lambda op, name, rows, of, ttl: op.list_state(
        name, rows, f"{of.name}_list", element_type=of.type, **ttl)),
    "map": Kind("map", "MAP(STRING, {})", entries, lambda op, name, rows, of, ttl: op.map_state(
        name, rows, f"{of.name}_map", map_value_type=of.type, **ttl)),
    "keys": Kind("map", "MAP({}, LONG)", lambda of, row: [(at(of, row), row)], lambda op, name, rows, of, ttl: (
        op.map_state(name, rows, map_key=of.name, map_value="key", map_key_type=of.type, **ttl))),
    "reducing": Kind("reducing", "{}", at, lambda op, name, rows, of, ttl: op.reducing_state(
        name, rows, of.name, type=of.type, **ttl)),
    "aggregating": Kind("aggregating", "{}", at, lambda op, name, rows, of, ttl: op.aggregating_state(
        name, rows, of.name, type=of.type, **ttl)),
    "split": Kind("operator-list", "LIST({})", at, lambda op, name, rows, of, ttl: op.operator_list_state(
        name, rows, of.name, type=of.type)),
    "union": Kind("operator-union", "LIST({})", at, lambda op, name, rows, of, ttl: op.union_list_state(
        name, rows, of.name, type=of.type)),
    "broadcast": Kind("broadcast", "MAP(LONG, {})", at, lambda op, name, rows, of, ttl: op.broadcast_state(
        name, rows, map_key="key", map_value=of.name, map_value_type=of.type)),
}  # fmt: skip


def cells(written: Written) -> Iterator[tuple[str, str, Family, Kind]]:
    """The states of the families: (uid, name, family, kind); only keyed ones have a time to live.

    What is reduced with a time to live is aggregated without, and the other way round.
    """
    for number, family in enumerate(families(written.release)):
        other = "reducing" if number % 2 == written.ttl else "aggregating"
        for name, kind in KINDS.items():
            if name != other and (kind.keyed or not written.ttl):
                yield f"families-{number // FAMILIES_A_SAVEPOINT}", f"{name}-{family.name}", family, kind


def family_rows(release: str) -> pa.Table:
    """A column of each family, with their lists and maps."""
    columns: dict[str, pa.Array] = {"key": pa.array(range(ROWS), pa.int64()), "at": pa.array([ACCESS] * ROWS, MICROS)}
    for family in families(release):
        several, named = pa.list_(family.column), pa.map_(pa.string(), family.column)
        columns[family.name] = pa.array([at(family, row) for row in range(ROWS)], family.column)
        columns[f"{family.name}_list"] = pa.array([some(family, row) for row in range(ROWS)], several)
        columns[f"{family.name}_map"] = pa.array([entries(family, row) for row in range(ROWS)], named)
    return pa.table(columns)


def key_rows(key: Key) -> pa.Table:
    n = len(key.values)
    columns = {"key": pa.array(key.values, key.column), "value": pa.array(range(n), pa.int64())}
    columns["timestamp"] = pa.array([FIRST_TIMER + row for row in range(n)], pa.int64())
    if key.codes is not None:
        columns["code"] = pa.array(key.codes, pa.int32())
    return pa.table(columns)


def write(spark: SparkSession, written: Written, path: str) -> None:
    """The savepoint: operators with some families each, and one operator for each type of keys."""
    rows = spark.createDataFrame(family_rows(written.release)).coalesce(1)
    bootstraps: dict[str, OperatorBootstrap] = {}
    for uid, name, family, kind in cells(written):
        state = bootstraps.setdefault(uid, OperatorBootstrap())
        kind.add(state, name, rows, family, {"ttl": True, "last_access": "at"} if written.ttl else {})
    writer = SavepointWriter.new_savepoint(spark, written.max_parallelism).with_flink_version(written.release)
    writer.with_compression(written.compressed)
    for uid, state in bootstraps.items():
        writer.with_operator(uid, state)
    for key in KEYS:
        frame = spark.createDataFrame(key_rows(key)).coalesce(1)
        hash_column = None if key.codes is None else "code"
        state = OperatorBootstrap(key_type=key.ours, hash_column=hash_column, hash=key.hash)
        state.value_state("number", frame).event_time_timers(frame).processing_time_timers(frame)
        writer.with_operator(f"key-{key.name}", state)
    writer.write(path)


def operators(written: Written) -> list[Operator]:
    """All of them, as a job registers them."""
    ttl = HUNDRED_YEARS if written.ttl else None
    states: dict[str, list[State]] = {}
    for uid, name, family, kind in cells(written):
        state = State(name, kind.kind, kind.type.format(family.flink), ttl=ttl if kind.keyed else None)
        states.setdefault(uid, []).append(state)
    keyed = [Operator(f"key-{key.name}", key.flink, (State("number", "value", "LONG"),), (Timers(),)) for key in KEYS]
    return [*(Operator(uid, "LONG", listed) for uid, listed in states.items()), *keyed]


def expected(written: Written) -> Iterator[Line]:
    """What a job has to find, as lines of expected.jsonl."""
    for uid, name, family, kind in cells(written):
        for row in range(ROWS):
            line = {"uid": uid, "state": name, "kind": kind.kind, "value": plain(kind.value(family, row))}
            line |= {"key": row, "namespace": None} if kind.keyed else {"key": row, "subtask": 0}
            yield line | ({"last_access": [ACCESS_MS, ACCESS_MS]} if written.ttl else {})
    for key in KEYS:
        for row, value in enumerate(key_rows(key)["key"].to_pylist()):
            line = {"uid": f"key-{key.name}", "key": java(value), "namespace": None}
            yield {**line, "state": "number", "kind": "value", "value": row}
            for kind in ("timer-event", "timer-processing"):
                yield {**line, "state": "user-timers", "kind": kind, "value": FIRST_TIMER + row}


def java(value: Any) -> Any:
    """A key in the very words of Json.java, as keys are looked up by their text."""
    if isinstance(value, dict):
        return {name: java(item) for name, item in value.items()}
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds") + "000"
        return text + ("Z" if value.tzinfo else "")
    return format(value, "f") if isinstance(value, Decimal) else plain(value)


pytestmark = [pytest.mark.flink, pytest.mark.spark]

RELEASES = ("1.20", "2.3")
MATRIX = [Written(release, *rest) for release in RELEASES for rest in ((128, False, False), (1024, True, True))]
Results = Callable[[str], dict[str, Restored]]


def in_rocksdb(written: Written) -> str:
    """The name of the restores under RocksDB.

    In which key group a key is shows on heap, at every parallelism. What RocksDB makes of hundreds of states needs one:
    it has a column family for each of them in every subtask, which is most of the time of these tests.
    """
    return f"rocksdb {written.name}"


def again(written: Written) -> str:
    """The name of the savepoint that Flink takes of what it restored."""
    return f"again {written.name}"


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All savepoints of the matrix."""
    root = tmp_path_factory.mktemp("matrix")
    for written in MATRIX:
        write(spark, written, str(root / written.name))
    return root


@pytest.fixture(scope="module")
def results(folder: Path) -> Results:
    """What a release restored, run on first use."""
    done: dict[str, dict[str, Restored]] = {}

    def of(release: str) -> dict[str, Restored]:
        if release not in done:
            specs = []
            for written in (item for item in MATRIX if item.release == release):
                path = str(folder / written.name)
                specs.append(Spec(written.name, path, operators(written), ("hashmap",)))
                specs.append(Spec(in_rocksdb(written), path, operators(written), ("rocksdb",), (2,)))
                specs.append(Spec(again(written), path, operators(written), ("hashmap",), (2,), retake="canonical"))
            done[release] = restore(release, specs, folder / f"restored-{release}")
        return done[release]

    return of


@pytest.mark.parametrize("written", MATRIX, ids=lambda item: item.name)
def test_flink_reads_back_what_the_rows_held(results: Results, written: Written) -> None:
    lines = list(expected(written))
    for name in (written.name, in_rocksdb(written)):
        restored = results(written.release)[name]
        assert restored.failures() == {}
        for (backend, parallelism), run in restored.runs.items():
            found = differences(lines, run.contents, parallelism=parallelism)
            assert (backend, parallelism, found) == (backend, parallelism, [])


@pytest.mark.parametrize("written", MATRIX, ids=lambda item: item.name)
def test_serializers_are_compatible_as_is(results: Results, written: Written) -> None:
    restored = results(written.release)[written.name]
    assert {at: answer for at, answer in restored.compatibility.items() if answer != "as is"} == {}
    assert restored.unread == set()
    states = {(operator.uid, state.name) for operator in operators(written) for state in operator.states}
    assert states <= {(uid, state) for uid, state, part in restored.compatibility if part == "value"}


@pytest.mark.parametrize("written", MATRIX, ids=lambda item: item.name)
def test_timers_fire_once(results: Results, written: Written) -> None:
    timers = [line for line in expected(written) if line["kind"].startswith("timer-")]
    for name in (written.name, in_rocksdb(written)):
        for run in results(written.release)[name].runs.values():
            assert differences(timers, run.fired, parallelism=1) == []


@pytest.mark.parametrize("written", MATRIX, ids=lambda item: item.name)
def test_flink_writes_the_same_bytes(results: Results, folder: Path, written: Written) -> None:
    """Of the same state: snapshots of serializers, and entries whatever their order."""
    restored = results(written.release)[again(written)]
    assert restored.failures() == {}
    (run,) = restored.runs.values()
    assert run.savepoint is not None
    assert byte_differences(folder / written.name, run.savepoint) == []
