"""Queries of real Flink go on from state that was changed, and from state that was made of DataFrames."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter, types
from tests.helpers.flink.compilation import jobs_path
from tests.helpers.flink.programs import run_program

# Real Flink runs queries that go on from savepoints, whoever wrote them (see README.md, "Queries that go on").


Order = tuple[int, str, float, int, str | None, int]
"""customer, product, amount, number, price, the order's time in ms since the epoch."""


QueryResults = dict[str, list[list[Any]]]
"""Query → its results: change (+I, -U, +U, -D), and the row's values."""


class Queries:
    """Runs a job of all queries in real Flink whenever it is asked to."""

    def __init__(self, release: str, root: Path) -> None:
        self._root, self._path = root, jobs_path(release)

    def begin(self, name: str, orders: Iterable[Order]) -> Path:
        """The savepoint of a job that has seen these orders."""
        self._run(name, "hashmap", orders, None)
        return Path((self._root / f"{name}.savepoint").read_text().strip())

    def go_on(self, name: str, backend: str, savepoint: str, orders: Iterable[Order]) -> QueryResults:
        """Return the results of the queries for more orders, and for the end of time."""
        return self._run(name, backend, orders, savepoint)

    def _run(self, name: str, backend: str, orders: Iterable[Order], savepoint: str | None) -> QueryResults:
        rows = self._root / f"{name}.orders"
        rows.write_text("".join("\t".join(map(_text, order)) + "\n" for order in orders))
        arguments = (self._root, name, backend, rows, savepoint or "-")
        run_program(self._path, "continuing.Continuing", self._root / "flink.log", *arguments)
        refused = self._root / f"{name}.error"
        if refused.is_file():
            raise AssertionError(refused.read_text())
        lines = [json.loads(line) for line in (self._root / f"{name}.jsonl").read_text().splitlines()]
        return _by_query(lines)


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _by_query(lines: Sequence[dict[str, Any]]) -> QueryResults:
    found: QueryResults = {}
    for line in lines:
        found.setdefault(line["query"], []).append([line["change"], *line["row"]])
    return found


pytestmark = [pytest.mark.flink, pytest.mark.spark]

RELEASES = ("1.20", "2.3")
BACKENDS = ("hashmap", "rocksdb")
TOP, LAST = "data-state-with-append", "deduplicate-state"
END, FULL = 1_700_000_040_000, "2023-11-14T22:13:00.000000000"
"""The end of a window, and the full minute at which it began, as Flink prints it."""

BEFORE: tuple[Order, ...] = (
    (1, "tea", 10.0, 1, "1.50", END - 40_000),
    (2, "tea", 20.0, 2, None, END - 30_000),
    (1, "mate", 5.0, 3, "2.25", END - 20_000),
    (1, "tea", 30.0, 4, "3.00", END - 10_000),
)
AFTER: tuple[Order, ...] = (
    (1, "tea", 25.0, 5, "0.50", END - 9_000),
    (3, "mate", 4.0, 6, None, END - 8_000),
    (3, "cocoa", 1.0, 7, "1.00", END - 7_000),
)
CHANGED = {
    "group": [
        ["-U", "tea", 3, 1060.0, 4, "99999.99"], ["+U", "tea", 4, 1085.0, 5, "99999.99"],
        ["-U", "mate", 1, 1005.0, 3, "99999.99"], ["+U", "mate", 2, 1009.0, 6, "99999.99"],
        ["+I", "cocoa", 1, 1.0, 7, "1.00"],
    ],
    "distinct": [["-U", "tea", 102], ["+U", "tea", 103], ["-U", "mate", 101], ["+U", "mate", 102], ["+I", "cocoa", 1]],
    "top": [["-D", "tea", 20.0, 102], ["+I", "tea", 25.0, 5], ["+I", "mate", 4.0, 6], ["+I", "cocoa", 1.0, 7]],
    "last": [
        ["-U", 1, "TEA", 4], ["+U", 1, "tea", 5], ["+I", 3, "mate", 6], ["-U", 3, "mate", 6], ["+U", 3, "cocoa", 7]
    ],
    "window": [["+I", 1, FULL, 70.25, 14], ["+I", 2, FULL, 20.25, 11], ["+I", 3, FULL, 5.0, 2]],
}  # fmt: skip
LARGE = "123456789012345678.90"
MADE = {
    "group": [
        ["-U", "tea", 7, 0.5, 900, LARGE], ["+U", "tea", 8, 25.5, 900, LARGE],
        ["-U", "mate", 1, None, None, None], ["+U", "mate", 2, 4.0, 6, None],
        ["+I", "cocoa", 1, 1.0, 7, "1.00"],
    ],
    "distinct": [["-U", "mate", 40], ["+U", "mate", 41], ["+I", "cocoa", 1]],
    "top": [["-D", "tea", 1.5, 901], ["+I", "tea", 25.0, 5], ["+I", "mate", 4.0, 6], ["+I", "cocoa", 1.0, 7]],
    "last": [
        ["-U", 1, "a long name of a product", 77], ["+U", 1, "tea", 5],
        ["-U", 3, None, None], ["+U", 3, "mate", 6], ["-U", 3, "mate", 6], ["+U", 3, "cocoa", 7],
    ],
    "window": [["+I", 1, FULL, 25.5, 3], ["+I", 3, FULL, 5.0, 2], ["+I", 9, FULL, None, 4]],
}  # fmt: skip


