"""Refusal of numbers whose unit or meaning is ambiguous."""

from __future__ import annotations

import datetime as dt
import math
import pickle

import pyarrow as pa
import pytest

import stateproc
from stateproc import types
from stateproc.codec.arrow_arrays import Unencodable
from stateproc.codec.layouts.base import Unwritable
from stateproc.serializers import LayoutContext

MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5)
US, DAYS = pa.timestamp("us"), pa.date32()


def encoded(type_: str, array: pa.Array) -> list[bytes]:
    found: list[bytes] = types.of(type_).layout(LayoutContext()).encode(array).to_arrow().to_pylist()
    return found


@pytest.mark.parametrize(
    ("type_", "array"),
    [
        ("Long", pa.array([None, MOMENT], US)),
        ("Long", pa.array([None, MOMENT], pa.timestamp("ms", "UTC"))),
        ("Long", pa.array([None, dt.timedelta(1)])),
        ("Long", pa.array([None, MOMENT.time()])),
        ("Integer", pa.array([None, MOMENT.date()], DAYS)),
        ("Instant", pa.array([None, 5])),
        ("LocalDateTime", pa.array([None, 5])),
        ("LocalDate", pa.array([None, 5], pa.int32())),
        ("LocalTime", pa.array([None, 5])),
        ("SQL TIMESTAMP(3)", pa.array([None, 5])),
    ],
)
def test_numbers_are_refused_as_times(type_: str, array: pa.Array) -> None:
    with pytest.raises(Unencodable, match="the unit is unknown") as raised:
        encoded(f"Nullable<{type_}>", array)
    assert raised.value.row in (0, 1)
    assert len(encoded(f"Nullable<{type_}>", pa.nulls(2, array.type))) == 2


def test_doubles_out_of_range_of_float_are_refused() -> None:
    with pytest.raises(Unencodable, match="double does not fit float: out of range") as raised:
        encoded("Float", pa.array([1.5, -math.inf, -1e39]))
    assert raised.value.row == 2
    assert len(encoded("Float", pa.array([math.inf, -math.inf, math.nan, 3.4e38, 0.1]))) == 5


def test_read_only_types_are_reported_as_such() -> None:
    with pytest.raises(stateproc.UnsupportedSnapshot, match="read only") as raised:
        encoded("VARIANT", pa.array(['{"a": 1}']))
    assert "another type" in str(raised.value)
    again = pickle.loads(pickle.dumps(raised.value))
    assert type(again) is Unwritable and str(again) == str(raised.value)
