"""Keys of SQL jobs: binary rows of generated projections reserve space for null decimals and timestamps.

The bytes are those of Flink 1.20.3's ProjectionCodeGenerator for the fields below: all null but the INT, then no nulls.
"""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

from stateproc.serializers.core.base import LayoutContext
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.serializers import RowData

ROW = RowData(
    (
        LogicalType("DECIMAL", precision=38, scale=2),
        LogicalType("INTEGER"),
        LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=6),
        LogicalType("VARCHAR"),
        LogicalType("TIMESTAMP_WITH_LOCAL_TIME_ZONE", precision=9),
        LogicalType("DECIMAL", precision=10, scale=2),
        LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=3),
    ),
    tuple("abcdefg"),
)
NULLS = {"b": 1}
VALUES = {
    "a": Decimal("-1.05"), "b": 1, "c": "1970-01-01T00:00:00.005006", "d": "longer than seven",
    "e": "1969-12-31T23:59:59.999000007Z", "f": Decimal("1.05"), "g": "1970-01-01T00:00:00.009",
}  # fmt: skip
PROJECTED = (
    "007d000000000000000000004000000001000000000000000000000050000000000000000000000000000000580000000000000000000000"
    "00000000000000000000000000000000000000000000000000000000000000000000000000000000",
    "00000000000000000100000040000000010000000000000070170000500000001100000058000000070000007000000069000000000000000"
    "9000000000000009700000000000000000000000000000005000000000000006c6f6e676572207468616e20736576656e00000000000000"
    "ffffffffffffffff",
)
# RowDataSerializer.toBinaryRow, which writes all other rows, reserves no space for a null.
SERIALIZED = "007d000000000000" + "00" * 8 + "0100000000000000" + "00" * 40


def _encoded(ctx: LayoutContext) -> list[str]:
    layout = ROW.layout(ctx)
    rows = layout.encode(pa.array([NULLS, VALUES], layout.arrow_type)).to_arrow().to_pylist()
    assert [int.from_bytes(row[:4], "big") for row in rows] == [len(row) - 4 for row in rows]
    return [row[4:].hex() for row in rows]


def test_projected_rows_equal_those_of_generated_code() -> None:
    assert _encoded(LayoutContext(temporal="exact", projected=True)) == list(PROJECTED)


def test_serialized_rows_reserve_no_space_for_nulls() -> None:
    assert _encoded(LayoutContext(temporal="exact")) == [SERIALIZED, PROJECTED[1]]
