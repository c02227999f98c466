"""Commands of a user whose Spark is a cluster, and the snapshot that they change."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter
from tests.helpers.paths import python_environment
from tests.helpers.spark.standalone_cluster import MASTER, SECONDS, SPECULATION

UID = "accounts"
BALANCE, SEEN, TAGS = "balance", "seen", "tags"
"""A value, a value with time to live, and a map."""
NOW = 1_000_000
_SETTINGS = {
    "spark.driver.host": MASTER,
    "spark.driver.bindAddress": MASTER,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "4",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    **SPECULATION,
}


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    status: int
    out: str
    err: str
    seconds: float

    @property
    def printed(self) -> str:
        """What was printed, with single blanks. spark-submit prints what a program writes to stderr to stdout."""
        return " ".join((self.out + self.err).split())


def settings(more: Mapping[str, str] | None = None) -> list[str]:
    """Return the arguments of spark-submit that configure a driver on this machine for the cluster."""
    return [part for name, value in {**_SETTINGS, **(more or {})}.items() for part in ("--conf", f"{name}={value}")]


def driver_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a driver program with the project installed."""
    pythons = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    submitted = " ".join([*(f"'{part}'" for part in settings()), "pyspark-shell"])
    return python_environment({**pythons, "PYSPARK_SUBMIT_ARGS": submitted, "COLUMNS": "140", **(more or {})})


def ran(command: Sequence[str], folder: Path, environment: Mapping[str, str], *, most: float = SECONDS) -> Ran:
    """Run a command to its end, which it reaches within so many seconds."""
    started = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, env=dict(environment), capture_output=True, text=True, timeout=most, check=False
    )
    return Ran(done.returncode, done.stdout, done.stderr, time.perf_counter() - started)


def stateproc_command(arguments: Sequence[str], folder: Path, more: Mapping[str, str] | None = None) -> Ran:
    """Run ``stateproc`` as a program of its own."""
    return ran([sys.executable, "-m", "stateproc", *arguments], folder, driver_environment(more))


def write_accounts(target: str, rows: int, options: Mapping[str, str] | None = None) -> str:
    """Write a savepoint with three states of ``rows`` keys, by the local engine; every second `SEEN` is expired."""
    keys = pa.array(range(rows), pa.int64())
    half = pa.array((NOW - 10_000 * (key % 2) for key in range(rows)), pa.int64())
    texts = pa.array((f"tag {key % 7}" for key in range(rows)), pa.string())
    entries = pa.table({"key": keys, "map_key": texts, "map_value": keys})
    state = (
        OperatorBootstrap()
        .value_state(BALANCE, pa.table({"key": keys, "value": pa.array(range(0, 2 * rows, 2), pa.int64())}))
        .value_state(SEEN, pa.table({"key": keys, "value": texts, "at": half}), ttl=True, last_access="at")
        .map_state(TAGS, entries, map_key="map_key", map_value="map_value")
    )
    writer = SavepointWriter.new_savepoint(None).with_operator(UID, state).with_parallelism(UID, 3)
    return str(writer.with_storage_options(dict(options or {})).write(target))


def contents(path: str, options: Mapping[str, str] | None = None, uid: str = UID) -> dict[str, pa.Table]:
    """Return the rows of all states of an operator, sorted by key, without their key groups."""
    snapshot = stateproc.open(path, storage_options=dict(options or {}), uids=[uid])
    found = {}
    for state in snapshot.operator(uid).keyed_states:
        rows = state.to_arrow()
        found[state.name] = rows.sort_by("key").drop_columns(["key_group"])
    assert snapshot.verify().is_intact
    return found
