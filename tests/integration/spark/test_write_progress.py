"""Job descriptions and progress of a write, and refusal of Spark Connect sessions."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import stateproc
from stateproc import InvalidOption, OperatorBootstrap, SavepointWriter
from stateproc.flink_versions import DEFAULT
from stateproc.writers.scaled_operators import WriteSettings
from stateproc.writers.spark import execution
from stateproc.writers.spark import execution as progress
from stateproc.writers.write_snapshot import write_snapshot


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
    engine, settings = execution.SparkEngine(connect), WriteSettings(DEFAULT, None)
    with pytest.raises(InvalidOption, match="Spark Connect"):
        write_snapshot(engine, tmp_path / "s", [], settings, {}, None, overwrite=False)
    assert not (tmp_path / "s").exists()
