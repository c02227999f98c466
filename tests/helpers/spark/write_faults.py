"""Write savepoints in a Spark application whose tasks or driver fail (used by test_write_faults.py).

Run as ``python -m tests.helpers.spark.write_faults <master> <directory> <fault>:<way>:<mode> …``: one write for each
scenario, to ``<fault>-<way>`` in the directory. The outcome of each is printed as one line of JSON. With the master
``two-hosts`` a task is speculated, see attempt_races.py.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext, TaskContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyspark_savepoint import DefaultSource
from stateproc import OperatorBootstrap, SavepointWriter
from stateproc.writers.commit.staging import StateFile
from stateproc.writers.spark import execution as entries_sink
from stateproc.writers.spark.data_source_writer import PlainWriter
from stateproc.writers.spark.execution import EntriesWriter
from tests.helpers.quick_java import QUICK_SPARK, QUICK_SPARK_JAVA
from tests.helpers.spark.attempt_races import ENOUGH, RACES, notes_of, wait

# A Spark cluster of two hosts on one machine; Spark speculates a task on another host only.
#
# Master and workers live in the driver's JVM, as those of ``local-cluster`` do (which has one host).


DRIVER = "127.0.0.1"
HOSTS = ("127.0.0.2", "127.0.0.3")
_CORES, _MEMORY = 2, 1024


def two_hosts(options: Mapping[str, str], work: str) -> SparkSession:
    """A session with an executor of two cores on each host; ``work``: a directory for their logs."""
    gateway = launch_gateway(SparkConf().setAll(list(QUICK_SPARK.items())))
    jvm: Any = gateway.jvm
    conf = jvm.org.apache.spark.SparkConf()
    conf.set("spark.master.rest.enabled", "false")
    master = jvm.org.apache.spark.deploy.master.Master.startRpcEnvAndEndpoint(DRIVER, 0, 0, conf)
    url = f"spark://{DRIVER}:{master._1().address().port()}"
    masters = gateway.new_array(jvm.java.lang.String, 1)
    masters[0] = url
    none = getattr(getattr(jvm.scala, "None$"), "MODULE$")
    for number, host in enumerate(HOSTS):
        jvm.org.apache.spark.deploy.worker.Worker.startRpcEnvAndEndpoint(
            host, 0, 0, _CORES, _MEMORY, masters, work, jvm.scala.Some(number), conf, none
        )
    settings = SparkConf().setMaster(url).setAppName("tasks that are speculated")
    settings.setAll([("spark.executor.memory", "512m"), *options.items()])
    context = SparkContext(conf=settings, gateway=gateway)
    return SparkSession(context)


ROWS = 4000
PARALLELISM = 3
_RUN_BYTES = 25_000


def die_while_writing(attempt: int) -> Iterator[None]:
    """The process is gone when a file is written in part."""
    written, inner = [0], StateFile.write

    def write(file: StateFile, data: bytes | memoryview) -> None:
        inner(file, data)
        written[0] += len(data)
        if written[0] > ENOUGH:
            os.kill(os.getpid(), signal.SIGKILL)

    StateFile.write = write  # type: ignore[method-assign]
    try:
        yield
    finally:
        StateFile.write = inner  # type: ignore[method-assign]


def die_once(attempt: int) -> Iterator[None]:
    """As above, the first attempt of a task only."""
    if attempt == 0:
        yield from die_while_writing(attempt)
    else:
        yield


def fail_once_written(attempt: int) -> Iterator[None]:
    """The first attempt fails when its files are complete."""
    yield
    if attempt == 0:
        raise RuntimeError("lost after writing")


def full_disk(attempt: int) -> Iterator[None]:
    """No file gets longer than 20 KB."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def nothing(attempt: int) -> Iterator[None]:
    yield


FAULTS: dict[str, Callable[[int], Iterator[None]]] = {
    "killed-once": die_once, "killed": die_while_writing, "failed-once-written": fail_once_written,
    "full-disk": full_disk, "driver": nothing, "none": nothing,
}  # fmt: skip


def kill_all_of(driver: int) -> None:
    os.killpg(driver, signal.SIGKILL)
    time.sleep(60)


