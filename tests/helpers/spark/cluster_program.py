"""A driver program for a cluster: writes and reads states, and kills a process of the cluster meanwhile."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter
from tests.helpers.quick_java import QUICK_SPARK, QUICK_SPARK_JAVA

OPERATOR, STATE = "accounts", "balance"


def bootstrap(spark: SparkSession, step: Mapping[str, Any]) -> Any:
    """Write a savepoint of ``rows`` keys."""
    frame = spark.range(step["rows"]).selectExpr("id AS key", "id * 2 AS value")
    state = OperatorBootstrap().value_state(STATE, frame)
    writer = SavepointWriter.new_savepoint(spark).with_operator(OPERATOR, state).with_parallelism(OPERATOR, 6)
    return str(writer.with_storage_options(step["options"]).write(step["target"]))


def rewrite(spark: SparkSession, step: Mapping[str, Any]) -> Any:
    """Write a copy with another max parallelism."""
    options = {f"fs.{name}": value for name, value in step["options"].items()}
    writer = SavepointWriter.from_existing_savepoint(spark, step["source"], options)
    return str(writer.with_max_parallelism(step["max_parallelism"]).write(step["target"]))


def read(spark: SparkSession, step: Mapping[str, Any]) -> Any:
    """Return the number of rows, and the sums of keys and values."""
    options = {f"fs.{name}": value for name, value in step["options"].items()}
    reader = spark.read.format("savepoint").options(**options, uid=OPERATOR, state=STATE, splitBytes="1m")
    row = reader.load(step["source"]).selectExpr("count(*)", "sum(key)", "sum(value)").first()
    return None if row is None else list(row)


def attach(spark: SparkSession, step: Mapping[str, Any]) -> Any:
    """Return the names of the views of a snapshot."""
    options = {f"fs.{name}": value for name, value in step["options"].items()}
    return stateproc.attach(spark, step["source"], **options, uids=[OPERATOR]).names


STEPS: dict[str, Callable[[SparkSession, Mapping[str, Any]], Any]] = {
    "bootstrap": bootstrap,
    "rewrite": rewrite,
    "read": read,
    "attach": attach,
}


@contextmanager
def _killing(spark: SparkSession, what: str | None, workers: Mapping[str, int]) -> Iterator[list[int]]:
    """Kill a worker or an executor once tasks are running."""
    killed: list[int] = []
    if what is None:
        yield killed
        return
    over = threading.Event()

    def kill() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not over.wait(0.02):
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
            if any(stage is not None and stage.numActiveTasks > 0 for stage in stages):
                break
        else:
            return
        time.sleep(0.3)
        worker = next(iter(workers.values()))
        victims = [worker] if what == "worker" else _children(worker)
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def _children(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent:
                found.append(int(entry.name))
    return found


def main(plan: Mapping[str, Any]) -> None:
    """Run the steps of a plan, and print one JSON object for each."""
    builder = SparkSession.builder.master(plan["master"]).appName("stateproc on a cluster")
    settings = {
        **QUICK_SPARK,
        "spark.executor.memory": "512m",
        "spark.executor.cores": "2",
        "spark.sql.shuffle.partitions": "4",
        "spark.executor.extraJavaOptions": " ".join(QUICK_SPARK_JAVA),
        **plan["conf"],
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    while spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() < 1 + len(plan["workers"]):  # type: ignore[union-attr]
        time.sleep(0.1)
    for step in plan["steps"]:
        started = time.perf_counter()
        report: dict[str, Any] = {"step": step["name"]}
        with _killing(spark, step.get("kill"), plan["workers"]) as killed:
            try:
                report["result"] = STEPS[step["name"]](spark, step)
            except Exception as error:
                report["error"] = str(error)[:4000]
        print(
            json.dumps({**report, "seconds": round(time.perf_counter() - started, 2), "killed": len(killed)}),
            flush=True,
        )
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
