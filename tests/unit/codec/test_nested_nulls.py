"""Values inside nulls, and values without content as opposed to nulls, in bytes that Flink 1.20 wrote."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from stateproc import types
from stateproc.codec.arrow_arrays import Unencodable
from stateproc.errors import CorruptSnapshot
from stateproc.serializers.core.base import LayoutContext
from stateproc.types import parse

DATED = "Row<java.sql.Timestamp, Ttl<Tuple3<java.sql.Timestamp, LocalDateTime, String>>>"
ARRAY = "Tuple1<Tuple2<LocalDate, LocalDateTime>>[]"


@pytest.mark.parametrize("temporal", ["micros", "exact"])
@pytest.mark.parametrize(
    ("text", "data", "field"),
    [
        (DATED, "10ffffc77cedd32ad92b7542dc", "f1"),
        (ARRAY, "0000000200" + "00", None),
        ("Row<Row<LocalDate>>", "20", "f0"),
    ],
)
def test_invalid_dates_inside_a_null_are_ignored(text: str, data: str, field: str | None, temporal: str) -> None:
    value = parse(text).decode(bytes.fromhex(data), temporal=temporal)
    assert value[field] is None if field else value == [None, None]


def test_invalid_dates_outside_nulls_are_refused() -> None:
    pair = parse("Tuple1<Tuple1<LocalDate>>[]")
    leap_day = bytes.fromhex("00000002" + "00" + "01" + "000007e8021d")
    assert pair.decode(leap_day) == [None, {"f0": {"f0": dt.date(2024, 2, 29)}}]
    with pytest.raises(CorruptSnapshot, match="make no date"):
        pair.decode(bytes.fromhex("00000002" + "00" + "01" + "000000000000"))


@pytest.mark.parametrize(
    ("text", "data", "value"),
    [
        ("Tuple0[]", "00000003" + "012a" + "00" + "012a", [True, None, True]),
        ("Nullable<Tuple0>", "002a", True),
        ("Row<Tuple0, Tuple0>", "10" + "2a", {"f0": True, "f1": None}),
        ("Either<Long, Tuple0>", "00" + "2a", {"left": None, "right": True}),
        ("Map<Boolean, Tuple0>", "00000002" + "0100" + "2a" + "0001", [(True, True), (False, None)]),
        ("Option<Unit>", "01" + "00", True),
        ("Option<Unit>", "00", None),
        ("Row<NullValue>", "00", {"f0": True}),
        ("Tuple1<Tuple0>", "2a", {"f0": None}),
    ],
)
def test_a_value_without_content_is_distinguished_from_null(text: str, data: str, value: Any) -> None:
    serializer = parse(text)
    assert serializer.decode(bytes.fromhex(data)) == value
    layout = serializer.layout(LayoutContext(row_kind=True))
    assert layout.encode(pa.array([value], layout.arrow_type)).data.tobytes().hex() == data


def test_false_is_refused_as_value_of_a_type_with_only_one_value() -> None:
    layout = types.Nullable(types.UNIT).layout(LayoutContext())
    with pytest.raises(Unencodable, match="one value only") as failure:
        layout.encode(pa.array([True, None, False]))
    assert failure.value.row == 2


def test_nulls_that_share_a_buffer_are_written_like_others() -> None:
    """Arrow's arrays of nulls share zeros, which for numbers of several widths are no whole number of them."""
    text = "ROW<a TINYINT, b SMALLINT, c BIGINT, d DOUBLE, e TIMESTAMP(3), f DECIMAL(10, 2), g STRING>"
    layout = parse(text).layout(LayoutContext())
    for rows in (0, 1, 3):
        shared = pa.nulls(rows, layout.arrow_type)
        fields = [shared.field(at) for at in range(shared.type.num_fields)]
        own = pa.array([{}] * rows, layout.arrow_type)
        sharing = pa.StructArray.from_arrays(fields, fields=list(shared.type))
        assert layout.encode(sharing).to_arrow() == layout.encode(own).to_arrow()


def test_kinds_of_rows_do_not_import_pandas() -> None:
    """It takes a quarter of a second and 40 MB in each process."""
    program = (
        "import sys; import numpy as np\n"
        "from stateproc.codec.machine import ValueDecoder\n"
        "from stateproc.serializers import LayoutContext\n"
        "from stateproc.types import parse\n"
        "layout = parse('ROW<a BIGINT>').layout(LayoutContext(row_kind=True))\n"
        "data = np.frombuffer(bytes.fromhex('00000010' + '03' + '00' * 7 + '0700000000000000'), np.uint8)\n"
        "found = ValueDecoder(layout).decode(data, np.array([0]), np.array([len(data)]))\n"
        "assert layout.encode(found).data.tobytes() == data.tobytes()\n"
        "print(found[0], 'pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split("\n")[-2].endswith("False") and "-D" in done.stdout, done.stdout + done.stderr
