"""Twenty writes of a million keys are killed at random moments, by each engine.

A killed write leaves no savepoint that could be loaded, harms neither its source nor a savepoint that it would have
replaced, and the next write to the same target succeeds.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter
from stateproc.cli import main
from stateproc.errors import MissingFile
from tests.helpers.document_runs import environment
from tests.helpers.paths import python_environment

KEYS, KILLS = 1_000_000, 20
UID, STATE = "customers", "name"
RESCALE = ["rescale", "--max-parallelism", "1024"]
CONVERT = ["convert", "--to", "native-rocksdb"]
SECONDS = 120


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A savepoint of a million keys in four subtasks."""
    numbers = np.arange(KEYS)
    table = pa.table({"key": numbers, "value": pa.array([f"customer {number:09d}" for number in numbers.tolist()])})
    state = OperatorBootstrap().value_state(STATE, table)
    path = tmp_path_factory.mktemp("million") / "source"
    SavepointWriter.new_savepoint(None).with_operator(UID, state).with_parallelism(UID, 4).write(path)
    return path


def digests(folder: Path) -> dict[str, str]:
    """File → a digest of its bytes."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def check(path: Path) -> None:
    """Check that the savepoint is whole, and has each key once with its value."""
    snapshot = stateproc.open(path, uids=[UID])
    assert snapshot.verify().problems == ()
    table = snapshot.state(UID, STATE).to_arrow(columns=["key", "value"])
    keys, numbers = table.column("key"), pc.utf8_slice_codeunits(table.column("value"), len("customer "))
    assert len(keys) == pc.count_distinct(keys).as_py() == KEYS
    assert (pc.min(keys).as_py(), pc.max(keys).as_py()) == (0, KEYS - 1)
    assert keys.equals(pc.cast(numbers, pa.int64()))


def left_by(target: Path) -> str:
    """What a killed write has left: nothing, files that are no savepoint, or a whole savepoint."""
    if not (target / "_metadata").exists():
        with pytest.raises(MissingFile):
            stateproc.open(target)
        return "files" if target.exists() and any(target.iterdir()) else "nothing"
    check(target)
    return "savepoint"


def size_of(folder: Path) -> int:
    """The bytes of all its files, of which some may go away meanwhile."""
    total = 0
    with suppress(FileNotFoundError):
        for entry in os.scandir(folder):
            with suppress(FileNotFoundError):
                total += entry.stat().st_size
    return total


def wait_for(target: Path, size: float, process: subprocess.Popen[str]) -> None:
    """Wait until the target has this many bytes, or at least a file, or the process has ended."""
    end = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < end:
        if target.exists() and any(target.iterdir()) and size_of(target) >= size:
            return
        time.sleep(0.001)


@pytest.mark.parametrize("verb", [RESCALE, CONVERT], ids=["spilled", "file by file"])
def test_local_writes_are_killed(source: Path, tmp_path: Path, verb: list[str]) -> None:
    before, moments = digests(source), random.Random(14)
    line = [sys.executable, "-m", "stateproc", verb[0], str(source)]
    target = tmp_path / "first"

    def start(*more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*line, str(target), *verb[1:], *more], env=environment(), stdout=subprocess.DEVNULL, text=True
        )

    assert start().wait() == 0
    size, found = size_of(target), Counter[str]()
    for number in range(KILLS // 2):
        target = tmp_path / f"killed-{number}"
        process = start()
        wait_for(target, moments.uniform(0, size), process)
        process.kill()
        process.wait()
        found[left_by(target)] += 1
        assert digests(source) == before
        assert start("--overwrite").wait() == 0
        assert left_by(target) == "savepoint"
        assert not [path for path in target.iterdir() if path.name.startswith(".")]
    print(f"local {verb[0]}: {dict(found)}")
    assert found["files"] > found["savepoint"]


def test_a_killed_write_does_not_harm_what_it_would_replace(source: Path, tmp_path: Path) -> None:
    before, moments, target = digests(source), random.Random(15), tmp_path / "target"
    assert main(["copy", str(source), str(target), "--json"]) == 0
    names, size = digests(target), size_of(target)
    line = [sys.executable, "-m", "stateproc", RESCALE[0], str(source), str(target), *RESCALE[1:], "--overwrite"]
    for _ in range(5):
        process = subprocess.Popen(line, env=environment(), stdout=subprocess.DEVNULL, text=True)
        wait_for(target, size * moments.uniform(1, 2), process)
        process.kill()
        process.wait()
        assert left_by(target) == "savepoint"
        assert digests(source) == before
        groups = {operator.max_parallelism for operator in stateproc.open(target).operators}
        if groups == {128}:
            assert names.items() <= digests(target).items()
    assert subprocess.run(line, env=environment(), stdout=subprocess.DEVNULL).returncode == 0
    assert {operator.max_parallelism for operator in stateproc.open(target).operators} == {1024}


def start_spark(source: Path, *targets: Path) -> subprocess.Popen[str]:
    """Start an application that writes to each target, one after another, in a process group of its own."""
    line = [sys.executable, "-m", "tests.helpers.spark.killed_writes", str(source), *map(str, targets)]
    return subprocess.Popen(
        line, env=python_environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        start_new_session=True,
    )  # fmt: skip


def completed(process: subprocess.Popen[str]) -> None:
    """Wait until the application has written its first target."""
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["begin\n", "done\n"]


def test_writes_by_spark_are_killed(source: Path, tmp_path: Path) -> None:
    """Driver, JVM and workers are killed together; the application that follows first writes to the same target."""
    before, moments = digests(source), random.Random(16)
    targets, found = [tmp_path / "first"], Counter[str]()
    for number in range(KILLS):
        targets.append(tmp_path / f"killed-{number}")
        with start_spark(source, *targets[-2:]) as process:
            completed(process)
            wait_for(targets[-1], moments.uniform(0, size_of(targets[-2])), process)
            os.killpg(process.pid, signal.SIGKILL)
        assert left_by(targets[-2]) == "savepoint"
        assert not [path for path in targets[-2].iterdir() if path.name.startswith(".")]
        found[left_by(targets[-1])] += 1
        assert digests(source) == before
    with start_spark(source, targets[-1]) as process:
        completed(process)
    assert left_by(targets[-1]) == "savepoint"
    print(f"Spark: {dict(found)}")
    assert found["files"] > found["savepoint"]
