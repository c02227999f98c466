"""Flink gives an operator its own raw keyed state back, and its managed state, after rewriting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stateproc import SavepointWriter
from tests.helpers.cases import CASE_SOURCES, case_snapshots
from tests.helpers.flink.case_jobs import found_by_job

pytestmark = pytest.mark.flink

ONE = next(one for one in case_snapshots() if one.case == "raw-keyed")


def by_key(lines: list[dict[str, Any]]) -> dict[tuple[str, str], Any]:
    return {(line["state"], json.dumps(line["key"])): line["value"] for line in lines}


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("parallelism", [1, 3, 64])
def test_bytes_and_values_are_restored(backend: str, parallelism: int, tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(None, ONE.path, {"uids": ",".join(ONE.uids)})
    path = writer.with_parallelism("raw", parallelism).write(tmp_path / "out")
    text = (CASE_SOURCES / "raw-keyed" / "expected.jsonl").read_text(encoding="utf-8")
    expected = by_key([json.loads(line) for line in text.splitlines()])
    expected |= {("raw-bytes", str(group)): f"raw of {group}/{1000 * group}" for group in (2, 3, 8)}
    arguments = ("--n", "20", "--p", "2")
    lines = found_by_job("raw-keyed", "C26", str(path), tmp_path / "read", backend=backend, arguments=arguments)
    assert by_key(lines) == expected
