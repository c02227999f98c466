"""Rows with a column of each type that states have, and what DuckDB and this package select of them."""

from __future__ import annotations

import datetime
import decimal
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.errors import InvalidOption
from stateproc.filters import RowFilter, parse
from stateproc.row_formats.json_values import json_values

D = decimal.Decimal
IS_DUCKDB_2 = int(duckdb.__version__.partition(".")[0]) >= 2
_NAN, _INFINITY = float("nan"), float("inf")
_DAYS = [
    datetime.datetime(1970, 1, 1),
    datetime.datetime(2024, 2, 29, 12, 30),
    datetime.datetime(1, 1, 1),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
    None,
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime.datetime(2024, 2, 29, 12, 30, 0, 500000),
    datetime.datetime(2023, 12, 31),
]
_MOST = 10**38 - 1


def _signed(bits: int) -> list[int | None]:
    return [0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), None, 7, -7]


def _unsigned(bits: int) -> list[int | None]:
    return [0, 1, 2**bits - 1, 7, 2 ** (bits - 1), None, 3, 128]


_FLOATS = [0.0, -0.0, _NAN, _INFINITY, -_INFINITY, None, 0.1, -2.5]
_LISTS = [[1, 2, 3], [], None, [None], [3, None, 1], [5], [1, 1], [-1]]
_MAPS = [[("tea", 1), ("x", None)], [], None, [("x", 3)], [("", 0)], [("tea", 5)], [("t", 1)], [("tea", None)]]
_STRUCTS = [
    {"a": 1, "Name": "x", "in": {"b": 2}},
    {"a": None, "Name": "y", "in": None},
    None,
    {"a": 2, "Name": None, "in": {"b": None}},
    {"a": 1, "Name": "x", "in": {"b": 2}},
    None,
    {"a": -1, "Name": "", "in": {"b": -3}},
    {"a": 1, "Name": "tea", "in": {"b": 7}},
]


@cache
def where_rows() -> pa.RecordBatch:
    """Eight rows with nulls and the extreme values of each type."""
    texts = ["tea", "TEA", "", "café", None, "a%b_c\\d", "\U0001f375 matcha\nx", " ß I\u00a0\t"]
    columns: dict[str, pa.Array] = {
        "b": pa.array([True, False, None, True, False, None, True, False]),
        "c": pa.array([True, True, True, False, False, False, None, None]),
        **{f"i{bits}": pa.array(_signed(bits), getattr(pa, f"int{bits}")()) for bits in (8, 16, 32, 64)},
        **{f"u{bits}": pa.array(_unsigned(bits), getattr(pa, f"uint{bits}")()) for bits in (8, 16, 32, 64)},
        "n": pa.array([0, 1, -1, 12, None, 5, 7, -7], pa.int64()),
        "k": pa.array([3, None, 2, -2, 1, 5, 7, 0], pa.int32()),
        "f32": pa.array(_FLOATS, pa.float32()),
        "f64": pa.array(_FLOATS, pa.float64()),
        "x": pa.array([1.5, 2.5, -0.5, None, 0.15, 2.675, 1e16, -3.0]),
        "d": pa.array([None if text is None else D(text) for text in _DECIMALS], pa.decimal128(10, 2)),
        "d38": pa.array(
            pc.cast(
                pa.array(["0", "1", "-1", str(_MOST), str(-_MOST), None, "7", "-7"]),
                pa.decimal128(38, 0),
            )
        ),
        "s": pa.array(texts),
        "e": pa.array(texts[::-1]).dictionary_encode(),
        "num": pa.array(["1", "2.4", "-3", "0.5", None, "1e2", "7", "-0"]),
        "bin": pa.array([b"", b"\x00\x01", b"\xff", b"tea", None, b"a\x00'\\", b"\x80", b"AAE="]),
        "dt": pa.array([None if day is None else day.date() for day in _DAYS]),
        "t": pa.array([None if day is None else day.time() for day in _DAYS], pa.time64("us")),
        "ts": pa.array(_DAYS, pa.timestamp("us")),
        "tz": pa.array(_DAYS, pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
        "st": pa.array(
            _STRUCTS,
            pa.struct([("a", pa.int32()), ("Name", pa.string()), ("in", pa.struct([("b", pa.int64())]))]),
        ),
        "li": pa.array(_LISTS, pa.list_(pa.int64())),
        "m": pa.array(_MAPS, pa.map_(pa.string(), pa.int64())),
        "Mixed": pa.array([1, 2, 3, 4, 5, 6, 7, None], pa.int32()),
        "top-10": pa.array([0, 1, 2, 3, 4, 5, 6, 7], pa.int16()),
    }
    return pa.RecordBatch.from_pydict(columns)


_DECIMALS = ["0.00", "1.50", "-1.50", "99999999.99", "-99999999.99", None, "0.10", "-2.25"]


@cache
def exact_rows() -> pa.RecordBatch:
    """The same rows with dates and times as ISO text."""
    rows = where_rows()
    columns = [
        pa.array(json_values(column), pa.string()) if pa.types.is_temporal(column.type) else column
        for column in rows.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


def selected(text: str, *, exact: bool = False) -> list[int]:
    """Return the numbers of the rows that a condition keeps. Raises InvalidOption."""
    rows = exact_rows() if exact else where_rows()
    schema = where_rows().schema
    mask = RowFilter(parse(text, schema), rows.schema, schema).mask(rows)
    return [row for row, value in enumerate(mask.to_pylist()) if value]


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"python_enable_replacements": False, "threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("arrow", numbered_rows())
    connection.execute("CREATE TABLE data AS FROM arrow")
    return connection


@cache
def numbered_rows() -> pa.Table:
    """The rows with their numbers in the column ``__row``."""
    rows = where_rows()
    return pa.Table.from_batches([rows.append_column("__row", pa.array(range(len(rows))))])


def selected_by_duckdb(text: str) -> list[int]:
    """Return the numbers of the rows that DuckDB selects from a table of its own. Raises duckdb.Error."""
    query = f"SELECT __row FROM data WHERE {text}\nORDER BY 1"
    return [row for (row,) in _connection().execute(query).fetchall()]


def outcome(text: str, *, exact: bool = False) -> Any:
    """Return the rows that a condition keeps, or its error."""
    try:
        return selected(text, exact=exact)
    except InvalidOption as error:
        return error


def duckdb_outcome(text: str) -> Any:
    """Return the rows that DuckDB selects, or its error."""
    try:
        return selected_by_duckdb(text)
    except duckdb.Error as error:
        return error
