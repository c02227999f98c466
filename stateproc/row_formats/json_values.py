"""Convert Arrow columns to values that JSON can represent, one column at a time.

Integers become numbers, decimals strings; dates and times ISO-8601, instants in UTC with Z; bytes base64; NaN and
infinities strings, because JSON has no such numbers; structs objects; maps lists of {"key": …, "value": …}; nulls null.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.arrow_arrays import offsets_of
from stateproc.codec.temporal import iso_date, iso_instant
from stateproc.row_formats.case_collisions import unique_names

_NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}
_YEAR_0, _YEAR_10000 = -62_167_219_200, 253_402_300_800
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def json_values(array: pa.Array) -> list[Any]:
    """Return the values of ``array`` as JSON values."""
    kind = array.type
    for matches, convert in _CONVERSIONS:
        if matches(kind):
            return convert(array)
    return list(array.to_pylist())


def json_lines(batch: pa.RecordBatch) -> Iterator[str]:
    """Yield one JSON object per row, without line ends."""
    names = unique_names(batch.schema.names)
    encode = json.JSONEncoder(ensure_ascii=False, separators=(", ", ": "), allow_nan=False).encode
    for row in zip(*(json_values(column) for column in batch.columns), strict=True):
        yield encode(dict(zip(names, row, strict=True)))


def _floats(array: pa.Array) -> list[Any]:
    # A float is printed as the shortest text that parses to the same float, not as the double of its value.
    doubles = pc.cast(pc.cast(array, pa.string()), pa.float64()) if array.type != pa.float64() else array
    values = doubles.to_pylist()
    if pc.all(pc.is_finite(doubles)).as_py() is False:
        return [_not_finite(value) for value in values]
    return list(values)


def _not_finite(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return _NOT_FINITE.get(value, "NaN")


def _bytes(array: pa.Array) -> list[Any]:
    return [None if item is None else base64.b64encode(item).decode("ascii") for item in array.to_pylist()]


def _decimals(array: pa.Array) -> list[Any]:
    return [None if item is None else format(item, "f") for item in array.to_pylist()]


def _dates(array: pa.Array) -> list[Any]:
    days = pc.cast(array, pa.int32()).to_pylist()
    return [None if day is None else iso_date(day) for day in days]


def _instants(array: pa.Array) -> list[Any]:
    suffix = "Z" if array.type.tz else ""
    ticks = pc.cast(array, pa.int64())
    unit = _UNITS[array.type.unit]
    bounds = pc.min_max(ticks).as_py()
    if bounds["min"] is None or (bounds["min"] >= _YEAR_0 * unit and bounds["max"] < _YEAR_10000 * unit):
        return [_iso(text, suffix) for text in pc.cast(_naive(array), pa.string()).to_pylist()]
    return [None if tick is None else _instant_beyond_arrow(tick, unit) + suffix for tick in ticks.to_pylist()]


def _naive(array: pa.Array) -> pa.Array:
    return array if array.type.tz is None else pc.cast(array, pa.int64()).cast(pa.timestamp(array.type.unit))


def _instant_beyond_arrow(ticks: int, unit: int) -> str:
    seconds, fraction = divmod(ticks, unit)
    return iso_instant(seconds, fraction * (10**9 // unit))


def _iso(text: str | None, suffix: str = "") -> str | None:
    """Convert Arrow's text to ISO-8601 as java.time prints it: fractions of seconds in groups of three digits."""
    if text is None:
        return None
    text = text.replace(" ", "T")
    while text.endswith("000") and "." in text:
        text = text[:-3]
    return text.removesuffix(".") + suffix


def _times(array: pa.Array) -> list[Any]:
    return [_iso(text) for text in pc.cast(array, pa.string()).to_pylist()]


def _structs(array: pa.Array) -> list[Any]:
    names = unique_names([field.name for field in array.type])
    # flatten() gives the children of this slice, null where the struct is.
    columns = [json_values(child) for child in array.flatten()]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)] if columns else [{}] * len(array)
    return _with_nulls(rows, array)


def _lists(array: pa.Array) -> list[Any]:
    offsets = offsets_of(array)
    start, stop = int(offsets[0]), int(offsets[-1])
    return _cut(json_values(array.values.slice(start, stop - start)), offsets - start, array)


def _fixed_lists(array: pa.Array) -> list[Any]:
    return _lists(pc.cast(array, pa.list_(array.type.value_type)))


def _maps(array: pa.Array) -> list[Any]:
    offsets = offsets_of(array)
    start, stop = int(offsets[0]), int(offsets[-1])
    keys = json_values(array.keys.slice(start, stop - start))
    items = json_values(array.items.slice(start, stop - start))
    entries = [{"key": key, "value": item} for key, item in zip(keys, items, strict=True)]
    return _cut(entries, offsets - start, array)


def _cut(values: list[Any], offsets: Any, array: pa.Array) -> list[Any]:
    bounds = offsets.tolist()
    rows = [values[start:stop] for start, stop in pairwise(bounds)]
    return _with_nulls(rows, array)


def _with_nulls(rows: list[Any], array: pa.Array) -> list[Any]:
    if not array.null_count:
        return rows
    return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]


def _dictionaries(array: pa.Array) -> list[Any]:
    return json_values(array.dictionary_decode())


_CONVERSIONS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], list[Any]]], ...] = (
    (pa.types.is_struct, _structs),
    (pa.types.is_map, _maps),
    (lambda kind: pa.types.is_list(kind) or pa.types.is_large_list(kind), _lists),
    (pa.types.is_fixed_size_list, _fixed_lists),
    (pa.types.is_floating, _floats),
    (lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind), _bytes),
    (pa.types.is_fixed_size_binary, _bytes),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_date, _dates),
    (pa.types.is_timestamp, _instants),
    (pa.types.is_time, _times),
    (pa.types.is_dictionary, _dictionaries),
)
