"""Key columns of new state: the key group of a row depends on the value, not on the column's type."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from stateproc import types
from stateproc.keygroups.key_group_assignment import key_hash_of
from stateproc.keygroups.ranges import key_group_of_hash
from stateproc.readers.state_descriptor import StateKind
from stateproc.serializers import LayoutContext
from stateproc.writers.bootstrap.keyed_encoder import RowEncoder
from stateproc.writers.bootstrap.state_registration import RegisteredState

MOMENT = dt.datetime(2024, 2, 29, 12, 30, 0, 123456, dt.timezone.utc)
JAVA_HASHES = {"LocalTime": 1_627_650_284, "LocalDate": 4_145_309}
"""Java's LocalTime.of(12, 30, 0, 1).hashCode() and LocalDate.of(2024, 2, 29).hashCode()."""


def entries(type_: str, keys: pa.Array) -> pa.RecordBatch:
    key = types.parse(type_)
    state = RegisteredState("v", StateKind.VALUE, types.LONG).state(key, 0)
    encoder = RowEncoder(state, 128, LayoutContext(), key_hash_of(key), "op")
    return encoder.encode(pa.RecordBatch.from_arrays([keys, pa.array(range(len(keys)), pa.int64())], ["key", "value"]))


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("LocalTime", "12:30:00.123456", pa.array([MOMENT.time()])),
        ("LocalDate", "2024-02-29", pa.array([MOMENT.date()])),
        ("LocalDateTime", "2024-02-29T12:30:00.123456", pa.array([MOMENT.replace(tzinfo=None)])),
        ("Instant", "2024-02-29T12:30:00.123456Z", pa.array([MOMENT], pa.timestamp("us", "UTC"))),
        ("java.sql.Timestamp", "2024-02-29T12:30:00.123456Z", pa.array([MOMENT], pa.timestamp("us", "UTC"))),
        ("java.util.Date", "1969-12-31T23:59:59.999Z", pa.array([-1], pa.timestamp("ms", "UTC"))),
    ],
)
def test_dates_and_times_as_text_are_encoded_to_the_same_keys(type_: str, text: str, value: pa.Array) -> None:
    assert entries(type_, pa.array([text])) == entries(type_, value)
    pair = f"Tuple2<Long, {type_}>"
    texts = pa.StructArray.from_arrays([pa.array([7]), pa.array([text])], ["f0", "f1"])
    values = pa.StructArray.from_arrays([pa.array([7]), value], ["f0", "f1"])
    assert entries(pair, texts) == entries(pair, values)


@pytest.mark.parametrize(("type_", "text"), [("LocalTime", "12:30:00.000000001"), ("LocalDate", "2024-02-29")])
def test_key_groups_equal_those_of_javas_hash_codes(type_: str, text: str) -> None:
    assert entries(type_, pa.array([text])).column("key_group").to_pylist() == [
        int(key_group_of_hash(pa.array([JAVA_HASHES[type_]], pa.int32()).to_numpy(), 128)[0])
    ]


def test_text_that_is_not_a_time_is_refused_with_its_row() -> None:
    with pytest.raises(Exception, match="'noon' is no time in ISO-8601 form"):
        entries("LocalTime", pa.array(["12:00", "noon"]))


def test_text_keys_of_type_string_are_not_converted() -> None:
    assert len(entries("String", pa.array(["2024-02-29"]))) == 1
