"""Writes whose tasks or driver are killed or fail, or whose disk is full: no partial snapshot, no duplicate entries.

The faults are injected into a separate Spark application (``write_faults.py``), which retries and speculates tasks.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

import stateproc
from stateproc.errors import MissingFile
from stateproc.storage.layout import run_of_file, run_of_marker
from stateproc.writers.spark.data_source_writer import writer_of
from tests.helpers.paths import DEMO, python_environment
from tests.helpers.spark.attempt_races import note_of
from tests.helpers.spark.killed_steps import Kill, Killed, rescale, save
from tests.helpers.spark.write_faults import PARALLELISM, ROWS
from tests.helpers.writers.small_writes import assert_whole_or_nothing, contents, files, kept, write

INTERFACES = ("writer", "plain")
SCHEMA = StructType([StructField("key", LongType()), StructField("value", StringType())])
MANY_ROWS = {key: f"a name of some length {key}" for key in range(ROWS)}


def run(master: str, directory: Path, *scenarios: str) -> subprocess.CompletedProcess[str]:
    """Run the application in a separate process group; return the completed process with its output."""
    command = [sys.executable, "-m", "tests.helpers.spark.write_faults", master, str(directory), *scenarios]
    return subprocess.run(
        command, text=True, capture_output=True, env=python_environment(), start_new_session=True, check=False
    )


def names(target: Path) -> list[str]:
    return sorted(path.name for path in target.iterdir())


def found(target: Path) -> dict[int, str]:
    """Return the entries by key, after a check that keys are unique."""
    table = stateproc.open(target).operator("op").state("name").to_arrow()
    keys = table.column("key").to_pylist()
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, table.column("value").to_pylist(), strict=True))


def assert_complete(target: Path, rows: dict[int, str], n_files: int = PARALLELISM) -> None:
    assert found(target) == rows
    left = names(target)
    assert left[0] == "_metadata" and len(left) == 1 + n_files
    assert all(run_of_file(name) for name in left[1:])


def write_next(target: Path, overwrite: bool = False) -> dict[int, str]:
    """Write again to the target; return the rows."""
    options = {"path": str(target), "uid": "op", "state": "name"}
    writer = writer_of(options, SCHEMA, overwrite)
    rows = {1: "x", 2: "y" * 50_000}
    batch = pa.RecordBatch.from_pydict({"key": list(rows), "value": list(rows.values())})
    writer.commit([writer.write(iter([batch]))])
    return rows


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Return the directory with all targets, and the error of each scenario."""
    directory = tmp_path_factory.mktemp("faults")
    kinds = ("killed-once", "failed-once-written", "killed", "full-disk")
    done = run("local[2,3]", directory, *(f"{kind}:{interface}:error" for kind in kinds for interface in INTERFACES))
    assert done.returncode == 0, done.stderr
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    return directory, {report["scenario"].removesuffix(":error"): report["error"] for report in reports}


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize("fault", ["killed-once", "failed-once-written"])
def test_retried_tasks_write_entries_once(faults: tuple[Path, dict[str, str]], fault: str, interface: str) -> None:
    """Workers are killed within a file or fail after it; only the files of one attempt belong to the snapshot."""
    directory, errors = faults
    assert errors[f"{fault}:{interface}"] == ""
    assert_complete(directory / f"{fault}-{interface}", MANY_ROWS)


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize(
    ("fault", "texts"),
    [
        ("killed", ["failed 3 times", "Python worker exited unexpectedly"]),
        ("full-disk", ["cannot be written", "File too large", "the disk is full, or a quota", "free space"]),
    ],
)
def test_permanently_failed_tasks_leave_no_snapshot(
    faults: tuple[Path, dict[str, str]], fault: str, interface: str, texts: list[str]
) -> None:
    directory, errors = faults
    target = directory / f"{fault}-{interface}"
    for text in texts:
        assert text in errors[f"{fault}:{interface}"]
    # The next write removes files of a task that ended after the write.
    remaining = names(target) if target.exists() else []
    assert all(run_of_file(name) or run_of_marker(name) for name in remaining)
    with pytest.raises(MissingFile):
        stateproc.open(target)
    assert_complete(target, write_next(target), 1)


