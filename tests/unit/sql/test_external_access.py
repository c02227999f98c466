"""What statements may do besides reading states: as docs/commands/sql.md says, all that DuckDB may, or nothing."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest

import stateproc
from stateproc.cli import main
from stateproc.errors import InvalidOption
from stateproc.sql import SqlCatalog, SqlDatabase
from tests.helpers.fixtures import FIXTURES

DEMO = str(FIXTURES / "1.20/demo/snapshot")
STATEMENTS = [
    "SELECT * FROM '{folder}/a.csv'",
    "SELECT key FROM profile WHERE key IN (SELECT x FROM '{folder}/a.csv')",
    "SELECT * FROM read_text('{folder}/a.csv')",
    "SELECT * FROM glob('{folder}/*')",
    "COPY (SELECT key FROM profile LIMIT 1) TO '{folder}/b.csv'",
    "ATTACH '{folder}/other.db' AS other",
    "EXPORT DATABASE '{folder}/export'",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text("x\n1\n")
    return tmp_path


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_reach_files_by_default(statement: str, folder: Path) -> None:
    database = stateproc.open(DEMO).sql_database(threads=1)
    database.run(statement.format(folder=folder)).reader().read_all()
    database.close()


@pytest.mark.parametrize(
    "statement",
    [
        *STATEMENTS,
        "LOAD httpfs",
        "INSTALL httpfs",
        "SELECT * FROM 'https://127.0.0.1:1/a.csv'",
        "SET enable_external_access = true",
        "RESET enable_external_access",
        "SET lock_configuration = false",
    ],
)
def test_without_external_access_they_reach_the_snapshot_only(statement: str, folder: Path) -> None:
    database = stateproc.open(DEMO).sql_database(threads=1, external_access=False)
    before = sorted(folder.iterdir())
    with pytest.raises(InvalidOption):
        database.run(statement.format(folder=folder)).reader().read_all()
    assert sorted(folder.iterdir()) == before
    assert database.run("SELECT count(*) AS n FROM profile WHERE key = 42").reader().read_all().to_pylist() == [
        {"n": 1}
    ]
    database.close()


def test_the_command_without_external_access(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", DEMO, f"SELECT x FROM '{folder}/a.csv'"]) == 0
    assert capsys.readouterr().out == '{"x": 1}\n'
    assert main(["sql", DEMO, "--no-external-access", f"SELECT x FROM '{folder}/a.csv'"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert "Traceback" not in err
    assert main(["sql", DEMO, "--no-external-access", "SELECT key FROM profile WHERE key = 42"]) == 0
    assert capsys.readouterr().out == '{"key": 42}\n'


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT", "SELECT nope FROM profile", "SELECT * FROM nope", "SELECT nope(key) FROM profile", "SELECT key FROM",
        "SELECT key FROM profile WHERE key = 'x'", "SELECT sum(key) FROM profile WHERE sum(key) > 1", "LOAD nope",
        "SELECT CAST('x' AS INT)", "SELECT 1; SELECT 2", "", "PRAGMA nope", "SELECT 'open",
    ],
)  # fmt: skip
def test_a_wrong_statement_is_one_error(
    statement: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "sqlglot"):
        assert main(["sql", DEMO, statement]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert "Traceback" not in err
    assert "Stack Trace" not in err
    assert not caplog.records


def test_instants_in_text_are_in_utc_whatever_the_time_zone_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    rows = pa.table({"at": pa.array([0], pa.timestamp("us", "UTC"))})
    database = SqlDatabase(SqlCatalog([], stateproc.open(DEMO).operator, {"data": lambda: rows}), threads=1)
    found = database.run("SELECT at, CAST(at AS VARCHAR) AS text FROM data WHERE at = '1970-01-01 00:00:00'").reader()
    assert found.schema.field("at").type == pa.timestamp("us", "UTC")
    assert found.read_all()["text"].to_pylist() == ["1970-01-01 00:00:00+00"]
    database.close()
