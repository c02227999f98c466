"""``stateproc export``: exit statuses, the table, and the JSON that its schema describes."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

from stateproc.cli import main
from tests.helpers.fixtures import FIXTURES, unknown_type_fixtures

DEMO = str(FIXTURES / "1.20/demo/snapshot")
SCHEMA = json.loads((files("stateproc") / "cli/json_schemas/export.json").read_text())


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print as wide as to a pipe: test runners set COLUMNS."""
    monkeypatch.delenv("COLUMNS", raising=False)


def test_the_table_shows_rows_and_totals(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["export", DEMO, "-o", str(tmp_path / "out"), "--uids", "orders-per-customer"]) == 0
    out, err = capfd.readouterr()
    assert "orders-per-customer" in out and "profile" in out and "offsets" in out
    assert "1,321 rows" in out and "9 files of parquet" in out
    assert err == ""


def test_json_is_the_manifest(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["--format", "csv", "--partition-by-key-groups", "2", "--json"]
    assert main(["export", DEMO, "-o", str(tmp_path / "out"), *arguments]) == 0
    printed = json.loads(capfd.readouterr().out)
    jsonschema.validate(printed, SCHEMA)
    assert printed == json.loads((tmp_path / "out/manifest.json").read_text())
    assert printed["settings"]["key_group_ranges"] == 2


def test_unreadable_states_are_listed_and_the_status_is_1(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fixture = unknown_type_fixtures("hashmap-canonical")[0]
    assert main(["export", fixture.snapshot, "-o", str(tmp_path / "out"), "--json"]) == 1
    out, err = capfd.readouterr()
    printed = json.loads(out)
    jsonschema.validate(printed, SCHEMA)
    assert printed["status"] == "partial"
    assert "not exported:" in err


def test_usage_errors(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    assert main(["export", DEMO, "-o", out, "--state", "profil"]) == 2
    assert "did you mean 'profile'" in capfd.readouterr().err
    assert main(["export", DEMO, "-o", out, "--partition-by-key-groups", "0"]) == 2
    with pytest.raises(SystemExit):
        main(["export", DEMO])