@dataclass(frozen=True)
class Savepoint:
    """A savepoint of the queries, and which of their operators (by uid hash) has which states."""

    path: str

    @cached_property
    def _states(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for state in stateproc.open(self.path).states:
            found.setdefault(state.operator.operator_id, set()).add(state.name)
        return found

    def uid(self, state: str, without: str = "") -> str:
        (found,) = (uid for uid, states in self._states.items() if state in states and without not in states)
        return found


def changed(spark: SparkSession, begun: Savepoint) -> SavepointWriter:
    """Accumulators, a distinct view, rows of a top-N, the last rows of keys, windows: values other than they were."""
    writer = SavepointWriter.from_existing_savepoint(spark, begun.path)

    def change(uid: str, state: str, value: Column) -> None:
        writer.transform_state(uid, state, lambda rows: rows.withColumn("value", value))

    value, price = F.col("value"), F.lit("99999.99").cast("decimal(20,2)")
    group, distinct = begun.uid("accState", "distinctAcc_0"), begun.uid("distinctAcc_0")
    change(group, "accState", value.withField("f1", value.f1 + 1000).withField("f3", price))
    change(distinct, "accState", value.withField("f0", value.f0 + 100))
    change(distinct, "distinctAcc_0", F.transform_keys("value", lambda customer, _: customer + 10))
    change(
        begun.uid(TOP), TOP,
        F.transform_values("value", lambda _, rows: F.transform(rows, lambda row: row.withField("f2", row.f2 + 100))),
    )  # fmt: skip
    change(begun.uid(LAST), LAST, value.withField("f1", F.upper(value.f1)))
    window = value.withField("f0", value.f0 + 0.25).withField("f1", value.f1 + 10)
    change(begun.uid("window-aggs"), "window-aggs", window)
    return writer


def made(spark: SparkSession, begun: Savepoint) -> SavepointWriter:
    """All state from DataFrames. What an accumulator has for a distinct view is a type of no name, so that its rows
    replace those that were there."""
    writer = SavepointWriter.from_existing_savepoint(spark, begun.path)
    product, customer = types.RowData({"f0": "STRING"}), types.RowData({"f0": "BIGINT NOT NULL"})

    totals = spark.createDataFrame(
        [(("tea",), (7, 0.5, 900, Decimal(LARGE))), (("mate",), (1, None, None, None))],
        "key struct<f0: string>, value struct<f0: long, f1: double, f2: int, f3: decimal(20,2)>",
    )
    accumulator = types.RowData({"f0": "BIGINT", "f1": "DOUBLE", "f2": "INT", "f3": "DECIMAL(20, 2)"})
    group = OperatorBootstrap(key_type=product).value_state("accState", totals, type=accumulator)
    writer.with_operator(begun.uid("accState", "distinctAcc_0"), group)

    distinct = begun.uid("distinctAcc_0")
    counts = [(("tea",), (50, None)), (("mate",), (40, None))]
    writer.transform_state(
        distinct, "accState", lambda rows: spark.createDataFrame(counts, rows["key", "value"].schema)
    )
    seen = spark.createDataFrame(
        [(("tea",), {1: 1}), (("mate",), {1: 1})], "key struct<f0: string>, value map<long, long>"
    )
    writer.transform_state(distinct, "distinctAcc_0", lambda rows: seen)

    best = spark.createDataFrame(
        [(("tea",), (99.5,), [("tea", 99.5, 900)]), (("tea",), (1.5,), [("tea", 1.5, 901)])],
        "key struct<f0: string>, amount struct<f0: double>, rows array<struct<f0: string, f1: double, f2: int>>",
    )
    top = OperatorBootstrap(key_type=product).map_state(
        TOP, best, map_key="amount", map_value="rows", map_key_type=types.RowData({"f0": "DOUBLE"}),
        map_value_type=types.List(types.RowData({"f0": "STRING", "f1": "DOUBLE", "f2": "INT"})),
    )  # fmt: skip
    writer.with_operator(begun.uid(TOP), top)

    arrived = datetime(2024, 1, 1, tzinfo=timezone.utc)
    rows = spark.createDataFrame(
        [((1,), (1, "a long name of a product", 77, arrived)), ((3,), (3, None, None, arrived))],
        "key struct<f0: long>, value struct<f0: long, f1: string, f2: int, f3: timestamp>",
    )
    row = types.RowData({"f0": "BIGINT NOT NULL", "f1": "STRING", "f2": "INT", "f3": "TIMESTAMP_LTZ(3) NOT NULL"})
    last = OperatorBootstrap(key_type=customer).value_state(LAST, rows, type=row)
    writer.with_operator(begun.uid(LAST), last)

    windows = spark.createDataFrame(
        [((1,), END, END - 1, (0.5, 2)), ((9,), END, END - 1, (None, 4))],
        "key struct<f0: long>, window long, at long, value struct<f0: double, f1: long>",
    )
    sums = types.RowData({"f0": "DOUBLE", "f1": "BIGINT"})
    space = {"namespace": "window", "namespace_type": types.LONG}
    window = OperatorBootstrap(key_type=customer).value_state("window-aggs", windows, type=sums, **space)
    window.event_time_timers(windows, "at", service="window-timers", **space)
    return writer.with_operator(begun.uid("window-aggs"), window)


EXPECTED = {"changed": CHANGED, "made": MADE}


@pytest.fixture(scope="module")
def results(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, str], QueryResults]:
    """The results of continued queries, by release, savepoint and state backend.

    What was changed of 1.20's savepoint goes on in both releases; what is made is made for each.
    """
    found: dict[tuple[str, str, str], QueryResults] = {}
    root = tmp_path_factory.mktemp("queries")
    written: dict[str, str] = {}
    for release in RELEASES:
        (root / release).mkdir()
        queries = Queries(release, root / release)
        begun = Savepoint(str(queries.begin("begun", BEFORE)))
        if not written:
            written["changed"] = changed(spark, begun).write(root / "changed")
        written["made"] = made(spark, begun).write(root / f"made-{release}")
        for name, path in written.items():
            for backend in BACKENDS:
                found[release, name, backend] = queries.go_on(f"{name}-{backend}", backend, path, AFTER)
    return found


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("release", RELEASES)
def test_queries_go_on_from_what_was_written(
    results: dict[tuple[str, str, str], QueryResults], release: str, name: str, backend: str
) -> None:
    rows = {query: in_order(query, rows) for query, rows in results[release, name, backend].items()}
    assert rows == EXPECTED[name]


def in_order(query: str, rows: list[list[Any]]) -> list[list[Any]]:
    """Keys of one query are in two subtasks: only the order of the results of one key is known."""
    if query == "window":
        return sorted(rows, key=lambda row: row[1])
    numbers = {order[0 if query == "last" else 1]: n for n, order in reversed(list(enumerate(AFTER)))}
    return sorted(rows, key=lambda row: numbers[row[1]])
