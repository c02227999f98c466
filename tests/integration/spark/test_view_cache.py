"""`attach(cache=…)`: states kept as Parquet files, valid for one snapshot, read with Parquet's pruning."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import stateproc
from stateproc.errors import InvalidOption
from stateproc.spark.workers import described_jobs
from tests.helpers.paths import FIXTURES

DEMO = FIXTURES / "1.20" / "demo" / "snapshot"
UIDS = ["orders-per-customer", "orders-from-kafka", "revenue-per-product"]
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def files(cache: Path) -> set[Path]:
    return {path for path in cache.rglob("*") if path.is_file()}


def is_parquet(spark: SparkSession, view: str) -> bool:
    return bool(spark.table(view).inputFiles())


def test_states_are_kept_and_read_from_the_cache(spark: SparkSession, tmp_path: Path) -> None:
    cache, snapshot = tmp_path / "cache", tmp_path / "snapshot"
    shutil.copytree(DEMO, snapshot)
    plain = stateproc.attach(spark, str(snapshot), uids=UIDS)
    states = [name for name in plain.names if "__" in name]
    rows = {name: sorted(spark.table(name).collect(), key=repr) for name in states}

    views = stateproc.attach(spark, str(snapshot), cache=cache, uids=UIDS)
    assert views.names == plain.names
    assert {name: is_parquet(spark, name) for name in views.names} == {name: name in states for name in views.names}
    # Without the snapshot's files the answers are those of the cache.
    kept = files(cache)
    for file in snapshot.iterdir():
        if file.name != "_metadata":
            file.rename(tmp_path / file.name)
    assert {name: sorted(spark.table(name).collect(), key=repr) for name in states} == rows
    assert spark.sql("SELECT key FROM orders_per_customer__profile WHERE key = 42").count() == 1
    for file in tmp_path.iterdir():
        if file.is_file():
            file.rename(snapshot / file.name)

    stateproc.attach(spark, str(snapshot), cache=cache, uids=UIDS)
    assert files(cache) == kept


def test_another_snapshot_at_the_same_path_is_cached_anew(spark: SparkSession, tmp_path: Path) -> None:
    cache, snapshot = tmp_path / "cache", tmp_path / "snapshot"
    numbers = spark.range(100).selectExpr("id AS key", "id * 2 AS value")
    for n in (10, 20):
        state = stateproc.OperatorBootstrap().value_state("double", numbers.where(f"key < {n}"))
        writer = stateproc.SavepointWriter.new_savepoint(spark).with_operator("op", state)
        writer.write(snapshot, "overwrite")
        stateproc.attach(spark, str(snapshot), cache=cache, uids=["op"])
        assert spark.table("op__double").count() == n
        assert is_parquet(spark, "op__double")
    [home] = cache.iterdir()
    assert len(list(home.iterdir())) == 1


def test_rows_of_other_options_are_kept_beside(spark: SparkSession, tmp_path: Path) -> None:
    for options in ({}, {"flatten": True}):
        stateproc.attach(spark, str(DEMO), cache=tmp_path, uids=UIDS, **options)
        flat = "map_key" in spark.table("orders_per_customer__spent_per_product").columns
        assert flat is bool(options)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("entry", ["", "{}", "[]", '{"files": "../x", "schema": {}}', '{"files": 1'])
def test_an_incomplete_entry_is_written_anew(spark: SparkSession, tmp_path: Path, entry: str) -> None:
    stateproc.attach(spark, str(DEMO), cache=tmp_path, uids=UIDS)
    [path] = tmp_path.rglob("orders_per_customer__profile.json")
    path.write_text(entry)
    stateproc.attach(spark, str(DEMO), cache=tmp_path, uids=UIDS)
    assert path.read_text() != entry
    assert spark.table("orders_per_customer__profile").count() == 300


def test_a_file_is_no_cache(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidOption, match="is a file"):
        stateproc.attach(spark, str(DEMO), cache=tmp_path / "file")
    with pytest.raises(InvalidOption, match="cache is empty"):
        stateproc.attach(spark, str(DEMO), cache=" ")


def test_attach_prunes_by_key_unless_the_session_says_otherwise(spark: SparkSession) -> None:
    session = spark.newSession()
    stateproc.attach(session, str(DEMO), uids=UIDS)
    assert session.conf.get(PUSHDOWN) == "true"
    session.conf.set(PUSHDOWN, "false")
    stateproc.attach(session, str(DEMO), uids=UIDS)
    assert session.conf.get(PUSHDOWN) == "false"
    assert session.table("orders_per_customer__profile").where("key = 42").count() == 1


def test_the_description_of_jobs_is_restored(spark: SparkSession) -> None:
    context = spark.sparkContext
    context.setJobDescription("mine")
    try:
        with described_jobs(spark, "ours"):
            assert context.getLocalProperty("spark.job.description") == "ours"
        assert context.getLocalProperty("spark.job.description") == "mine"
    finally:
        context.setJobDescription(None)