@pytest.fixture(scope="module")
def races(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory with all targets of writes with a speculated task."""
    directory = tmp_path_factory.mktemp("races")
    done = run("two-hosts", directory, *(f"{race}:error" for race in SPECULATED))
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["error"] for line in done.stdout.splitlines()] == [""] * len(SPECULATED), done.stdout
    return directory


SPECULATED = {"overtaken:writer": 1, "overtaken:plain": 1, "halfway:writer": 0, "halfway:plain": 0, "late:writer": 0}
"""The number of the committed attempt by scenario."""


@pytest.mark.parametrize("race", SPECULATED)
def test_one_of_two_concurrent_attempts_of_a_task_is_committed(races: Path, race: str) -> None:
    """Whichever attempt ends first is committed; files of the other are removed and not referenced."""
    target, winner = races / race.replace(":", "-"), SPECULATED[race]
    ends = [note_of(target, attempt, "ended") for attempt in (0, 1)]
    assert ends[0]["process"] != ends[1]["process"]
    seen = note_of(target, winner, "both")
    assert seen["other"] and "_metadata" not in seen["there"]
    assert seen["own"] and set(seen["own"]) <= set(seen["there"])

    assert_complete(target, MANY_ROWS)
    lost = ends[1 - winner]["own"]
    assert lost and not set(lost) & set(names(target))
    if race.endswith("writer"):
        assert set(ends[winner]["own"]) <= set(names(target))
    else:  # the commit merges sorted runs to files
        assert set(ends[winner]["own"]).isdisjoint(names(target))
    # An attempt that continues after the commit detects that the write is over.
    assert ("the write is over" in ends[1]["error"]) is (winner == 0)
    assert ends[winner]["error"] == ""


def kill_driver(directory: Path, interface: str, mode: str) -> None:
    done = run("local[2]", directory, f"driver:{interface}:{mode}")
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "")


def test_a_driver_killed_before_the_commit_leaves_no_snapshot(tmp_path: Path) -> None:
    kill_driver(tmp_path, "plain", "error")
    target = tmp_path / "driver-plain"
    remaining = names(target)
    assert sum(run_of_marker(name) is not None for name in remaining) == 1
    assert sum(run_of_file(name) is not None for name in remaining) >= 3
    with pytest.raises(MissingFile):
        stateproc.open(target)
    assert_complete(target, write_next(target), 1)


def test_a_driver_killed_before_the_commit_of_an_overwrite_keeps_the_old_snapshot(tmp_path: Path) -> None:
    target = tmp_path / "driver-writer"
    before = write_next(target)
    kill_driver(tmp_path, "writer", "overwrite")
    assert found(target) == before
    assert len(names(target)) == 2 + 1 + PARALLELISM
    assert_complete(target, write_next(target, overwrite=True), 1)


def steps_of(write: Callable[[Kill], None], folder: Path, begin: Callable[[Path], None]) -> Iterator[tuple[str, Path]]:
    """End writes before each of their steps; yield the step and the target, whose write is over."""
    number = 0
    while True:
        number += 1
        target, log = folder / f"{number}" / "savepoint", folder / f"{number}.log"
        target.parent.mkdir()
        begin(target)
        kill = Kill(str(target), number, str(log), os.getpid())
        with contextlib.suppress(Killed, PySparkException, Py4JJavaError):
            write(kill)
        steps = log.read_text().splitlines()
        if len(steps) < number:
            return
        assert steps[number - 1].startswith("ended before "), steps
        yield steps[number - 1].removeprefix("ended before "), target


def assert_all_kinds(steps: list[str]) -> None:
    """Assert that steps of the begin, of tasks and of the commit are among them."""
    for name in (
        "os.mkdir .",
        "open /.stateproc-",
        "open /stateproc-",
        "os.rename /.stateproc-",
        "os.remove /.stateproc-",
    ):
        assert any(step.startswith(name) for step in steps), (name, steps)


def test_a_data_source_whose_driver_is_killed_at_any_step(spark: SparkSession, tmp_path: Path) -> None:
    """Every step of all processes: making the writer, tasks that write runs, the commit that merges them."""
    rows = {
        key: f"a name of a hundred characters and more, so that the file is no part of _metadata: {key:050}"
        for key in range(300)
    }
    frame = spark.createDataFrame(list(rows.items()), SCHEMA).coalesce(1)
    seen = []
    for step, target in steps_of(lambda kill: save(frame, "append", kill), tmp_path, lambda target: None):
        seen.append(step)
        if (target / "_metadata").exists():
            wanted = contents(target)
            assert found(target) == rows, step
        else:
            wanted = {}
        assert_whole_or_nothing(target, wanted, not wanted, step)
        assert_complete(target, write_next(target, overwrite=True), 1)
    assert_all_kinds(seen)
    kinds = [step.split("-")[0] for step in seen]
    assert kinds.count("open /stateproc") == 2, "a run, and the file that it is merged to"
    assert kinds.count("os.remove /stateproc") == 1, seen


def test_a_writer_whose_driver_is_killed_at_any_step(spark: SparkSession, tmp_path: Path) -> None:
    """Every step of the driver and of tasks, when a savepoint is replaced: the old one or the new one, both whole."""
    source, wanted = files(DEMO), contents(DEMO)
    seen = []

    def begin(target: Path) -> None:
        write("copy", target, "error")

    for step, target in steps_of(lambda kill: rescale(spark, "overwrite", kill), tmp_path, begin):
        seen.append(step)
        assert files(DEMO) == source
        assert_whole_or_nothing(target, wanted, False, step)
        write("rescale", target, "overwrite")
        assert contents(target) == wanted and set(names(target)) == kept(target), step
    assert_all_kinds(seen)


def test_save_modes(spark: SparkSession, tmp_path: Path) -> None:
    """Mode append writes a new savepoint and never adds to one; Spark refuses its default mode for this source."""
    target = tmp_path / "s"
    before = write_next(target)
    frame = spark.createDataFrame([(7, "z")], SCHEMA)

    def save(mode: str) -> None:
        options = {"uid": "op", "state": "name"}
        frame.write.format("savepoint").options(**options).mode(mode).save(str(target))

    for mode, texts in {
        "append": ["a snapshot is here already", "write to another path, or with mode 'overwrite'"],
        "error": ["ErrorIfExists", 'Please use either the "Append" or "Overwrite" mode instead'],
        "ignore": ["Ignore", 'Please use either the "Append" or "Overwrite" mode instead'],
    }.items():  # fmt: skip
        with pytest.raises(Exception, match=r"(?i)unsupported|here already") as caught:
            save(mode)
        for text in texts:
            assert text in str(caught.value), mode
        assert found(target) == before
    save("overwrite")
    assert found(target) == {7: "z"}


def test_a_write_without_rows_registers_the_state(spark: SparkSession, tmp_path: Path) -> None:
    """Both the writer and the data source register the empty state."""
    rows: list[Any] = []
    frame = spark.createDataFrame(rows, SCHEMA)
    state = stateproc.OperatorBootstrap().value_state("name", frame)
    stateproc.SavepointWriter.new_savepoint(spark).with_operator("op", state).write(tmp_path / "writer")
    writing = frame.write.format("savepoint").option("uid", "op").option("state", "name")
    writing.mode("append").save(os.fspath(tmp_path / "plain"))
    for interface in INTERFACES:
        assert_complete(tmp_path / interface, {}, 0)
    read = spark.read.format("savepoint").option("uid", "op").option("state", "name").load(str(tmp_path / "writer"))
    assert read.count() == 0 and {"key", "value"} <= set(read.columns)
