"""Real Flink restores windows and Kafka sources written from DataFrames: windows fire, with their contents."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stateproc import OperatorBootstrap, SavepointWriter
from tests.helpers.flink.fixture_operators import ORDER, TOTALS
from tests.helpers.flink.restoration import Operator, Restored, Spec, State, Timers, Windows, restore
from tests.helpers.flink.restored_state import differences, in_their_windows

pytestmark = [pytest.mark.flink, pytest.mark.spark]

RELEASES = ("1.20", "2.3")
Line = dict[str, Any]
Results = Callable[[str], Restored]
START, MINUTE, LATE = 1_700_000_040_000, 60_000, 5_000
KEYS = [*range(-3, 30), 2**63 - 1, -(2**63)]
ORDER_TYPE = "Pojo fixtures.Order {amount: Double, customer: Long, number: Integer, product: String, time: Long}"
TOTALS_TYPE = "Pojo fixtures.Totals {count: Long, last: String, sum: Double}"
ORDER_COLUMN = "struct<amount: double, customer: long, number: int, product: string, time: long>"
WINDOW = "window struct<start: long, end: long>"


def order(key: int, n: int) -> Line:
    return {"amount": n + 0.25, "customer": key, "number": n, "product": "🍵 \0" * n, "time": START + n}


def spans(size: int, slide: int = 0) -> list[Line]:
    return [{"start": START + n * (slide or size), "end": START + n * (slide or size) + size} for n in range(3)]


SIZES = {"tumbling": (MINUTE, 0), "sliding": (2 * MINUTE, MINUTE), "session": (MINUTE, 2 * MINUTE)}
"""Size and slide; sessions do not touch each other."""
VALUES: dict[str, tuple[str, str, str, Callable[[int, int], Any]]] = {
    "list": (ORDER, ORDER_TYPE, f"array<{ORDER_COLUMN}>", lambda key, n: [order(key, i) for i in range(n + 1)]),
    "evict": (ORDER, ORDER_TYPE, f"array<struct<timestamp: long, value: {ORDER_COLUMN}>>", lambda key, n: [
        {"timestamp": START + i, "value": order(key, i)} for i in range(n + 1)]),
    "reduce": (ORDER, ORDER_TYPE, ORDER_COLUMN, order),
    "aggregate": (TOTALS, TOTALS_TYPE, "struct<count: long, last: string, sum: double>", lambda key, n: {
        "count": key, "last": "é" * n, "sum": n / 4}),
}  # fmt: skip
FIRING = {f"{assigner}-{contents}": (assigner, contents) for assigner in SIZES for contents in VALUES}
"""Flink's own window operator, uid → how it cuts windows and what it holds."""
READ = {
    "late": {"allowed_lateness": LATE},
    "fired": {"allowed_lateness": LATE, "fired": "fired"},
    "processing": {"time": "processing", "allowed_lateness": LATE},
    "counted": {"count": "n", "allowed_lateness": LATE},
    "global": {"count": "n", "assigner": "global"},
}
"""Window operators whose states and timers are read back, uid → arguments of `window_state`."""
PARTITIONS = [("shop", 0, 5, None), ("shop", 1, -2, 2**62), ("shop.b", 7, 2**63 - 1, None), ("shop.b", 8, None, None)]
KAFKA = {"kafka": 2, "kafka-3.0": 1}
"""Sources, uid → version of the enumerator's state."""


def firing(spark: SparkSession, uid: str) -> tuple[OperatorBootstrap, list[Line]]:
    """A window operator and the lines of what it fires; contents of sessions lie under the window they began as."""
    assigner, contents = FIRING[uid]
    _, type_, column, value = VALUES[contents]
    rows = [(key, span, {**span, "end": span["start"] + 1}, value(key, n))
            for key in KEYS for n, span in enumerate(spans(*SIZES[assigner]))]  # fmt: skip
    frame = spark.createDataFrame(rows, f"key long, {WINDOW}, first struct<start: long, end: long>, value {column}")
    arguments = {"state_window": "first"} if assigner == "session" else {}
    state = OperatorBootstrap().window_state(frame, assigner=assigner, contents=contents, type=type_, **arguments)
    fires = [
        {"uid": uid, "state": "window-contents", "kind": "window", "key": key, "namespace": span,
         "value": [item["value"] for item in held] if contents == "evict" else held}
        for key, span, _, held in rows
    ]  # fmt: skip
    return state, fires


def is_fired(n: int) -> bool:
    return n == 1


