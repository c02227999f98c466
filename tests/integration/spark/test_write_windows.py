"""Window state written from DataFrames equals byte for byte that of Flink's window operator for the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import stateproc
from stateproc import InvalidOption, NotFound, OperatorBootstrap, SavepointWriter
from stateproc.model.operator import Operator
from tests.helpers.fixtures import FIXTURES
from tests.helpers.writers.savepoint_comparison import contents

RELEASES = ("1.20", "2.3")
ORDER = "Pojo fixtures.Order {amount: Double, customer: Long, number: Integer, product: String, time: Long}"
TOTALS = "Pojo fixtures.Totals {count: Long, last: String, sum: Double}"
WINDOWS: dict[str, dict[str, Any]] = {
    "tumbling-reduce": {"contents": "reduce", "type": ORDER, "count": "count"},
    "sliding-process": {"assigner": "sliding", "type": ORDER},
    "session-aggregate": {
        "assigner": "session", "contents": "aggregate", "type": TOTALS, "state_window": "state_window"},
    "session-list": {"assigner": "session", "type": ORDER, "state_window": "state_window"},
    "global-count": {"assigner": "global", "type": ORDER, "count": "count"},
    "tumbling-evict": {"contents": "evict", "type": ORDER},
}  # fmt: skip
"""Arguments of `window_state` for the window operators of the fixtures' job."""


def rows_of(operator: Operator, merged: bool) -> list[dict[str, Any]]:
    """Return one row per key and window, joined from the operator's states."""
    counts, stored = {}, {}
    if "count" in {state.name for state in operator.states}:
        counts = {_at(row): row["value"] for row in operator.state("count").to_arrow().to_pylist()}
    if merged:
        for row in operator.state("merging-window-set").to_arrow().to_pylist():
            stored |= {(row["key"], str(pair["f0"])): pair["f1"] for pair in row["value"]}
    rows = operator.state("window-contents").to_arrow().to_pylist()
    return [
        {"key": row["key"], "window": row["namespace"], "state_window": stored[_at(row)] if merged else None,
         "value": row["value"], "count": counts.get(_at(row))}
        for row in rows
    ]  # fmt: skip


def _at(row: dict[str, Any]) -> tuple[Any, str]:
    return row["key"], str(row["namespace"])


def frame_of(spark: SparkSession, operator: Operator, merged: bool) -> DataFrame:
    state = operator.state("window-contents").to_arrow().schema
    span = pa.struct({"start": pa.int64(), "end": pa.int64()})
    schema = pa.schema({"key": state.field("key").type, "window": span, "state_window": span,
                        "value": state.field("value").type, "count": pa.int64()})  # fmt: skip
    rows = rows_of(operator, merged)
    if state.field("namespace").type == pa.bool_():
        rows = [{**row, "window": None} for row in rows]
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema))


@pytest.mark.parametrize("release", RELEASES)
def test_written_bytes_equal_those_of_flinks_window_operator(spark: SparkSession, tmp_path: Path, release: str) -> None:
    theirs = stateproc.open(str(FIXTURES / release / "windows-hashmap-canonical" / "snapshot"), uids=list(WINDOWS))
    writer = SavepointWriter.new_savepoint(spark).with_flink_version(release)
    for uid, options in WINDOWS.items():
        frame = frame_of(spark, theirs.operator(uid), "state_window" in options)
        writer.with_operator(uid, OperatorBootstrap().window_state(frame, **options)).with_parallelism(uid, 2)
    ours = stateproc.open(writer.write(tmp_path / "s"))
    for uid in WINDOWS:
        found, expected = (in_any_order(contents(side.operator(uid))) for side in (ours, theirs))
        assert found.keys() == expected.keys(), uid
        for name, data in expected.items():
            assert (uid, name, found[name]) == (uid, name, data)


def in_any_order(states: dict[str, Any]) -> dict[str, Any]:
    """Sort the pairs of merging window sets, which have the order of a hash map: 32 bytes each, and a delimiter."""
    pairs = states.get("merging-window-set", ())
    cut = [(*at, sorted(data[n : n + 32] for n in range(0, len(data), 33))) for *at, data in pairs]
    return {**states, "merging-window-set": cut} if pairs else states


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)


@pytest.fixture(scope="module")
def minutes(spark: SparkSession) -> DataFrame:
    """Return windows of one minute, of which the second has no contents."""
    rows = [("a", at(0), at(60), [1, 2], False), ("a", at(60), at(120), None, True), ("b", at(-60), at(0), [3], None)]
    return spark.createDataFrame(
        rows, "key string, window_start timestamp, window_end timestamp, value array<int>, fired boolean"
    )


def written(spark: SparkSession, state: OperatorBootstrap, path: Path) -> Operator:
    return stateproc.open(SavepointWriter.new_savepoint(spark).with_operator("w", state).write(path)).operator("w")


