"""The job files in examples/, run twice each: the second run does nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc.jobs.loading import load_job
from stateproc.jobs.run_report import RunReport
from tests.helpers.fixtures import Fixture, differences, fixtures
from tests.helpers.paths import ROOT

EXAMPLES = ROOT / "examples"
SHOP = stateproc.bundled_snapshot("shop")


def _twice(name: str, folder: Path, **variables: Any) -> RunReport:
    values = {"savepoints": str(folder), **variables}
    planned = stateproc.run_job(EXAMPLES / name, variables=values, plan=True)
    assert planned.status == "planned"
    first = stateproc.run_job(EXAMPLES / name, variables=values)
    files = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    second = stateproc.run_job(EXAMPLES / name, variables=values)
    assert (planned.target, first.status, second.status) == (first.target, "written", "unchanged")
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()} == files
    assert stateproc.open(first.target).verify().problems == ()
    return first


def _fixture(name: str) -> Fixture:
    return next(item for item in fixtures() if item.name == name)


def _offsets(snapshot: str) -> dict[int, int]:
    rows = stateproc.open(snapshot, uids=["orders-from-kafka"]).offsets().to_pylist()
    return {row["partition"]: row["offset"] for row in rows}


def test_reset_offsets(tmp_path: Path) -> None:
    report = _twice("reset-offsets.yaml", tmp_path, source=SHOP)
    before, after = _offsets(SHOP), _offsets(report.target)
    assert {**before, 0: 120, 1: -2} == after


def test_migration_from_1_13_to_2_3(tmp_path: Path) -> None:
    fixture = _fixture("1.13/tiny-rocksdb-canonical")
    uid = next(line["uid"] for line in fixture.expected())
    report = _twice("migrate-1.13-to-2.3.yaml", tmp_path, source=fixture.snapshot, uid=uid)
    found = stateproc.open(report.target, uids=[uid])
    assert found.metadata.version == 6
    assert {operator.max_parallelism for operator in found.operators} == {256}
    assert differences(fixture, found) == []


def test_purge_of_expired_state(tmp_path: Path) -> None:
    fixture = _fixture("1.20/chain-expiring/3-checkpoint-by-1")
    line = next(item for item in fixture.expected() if item["kind"] == "value")
    variables = {"uid": line["uid"], "state": line["state"], "checkpoints": str(Path(fixture.snapshot).parent)}

    def rows(snapshot: str) -> int:
        return len(stateproc.open(snapshot, uids=[line["uid"]]).state(line["uid"], line["state"]).to_arrow())

    kept = _twice("purge-expired.yaml", tmp_path, **variables, date="2020-01-01")
    newest = str(kept.inputs[0]["path"])
    checkpoints = [path.name for path in Path(fixture.snapshot).parent.glob("chk-*")]
    assert Path(newest).name == max(checkpoints, key=lambda name: int(name.removeprefix("chk-")))
    assert rows(kept.target) == rows(newest) > 0
    purged = _twice("purge-expired.yaml", tmp_path, **variables, date="2099-01-01")
    assert rows(purged.target) == 0
    assert (tmp_path / "latest").read_text() == f"{purged.target}\n"


def test_fork_of_a_job(tmp_path: Path) -> None:
    report = _twice("ab-fork.yaml", tmp_path, source=SHOP, variant="b", least=300)
    fork = stateproc.open(report.target, uids=["orders-per-customer-b", "orders-from-kafka"])
    assert set(fork.keys()) == {"orders-per-customer-b", "orders-from-kafka"}
    old = stateproc.open(SHOP, uids=["orders-per-customer"]).state("orders-per-customer", "profile").to_arrow()
    assert fork.state("orders-per-customer-b", "profile").to_arrow().equals(old)
    assert set(_offsets(report.target).values()) == {-3}


def test_a_changed_query(tmp_path: Path) -> None:
    folder = stateproc.bundled_snapshot("query")
    report = _twice("change-a-query.yaml", tmp_path, source=folder, plans=folder)
    before = stateproc.open(folder, plan=f"{folder}/old.json")
    after = stateproc.open(report.target, plan=f"{folder}/new.json")
    for old, new in (("4_group-aggregate", "22_group-aggregate"), ("13_group-aggregate", "31_group-aggregate")):
        rows = [one.state(uid, "accState").to_arrow() for one, uid in ((before, old), (after, new))]
        values = [[[*row["value"].values()] for row in table.to_pylist()] for table in rows]
        assert values[0] == values[1] and values[0]


def test_the_dag_calls_the_command_with_a_job_of_the_examples() -> None:
    text = (EXAMPLES / "airflow_dag.py").read_text(encoding="utf-8")
    compile(text, "airflow_dag.py", "exec")
    assert "stateproc run {JOB}" in text and "/nightly-bootstrap.yaml" in text


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_example_is_valid(file: Path) -> None:
    assert load_job(file).name
    assert json.dumps(load_job(file).document.value)
