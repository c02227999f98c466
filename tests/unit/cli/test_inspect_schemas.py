"""What ``inspect``, ``offsets`` and ``pending`` print as JSON fits the schemas in the package."""

from __future__ import annotations

import json
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from stateproc.cli import main
from tests.helpers.document_runs import unpack_connector_savepoints
from tests.helpers.fixtures import Fixture, newest_fixtures
from tests.helpers.paths import DEMO, FIXTURES

SWEPT = newest_fixtures()


def validator(name: str) -> Draft202012Validator:
    schema = json.loads((files("stateproc.cli") / "json_schemas" / f"{name}.json").read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.fixture()
def run(capfd: pytest.CaptureFixture[str]) -> Any:
    def runner(*arguments: str) -> tuple[int, str]:
        status = main(arguments)
        sys.stdout.flush()
        return status, capfd.readouterr().out

    return runner


@pytest.mark.exhaustive
@pytest.mark.parametrize("fixture", SWEPT, ids=lambda fixture: fixture.name)
def test_every_kind_fits(run: Any, fixture: Fixture) -> None:
    validator("inspect").validate(json.loads(run("inspect", fixture.snapshot, "--json")[1]))
    status, printed = run("inspect", "--rocksdb", fixture.snapshot, "--json")
    if status == 0:
        validator("inspect-rocksdb").validate(json.loads(printed))


@pytest.mark.parametrize("name", ["1.20/kitchen-rocksdb-incremental", "1.20/many-states-hashmap-checkpoint"])
def test_reports_fit(run: Any, name: str) -> None:
    path = _path(name)
    validator("inspect").validate(json.loads(run("inspect", path, "--json")[1]))
    validator("inspect").validate(json.loads(run("inspect", path, "--json", "--min-bytes", "2kB")[1]))


def test_rocksdb_fits_with_an_earlier_checkpoint(run: Any) -> None:
    path = _path("1.20/kitchen-rocksdb-incremental")
    for since in ([], ["--since", path]):
        status, printed = run("inspect", "--rocksdb", path, "--json", *since)
        assert status == 0
        validator("inspect-rocksdb").validate(json.loads(printed))


def test_offsets_fit(run: Any) -> None:
    status, printed = run("offsets", str(DEMO), "--json")
    rows = [json.loads(line) for line in printed.splitlines()]
    assert status == 0 and len(rows) == 6
    for row in rows:
        validator("offsets").validate(row)


def test_pending_fits(run: Any, tmp_path: Path) -> None:
    unpack_connector_savepoints(tmp_path)
    for name in ("filesink-1.20", "iceberg-1.10.0", "legacy-jdbc-xa-legacy", "sql-filesystem-compact-1.20"):
        status, printed = run("pending", str(tmp_path / name), "--json")
        rows = [json.loads(line) for line in printed.splitlines()]
        assert status == 0 and rows
        for row in rows:
            validator("pending").validate(row)
    assert run("pending", str(tmp_path / "filesource-1.20"))[0] == 1


def _path(name: str) -> str:
    return str(FIXTURES / name / "snapshot")
