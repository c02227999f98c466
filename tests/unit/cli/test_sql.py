"""``stateproc sql``: formats, errors, the prompt."""

from __future__ import annotations

import io
import json
import sys
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import jsonschema
import pyarrow.parquet
import pytest

import stateproc
from stateproc.cli import main
from stateproc.cli.commands.sql import SqlPrompt
from tests.helpers.fixtures import FIXTURES

DEMO = str(FIXTURES / "1.20/demo/snapshot")
QUERY = "SELECT key, value.total FROM profile WHERE key IN (42, 7) ORDER BY key"


def test_formats(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = [{"key": 7, "total": 233.25}, {"key": 42, "total": 259.5}]
    assert main(["sql", DEMO, QUERY]) == 0
    assert [json.loads(line) for line in capfd.readouterr().out.splitlines()] == rows
    assert main(["sql", DEMO, "--uids", "orders-per-customer", QUERY, "--json"]) == 0
    printed = json.loads(capfd.readouterr().out)
    assert printed == rows
    jsonschema.validate(printed, json.loads((files("stateproc") / "cli/json_schemas/sql.json").read_text()))
    assert main(["sql", DEMO, QUERY, "--format", "csv"]) == 0
    assert capfd.readouterr().out == "key,total\n7,233.25\n42,259.5\n".replace("\n", "\r\n")
    assert main(["sql", DEMO, QUERY, "--output", str(tmp_path / "rows.parquet")]) == 0
    assert pyarrow.parquet.read_table(tmp_path / "rows.parquet").to_pylist() == rows
    assert main(["sql", DEMO, "SELECT 1 AS x WHERE false", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == []


def test_a_table_has_few_rows(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", DEMO, "SELECT key FROM profile", "--format", "table", "--limit", "3"]) == 0
    out, err = capfd.readouterr()
    assert len(out.strip().splitlines()) == 5
    assert "the first 3 rows" in err


def test_the_query_is_read_from_a_pipe(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT count(*) AS n FROM profile;"))
    assert main(["sql", DEMO]) == 0
    assert json.loads(capfd.readouterr().out) == {"n": 300}


def test_errors(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", DEMO, "SELECT nokey FROM profile"]) == 2
    assert "nokey" in capfd.readouterr().err
    assert main(["sql", DEMO, "SELECT * FROM orders-per-customer.profile"]) == 2
    assert "quotes" in capfd.readouterr().err
    with pytest.raises(SystemExit):
        main(["sql"])


def test_the_prompt(capfd: pytest.CaptureFixture[str]) -> None:
    with closing(stateproc.open(DEMO).sql_database()) as database:
        prompt = SqlPrompt(database, "jsonl", None, DEMO)
        for line in (".tables", "SELECT count(*) AS n", "FROM profile;", ".schema profile", "SELECT 1 +;", ".help"):
            assert prompt.accept(line)
        assert not prompt.accept(".quit")
    out, err = capfd.readouterr()
    assert (
        '"profile"' in out and "offsets" in out and '{"n": 300}' in out and '"BIGINT"' in out and ".schema TABLE" in out
    )
    assert "error:" in err and "1 row\n" in err
