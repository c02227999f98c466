"""Valid values that Arrow or Spark cannot represent are reported as unsupported with advice, not as corrupt."""

from __future__ import annotations

import struct

import pytest

import stateproc
from stateproc.serializers import read_snapshot
from stateproc.types import parse
from tests.helpers.byte_builders.serializers import versioned

_BASE = "org.apache.flink.api.common.typeutils.base."


def test_dates_and_times_out_of_arrows_range_are_unsupported() -> None:
    instant = read_snapshot(versioned(_BASE + "InstantSerializer$InstantSerializerSnapshot", 3))
    data = struct.pack(">qi", 31_556_889_864_403_199, 999_999_999)
    assert instant.decode(data) == "+1000000000-12-31T23:59:59.999999999Z"
    with pytest.raises(stateproc.UnsupportedSnapshot, match="64-bit microseconds") as caught:
        instant.decode(data, temporal="micros")
    assert "temporal='exact'" in (caught.value.advice or "")
    date = read_snapshot(versioned(_BASE + "LocalDateSerializer$LocalDateSerializerSnapshot", 3))
    assert date.decode(struct.pack(">ibb", -999_999_999, 1, 1)) == "-999999999-01-01"
    with pytest.raises(stateproc.UnsupportedSnapshot, match="32-bit days"):
        date.decode(struct.pack(">ibb", -999_999_999, 1, 1), temporal="micros")


def test_an_invalid_date_is_corrupt() -> None:
    date = read_snapshot(versioned(_BASE + "LocalDateSerializer$LocalDateSerializerSnapshot", 3))
    with pytest.raises(stateproc.CorruptSnapshot, match="make no date"):
        date.decode(struct.pack(">ibb", 2024, 13, 1))


@pytest.mark.parametrize("text", ["LocalDate", "LocalDateTime"])
def test_a_value_out_of_pythons_range_of_years_is_unsupported_with_advice(text: str) -> None:
    data = bytes.fromhex("00002710" + "0101" + "00" * 7)[: 6 if text == "LocalDate" else 13]
    with pytest.raises(stateproc.UnsupportedSnapshot, match="Python's datetime") as caught:
        parse(text).decode(data, temporal="micros")
    assert "exact" in (caught.value.advice or "")
