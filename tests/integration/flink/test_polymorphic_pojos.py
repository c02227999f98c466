"""Flink restores what was rewritten of subtasks that had met other subclasses of a POJO, with equal values."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from stateproc import SavepointWriter
from tests.helpers.cases import CASE_SOURCES, CaseSnapshot, case_snapshots
from tests.helpers.flink.case_jobs import Line, found_by_runs, job_path, reporting

pytestmark = pytest.mark.flink

CASE, JOB = "polymorphic-pojo", "C07"
SNAPSHOTS = {one.entry["path"].split("/")[0]: one for one in case_snapshots() if one.case == CASE}
STATES = ("event", "events", "byName", "holder")


def transformed(writer: SavepointWriter) -> SavepointWriter:
    for name in STATES:
        writer.transform_state("op", name, lambda rows: rows)
    return writer


@dataclass(frozen=True)
class Restore:
    """How a snapshot is rewritten and restored; ``without``: states that the job does not find."""

    snapshot: str
    change: Callable[[SavepointWriter], SavepointWriter]
    backend: str
    arguments: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


RESTORES = {
    "max parallelism, heap": Restore(
        "snapshot", lambda writer: writer.with_max_parallelism(256), "hashmap", ("--maxp", "256")
    ),
    "max parallelism, RocksDB": Restore(
        "checkpoint-rocksdb-incremental",
        lambda writer: writer.with_max_parallelism(256),
        "rocksdb",
        ("--maxp", "256"),
    ),
    "parallelism": Restore("native-rocksdb", lambda writer: writer.with_parallelism("op", 3), "hashmap", ("--p", "3")),
    "native": Restore("snapshot", lambda writer: writer.with_format("native-rocksdb"), "rocksdb"),
    "a dropped state": Restore(
        "snapshot", lambda writer: writer.drop_state("op", "plain"), "rocksdb", without=("plain",)
    ),
    "rows, heap": Restore("snapshot", transformed, "hashmap"),
    "rows, RocksDB": Restore("native-rocksdb", transformed, "rocksdb"),
    "registered": Restore(
        "registered", lambda writer: writer.with_parallelism("op", 3), "rocksdb", ("--arg", "reg", "--p", "3")
    ),
    "registered, rows": Restore("registered", transformed, "hashmap", ("--arg", "reg")),
    "from a native heap savepoint": Restore(
        "native-hashmap", lambda writer: writer.with_max_parallelism(256), "rocksdb", ("--maxp", "256")
    ),
}


def by_key(lines: list[dict[str, Any]]) -> dict[tuple[str, str], Any]:
    return {(line["state"], json.dumps(line["key"])): line["value"] for line in lines}


def recorded(one: CaseSnapshot) -> dict[tuple[str, str], Any]:
    name = one.entry.get("contents", {}).get("file", "expected.jsonl")
    text = (CASE_SOURCES / CASE / name).read_text(encoding="utf-8")
    return by_key([json.loads(line) for line in text.splitlines()])


def expected(case: Restore) -> dict[tuple[str, str], Any]:
    return {at: value for at, value in recorded(SNAPSHOTS[case.snapshot]).items() if at[0] not in case.without}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Line] | str]:
    """What the job finds in each rewritten snapshot; one JVM restores all of them."""
    folder, runs = tmp_path_factory.mktemp("polymorphic"), []
    for number, case in enumerate(RESTORES.values()):
        one, target = SNAPSHOTS[case.snapshot], folder / str(number)
        options = {"uids": ",".join(one.uids), **one.options}
        writer = case.change(SavepointWriter.from_existing_savepoint(None, one.path, options))
        path = str(writer.write(folder / f"rewritten-{number}"))
        # The job reports what it finds for each key that its source emits.
        count = str(1 + max(json.loads(key) for _, key in expected(case)))
        target.mkdir()
        runs.append((reporting(JOB, path, target, case.backend, (*case.arguments, "--n", count)), target))
    return dict(zip(RESTORES, found_by_runs(job_path(CASE), runs, folder), strict=True))


@pytest.mark.parametrize("name", RESTORES)
def test_the_job_finds_its_values(name: str, found: dict[str, list[Line] | str]) -> None:
    lines = found[name]
    assert not isinstance(lines, str), lines
    assert by_key(lines) == expected(RESTORES[name])
