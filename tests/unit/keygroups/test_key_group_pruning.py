"""Key group pruning: the key groups computed for a key contain the one to which Flink assigned it."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from stateproc.errors import SnapshotError
from stateproc.keygroups.hashed_types import days, nanos_of_day, seconds_and_nanos
from stateproc.keygroups.hashes import hash_codes
from stateproc.keygroups.key_group_pruning import key_groups, keys_of_fields
from stateproc.keygroups.key_hash import KeyHash
from stateproc.keygroups.ranges import key_group_of_hash
from stateproc.row_formats.json_values import json_values
from stateproc.serializers import LayoutContext, Serializer
from stateproc.serializers.java.big_numbers import Big
from stateproc.serializers.java.collections import ListOf, PlainArray
from stateproc.serializers.java.scalars import Scalar
from stateproc.serializers.java.structs import NullableOf, RowOf, TupleOf
from stateproc.serializers.java.temporal import TEMPORAL, Temporal
from stateproc.serializers.java.uuids import Uuid
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.serializers import RowData
from tests.helpers.fixtures import Fixture, fixtures

MICROS, EXACT = LayoutContext(temporal="micros"), LayoutContext(temporal="exact")
NEVER = {"Enum", "Pojo", "Kryo"}
"""Types of keys whose hash code is defined by user code or by the JVM."""


def groups(serializer: Serializer, *keys: Any, ctx: LayoutContext = EXACT, version: int = 4) -> set[int] | None:
    return key_groups(serializer, keys, ctx, 128, version)


def in_group(kind: str, *values: Any) -> set[int]:
    array = values[0] if isinstance(values[0], pa.Array) else pa.array(values)
    return {int(group) for group in key_group_of_hash(hash_codes(array, KeyHash(kind)), 128)}


EXACTLY = ("corners-hashmap-canonical", "edges-hashmap-canonical", "kitchen-hashmap-canonical", "sql-rocksdb-canonical")
# The snapshots of a chain belong to one job and have the same keys.
READS_EVERY_MODE = False
CASES = [
    (fixture, "micros") for fixture in fixtures() if fixture.part in ("", "1-checkpoint-by-1", "1-checkpoint-by-2")
]
CASES += [(fixture, "exact") for fixture in fixtures() if fixture.path.name in EXACTLY]


@pytest.mark.parametrize(("fixture", "mode"), CASES, ids=lambda item: getattr(item, "name", item))
def test_the_key_groups_of_a_key_include_that_of_its_row(fixture: Fixture, mode: str) -> None:
    for operator in fixture.open(temporal=mode).operators:
        for state in operator.keyed_states:
            try:
                table = state.to_arrow(columns=["key_group", "key"])
            except SnapshotError:
                continue
            known: dict[str, tuple[Any, Any, int]] = {}
            texts = json_values(table.column("key").combine_chunks())
            plain = table.column("key").to_pylist()
            for group, key, text in zip(table.column("key_group").to_pylist(), plain, texts, strict=True):
                known.setdefault(repr(text), (key, text, group))
            for key, text, group in known.values():
                found = state.key_groups_of([key])
                if found is None:
                    assert "\ufffd" in repr(key) or _is_never_pruned(state.keyed.key, mode), state
                    continue
                assert group in found, (state, key)
                assert len(found) <= (12 if isinstance(state.keyed.key, RowOf) else 1)
                assert state.key_groups_of([text]) == found, "as JSON"


def _is_never_pruned(key: Serializer, mode: str) -> bool:
    hidden = NEVER | ({"Instant"} if mode == "micros" else set())
    return any(name in key.type_name for name in hidden)


def test_each_sql_key_has_one_key_group() -> None:
    """Keys of SQL operators are rows, whose key group is the one in the snapshot."""
    looked_up = 0
    for fixture in fixtures():
        if "/sql-" not in fixture.name:
            continue
        for operator in fixture.open().operators:
            for state in operator.keyed_states:
                if not isinstance(state.keyed.key, RowData):
                    continue
                for row in state.to_arrow(columns=["key_group", "key"]).to_pylist():
                    assert state.key_groups_of([row["key"]]) == {row["key_group"]}
                    looked_up += 1
    assert looked_up > 20


def scalar(name: str) -> Scalar:
    from stateproc.serializers.java.scalars import SCALARS

    return next(Scalar(*row) for row in SCALARS if row[0] == name)


def temporal(name: str) -> Temporal:
    return next(Temporal(kind) for kind in TEMPORAL if kind.name == name)


@pytest.mark.parametrize("name", ["Double", "Float"])
def test_zero_has_two_key_groups_and_nan_one(name: str) -> None:
    kind = name.lower()
    arrow = pa.float64() if name == "Double" else pa.float32()
    both = in_group(kind, pa.array([0.0, -0.0], arrow))
    assert len(both) == 2
    for zero in (0.0, -0.0, 0, Decimal("0.0"), "0.0", "-0.0"):
        assert groups(scalar(name), zero) == both
    nan = in_group(kind, pa.array([math.nan], arrow))
    assert len(nan) == 1
    for value in (math.nan, -math.nan, "NaN"):
        assert groups(scalar(name), value) == nan
    infinite = in_group(kind, pa.array([math.inf, -math.inf], arrow))
    assert groups(scalar(name), "Infinity", "-Infinity") == infinite
    assert groups(scalar(name), "nothing") is None
    assert groups(scalar(name), True) is None


def test_zeros_in_a_tuple_have_the_key_groups_of_all_combinations() -> None:
    pair = TupleOf("org.apache.flink.api.java.tuple.Tuple2", (scalar("Double"), scalar("Double")))
    arrow = pa.struct([("f0", pa.float64()), ("f1", pa.float64())])
    every = pa.array([{"f0": a, "f1": b} for a in (0.0, -0.0) for b in (0.0, -0.0)], arrow)
    kind = KeyHash("tuple", (KeyHash("double"), KeyHash("double")))
    assert groups(pair, {"f0": 0.0, "f1": -0.0}) == {int(g) for g in key_group_of_hash(hash_codes(every, kind), 128)}
    assert groups(pair, [0, 0]) == groups(pair, (0.0, 0.0))
    assert groups(pair, {"f0": 0.0}) is None
    assert groups(pair, 1.0) is None


def test_a_replacement_character_disables_pruning() -> None:
    assert groups(scalar("String"), "tea") == in_group("string", "tea")
    assert groups(scalar("String"), "tea\ufffd") is None


INSTANT = "2024-02-29T12:30:00.123456789Z"


def test_times_with_nanoseconds_are_pruned_only_in_exact_mode() -> None:
    parts = pa.array(
        [{"seconds": 1709209800, "nanos": 123456789}], pa.struct([("seconds", pa.int64()), ("nanos", pa.int32())])
    )
    assert groups(temporal("Instant"), INSTANT) == in_group("instant", parts)
    assert groups(temporal("LocalDateTime"), INSTANT[:-1]) == in_group("local_date_time", parts)
    assert groups(temporal("LocalTime"), "12:30:00.000000001") == in_group(
        "local_time", pa.array([45_000_000_000_001], pa.time64("ns"))
    )
    for name in ("Instant", "LocalDateTime", "LocalTime"):
        assert groups(temporal(name), INSTANT, ctx=MICROS) is None
    assert groups(temporal("LocalDate"), "-0044-03-15") == groups(temporal("LocalDate"), "-0044-03-15", ctx=MICROS)
    assert groups(temporal("LocalDate"), dt.date(2024, 2, 29)) == groups(temporal("LocalDate"), "2024-02-29")
    assert groups(temporal("LocalDate"), "2023-02-30") is None
    assert groups(temporal("LocalDate"), "yesterday") is None


@pytest.mark.parametrize("name", ["Date", "SqlDate", "SqlTime", "SqlTimestamp"])
def test_java_util_and_sql_dates_are_hashed_by_milliseconds(name: str) -> None:
    moment = dt.datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=dt.timezone.utc)
    for ctx in (MICROS, EXACT):
        assert groups(temporal(name), moment, ctx=ctx) == in_group("epoch_millis", -1)
        assert groups(temporal(name), "1969-12-31T23:59:59.9995Z", ctx=ctx) == in_group("epoch_millis", -1)
        elsewhere = moment.astimezone(dt.timezone(dt.timedelta(hours=5)))
        assert groups(temporal(name), elsewhere, ctx=ctx) == in_group("epoch_millis", -1)


def sql_row(*types: LogicalType) -> RowData:
    return RowData(types, tuple(f"f{index}" for index in range(len(types))))


ONE = UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")


@pytest.mark.parametrize("serializer", [Uuid(), Kryo("java.util.UUID")], ids=["Flink 2.4", "Kryo"])
def test_a_uuid_is_accepted_as_object_and_as_text(serializer: Serializer) -> None:
    assert groups(serializer, ONE) == groups(serializer, str(ONE)) == in_group("uuid", str(ONE))
    assert groups(serializer, "no uuid") is None
    pair = TupleOf("org.apache.flink.api.java.tuple.Tuple2", (serializer, scalar("Long")))
    assert groups(pair, {"f0": ONE, "f1": 1}) == groups(pair, [str(ONE), 1]) is not None
    row = sql_row(LogicalType("UUID"))
    assert groups(row, {"f0": ONE}) == groups(sql_row(LogicalType("BINARY")), {"f0": ONE.bytes}) is not None


@pytest.mark.parametrize("name", ["LocalDate", "LocalTime", "LocalDateTime", "Instant"])
def test_times_that_kryo_writes_are_hashed_as_others(name: str) -> None:
    kryo = Kryo(f"java.time.{name}")
    text = {"LocalDate": "2024-02-29", "LocalTime": "12:30:00.000000001"}.get(name, INSTANT.rstrip("Z"))
    assert groups(kryo, text) == groups(temporal(name), text) is not None
    assert groups(kryo, text, ctx=MICROS) == groups(temporal(name), text, ctx=MICROS)
    own = Kryo(f"java.time.{name}", serializers=((f"java.time.{name}", "com.acme.Own"),))
    assert groups(own, text, ctx=replace(EXACT, tail=True)) is None


def test_other_keys_of_kryo_have_no_known_hash() -> None:
    assert groups(Kryo("java.net.URI"), "https://acme.com") is None


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (LogicalType("BIGINT"), 2**63 - 1),
        (LogicalType("INTEGER"), None),
        (LogicalType("VARCHAR"), "über zehn Zeichen"),
        (LogicalType("VARBINARY"), b"\0\1"),
        (LogicalType("BOOLEAN"), True),
        (LogicalType("DATE"), dt.date(1969, 12, 31)),
        (LogicalType("TIME_WITHOUT_TIME_ZONE"), dt.time(1, 2, 3, 4000)),
        (LogicalType("DECIMAL", precision=10, scale=2), Decimal("-1.25")),
        (LogicalType("DECIMAL", precision=38, scale=10), Decimal("1e20")),
        (LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=3), dt.datetime(1960, 1, 1, 0, 0, 0, 1000)),
        (LogicalType("TIMESTAMP_WITH_LOCAL_TIME_ZONE", precision=6), dt.datetime(2960, 1, 1, tzinfo=dt.timezone.utc)),
        (LogicalType("ROW", names=("a",), children=(LogicalType("INTEGER"),)), {"a": 7}),
    ],
)  # fmt: skip
def test_a_sql_key_is_accepted_as_object_and_as_json(type_: LogicalType, value: Any) -> None:
    row = sql_row(type_)
    found = groups(row, {"f0": value}, ctx=MICROS)
    assert found is not None
    assert len(found) == 1
    text = json_values(pa.array([value]))[0]
    assert groups(row, {"f0": text}) == found


def test_the_key_group_of_a_sql_key_equals_that_of_its_vector() -> None:
    row = sql_row(LogicalType("INTEGER"), *[LogicalType("VARCHAR")] * 13)
    key = {**{f"f{index}": None for index in range(14)}, "f0": 1, "f1": "ab"}
    assert groups(row, key) == {int(key_group_of_hash(506912217, 128))}


def test_sql_keys_with_ambiguous_values_are_not_pruned() -> None:
    nanos = sql_row(LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=9))
    assert groups(nanos, {"f0": dt.datetime(2024, 1, 1)}, ctx=MICROS) is None
    assert groups(nanos, {"f0": "2024-01-01T00:00:00.000000001"}) is not None
    doubles = sql_row(LogicalType("DOUBLE"))
    assert groups(doubles, {"f0": math.nan}) is None
    assert len(key_groups(doubles, [{"f0": 0.0}], EXACT, 32768, 4) or ()) == 2
    assert groups(sql_row(LogicalType("ARRAY", children=(LogicalType("INTEGER"),))), {"f0": [1]}) is None
    assert groups(sql_row(LogicalType("DECIMAL", precision=20, scale=0)), {"f0": None}) is None
    assert groups(sql_row(LogicalType("DECIMAL", precision=3, scale=0)), {"f0": 12345}) is None


def test_a_row_has_the_key_groups_of_every_row_kind_and_release() -> None:
    row = RowOf((scalar("Int"), PlainArray("Byte", next(_layouts()))), True)
    current = groups(row, {"f0": 1, "f1": b"ab"})
    assert current is not None and 1 < len(current) <= 4
    assert groups(row, {"f0": 1, "f1": "YWI="}) == current
    arrow = pa.struct([("kind", pa.int8()), ("f0", pa.int32()), ("f1", pa.binary())])
    fields = (KeyHash("int"), KeyHash("array", (KeyHash("byte"),)))
    for version, names in ((3, ("row", "row_1_12", "legacy_row")), (4, ("row",)), (2, ("legacy_row",))):
        expected = {
            int(group)
            for name in names
            for row_kind in range(4)
            for group in key_group_of_hash(
                hash_codes(
                    pa.array([{"kind": row_kind, "f0": 1, "f1": b"ab"}], arrow), KeyHash(f"{name}_with_kind", fields)
                ),
                128,
            )
        }
        assert groups(row, {"f0": 1, "f1": b"ab"}, version=version) == expected
    assert len(groups(RowOf(row.fields, False), [1, b"ab"], version=2) or ()) == 1
    assert groups(RowOf((row,), True), [[1, b"ab"]]) is None
    assert groups(RowOf((ListOf("List", scalar("Int")),), True), [[1, 2]]) is not None


def _layouts() -> Any:
    from stateproc.codec import ops
    from stateproc.codec.layouts import Blob

    yield Blob(ops.LENGTH_I32)


def test_keys_of_other_types() -> None:
    assert groups(Big(True), "1.50") == in_group("big_decimal", "1.50") != groups(Big(True), "1.5")
    assert groups(NullableOf(scalar("Long"), 0), None) == {int(key_group_of_hash(0, 128))}
    assert groups(scalar("Long"), 2**63) is None
    assert groups(scalar("Long"), "x") is None
    assert groups(PlainArray("Byte", next(_layouts())), b"ab") is None
    assert groups(TupleOf("scala.Tuple2", (scalar("Long"),)), [1]) is None


def test_keys_are_combined_from_the_fields_that_conditions_specify() -> None:
    kind = pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))])
    specified = {("key", "a"): [1, 2], ("key", "b", "c"): ["x"]}
    assert keys_of_fields(kind, lambda path, _: specified.get(path)) == [
        {"a": 1, "b": {"c": "x"}},
        {"a": 2, "b": {"c": "x"}},
    ]
    assert keys_of_fields(kind, lambda path, _: None) is None
    many = {("key", "a"): list(range(5000)), ("key", "b", "c"): ["x"]}
    assert keys_of_fields(kind, lambda path, _: many.get(path)) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", (0, 0)),
        ("1969-12-31 23:59:59.5", (-1, 500_000_000)),
        ("2024-02-29T12:30Z", (1709209800, 0)),
        ("+12024-02-29", (317278684800, 0)),
    ],
)
def test_text_is_parsed_as_instant(text: str, expected: tuple[int, int]) -> None:
    assert seconds_and_nanos(text) == expected


@pytest.mark.parametrize("text", ["2024-02-30T00:00:00", "2024-01-01T24:00", "2024-01-01T00:00:00+02:00", 5, b""])
def test_text_that_is_not_an_instant_is_refused(text: Any) -> None:
    for read in (seconds_and_nanos, days, nanos_of_day):
        with pytest.raises(ValueError, match=r"no|cannot"):
            read(text)
