"""Savepoints of the matrix: written from DataFrames, as a job that reads them back registers them, what they hold."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import cycle, islice
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from stateproc import OperatorBootstrap, SavepointWriter
from tests.helpers.flink.restoration import HUNDRED_YEARS, Operator, State, Timers
from tests.helpers.flink.type_matrix import KEYS, MICROS, Family, Key, families
from tests.helpers.value_comparison import plain

ROWS = 8
FAMILIES = 8
"""Families in one operator: RocksDB lists all column families whenever it makes one, so that hundreds take minutes."""
ACCESS = dt.datetime(2026, 1, 2, 3, 4, 5, 678000, dt.timezone.utc)
ACCESS_MS = 1_767_323_045_678
FIRST_TIMER = 1_700_000_000_000
Line = dict[str, Any]


@dataclass(frozen=True)
class Written:
    """A savepoint: its release, and what differs between those that are written."""

    release: str
    max_parallelism: int
    compressed: bool
    ttl: bool

    @property
    def name(self) -> str:
        packed = "compressed" if self.compressed else "plain"
        return f"{self.release}-{self.max_parallelism}-{packed}{'-ttl' if self.ttl else ''}"


@dataclass(frozen=True)
class Kind:
    """A kind of state: how a job calls the state of a family, its column, how it is written, its contents by row."""

    kind: str
    type: str
    value: Callable[[Family, int], Any]
    add: Callable[[OperatorBootstrap, str, DataFrame, Family, dict[str, Any]], object]

    @property
    def keyed(self) -> bool:
        return not self.kind.startswith(("operator-", "broadcast"))


def at(family: Family, row: int) -> Any:
    """The family's value in a row: all of them, over and over."""
    return family.values[row % len(family.values)]


def some(family: Family, row: int) -> list[Any]:
    """A list of one more value for each row."""
    return list(islice(cycle(family.values), row + 1))


def entries(family: Family, row: int) -> list[tuple[str, Any]]:
    """A map: its keys are strings."""
    return [(f"k{n}", value) for n, value in enumerate(some(family, row))]


KINDS: dict[str, Kind] = {
    "value": Kind("value", "{}", at, lambda op, name, rows, of, ttl: op.value_state(
        name, rows, of.name, type=of.type, **ttl)),
    "list": Kind("list", "LIST({})", some, lambda op, name, rows, of, ttl: op.list_state(
        name, rows, f"{of.name}_list", element_type=of.type, **ttl)),
    "map": Kind("map", "MAP(STRING, {})", entries, lambda op, name, rows, of, ttl: op.map_state(
        name, rows, f"{of.name}_map", map_value_type=of.type, **ttl)),
    "keys": Kind("map", "MAP({}, LONG)", lambda of, row: [(at(of, row), row)], lambda op, name, rows, of, ttl: (
        op.map_state(name, rows, map_key=of.name, map_value="key", map_key_type=of.type, **ttl))),
    "reducing": Kind("reducing", "{}", at, lambda op, name, rows, of, ttl: op.reducing_state(
        name, rows, of.name, type=of.type, **ttl)),
    "aggregating": Kind("aggregating", "{}", at, lambda op, name, rows, of, ttl: op.aggregating_state(
        name, rows, of.name, type=of.type, **ttl)),
    "split": Kind("operator-list", "LIST({})", at, lambda op, name, rows, of, ttl: op.operator_list_state(
        name, rows, of.name, type=of.type)),
    "union": Kind("operator-union", "LIST({})", at, lambda op, name, rows, of, ttl: op.union_list_state(
        name, rows, of.name, type=of.type)),
    "broadcast": Kind("broadcast", "MAP(LONG, {})", at, lambda op, name, rows, of, ttl: op.broadcast_state(
        name, rows, map_key="key", map_value=of.name, map_value_type=of.type)),
}  # fmt: skip


def cells(written: Written) -> Iterator[tuple[str, str, Family, Kind]]:
    """The states of the families: (uid, name, family, kind); only keyed ones have a time to live.

    What is reduced with a time to live is aggregated without, and the other way round.
    """
    for number, family in enumerate(families(written.release)):
        other = "reducing" if number % 2 == written.ttl else "aggregating"
        for name, kind in KINDS.items():
            if name != other and (kind.keyed or not written.ttl):
                yield f"families-{number // FAMILIES}", f"{name}-{family.name}", family, kind