def faulty(writer: type[Any], fault: str, driver: int) -> type[Any]:
    """The writer, with tasks that meet the fault; ``driver``: the process group to kill instead of committing."""

    class Faulty(writer):  # type: ignore[misc]
        def write(self, iterator: Any) -> Any:
            context = TaskContext.get()
            partition, attempt = (0, 0) if context is None else (context.partitionId(), context.attemptNumber())
            if fault in RACES:
                spec = self.spec if isinstance(self, EntriesWriter) else self._spec
                target, write = Path(spec.staging.directory_uri), super().write
                return RACES[fault](target, attempt, lambda: write(iterator)) if partition == 0 else write(iterator)
            with contextmanager(FAULTS[fault])(attempt):
                return super().write(iterator)

        def commit(self, messages: Any) -> None:
            if fault == "driver":
                kill_all_of(driver)
            super().commit(messages)

    return Faulty


def plain_source(fault: str, driver: int) -> type[Any]:
    """The data source, with the fault and small runs."""

    class FaultySource(DefaultSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return f"savepoint-{fault}"

        def writer(self, schema: Any, overwrite: bool) -> Any:
            writer = super().writer(schema, overwrite)
            writer.__class__ = faulty(PlainWriter, fault, driver)
            writer._run_bytes = _RUN_BYTES
            return writer

    return FaultySource


def people(spark: SparkSession) -> DataFrame:
    frame = spark.range(ROWS, numPartitions=3)
    return frame.select(F.col("id").alias("key"), F.concat(F.lit("a name of some length "), "id").alias("value"))


def by_savepoint_writer(spark: SparkSession, target: Path, fault: str, mode: Any) -> None:
    entries_sink.EntriesWriter = faulty(EntriesWriter, fault, os.getpgrp())  # type: ignore[misc]
    if fault == "driver":
        entries_sink.finish = lambda *_: kill_all_of(os.getpgrp())
    state = OperatorBootstrap().value_state("name", people(spark))
    writer = SavepointWriter.new_savepoint(spark).with_operator("op", state).with_parallelism("op", PARALLELISM)
    writer.write(target, mode)


def by_spark_alone(spark: SparkSession, target: Path, fault: str, mode: Any) -> None:
    spark.dataSource.register(plain_source(fault, os.getpgrp()))
    writing = people(spark).write.format(f"savepoint-{fault}").option("uid", "op").option("state", "name")
    writing.option("parallelism", PARALLELISM).mode("append" if mode == "error" else mode).save(str(target))


WAYS = {"writer": by_savepoint_writer, "plain": by_spark_alone}


OPTIONS = {
    **QUICK_SPARK, "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "3",
    "spark.executor.extraJavaOptions": " ".join(QUICK_SPARK_JAVA), "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200",
    "spark.python.daemon.module": "tests.helpers.spark.loaded_daemon",
}  # fmt: skip
SPECULATING = {
    "spark.speculation": "true", "spark.speculation.interval": "100ms", "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.3", "spark.speculation.minTaskRuntime": "100ms", "spark.locality.wait": "0s",
    "spark.speculation.efficiency.enabled": "false", "spark.python.task.killTimeout": "100s",
}  # fmt: skip


def session(master: str, directory: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if master == "two-hosts":
        spark = two_hosts({**OPTIONS, **SPECULATING}, str(directory / "executors"))
    else:
        builder = SparkSession.builder.master(master).appName("writes that meet an end")
        spark = builder.config(map=OPTIONS).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def main() -> None:
    master, directory, *scenarios = sys.argv[1:]
    spark = session(master, Path(directory))
    for scenario in scenarios:
        fault, way, mode = scenario.split(":")
        report = {"scenario": scenario, "error": ""}
        target = Path(directory) / f"{fault}-{way}"
        try:
            WAYS[way](spark, target, fault, mode)
            if fault in RACES:
                for attempt in (0, 1):
                    wait((notes_of(target) / f"{attempt}-ended").exists)
        except Exception as error:
            report["error"] = str(error)
        print(json.dumps(report), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
