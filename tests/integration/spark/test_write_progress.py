"""Plans, job descriptions and progress of a write, and refusal of Spark Connect sessions."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import stateproc
from stateproc import InvalidOption, OperatorBootstrap, SavepointWriter
from stateproc.writers.bootstrap.new_operator import NewOperator
from stateproc.writers.spark import data_source_writer, execution
from stateproc.writers.spark import execution as progress
from tests.helpers.paths import DEMO
from tests.helpers.stores.counting_filesystem import counted, counting
from tests.helpers.writers.made_plans import noted_plans


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def write(spark: SparkSession, target: Path) -> None:
    frame = spark.range(5_000).selectExpr("id as key", "id * 2 as value")
    state = OperatorBootstrap().value_state("double", frame)
    SavepointWriter.new_savepoint(spark).with_operator("op", state).with_parallelism("op", 2).write(target)


def test_spark_jobs_have_descriptions(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, seen = spark.sparkContext, []
    inner = execution.save

    def save(entries: DataFrame, *arguments: Any) -> Any:
        seen.append(context.getLocalProperty("spark.job.description"))
        return inner(entries, *arguments)

    monkeypatch.setattr(execution, "save", save)
    context.setJobDescription("mine")
    try:
        write(spark, tmp_path / "s")
        assert seen == [f"stateproc: write savepoint {tmp_path / 's'} (1 operator)"]
        assert context.getLocalProperty("spark.job.description") == "mine"
    finally:
        context.setJobDescription(None)


def test_progress_is_shown_on_a_terminal(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    monkeypatch.setattr(progress, "_FIRST_SECONDS", 0.05)
    monkeypatch.setattr(progress, "_MOST_SECONDS", 0.05)
    monkeypatch.setattr(progress.sys, "stderr", out)
    write(spark, tmp_path / "s")
    with progress.reported_progress(spark, out) as rows:
        assert rows is not None and rows.value == 0
    lines = out.getvalue().splitlines()
    assert lines and all(line.startswith("stateproc: ") and line.endswith(" rows/s") for line in lines)
    assert any(" 5,000 rows encoded, " in line for line in lines)
    assert stateproc.open(tmp_path / "s").state("op", "double").to_arrow().num_rows == 5_000


def test_no_progress_is_shown_in_a_pipe(spark: SparkSession) -> None:
    with progress.reported_progress(spark, io.StringIO()) as rows:
        assert rows is None


def test_sessions_of_spark_connect_are_refused(tmp_path: Path) -> None:
    connect: Any = object()
    with pytest.raises(InvalidOption, match="Spark Connect"):
        stateproc.SavepointWriter.new_savepoint(connect).write(tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_write_plans_once(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = noted_plans(monkeypatch)
    with counting() as count:
        source = stateproc.open(counted(Path(DEMO)))
        writer = SavepointWriter.from_snapshot(spark, source).with_storage_options({})
        frame = spark.range(5).selectExpr("id as key", "id * 2 as value")
        writer.with_operator("op", OperatorBootstrap().value_state("double", frame)).write(tmp_path / "s")
    with counting() as expected:
        source = stateproc.open(counted(Path(DEMO)))
        SavepointWriter.from_snapshot(None, source).with_storage_options({}).write(tmp_path / "local")
    assert len(plans) == 2 and Counter(count.requests) == Counter(expected.requests)


def test_the_sink_makes_headers_and_encoders_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    for name in ("spec", "sources"):
        function = getattr(NewOperator, name)

        def noted(*arguments: Any, name: str = name, function: Any = function) -> Any:
            made.append(name)
            return function(*arguments)

        monkeypatch.setattr(NewOperator, name, noted)
    options = {"path": str(tmp_path / "s"), "uid": "op", "state": "double"}
    schema = spark.range(1).selectExpr("id as key", "id * 2 as value").schema
    data_source_writer.writer_of(options, schema, overwrite=False).abort([])
    assert made == ["spec", "sources"] and not (tmp_path / "s").exists()
