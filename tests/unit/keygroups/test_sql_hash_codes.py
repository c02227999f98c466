"""HASH_CODE of SQL: the buckets are those that Flink 1.15, 1.20 and 2.3 gave, in the state of COUNT(DISTINCT …)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stateproc.keygroups.sql_hash_codes import has_sql_hash_code, sql_hash_codes
from stateproc.serializers.table.type_text import parse_sql_type

# Type → values as they are decoded, and their buckets of 1024, by Java's remainder.
FLINK: dict[str, tuple[pa.Array, list[int]]] = {
    "BOOLEAN": (pa.array([True, False]), [207, 213]),
    "TINYINT": (pa.array([5, -128, 127, 1], pa.int8()), [5, -128, 127, 1]),
    "SMALLINT": (pa.array([5, 1, -32768, 32767], pa.int16()), [5, 1, 0, 1023]),
    "INT": (pa.array([1, -(2**31), -5, 2**31 - 1], pa.int32()), [1, 0, -5, 1023]),
    "BIGINT": (pa.array([2**40 + 3, 1, 2**63 - 1, -(2**63)]), [259, 1, 0, 0]),
    "FLOAT": (pa.array([3.4e38, 2.5, float("nan"), -0.0], pa.float32()), [414, 0, 0, 0]),
    "DOUBLE": (pa.array([1e300, 1.5, float("nan"), -0.0]), [-608, 0, 0, 0]),
    "CHAR(4)": (pa.array(["ab", "abcd", "zzzz", ""]), [33, 66, 640, 0]),
    "STRING": (
        pa.array(["tea", "TEA", "紅茶", "紅茶😀", "a longer text than sixteen bytes", ""]).dictionary_encode(),
        [16, 1008, 721, 1012, 957, 0],
    ),
    "DECIMAL(10, 2)": (
        pa.array([Decimal("1.10"), Decimal("12.00"), Decimal("0.00"), Decimal("-99999999.99")], pa.decimal128(10, 2)),
        [340, 338, 2, -865],
    ),
    "DECIMAL(25, 3)": (
        pa.array(list(map(Decimal, ["-1234567890123456789012.345", "1.100", "12.000", "0.000"])), pa.decimal128(25, 3)),
        [-186, 311, 291, 3],
    ),
    "DATE": (pa.array(["9999-12-31", "2020-02-03", "1970-01-01", "1969-12-31"]), [160, 887, 0, -1]),
    "TIMESTAMP(3)": (
        pa.array([
            "2020-02-03T10:11:12.123", "9999-12-31T00:00:00", "1969-12-31T23:59:59.999", "1970-01-01T00:00:00.001",
        ]),
        [597, -919, 0, 31],
    ),
    "TIMESTAMP(9)": (
        pa.array([
            "2020-02-03T10:11:12.123456789", "1969-12-31T23:59:59.999999999", "1970-01-01T00:00:00.000000001",
            "1970-01-01T00:00:00",
        ]),
        [682, 575, 1, 0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("type_", FLINK)
def test_buckets_are_those_of_flink(type_: str) -> None:
    values, buckets = FLINK[type_]
    parsed: Any = parse_sql_type(type_)
    assert has_sql_hash_code(parsed)
    assert np.fmod(sql_hash_codes(values, parsed), 1024).tolist() == buckets
    assert not len(sql_hash_codes(values[:0], parsed))


def test_texts_have_no_negative_hash_code_but_one() -> None:
    """So of 1000 buckets in Flink 2.3."""
    texts = pa.array(["polygenelubricants", "a longer text than sixteen bytes"])
    codes = sql_hash_codes(texts, parse_sql_type("STRING"))
    assert codes.tolist() == [-(2**31), 1310573501]
    assert np.fmod(codes, 1000).tolist() == [-648, 501]


@pytest.mark.parametrize("type_", ["TIME", "TIMESTAMP_LTZ(3)", "BYTES", "ROW<a INT>", "ARRAY<INT>"])
def test_other_types_are_not_known(type_: str) -> None:
    assert not has_sql_hash_code(parse_sql_type(type_))