def timers(operator: Operator, domain: str) -> list[tuple[Any, ...]]:
    rows = operator.timers(domain).to_arrow().to_pylist()
    return sorted((row["key"], row["namespace"]["start"], row["timestamp"], row["service"]) for row in rows)


def test_windows_have_end_and_cleanup_timers(spark: SparkSession, minutes: DataFrame, tmp_path: Path) -> None:
    """EventTimeTrigger fires at the last millisecond; fired windows have only the timer of the delayed cleanup."""
    late = OperatorBootstrap().window_state(minutes, allowed_lateness=timedelta(seconds=5), fired="fired")
    operator = written(spark, late, tmp_path / "late")
    assert timers(operator, "event") == [
        ("a", 0, 59_999, "window-timers"), ("a", 0, 64_999, "window-timers"), ("a", 60_000, 124_999, "window-timers"),
        ("b", -60_000, -1, "window-timers"), ("b", -60_000, 4_999, "window-timers"),
    ]  # fmt: skip
    held = operator.state("window-contents").to_arrow().to_pylist()
    assert {(row["key"], row["namespace"]["end"]): row["value"] for row in held} == {
        ("a", 60_000): [1, 2], ("b", 0): [3],
    }  # fmt: skip


def test_processing_time_has_no_lateness_and_count_triggers_have_no_timer(
    spark: SparkSession, minutes: DataFrame, tmp_path: Path
) -> None:
    counted = minutes.withColumn("n", F.size("value"))
    state = OperatorBootstrap().window_state(minutes, time="processing", allowed_lateness=5_000)
    ends = [("a", 0, 59_999, "window-timers"), ("a", 60_000, 119_999, "window-timers"),
            ("b", -60_000, -1, "window-timers")]  # fmt: skip
    assert timers(written(spark, state, tmp_path / "processing"), "processing") == ends
    state = OperatorBootstrap().window_state(counted, allowed_lateness=5_000, count="n")
    operator = written(spark, state, tmp_path / "count")
    assert timers(operator, "event") == [(key, start, time + 5_000, name) for key, start, time, name in ends]
    rows = operator.state("count").to_arrow().to_pylist()
    assert sorted((row["key"], row["namespace"]["start"], row["value"]) for row in rows) == [
        ("a", 0, 2), ("b", -60_000, 1),
    ]  # fmt: skip


def test_a_cleanup_time_that_overflows_has_no_timer(spark: SparkSession, minutes: DataFrame, tmp_path: Path) -> None:
    """Flink's WindowOperator.cleanupTime returns Long.MAX_VALUE on overflow, which is never reached."""
    state = OperatorBootstrap().window_state(minutes, allowed_lateness=2**63 - 1)
    assert [row[:3] for row in timers(written(spark, state, tmp_path / "s"), "event")] == [
        ("a", 0, 59_999), ("a", 60_000, 119_999), ("b", -60_000, -1), ("b", -60_000, 2**63 - 2),
    ]  # fmt: skip


