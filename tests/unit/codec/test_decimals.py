"""Bytes of java.math.BigInteger become decimals exactly, or are refused."""

from __future__ import annotations

import random
from decimal import Context, Decimal

import pyarrow as pa
import pytest

from stateproc.codec.decimals import wide_decimals

_EXACT = Context(prec=100)


def java_bytes(number: int) -> bytes:
    """java.math.BigInteger.toByteArray."""
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


@pytest.mark.parametrize(("precision", "scale"), [(19, 0), (20, 20), (38, 9), (38, 0), (38, -3), (38, 38)])
def test_numbers_equal_those_of_python(precision: int, scale: int) -> None:
    draw = random.Random(precision + scale)
    most = 10**precision - 1
    numbers = [0, 1, -1, 127, 128, -128, -129, (1 << 63) - 1, -(1 << 63), most, -most]
    numbers += [draw.randrange(-most, most + 1) >> draw.randrange(126) for _ in range(500)]
    raw: list[bytes | None] = [java_bytes(number) for number in numbers]
    wanted: list[Decimal | None] = [Decimal(number).scaleb(-scale, _EXACT) for number in numbers]
    raw[3:3], wanted[3:3] = [None, b""], [None, Decimal(0).scaleb(-scale)]
    for array in (pa.array(raw, pa.binary()), pa.array([b"before", *raw], pa.large_binary()).slice(1)):
        found = wide_decimals(array, precision, scale)
        found.validate(full=True)
        assert found.type == pa.decimal128(precision, scale)
        assert found.to_pylist() == wanted


def test_repeated_signs_do_not_count() -> None:
    raw = [bytes(30) + b"\7", b"\xff" * 30 + b"\xf9", bytes(4) + java_bytes(10**38 - 1)]
    assert wide_decimals(pa.array(raw), 38, 0).to_pylist() == [Decimal(7), Decimal(-7), Decimal(10**38 - 1)]


@pytest.mark.parametrize("precision", [19, 25, 38])
@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_of_more_digits_are_refused(precision: int, sign: int) -> None:
    most = 10**precision
    for number in (most, most + 1, 1 << 126, (1 << 127) - 1, 1 << 127, 1 << 128, (1 << 128) + 5, 1 << 900):
        if number >= most:
            with pytest.raises(OverflowError, match=f"more than {precision} digits"):
                wide_decimals(pa.array([b"\1", java_bytes(sign * number)]), precision, 0)


@pytest.mark.parametrize("rows", [[], [None, None]])
def test_columns_without_numbers(rows: list[None]) -> None:
    assert wide_decimals(pa.array(rows, pa.binary()), 38, 2).to_pylist() == rows
