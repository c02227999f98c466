"""A driver that is killed while it writes leaves no savepoint that can be loaded, and the next run succeeds."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import stateproc
from stateproc.errors import MissingFile
from stateproc.storage.layout import run_of_file
from tests.helpers.spark.cluster_commands import UID, contents, driver_environment, ran, write_accounts
from tests.helpers.spark.standalone_cluster import SECONDS, Cluster
from tests.helpers.stores.remote_store import RemoteStore

ROWS, KILLS = 200_000, 6
_MARKER, _FILE = ".stateproc-", "stateproc-"
"""How the names of files begin. Every second run is killed soon after its first state file."""
_LEAST = 2
"""So many of the runs must have been killed while they wrote, not before or after."""


@contextmanager
def started(command: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a driver program; its JVM is of the same process group. All are killed at the end."""
    with (folder / "driver.log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=driver_environment(), stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for_files(store: RemoteStore, target: str, process: subprocess.Popen[bytes], log: Path, first: str) -> None:
    """Wait until the target has a new file whose name begins with ``first``."""
    left = store.names(target)
    deadline = time.monotonic() + SECONDS
    while not {name for name in store.names(target) - left if name.startswith(first)}:
        assert process.poll() is None and time.monotonic() < deadline, (log.read_text(), store.names(target), left)
        time.sleep(0.05)


def files_of(store: RemoteStore, uri: str) -> dict[str, bytes]:
    return {name: store.fs.cat_file(f"{store.path(uri)}/{name}") for name in store.names(uri)}


@pytest.fixture(params=["s3", "distributed_store"])
def store(request: pytest.FixtureRequest) -> RemoteStore:
    found: RemoteStore = request.getfixturevalue(request.param)
    return found


def test_the_driver_is_killed_at_random_moments(lasting_cluster: Cluster, store: RemoteStore, tmp_path: Path) -> None:
    """Each run meets what the one before has left."""
    source, target = write_accounts(f"{store.root}/to-kill", ROWS, store.options), f"{store.root}/killed"
    before = files_of(store, source)
    changes = [{"rescale": {"max_parallelism": 512}}, {"convert": {"to": "native-rocksdb"}}]
    base = {"path": source, "open": {"uids": [UID], "storage_options": store.options}}
    place = {"path": target, "storage_options": store.options, "overwrite": "always"}
    job = {"job": "killed", "engine": "spark", "spark": {"master": lasting_cluster.url}, "base": base}
    (tmp_path / "job.json").write_text(json.dumps({**job, "changes": changes, "target": place}))
    command = [sys.executable, "-m", "stateproc", "run", "job.json", "--json"]

    with started(command, tmp_path) as whole:
        wait_for_files(store, target, whole, tmp_path / "driver.log", _MARKER)
        begun = time.monotonic()
        assert whole.wait(SECONDS) == 0, (tmp_path / "driver.log").read_text()
    window = time.monotonic() - begun
    store.fs.rm(store.path(target), recursive=True)

    moments, found = random.Random(14), []
    for number in range(KILLS):
        with started(command, tmp_path) as killed:
            in_files = number % 2 == 1
            wait_for_files(store, target, killed, tmp_path / "driver.log", _FILE if in_files else _MARKER)
            time.sleep(moments.random() if in_files else window * moments.random())
            os.killpg(killed.pid, signal.SIGKILL)
        names = store.names(target)
        found.append("savepoint" if "_metadata" in names else len(names))
        if "_metadata" in names:
            assert contents(target, store.options) == contents(source, store.options)
            store.fs.rm(store.path(target), recursive=True)
        else:
            with pytest.raises(MissingFile):
                stateproc.open(target, storage_options=store.options)
        assert files_of(store, source) == before
    print(f"{store.root}: a write of {window:.1f} s, killed {KILLS} times; files left:", found)
    assert sum(item != "savepoint" for item in found) >= _LEAST

    last = ran(command, tmp_path, driver_environment())
    assert last.status == 0, last.err
    assert json.loads(last.out)["status"] == "written"
    assert contents(target, store.options) == contents(source, store.options)
    runs = {run_of_file(name) for name in store.names(target) - {"_metadata", "_stateproc_job.json"}}
    assert len(runs) == 1 and None not in runs, store.names(target)
