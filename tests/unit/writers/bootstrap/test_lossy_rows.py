"""Refusal of rows whose values the state's type cannot store without loss; the error shows the row."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stateproc.errors import InvalidRows
from tests.unit.writers.bootstrap.test_row_columns import written

MIDNIGHT, MORNING = datetime(2026, 1, 2), datetime(2026, 1, 2, 3, 4, 5)
NEW_YORK = pa.timestamp("us", "America/New_York")
INNER = pa.struct([("a", pa.int64())])


def values(target: Path, rows: pa.Array, type_: str) -> list[Any]:
    """Write the values as state and return those read back."""
    table = pa.table({"key": range(len(rows)), "value": rows})
    found = written(target, table, valueType=type_).operator("op").state("s").to_arrow().sort_by("key")
    return found.column("value").to_pylist()


@pytest.mark.parametrize(
    ("type_", "array", "expected"),
    [
        ("LocalDate", pa.array([MIDNIGHT, datetime(1, 1, 1), datetime(9999, 12, 31)]), [
            date(2026, 1, 2), date(1, 1, 1), date(9999, 12, 31)]),
        ("LocalDate", pa.array([MIDNIGHT], pa.timestamp("ns")), [date(2026, 1, 2)]),
        # Midnight in the session's time zone, as in Spark's own cast.
        ("LocalDate", pa.array([datetime(2026, 1, 2, 5)], NEW_YORK), [date(2026, 1, 2)]),
        ("ROW<d DATE>", pa.array([{"d": MIDNIGHT}]), [{"f0": date(2026, 1, 2)}]),
        ("java.sql.Date", pa.array([date(2026, 1, 2)]), [MIDNIGHT]),
        ("LocalTime", pa.array([datetime(1970, 1, 1, 3, 4, 5)]), [time(3, 4, 5)]),
    ],
)  # fmt: skip
def test_timestamps_at_midnight_are_converted_to_dates(
    tmp_path: Path, type_: str, array: pa.Array, expected: list[Any]
) -> None:
    got = values(tmp_path / "s", array, type_)
    assert [item.replace(tzinfo=None) if isinstance(item, datetime) else item for item in got] == expected


@pytest.mark.parametrize(
    ("type_", "array", "message"),
    [
        ("LocalDate", pa.array([MIDNIGHT, MORNING]), "2026-01-02 03:04:05.* has a time of day"),
        ("LocalDate", pa.array([MIDNIGHT], NEW_YORK), "has a time of day"),
        ("LocalDate", pa.array([1], pa.timestamp("ns")), "has a time of day"),
        ("ROW<d DATE>", pa.array([{"d": MIDNIGHT}, {"d": MORNING}]), "field 'd': .* has a time of day"),
        ("LocalTime", pa.array([MORNING]), "has a date, which"),
        ("ROW<t TIME(3)>", pa.array([{"t": MORNING}]), "has a date, which"),
        ("ROW<t TIME(3)>", pa.array([{"t": time(1, 2, 3, 456_789)}]), "finer than a millisecond"),
        ("SQL TIMESTAMP(3)", pa.array([datetime(2026, 1, 1, 0, 0, 0, 1)]), "finer than 1/1000 second"),
        ("DECIMAL(5, 2)", pa.array([Decimal("1.234")]), "does not fit"),
    ],
)
def test_times_that_would_lose_precision_are_refused(tmp_path: Path, type_: str, array: pa.Array, message: str) -> None:
    with pytest.raises(InvalidRows, match=message) as raised:
        values(tmp_path / "s", array, type_)
    assert f"row: key={len(array) - 1}, value=" in str(raised.value)


@pytest.mark.parametrize(
    ("type_", "array"),
    [
        ("ROW<a BIGINT NOT NULL, b STRING>", pa.array([{"a": 1, "b": None}, {"a": None, "b": "x"}])),
        ("ROW<a STRING NOT NULL>", pa.array([{"a": "x"}, {"a": None}])),
        ("ROW<a TIMESTAMP_LTZ(3) NOT NULL>", pa.array([{"a": MORNING}, {"a": None}])),
        ("ROW<a DECIMAL(38, 2) NOT NULL>", pa.array([{"a": Decimal(1)}, {"a": None}])),
        ("ROW<r ROW<a BIGINT NOT NULL>>", pa.array([{"r": None}, {"r": {"a": None}}], pa.struct([("r", INNER)]))),
        ("ROW<r ROW<a BIGINT> NOT NULL>", pa.array([{"r": {"a": None}}, {"r": None}], pa.struct([("r", INNER)]))),
        ("ROW<l ARRAY<INT NOT NULL>>", pa.array([{"l": []}, {"l": [1, None]}])),
        ("SQL ARRAY<INT NOT NULL>", pa.array([[1], [None]], pa.list_(pa.int32()))),
        ("SQL MAP<INT, STRING NOT NULL>", pa.array([[(1, "x")], [(1, None)]], pa.map_(pa.int32(), pa.string()))),
    ],
)
def test_nulls_in_not_null_types_are_refused(tmp_path: Path, type_: str, array: pa.Array) -> None:
    with pytest.raises(InvalidRows, match="a null, where the type is NOT NULL") as raised:
        values(tmp_path / "s", array, type_)
    assert "row: key=1, value=" in str(raised.value)
    assert len(values(tmp_path / "t", array, type_.replace(" NOT NULL", ""))) == 2


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"left": None, "right": None}, r"no option of a choice is set \(left, right\)"),
        ({"left": "x", "right": 1}, "two options"),
    ],
)
@pytest.mark.parametrize("type_", ["Either<String, Long>", "Either<Long?, Long?>"])
def test_an_either_needs_exactly_one_side(tmp_path: Path, type_: str, row: dict[str, Any], message: str) -> None:
    side = pa.string() if "String" in type_ else pa.int64()
    row = {name: 5 if value == "x" and side == pa.int64() else value for name, value in row.items()}
    rows = [{"left": None, "right": 7}, row]
    with pytest.raises(InvalidRows, match=message) as raised:
        values(tmp_path / "s", pa.array(rows, pa.struct([("left", side), ("right", pa.int64())])), type_)
    assert "row: key=1, value=" in str(raised.value)
