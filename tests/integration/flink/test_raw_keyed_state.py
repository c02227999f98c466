"""Flink gives an operator its own raw keyed state back, and its managed state, after rewriting."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stateproc import SavepointWriter
from tests.helpers.cases import CASE_SOURCES, case_snapshots
from tests.helpers.flink.case_jobs import Line, found_by_runs, job_path, reporting

pytestmark = pytest.mark.flink

ONE = next(one for one in case_snapshots() if one.case == "raw-keyed")


def by_key(lines: list[dict[str, Any]]) -> dict[tuple[str, str], Any]:
    return {(line["state"], json.dumps(line["key"])): line["value"] for line in lines}


RUNS = [(parallelism, backend) for parallelism in (1, 3, 64) for backend in ("hashmap", "rocksdb")]
"""The parallelism of the operator that is rewritten, and the backend under which it is restored."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, str], list[Line] | str]:
    """What the job finds; one JVM restores all snapshots."""
    folder, runs = tmp_path_factory.mktemp("raw"), []
    for parallelism, backend in RUNS:
        target = folder / f"{parallelism}-{backend}"
        target.mkdir()
        writer = SavepointWriter.from_existing_savepoint(None, ONE.path, {"uids": ",".join(ONE.uids)})
        path = str(writer.with_parallelism("raw", parallelism).write(folder / f"{target.name}-rewritten"))
        runs.append((reporting("C26", path, target, backend, ("--n", "20", "--p", "2")), target))
    return dict(zip(RUNS, found_by_runs(job_path("raw-keyed"), runs, folder), strict=True))


@pytest.mark.parametrize(("parallelism", "backend"), RUNS)
def test_bytes_and_values_are_restored(
    parallelism: int, backend: str, found: dict[tuple[int, str], list[Line] | str]
) -> None:
    text = (CASE_SOURCES / "raw-keyed" / "expected.jsonl").read_text(encoding="utf-8")
    expected = by_key([json.loads(line) for line in text.splitlines()])
    expected |= {("raw-bytes", str(group)): f"raw of {group}/{1000 * group}" for group in (2, 3, 8)}
    lines = found[parallelism, backend]
    assert not isinstance(lines, str), lines
    assert by_key(lines) == expected
