"""A write to an object store, disturbed at each request that changes the store: no partial savepoint, nothing harmed.

The writer is killed, or its requests fail or are broken off from there on. A program of its own writes, because it is
killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import stateproc
from stateproc.errors import SnapshotError
from tests.helpers.paths import DEMO
from tests.helpers.stores.faulty_proxy import StepFaults, faulty_proxy
from tests.helpers.stores.object_store import BUCKET, Store, object_store
from tests.helpers.writers.small_writes import contents, files

VERBS = {"copy": ["copy"], "rescale": ["rescale", "--max-parallelism", "256"]}
ONE_REQUEST = json.dumps({"retries": {"max_attempts": 0}})


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with object_store() as made:
        yield made


def orphans(store: Store, name: str) -> set[str]:
    """What `ls --orphans` finds in a directory."""
    if not store.names(name):
        return set()
    found = stateproc.find_orphans(f"s3://{BUCKET}/{name}", min_age="0s", storage_options=store.options)
    return {Path(one.path).name for one in (*found.orphans, *found.in_progress)}


def started(verb: str, target: str, endpoint: str, *more: str) -> subprocess.Popen[str]:
    """Begin to write in a process of its own."""
    name, *arguments = VERBS[verb]
    options = {"endpoint_url": endpoint, "key": "id", "secret": "secret", "config_kwargs": ONE_REQUEST}
    given = [part for key, value in options.items() for part in ("--target-storage-options", f"{key}={value}")]
    command = [sys.executable, "-m", "stateproc", name, str(DEMO), target, *arguments, *given, *more]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def disturbed(store: Store, verb: str, fault: str, number: int, target: str, *more: str) -> tuple[list[str], int, str]:
    """Write, with a fault from a request on; return the requests, how the writer ended, and what it said."""
    children: list[subprocess.Popen[str]] = []
    faults = StepFaults(number, "failed" if fault == "killed" else fault)
    if fault == "killed":
        faults.act = lambda: os.kill(children[0].pid, signal.SIGKILL)
    with faulty_proxy(store.endpoint, faults) as endpoint:
        children.append(started(verb, target, endpoint, *more))
        _, said = children[0].communicate(timeout=120)
    return faults.seen, children[0].returncode, said


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("fault", ["killed", "failed", "cut"])
def test_a_write_that_is_disturbed_at_any_request(store: Store, fault: str, verb: str, overwrite: bool) -> None:
    source, wanted, number = files(Path(DEMO)), contents(str(DEMO)), 0
    while True:
        number += 1
        name = f"{fault}-{verb}-{overwrite}-{number}"
        target = f"s3://{BUCKET}/{name}"
        more = ["--overwrite"] if overwrite else []
        if overwrite:
            store.upload(Path(DEMO), name)
        seen, ended, said = disturbed(store, verb, fault, number, target, *more)
        assert files(Path(DEMO)) == source
        if len(seen) < number:
            assert ended == 0 and contents(target, store.options) == wanted
            break
        assert ended == (-signal.SIGKILL if fault == "killed" else ended) and "Traceback" not in said, said
        try:
            assert contents(target, store.options) == wanted, seen
        except SnapshotError:
            assert not overwrite and ended != 0 and "_metadata" not in store.names(name), (seen, said)
        if ended > 0:
            assert f"{BUCKET}/{name}" in said and "→" in said, said
        # Parts of an upload that is not completed are no files; stores remove them after a time, or the next write.
        left = {one for one in store.names(name) if one.rpartition("/")[2].lstrip(".").startswith("stateproc-")}
        listed = orphans(store, name)
        needed: set[str] = set()
        if "_metadata" in store.names(name):
            data = store.client.get_object(Bucket=BUCKET, Key=f"{name}/_metadata")["Body"].read().decode("latin-1")
            needed = {one for one in left if one in data}
        assert left - needed == listed, (seen, left, needed, listed)
        again = started(verb, target, store.endpoint, "--overwrite")
        _, said = again.communicate(timeout=120)
        assert again.returncode == 0, said
        assert contents(target, store.options) == wanted
        assert not [one for one in store.names(name) if one.startswith(".")]
    assert number > 4, seen
    print(f"{fault}, {verb}, overwrite {overwrite}: {number - 1} requests that change the store")


@pytest.mark.parametrize("fault", ["failed", "busy", "slow", "cut"])
def test_what_passes_is_survived(store: Store, fault: str) -> None:
    """Two requests fail, with the settings for repetition that clients have by default."""
    target = f"s3://{BUCKET}/passes-{fault}"
    with faulty_proxy(store.endpoint, StepFaults(2, fault, last=3)) as endpoint:
        writer = stateproc.SavepointWriter.from_existing_savepoint(None, str(DEMO))
        writer.with_storage_options({**store.options, "endpoint_url": endpoint}).write(target)
    assert contents(target, store.options) == contents(str(DEMO))