def family_rows(release: str) -> pa.Table:
    """A column of each family, with their lists and maps."""
    columns: dict[str, pa.Array] = {"key": pa.array(range(ROWS), pa.int64()), "at": pa.array([ACCESS] * ROWS, MICROS)}
    for family in families(release):
        several, named = pa.list_(family.column), pa.map_(pa.string(), family.column)
        columns[family.name] = pa.array([at(family, row) for row in range(ROWS)], family.column)
        columns[f"{family.name}_list"] = pa.array([some(family, row) for row in range(ROWS)], several)
        columns[f"{family.name}_map"] = pa.array([entries(family, row) for row in range(ROWS)], named)
    return pa.table(columns)


def key_rows(key: Key) -> pa.Table:
    n = len(key.values)
    columns = {"key": pa.array(key.values, key.column), "value": pa.array(range(n), pa.int64())}
    columns["timestamp"] = pa.array([FIRST_TIMER + row for row in range(n)], pa.int64())
    if key.codes is not None:
        columns["code"] = pa.array(key.codes, pa.int32())
    return pa.table(columns)


def write(spark: SparkSession, written: Written, path: str) -> None:
    """The savepoint: operators with some families each, and one operator for each type of keys."""
    rows = spark.createDataFrame(family_rows(written.release)).coalesce(1)
    bootstraps: dict[str, OperatorBootstrap] = {}
    for uid, name, family, kind in cells(written):
        state = bootstraps.setdefault(uid, OperatorBootstrap())
        kind.add(state, name, rows, family, {"ttl": True, "last_access": "at"} if written.ttl else {})
    writer = SavepointWriter.new_savepoint(spark, written.max_parallelism).with_flink_version(written.release)
    writer.with_compression(written.compressed)
    for uid, state in bootstraps.items():
        writer.with_operator(uid, state)
    for key in KEYS:
        frame = spark.createDataFrame(key_rows(key)).coalesce(1)
        hash_column = None if key.codes is None else "code"
        state = OperatorBootstrap(key_type=key.ours, hash_column=hash_column, hash=key.hash)
        state.value_state("number", frame).event_time_timers(frame).processing_time_timers(frame)
        writer.with_operator(f"key-{key.name}", state)
    writer.write(path)


def operators(written: Written) -> list[Operator]:
    """All of them, as a job registers them."""
    ttl = HUNDRED_YEARS if written.ttl else None
    states: dict[str, list[State]] = {}
    for uid, name, family, kind in cells(written):
        state = State(name, kind.kind, kind.type.format(family.flink), ttl=ttl if kind.keyed else None)
        states.setdefault(uid, []).append(state)
    keyed = [Operator(f"key-{key.name}", key.flink, (State("number", "value", "LONG"),), (Timers(),)) for key in KEYS]
    return [*(Operator(uid, "LONG", listed) for uid, listed in states.items()), *keyed]


def expected(written: Written) -> Iterator[Line]:
    """What a job has to find, as lines of expected.jsonl."""
    for uid, name, family, kind in cells(written):
        for row in range(ROWS):
            line = {"uid": uid, "state": name, "kind": kind.kind, "value": plain(kind.value(family, row))}
            line |= {"key": row, "namespace": None} if kind.keyed else {"key": row, "subtask": 0}
            yield line | ({"last_access": [ACCESS_MS, ACCESS_MS]} if written.ttl else {})
    for key in KEYS:
        for row, value in enumerate(key_rows(key)["key"].to_pylist()):
            line = {"uid": f"key-{key.name}", "key": java(value), "namespace": None}
            yield {**line, "state": "number", "kind": "value", "value": row}
            for kind in ("timer-event", "timer-processing"):
                yield {**line, "state": "user-timers", "kind": kind, "value": FIRST_TIMER + row}


def java(value: Any) -> Any:
    """A key in the very words of Json.java, as keys are looked up by their text."""
    if isinstance(value, dict):
        return {name: java(item) for name, item in value.items()}
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds") + "000"
        return text + ("Z" if value.tzinfo else "")
    return format(value, "f") if isinstance(value, Decimal) else plain(value)