def counted(spark: SparkSession, uid: str) -> tuple[OperatorBootstrap, list[Line]]:
    """A window operator and the lines of its states and timers."""
    arguments = READ[uid]
    ends: list[Line | None] = [None] if uid == "global" else list(spans(MINUTE))
    rows = [(key, span, [key, n], n + 7, is_fired(n)) for key in KEYS for n, span in enumerate(ends)]
    frame = spark.createDataFrame(rows, f"key long, {WINDOW}, value array<long>, n long, fired boolean")
    lines: list[Line] = []
    for key, span, value, n, fired in rows:
        at = {"uid": uid, "key": key, "namespace": span}
        lines.append({**at, "state": "window-contents", "kind": "list", "value": value})
        if "count" in arguments:
            lines.append({**at, "state": "count", "kind": "reducing", "value": n})
        kind = "timer-processing" if uid == "processing" else "timer-event"
        for time in due(uid, span, fired):
            lines.append({**at, "state": "window-timers", "kind": kind, "value": time})
    return OperatorBootstrap().window_state(frame, **arguments), lines


def due(uid: str, span: Line | None, fired: bool) -> Iterator[int]:
    """When WindowOperator and its trigger have timers."""
    if span is None:
        return
    if uid in ("late", "processing") or (uid == "fired" and not fired):
        yield span["end"] - 1
    if uid != "processing":
        yield span["end"] - 1 + LATE


def kafka(spark: SparkSession, uid: str) -> tuple[OperatorBootstrap, list[Line]]:
    frame = spark.createDataFrame(PARTITIONS, "topic string, partition int, offset long, stopping_offset long")
    state = OperatorBootstrap().kafka_source(frame, stopping_offset="stopping_offset", enumerator_version=KAFKA[uid])
    lines: list[Line] = []
    for topic, partition, offset, stop in PARTITIONS:
        place = {"topic": topic, "partition": partition}
        status = {**place, "status": "ASSIGNED" if offset is not None else "UNASSIGNED_INITIAL"}
        if offset is not None:
            split = {**place, "starting_offset": offset, "stopping_offset": stop}
            lines.append({"uid": uid, "state": "SourceReaderState", "kind": "splits", "key": None, "value": split})
        if offset is not None or KAFKA[uid] > 1:
            lines.append({"uid": uid, "state": "coordinator", "kind": "enumerator", "key": None, "value": status})
    return state, lines


MAKERS = {**dict.fromkeys(FIRING, firing), **dict.fromkeys(READ, counted), **dict.fromkeys(KAFKA, kafka)}


def operators() -> Iterator[Operator]:
    """All of them, as a job has them."""
    for uid, (assigner, contents) in FIRING.items():
        size, slide = SIZES[assigner]
        yield Operator(uid, "LONG", windows=Windows(assigner, contents, VALUES[contents][0], size, slide))
    for uid, arguments in READ.items():
        space = "GLOBAL_WINDOW" if uid == "global" else "TIME_WINDOW"
        counts = (State("count", "reducing", "LONG", space),) if "count" in arguments else ()
        held = State("window-contents", "list", "LIST(LONG)", space)
        yield Operator(uid, "LONG", (held, *counts), (Timers("window-timers", space),))
    yield from (Operator(uid, kafka=True) for uid in KAFKA)


@pytest.fixture(scope="module")
def results(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What a release restored of the savepoint written for it, on first use."""
    done: dict[str, Restored] = {}

    def of(release: str) -> Restored:
        if release not in done:
            folder = tmp_path_factory.mktemp(f"windows-{release}")
            path = written(spark, release, folder / "savepoint")
            spec = Spec("windows", path, tuple(operators()))
            done[release] = restore(release, [spec], folder / "restored")["windows"]
        return done[release]

    return of


def written(spark: SparkSession, release: str, path: Path) -> str:
    writer = SavepointWriter.new_savepoint(spark).with_flink_version(release)
    for uid, make in MAKERS.items():
        writer.with_operator(uid, make(spark, uid)[0]).with_parallelism(uid, 3)
    return writer.write(path)


@pytest.fixture(scope="module")
def expected(spark: SparkSession) -> list[Line]:
    return [line for uid, make in MAKERS.items() for line in make(spark, uid)[1]]


@pytest.mark.parametrize("release", RELEASES)
def test_windows_fire_and_offsets_are_restored(results: Results, expected: list[Line], release: str) -> None:
    restored = results(release)
    assert restored.failures() == {}
    assert {backend for backend, _ in restored.runs} == {"hashmap", "rocksdb"}
    for (backend, parallelism), run in restored.runs.items():
        found = in_their_windows(run.contents)
        assert (backend, parallelism, differences(expected, found, parallelism=parallelism)) == (
            backend, parallelism, [],
        )  # fmt: skip


@pytest.mark.parametrize("release", RELEASES)
def test_each_timer_fires_once(results: Results, expected: list[Line], release: str) -> None:
    wanted = in_order(line for line in expected if line["kind"].startswith("timer-"))
    for run in results(release).runs.values():
        assert in_order(run.fired) == wanted


def in_order(lines: Any) -> list[str]:
    return sorted(json.dumps(line, sort_keys=True) for line in lines)


@pytest.mark.parametrize("release", RELEASES)
def test_serializers_are_compatible_as_is(results: Results, release: str) -> None:
    restored = results(release)
    assert set(restored.compatibility.values()) == {"as is"}
    assert restored.unread == set()
