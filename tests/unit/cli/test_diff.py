"""``stateproc diff`` on chains of snapshots that Flink wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from stateproc.cli import main
from tests.helpers.fixtures import FIXTURES, fixtures_in
from tests.helpers.paths import ROOT

CHAIN = [member.snapshot for member in fixtures_in(FIXTURES / "1.20/chain-rocksdb")]
EARLIER, LATER, CHECKPOINT, CANONICAL, NATIVE = CHAIN[2], CHAIN[3], *CHAIN[-3:]
UIDS = ["--uids", "chain,chain-ttl"]
CHANGED = [EARLIER, LATER, *UIDS, "--uid", "chain"]


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(["diff", *arguments])
    return status, capsys.readouterr().out


def test_equal_snapshots_of_other_formats_exit_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    status, out = ran(capsys, CHECKPOINT, CANONICAL)
    assert status == 0
    assert "equal: 472 entries in 16 states of 3 operators" in out


def test_different_snapshots_exit_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    status, out = ran(capsys, *CHANGED)
    assert status == 1
    assert "different: 42 added, 29 removed, 42 changed, 103 equal" in out
    assert "totals" in out and "+14" in out


def test_a_summary_has_one_line_per_operator(capsys: pytest.CaptureFixture[str]) -> None:
    _, out = ran(capsys, *CHANGED, "--summary")
    assert "8 of 8 differ" in out
    assert "totals" not in out


def test_rows_are_shown_before_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    _, out = ran(capsys, *CHANGED, "--state", "sum", "--rows", "1")
    assert "kéy-10000030   3010     7020" in out
    assert "9 more in sum" in out


def test_json_is_as_its_schema_says(capsys: pytest.CaptureFixture[str]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "stateproc/cli/json_schemas/diff.json").read_text())
    for arguments in (CHANGED, [*CHANGED, "--rows", "3"], [CHECKPOINT, NATIVE]):
        _, out = ran(capsys, *arguments, "--json")
        jsonschema.Draft202012Validator(schema).validate(json.loads(out))
    _, out = ran(capsys, *CHANGED, "--state", "sum", "--rows", "1", "--json")
    (state,) = json.loads(out)["operators"][0]["states"]
    assert state["entries"]["updated"] == 9
    assert state["changes"] == [{"change": "update", "key": "kéy-10000030", "before": 3010, "after": 7020}]


def test_all_changed_rows_of_a_state_are_written_with_their_types(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "changes.parquet"
    assert ran(capsys, *CHANGED, "--state", "totals", "--output", str(file))[0] == 1
    table = pyarrow.parquet.read_table(file)
    assert table.schema.names == ["_change_type", "operator", "state", "key_group", "key", "value"]
    kinds = table.column("_change_type").to_pylist()
    assert {kind: kinds.count(kind) for kind in kinds} == {"update_preimage": 9, "update_postimage": 9, "insert": 1}
    assert table.column("value").to_pylist()[1].keys() == {"count", "last", "sum"}
    assert set(table.column("operator").to_pylist()) == {"chain"}


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_all_changed_rows_of_several_states_are_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, suffix: str
) -> None:
    file = tmp_path / f"changes.{suffix}"
    ran(capsys, *CHANGED, "--output", str(file))
    rows: list[dict[str, Any]]
    if suffix == "jsonl":
        rows = [json.loads(line) for line in file.read_text().splitlines()]
    else:
        rows = pyarrow.parquet.read_table(file).to_pylist()
        assert all(json.loads(row["key"]) for row in rows)
    assert len(rows) == 42 + 29 + 2 * 42
    assert {row["state"] for row in rows} >= {"text", "items", "entries", "sum", "event timers"}


def test_an_operator_that_neither_has_is_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(capsys, EARLIER, LATER, "--uid", "nobody")[0] == 2
    assert ran(capsys, *CHANGED, "--state", "nothing")[0] == 2


def test_a_snapshot_that_does_not_exist_is_unreadable(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert ran(capsys, EARLIER, str(tmp_path / "missing"))[0] == 3
