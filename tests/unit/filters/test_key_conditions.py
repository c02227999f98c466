"""Conditions on keys, by which only some key groups and blocks are read, keep every row that they are true for."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from stateproc.errors import SnapshotError
from stateproc.filters import RowFilter, keys_in, parse
from stateproc.keygroups.key_group_pruning import key_groups
from stateproc.model.state import State
from stateproc.row_formats.json_values import json_values
from stateproc.serializers import LayoutContext, Serializer
from stateproc.serializers.java.scalars import SCALARS, Scalar
from stateproc.serializers.java.temporal import TEMPORAL, Temporal
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.serializers import RowData
from stateproc.snapshot.snapshot import Snapshot
from tests.helpers.fixtures import Fixture, newest_fixtures
from tests.helpers.sweeps import exhaustive, sweep

# Random conditions on the columns ``key`` and ``key_group`` of real rows.


class KeyConditions:
    """Makes conditions whose literals are mostly keys that rows have.

    Args:
        seed: Of the random numbers.
        rows: The rows, with the columns ``key`` and ``key_group``.
    """

    def __init__(self, seed: int, rows: pa.Table) -> None:
        self._chance = random.Random(seed)
        self._type = rows.schema.field("key").type
        self._keys = rows["key"].to_pylist() or [None]
        self._groups = rows["key_group"].to_pylist() or [0]

    def condition(self, depth: int = 2) -> str:
        """Return a condition with at most ``depth`` levels of operators of logic."""
        kind = self._chance.randrange(8) if depth else 7
        if kind < 3:
            return f"({self.condition(depth - 1)}) {'OR' if kind else 'AND'} ({self.condition(depth - 1)})"
        if kind == 3:
            return f"NOT ({self.condition(depth - 1)})"
        if kind == 4:
            return f"({self.condition(depth - 1)}) IS {self._pick('', 'NOT ')}{self._pick('TRUE', 'NULL')}"
        return self._on_group() if self._chance.random() < 0.2 else self._on_key("key", self._type, self._keys)

    def _pick(self, *choices: str) -> str:
        return self._chance.choice(choices)

    def _on_group(self) -> str:
        a, b = self._chance.choice(self._groups), self._chance.choice(self._groups)
        return self._pick(
            f"key_group = {a}", f"KEY_GROUP IN ({a}, {b}, NULL)", f"key_group BETWEEN {a} AND {b}", f"{a} = key_group",
            f"key_group % 3 = {a % 3}", f"NOT key_group < {a}", f"key_group <> {a}", f"key_group = {a}.0 IS NULL",
        )  # fmt: skip

    def _on_key(self, name: str, type_: pa.DataType, values: list[Any]) -> str:
        if pa.types.is_struct(type_):
            row = self._chance.choice(values)
            parts = [
                self._on_key(f"{name}.{self._spelled(field.name)}", field.type, [row[field.name]]) for field in type_
            ]
            used = parts[: self._chance.choice([1, len(parts), len(parts)])]
            return f"({' AND '.join(used)})"
        a, b = (self._literal(self._chance.choice(values), type_) for _ in range(2))
        name = self._spelled(name) if "." not in name else name
        return self._pick(
            *[f"{name} = {a}"] * 4, f"{a} = {name}", *[f"{name} IN ({a}, {b})"] * 3, f"{name} IN ({a}, NULL)",
            f"({name}) = ({a})", f"{name} = {a} AND {name} = {b}", f"{name} = {a} AND {name} IS NOT NULL",
            f"{name} IS NOT DISTINCT FROM {a}", f"{name} BETWEEN {a} AND {b}", f"{name} <= {a}", f"{name} <> {a}",
            f"{name} NOT IN ({a}, {b})", f"{name} IS NULL", f"coalesce({name}, {b}) = {a}", f"{name} = {a} IS TRUE",
            f"CASE WHEN {name} = {a} THEN {name} = {a} ELSE {name} = {b} END",
        )  # fmt: skip

    def _spelled(self, name: str) -> str:
        return self._pick(name, name, name.upper(), f'"{name}"')

    def _literal(self, value: Any, type_: pa.DataType) -> str:
        if value is None:
            return "NULL" if pa.types.is_null(type_) else "'none'" if pa.types.is_string(type_) else "0"
        if isinstance(value, bool):
            return str(value).upper()
        if isinstance(value, int):
            return self._pick(str(value), str(value), f"{value}.0", f"{value}e0", f"CAST({value} AS BIGINT)")
        return "'" + str(value).replace("'", "''") + "'"


# How keys are stored and looked up does not depend on the mode.
READS_EVERY_MODE = False


def _states(snapshot: Snapshot, most: int) -> Iterator[tuple[State, pa.Table]]:
    """Yield at most so many states of each type of keys, with all of their rows."""
    counts: dict[pa.DataType, int] = {}
    for operator in snapshot.operators:
        for state in operator.states:
            try:
                schema = state.schema()
                if not {"key", "key_group"} <= set(schema.names) or counts.get(schema.field("key").type, 0) >= most:
                    continue
                rows = state.to_arrow()
            except SnapshotError:
                continue
            if rows.num_rows:
                counts[schema.field("key").type] = counts.get(schema.field("key").type, 0) + 1
                yield state, rows


@pytest.mark.parametrize(
    ("fixture", "rounds", "states"),
    [(fixture, 2, 1) for fixture in newest_fixtures()]
    + [exhaustive(fixture, 3, 3) for fixture in newest_fixtures() if fixture.manifest["job"] == "kitchen"],
    ids=lambda item: getattr(item, "name", str(item)),
)
def test_conditions_on_keys_keep_what_duckdb_selects_of_all_rows(fixture: Fixture, rounds: int, states: int) -> None:
    snapshot = fixture.open()
    database = snapshot.sql_database(threads=1)
    for state, rows in _states(snapshot, states):
        table = ".".join(f'"{name}"' for name in (state.operator.display, state.name))
        conditions = KeyConditions(rounds, rows)
        with _table_of(rows) as oracle:
            for _ in range(rounds):
                text = conditions.condition()
                wanted = rows.take(_selected(oracle, text))
                assert _sorted(state.to_arrow(where=text)) == _sorted(wanted), f"{state.name}: {text}"
                found = database.run(f"SELECT key, key_group FROM {table} WHERE {text}").reader().read_all()
                assert _sorted(found) == _sorted(wanted.select(["key", "key_group"])), f"{state.name}: {text}"
    database.close()


def _table_of(rows: pa.Table) -> duckdb.DuckDBPyConnection:
    """Return a DuckDB with the keys and key groups of the rows, and their numbers, in a table in memory."""
    keys = rows.select(["key", "key_group"]).append_column("__row", pa.array(range(rows.num_rows), pa.int64()))
    connection = duckdb.connect(config={"threads": 1})
    connection.register("arrow", keys)
    connection.execute("CREATE TABLE data AS FROM arrow")
    return connection


def _selected(oracle: duckdb.DuckDBPyConnection, text: str) -> pa.Array:
    """Return the numbers of the rows that DuckDB selects."""
    return pa.table(oracle.sql(f"SELECT __row FROM data WHERE {text}"))["__row"].combine_chunks()


def _sorted(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows.to_pylist()))


def _scalar(name: str) -> Scalar:
    return next(Scalar(*row) for row in SCALARS if row[0] == name)


def _temporal(name: str) -> Temporal:
    return next(Temporal(kind) for kind in TEMPORAL if kind.name == name)


def _row(kind: str, **parameters: int) -> RowData:
    return RowData((LogicalType(kind, **parameters),), ("f0",))


D = datetime.datetime
KEYS: dict[str, tuple[Serializer, pa.DataType, list[Any]]] = {
    "bool": (_scalar("Boolean"), pa.bool_(), [True, False]),
    "byte": (_scalar("Byte"), pa.int8(), [0, 1, -128, 127]),
    "long": (_scalar("Long"), pa.int64(), [0, -1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]),
    "float": (_scalar("Float"), pa.float32(), [0.0, -0.0, 0.1, 16777216.0, float("inf"), float("nan"), -2.5]),
    "double": (_scalar("Double"), pa.float64(), [0.0, -0.0, 0.1, 2.0**53, float("-inf"), float("nan"), 1e300]),
    "string": (_scalar("String"), pa.string(), ["", "tea", "TEA", "it's", "\U0001f375", "a\\b", "1"]),
    "char": (_scalar("Char"), pa.string(), ["a", "A", "\u00e9"]),
    "bytes of SQL": (_row("VARBINARY"), pa.binary(), [b"", b"\x00", b"tea", b"AAE=", b"\xff\xfe"]),
    "double of SQL": (_row("DOUBLE"), pa.float64(), [0.0, -0.0, 0.1, 2.0**53]),
    "text of SQL": (_row("VARCHAR"), pa.string(), ["", "tea", "it's", "\U0001f375"]),
    "decimal of SQL": (
        _row("DECIMAL", precision=20, scale=2),
        pa.decimal128(20, 2),
        [Decimal("0.10"), Decimal("2.50"), Decimal(2**53), Decimal(2**53 + 1), Decimal("1.00")],
    ),
    "date of SQL": (_row("DATE"), pa.date32(), [D(2024, 2, 29).date(), D(1, 1, 1).date()]),
    "timestamp of SQL": (
        _row("TIMESTAMP_WITHOUT_TIME_ZONE", precision=6),
        pa.timestamp("us"),
        [D(2024, 2, 29, 12, 30), D(1, 1, 1), D(2024, 2, 29, 12, 30, 0, 500000)],
    ),
    "date": (_temporal("LocalDate"), pa.date32(), [D(2024, 2, 29).date(), D(1, 1, 1).date()]),
    "time": (_temporal("LocalTime"), pa.time64("us"), [datetime.time(12, 30), datetime.time(0, 0, 0, 1)]),
    "timestamp": (_temporal("LocalDateTime"), pa.timestamp("us"), [D(2024, 2, 29, 12, 30), D(1, 1, 1)]),
    "instant": (
        _temporal("Instant"),
        pa.timestamp("us", "UTC"),
        [D(2024, 2, 29, 12, 30, 0, 500000, datetime.timezone.utc), D(1970, 1, 1, tzinfo=datetime.timezone.utc)],
    ),
    "date of Java": (
        _temporal("Date"),
        pa.timestamp("us", "UTC"),
        [D(2024, 2, 29, 12, 30, 0, 500000, datetime.timezone.utc), D(1969, 12, 31, tzinfo=datetime.timezone.utc)],
    ),
}
LITERALS: dict[str, list[str]] = {
    "number": [
        "0", "-0.0", "0e0", "1", "1.0", "0.1", "1e-1", "0.10000000001", "-128", "127", "9007199254740992", "2.5",
        "9007199254740993", "9007199254740993e0", "9223372036854775807", "-9223372036854775808", "1e300", "16777217",
        "CAST('nan' AS DOUBLE)", "CAST('inf' AS DOUBLE)", "CAST(0.1 AS FLOAT)", "-2.5", "-25e-1", "1e400",
    ],
    "text": ["''", "'tea'", "'TEA'", "'it''s'", "'\U0001f375'", "'a\\b'", "'a'", "'\u00e9'", "$$tea$$", "'1'"],
    "bool": ["TRUE", "FALSE"],
    "bytes": ["''", "'tea'", r"'\x00'", "from_base64('AAE=')", "from_base64('//4=')", r"'\xFF\xfe'::BLOB", "'AAE='"],
    "date": [
        "'2024-02-29'", "'2024-2-29'", "DATE '2024-02-29'", "'2024-02-29 23:59'", "'0001-01-01'",
        "TIMESTAMP '2024-02-29 00:00:00'", "TIMESTAMP '2024-02-29 12:30'", "CAST('0001-1-1' AS DATE)",
    ],
    "time": ["'12:30'", "'12:30:00.0'", "TIME '12:30:00'", "'00:00:00.000001'", "'00:00:00.0000012'"],
    "timestamp": [
        "'2024-02-29 12:30'", "'2024-02-29T12:30:00.5Z'", "'2024-02-29 13:30:00.500+01:00'", "DATE '2024-02-29'",
        "TIMESTAMP '2024-02-29 12:30:00'", "'1970-01-01'", "'0001-01-01'", "'2024-02-29 12:30:00.5000001'",
        "TIMESTAMPTZ '2024-02-29 11:30:00.5-01'", "'1969-12-31'", "DATE '0001-01-01'",
    ],
}  # fmt: skip


def _literals(type_: pa.DataType) -> list[str]:
    if pa.types.is_boolean(type_):
        return LITERALS["bool"]
    if pa.types.is_binary(type_):
        return LITERALS["bytes"]
    if pa.types.is_string(type_):
        return LITERALS["text"]
    if pa.types.is_date(type_):
        return LITERALS["date"]
    if pa.types.is_time(type_):
        return LITERALS["time"]
    return LITERALS["timestamp"] if pa.types.is_timestamp(type_) else LITERALS["number"]


@pytest.mark.parametrize("temporal", ["micros", "exact"])
@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("seeds", sweep(4))
def test_the_key_groups_of_a_condition_contain_the_keys_that_fulfil_it(kind: str, temporal: str, seeds: range) -> None:
    serializer, type_, values = KEYS[kind]
    context = LayoutContext(temporal=temporal)
    is_row = isinstance(serializer, RowData)
    typed = pa.array(values, type_)
    column = pa.array(json_values(typed)) if temporal == "exact" and pa.types.is_temporal(type_) else typed
    shown = json_values(typed) if pa.types.is_temporal(type_) else values
    rows, schema = (
        pa.RecordBatch.from_arrays([pa.StructArray.from_arrays([item], ["f0"]) if is_row else item], names=["key"])
        for item in (column, typed)
    )
    key_type = schema.schema.field("key").type
    # Of a zero, the key groups of both signs: its own is one of them.
    own_groups = [key_groups(serializer, [{"f0": key} if is_row else key], context, 32768, 4) for key in shown]
    pruned = 0
    for seed in seeds:
        chance = random.Random(seed)
        for _ in range(20):
            text = _condition(chance, "key.f0" if is_row else "key", _literals(type_))
            condition = parse(text, rows.schema)
            mask = RowFilter(condition, rows.schema, schema.schema).mask(rows).to_pylist()
            found = keys_in(condition, key_type)
            groups = None if found is None else key_groups(serializer, found, context, 32768, 4)
            if groups is None:
                continue
            pruned += 1
            for key, is_kept, own in zip(shown, mask, own_groups, strict=True):
                assert not is_kept or own is None or own & groups, f"{key}: {text}"
    # Nanoseconds count for the hash of a time, and columns of microseconds do not contain them.
    assert pruned or (temporal == "micros" and kind in ("time", "timestamp", "instant"))


def _condition(chance: random.Random, key: str, literals: list[str]) -> str:
    a, b = chance.choice(literals), chance.choice(literals)
    equal = chance.choice([f"{key} = {a}", f"{a} = {key}", f"{key.upper()} IN ({a}, {b})", f"({key}) = {a}"])
    return chance.choice([equal, equal, f"{equal} OR {key} = {b}", f"{equal} AND {key} IN ({a}, {b})"])


def test_decimal_keys_are_not_looked_up_by_doubles() -> None:
    type_ = pa.decimal128(20, 0)
    keys = pa.array([Decimal(2**53), Decimal(2**53 + 1)], type_)
    rows = pa.RecordBatch.from_arrays([keys], names=["key"])
    condition = parse("key = 9007199254740992e0", rows.schema)
    assert RowFilter(condition, rows.schema, rows.schema).mask(rows).to_pylist() == [True, True]
    assert keys_in(condition, type_) is None