def test_sessions_of_keys_that_spark_treats_as_equal(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(
        [(0.0, (0, 10), 1), (-0.0, (5, 20), 2), (0.0, (20, 30), 3), (float("nan"), (1, 2), 4)],
        "key double, window struct<start: long, end: long>, value long",
    )
    state = OperatorBootstrap().window_state(frame, assigner="session", contents="reduce")
    operator = written(spark, state, tmp_path / "s")
    found = {
        str(row["key"]): [(pair["f0"]["start"], pair["f0"] == pair["f1"]) for pair in row["value"]]
        for row in operator.state("merging-window-set").to_arrow().to_pylist()
    }
    assert found == {"0.0": [(0, True), (20, True)], "-0.0": [(5, True)], "nan": [(1, True)]}


def test_sessions_of_keys_that_differ_in_microseconds(spark: SparkSession, tmp_path: Path) -> None:
    """Keys with floats are also grouped by their text, which has only milliseconds."""
    first, second = (datetime(2024, 1, 1, 0, 0, 0, micros, timezone.utc) for micros in (1, 2))
    frame = spark.createDataFrame(
        [((zero, at), index, (start, start + 10), start)
         for index, (zero, at) in enumerate([(0.0, first), (0.0, second), (-0.0, first)]) for start in (0, 20)],
        "key struct<x: double, at: timestamp>, hash int, window struct<start: long, end: long>, value long",
    )  # fmt: skip
    state = OperatorBootstrap(hash_column="hash").window_state(frame, assigner="session", contents="reduce")
    operator = written(spark, state, tmp_path / "s")
    found = {
        tuple(map(str, row["key"].values())): [pair["f0"]["start"] for pair in row["value"]]
        for row in operator.state("merging-window-set").to_arrow().to_pylist()
    }
    assert found == {(zero, str(at)): [0, 20] for zero, at in (("0.0", first), ("0.0", second), ("-0.0", first))}


def test_timestamps_without_time_zone_are_utc(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql(
        "select 1L key, timestamp_ntz'1969-12-31 23:59:00' as s, timestamp_ntz'1970-01-01 00:00:00.5' as e, 5 value"
    )
    state = OperatorBootstrap().window_state(frame, contents="aggregate", window=("s", "e"))
    (row,) = written(spark, state, tmp_path / "s").state("window-contents").to_arrow().to_pylist()
    assert row["namespace"] == {"start": -60_000, "end": 500}


def test_elements_with_and_without_timestamps(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(
        [(1, (0, 10), [(at(0.003), "x"), (None, "y")])],
        "key long, window struct<start: long, end: long>, value array<struct<timestamp: timestamp, value: string>>",
    )
    operator = written(spark, OperatorBootstrap().window_state(frame, contents="evict"), tmp_path / "s")
    (row,) = operator.state("window-contents").to_arrow().to_pylist()
    assert [(item["timestamp"], item["value"]) for item in row["value"]] == [(3, "x"), (None, "y")]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(1, (10, 10), 1)], "a window that ends at 10, and begins at 10"),
        ([(1, None, 1)], "null"),
        ([(1, None, None)], "null|without a time"),
        ([(None, (0, 10), 1)], "a null, which a key has no bytes for"),
        ([(1, (0, 10), 1), (1, (0, 10), 2)], "two entries with the same key"),
    ],
)
def test_invalid_windows_are_refused(spark: SparkSession, tmp_path: Path, rows: Any, message: str) -> None:
    frame = spark.createDataFrame(rows, "key long, window struct<start: long, end: long>, value long")
    with pytest.raises(Exception, match=message):
        written(spark, OperatorBootstrap().window_state(frame, contents="reduce"), tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_arguments_of_windows_are_checked_before_the_write(minutes: DataFrame) -> None:
    def add_windows(frame: DataFrame = minutes, **options: Any) -> None:
        OperatorBootstrap().window_state(frame, **options)

    with pytest.raises(InvalidOption, match="no window assigner is called 'tumble'"):
        add_windows(assigner="tumble")
    with pytest.raises(InvalidOption, match="lateness of -1 ms"):
        add_windows(allowed_lateness=-1)
    with pytest.raises(NotFound, match="window_ende"):
        add_windows(window=("window_start", "window_ende"))
    with pytest.raises(InvalidOption, match="where a window is struct"):
        add_windows(window="fired")
    with pytest.raises(InvalidOption, match="a time that is boolean"):
        add_windows(window=("fired", "window_end"))
    with pytest.raises(InvalidOption, match="elements and their times"):
        add_windows(contents="evict")
    with pytest.raises(InvalidOption, match="array of all elements"):
        add_windows(value="fired")
    with pytest.raises(InvalidOption, match="global windows do not merge"):
        add_windows(assigner="global", state_window="window_end")
    with pytest.raises(InvalidOption, match="sessions"):
        add_windows(state_window="window_end")


@pytest.mark.parametrize("assigner", ["tumbling", "session"])
def test_the_dataframe_of_windows_is_evaluated_once(spark: SparkSession, tmp_path: Path, assigner: str) -> None:
    counter = spark.sparkContext.accumulator(0)

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            counter.add(batch.num_rows)
            yield batch

    span = F.struct((F.col("id") * 1000).alias("start"), (F.col("id") * 1000 + 1000).alias("end"))
    rows = spark.range(500).select((F.col("id") % 50).alias("key"), span.alias("window"), F.array("id").alias("value"))
    frame = rows.mapInArrow(count, rows.schema)
    state = OperatorBootstrap().window_state(frame, assigner=assigner, allowed_lateness=5)
    written = SavepointWriter.new_savepoint(spark).with_operator("windows", state).write(tmp_path / "s")
    assert counter.value == 500
    assert not frame.is_cached
    windows = stateproc.open(written).operator("windows")
    assert windows.state("window-contents").to_arrow().num_rows == 500
    assert windows.timers("event").to_arrow().num_rows == 1000


def test_a_persisted_dataframe_of_windows_stays_persisted(spark: SparkSession, tmp_path: Path) -> None:
    span = F.struct(F.lit(0).cast("bigint").alias("start"), F.lit(1000).cast("bigint").alias("end"))
    frame = (
        spark.range(5).select(F.col("id").alias("key"), span.alias("window"), F.array("id").alias("value")).persist()
    )
    state = OperatorBootstrap().window_state(frame)
    SavepointWriter.new_savepoint(spark).with_operator("windows", state).write(tmp_path / "s")
    assert frame.storageLevel.useMemory
    frame.unpersist()
