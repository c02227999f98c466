"""``stateproc bootstrap``: one state from files of every format, alone or beside the state of a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import stateproc
from stateproc.cli.definitions.writing import state_arguments
from stateproc.jobs.state_kinds import STATE_KINDS
from tests.helpers.command_runs import CommandRun
from tests.helpers.paths import DEMO, ROOT

Run = Callable[..., CommandRun]
ROWS = pa.table({"id": pa.array(range(50), pa.int64()), "name": [f"name {n}" for n in range(50)]})
NAMES = ["--uid", "customers", "--kind", "value", "--state", "name", "--key", "id", "--value", "name"]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A folder with the rows in every format."""
    folder = tmp_path / "rows"
    folder.mkdir()
    pyarrow.parquet.write_table(ROWS, folder / "rows.parquet")
    pyarrow.csv.write_csv(ROWS, folder / "rows.csv")
    (folder / "rows.jsonl").write_text("".join(f'{{"id": {n}, "name": "name {n}"}}\n' for n in range(50)))
    with pa.ipc.new_file(folder / "rows.arrow", ROWS.schema) as file:
        file.write_table(ROWS)
    deltalake.write_deltalake(folder / "delta", ROWS.slice(0, 7))
    deltalake.write_deltalake(folder / "delta", ROWS, mode="overwrite")
    return folder


def read(path: Path, uid: str = "customers", state: str = "name") -> dict[Any, Any]:
    found = stateproc.open(path, uids=[uid]).state(uid, state).to_arrow().to_pylist()
    return {row["key"]: row["value"] for row in found}


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv", "rows.jsonl", "rows.arrow", "delta"])
def test_each_format_fills_a_state(run_command: Run, rows: Path, tmp_path: Path, name: str) -> None:
    line = ["bootstrap", str(rows / name), str(tmp_path / "t"), *NAMES, "--max-parallelism", "64", "--parallelism", "3"]
    plan = run_command(*line, "--plan", "--json").checked("plan")
    assert not (tmp_path / "t").exists() and plan["source"] is None
    assert [(it["action"], it["parallelism"], it["max_parallelism"]) for it in plan["operators"]] == [("added", 3, 64)]
    report = run_command(*line, "--json").checked("write")
    assert (report["entries"], report["engine"]) == (50, "local")
    assert read(tmp_path / "t") == {n: f"name {n}" for n in range(50)}


def test_a_version_and_a_query(run_command: Run, rows: Path, tmp_path: Path) -> None:
    line = ["bootstrap", str(rows / "delta"), str(tmp_path / "t"), *NAMES[:-2], "--version", "0", "--value", "shout"]
    found = run_command(*line, "--sql", "SELECT id, upper(name) AS shout FROM rows WHERE id > 4")
    assert found.status == 0, found.err
    assert read(tmp_path / "t") == {5: "NAME 5", 6: "NAME 6"}


def test_a_state_is_added_to_an_operator_of_a_snapshot(run_command: Run, rows: Path, tmp_path: Path) -> None:
    uid = "orders-per-customer"
    line = ["bootstrap", str(rows / "rows.csv"), str(tmp_path / "t"), "--base", str(DEMO), "--extend", "--uid", uid]
    assert "the operator has keys already" in run_command(*line, *NAMES[2:]).err
    state = ["--kind", "value", "--state", "name", "--value", "name", "--sql", "SELECT id AS key, name FROM rows"]
    found = run_command(*line, *state, "--json")
    report = found.checked("write")
    actions = {state["name"]: state["action"] for it in report["operators"] for state in it["states"]}
    assert actions["name"] == "added" and actions["profile"] == "carried over"
    assert read(tmp_path / "t", uid) == {n: f"name {n}" for n in range(50)}
    assert stateproc.open(tmp_path / "t", uids=[uid]).state(uid, "profile").to_arrow().num_rows == 300


def test_an_operator_of_a_snapshot_is_replaced(run_command: Run, rows: Path, tmp_path: Path) -> None:
    line = ["bootstrap", str(rows / "rows.csv"), str(tmp_path / "t"), "--base", str(DEMO), "--plan", "--json"]
    plan = run_command(*line, "--uid", "orders-per-customer", *NAMES[2:]).checked("plan")
    assert sorted(it["action"] for it in plan["operators"]) == ["carried over", "carried over", "replaced"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--uid", "u", "--kind", "value", "--value", "name", "--key", "id"], "a value state without a name"),
        ([*NAMES, "--map-key", "id"], "value states have no --map-key"),
        ([*NAMES[:-1], "nam"], "no column 'nam'"),
        ([*NAMES, "--format", "delta"], ""),
        ([*NAMES, "--max-parallelism", "99999"], "max_parallelism"),
        ([*NAMES, "--sql", "DROP TABLE rows"], "one SELECT"),
    ],
)
def test_errors_write_nothing(run_command: Run, rows: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    found = run_command("bootstrap", str(rows / "rows.parquet"), str(tmp_path / "t"), *arguments)
    assert found.status in (2, 3) and message in found.err and not (tmp_path / "t").exists()


def test_a_file_of_an_unknown_format_is_refused(run_command: Run, tmp_path: Path) -> None:
    found = run_command("bootstrap", str(tmp_path / "rows.xyz"), str(tmp_path / "t"), *NAMES)
    assert found.status == 2 and "give --format" in found.err
    arrow = run_command("bootstrap", "rows.arrow", str(tmp_path / "t"), *NAMES, "--engine", "spark")
    assert arrow.status == 2 and "Spark does not read Arrow files" in arrow.err


def test_every_argument_of_the_kinds_is_one_of_the_command() -> None:
    assert set(state_arguments()) == {name for kind in STATE_KINDS.values() for name in kind.arguments}
    page = (ROOT / "docs/commands/bootstrap.md").read_text(encoding="utf-8")
    assert [kind for kind in STATE_KINDS if f"`{kind}`" not in page] == []
    assert [name for name in state_arguments() if "--" + name.replace("_", "-") not in page] == []
