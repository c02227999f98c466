"""Refusal of sessions that the data source does not support: streams, and workers with another Python."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import stateproc
from stateproc.spark.workers import check_worker_python
from tests.helpers import paths

DEMO = str(paths.DEMO)


def test_a_stream_of_one_snapshot_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.readStream.format("savepoint").load(DEMO)
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(StreamingQueryException) as caught:
        query.trigger(once=True).start().awaitTermination()
    text = str(caught.value)
    assert "a stream has changes, or a whole state at each checkpoint" in text
    assert "give readChangeFeed=true or streamingMode=snapshots" in text
    assert "UnboundLocalError" not in text


def _interpreter(tmp_path: Path, text: str) -> str:
    path = tmp_path / "python-of-workers"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo \"ModuleNotFoundError: No module named 'stateproc'\" >&2; exit 1", "cannot import stateproc (Module"),
        ("echo 2.7", "is Python 2.7, the driver"),
    ],
)
def test_attach_names_the_interpreter_of_the_workers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, problem: str
) -> None:
    other = _interpreter(tmp_path, script)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", other)
    with pytest.raises(stateproc.InvalidOption) as caught:
        stateproc.attach(spark, DEMO)
    assert caught.value.message.startswith(f"Spark's Python workers run {other}, which {problem}")
    assert f"set PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON to {sys.executable}" in (caught.value.advice or "")


def test_another_path_of_the_same_environment_is_accepted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", _interpreter(tmp_path, f'exec "{sys.executable}" "$@"'))
    check_worker_python(spark)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", os.fspath(tmp_path / "on-the-executors-only"))
    check_worker_python(spark)
