"""Verbs with ``--engine spark`` write what the local engine writes; transactions of a Kafka sink are dropped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter, types
from stateproc.cli import main
from tests.helpers.cases import case_snapshots
from tests.helpers.paths import DEMO
from tests.unit.connectors.test_formats import MAGIC, collector, committable, utf, versioned, versioned_list
from tests.unit.query_plans.test_timers_of_over import BASE, frames, of_flink_2, timers

CUSTOMERS = "orders-per-customer"


def tables(path: Path) -> dict[str, pa.Table]:
    return {f"{state.operator.operator_id}/{state.name}": state.to_arrow() for state in stateproc.open(path).states}


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("rescale", ["--max-parallelism", "64", "--parallelism", f"{CUSTOMERS}=3"]),
        ("delete", ["--uid", CUSTOMERS, "--state", "profile", "--where", "value.vip AND key % 3 <> 0"]),
        (
            "update",
            ["--uid", CUSTOMERS, "--state", "spent-per-product", "--flatten", "--where", "map_key = 'mate'",
             "--set", "map_value = map_value + key"],
        ),
        (
            "evolve-type",
            ["--uid", CUSTOMERS, "--state", "profile", "--to", "Pojo acme.C {name: String, visits: Long, n: Long}",
             "--rename", "orders=visits", "--set", "value.n = key + value.rank"],
        ),
        (
            "evolve-type",
            ["--uid", CUSTOMERS, "--state", "spent-per-product", "--kind", "list", "--to", "Double",
             "--set", "value = map_values(value)"],
        ),
        (
            "evolve-type",
            ["--uid", CUSTOMERS, "--state", "profile", "--kind", "map", "--map-key-type", "String", "--to", "Long",
             "--set", "value = MAP {coalesce(value.name, ''): key}"],
        ),
        ("evolve-type", ["--uid", CUSTOMERS, "--key", "--to", "Integer"]),
        ("evolve-type", ["--uid", CUSTOMERS, "--key", "--to", "String", "--set", "key = 'customer ' || key"]),
    ],
)  # fmt: skip
def test_both_engines_write_the_same_rows(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, arguments: list[str]
) -> None:
    for engine in ("local", "spark"):
        line = [verb, str(DEMO), str(tmp_path / engine), *arguments, "--uids", CUSTOMERS]
        assert main([*line, "--engine", engine, "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["engine"] == engine and report["entries"] > 0
    assert spark.range(1).count() == 1  # The session that was running is not stopped.
    assert tables(tmp_path / "spark") == tables(tmp_path / "local")


def test_keys_that_become_one_are_an_error_of_a_task(spark: SparkSession, tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(spark, str(DEMO), {"uids": CUSTOMERS})
    with pytest.raises(PythonException, match=r"(?s)the keys \d+ and \d+ become one key, \d .*--set"):
        writer.evolve_key(CUSTOMERS, "Long", assignments="key = key % 10").write(tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_rows_of_over_get_timers(spark: SparkSession, tmp_path: Path) -> None:
    """The rows of one state are those of another, which the engine reads by the snapshot's path."""
    old, new = of_flink_2()
    for engine in (None, spark):
        writer = SavepointWriter.from_existing_savepoint(engine, str(BASE / "snapshot"))
        writer.evolve(old, new).write(tmp_path / f"{engine is None}")
    uids = frames(old, "UNBOUNDED_PRECEDING")
    assert [timers(tmp_path / "False", uid) for uid in uids] == [timers(tmp_path / "True", uid) for uid in uids]
    assert sum(bool(timers(tmp_path / "True", uid)) for uid in uids) > 1


def test_sources_are_moved_and_set(spark: SparkSession, tmp_path: Path) -> None:
    """Their splits are rows of the engine's own."""
    path = next(item.path for item in case_snapshots() if item.case == "kafka-consumer")
    found = {}
    for engine in (None, spark):
        moved, target = tmp_path / f"moved-{engine is None}", tmp_path / f"set-{engine is None}"
        writer = SavepointWriter.from_existing_savepoint(engine, path, {"uids": "old-kafka"})
        writer.set_kafka_offsets("old-kafka", remove=["größe:0", "größe:1"]).move_source("old-kafka", "orders")
        writer.write(moved)
        writer = SavepointWriter.from_existing_savepoint(engine, moved, {"uids": "orders"})
        writer.set_positions("orders", {"*": "latest", "orders-1": "7"}).write(target)
        rows = stateproc.open(target, uids=["orders"]).offsets().to_pylist()
        found[engine is None] = {(row["split"], row["position"]) for row in rows}
    assert found[True] == found[False]
    assert ("orders-1", "7") in found[True] and ("orders-0", "latest") in found[True]


def test_pending_transactions_of_kafka_are_dropped(spark: SparkSession, tmp_path: Path) -> None:
    """Of the writer and of its committer; other states and operators stay."""
    committed = collector(committable("tx-0-1", 1001, 3), newest=True)
    empty = versioned(2, MAGIC + versioned_list(1, []))
    writer = SavepointWriter.new_savepoint(spark)
    states = {"sink": ("writer_raw_states", [versioned(1, utf("tx"))]),
              "Sink Committer: sink": ("streaming_committer_raw_states", [committed, empty])}  # fmt: skip
    for uid, (name, elements) in states.items():
        frame = spark.createDataFrame([(item,) for item in elements], "value binary")
        bootstrap = OperatorBootstrap().operator_list_state(name, frame, type=types.BYTES)
        writer.with_operator(uid, bootstrap.operator_list_state("other", frame, type=types.BYTES))
    writer.with_parallelism("sink", 2).with_parallelism("Sink Committer: sink", 1).write(tmp_path / "s")
    line = ["set-offsets", str(tmp_path / "s"), str(tmp_path / "t"), "--drop-transactions", "sink", "--json"]
    assert main(line) == 0
    found = elements_of(tmp_path / "t")
    assert {key: len(rows) for key, rows in elements_of(tmp_path / "s").items()} == {
        ("sink", "writer_raw_states"): 1, ("sink", "other"): 1,
        ("Sink Committer: sink", "streaming_committer_raw_states"): 2, ("Sink Committer: sink", "other"): 2,
    }  # fmt: skip
    for uid, (name, elements) in states.items():
        assert found[uid, name] == [] and sorted(found[uid, "other"]) == sorted(elements)


def elements_of(path: Path) -> dict[tuple[str, str], list[Any]]:
    snapshot = stateproc.open(path, uids=["sink", "Sink Committer: sink"])
    return {
        (operator.display, state.name): state.to_arrow().column("value").to_pylist()
        for operator in snapshot.operators
        for state in operator.operator_states
    }
