"""``stateproc changes`` on chains of snapshots that Flink wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet
import pytest

import stateproc
from tests.helpers.command_runs import CommandRun
from tests.helpers.fixtures import FIXTURES, fixtures_in

Run = Callable[..., CommandRun]
CHAIN = [member.snapshot for member in fixtures_in(FIXTURES / "1.20/chain-rescaled")]
RUNS = str(FIXTURES / "1.20/chain-rescaled/snapshot")
TOTALS = ["--uid", "chain", "--state", "totals"]


@pytest.fixture
def run(run_command: Run) -> Run:
    return lambda *arguments: run_command("changes", *arguments)


def test_rows_between_two_snapshots(run: Run) -> None:
    done = run(CHAIN[1], CHAIN[2], "--uid", "chain", "--state", "sum", "--where", "key = 'kéy-7000021'")
    assert done.rows == [
        {
            "key_group": 41,
            "key": "kéy-7000021",
            "value": value,
            "_change_type": kind,
            "_commit_version": 3,
            "_commit_timestamp": "1970-01-01T00:00:00Z",
        }
        for kind, value in (("update_preimage", 3014), ("update_postimage", 6021))
    ]


def test_a_range_of_checkpoints_step_by_step_and_net(run: Run) -> None:
    rows = {}
    for mode in ("steps", "net"):
        done = run(RUNS, "--from", "chk-3", "--to", "6", "--mode", mode, *TOTALS, "--columns", "_commit_version")
        rows[mode] = [row["_commit_version"] for row in done.rows]
    assert set(rows["steps"]) == {5, 6}  # nothing changed between the savepoint 3 and the restored 4
    assert set(rows["net"]) == {6}
    assert len(rows["net"]) < len(rows["steps"])


def test_a_summary_counts_the_changes_of_each_checkpoint(run: Run) -> None:
    out = run(RUNS, *TOTALS, "--to", "3", "--summary").out
    assert [line.split() for line in out.splitlines() if "chk-" in line] == [
        ["1", "chk-1", "1970-01-01", "00:00:00", "+15", "0", "0"],
        ["2", "chk-2", "1970-01-01", "00:00:00", "0", "~8", "-3"],
        ["3", "chk-3", "1970-01-01", "00:00:00", "+3", "~9", "0"],
    ]
    assert out.splitlines()[-2].split() == ["in", "all", "+18", "~17", "-3"]


def test_json_is_as_its_schema_says(run: Run) -> None:
    report = run(RUNS, *TOTALS, "--from", "1", "--to", "2", "--json").checked("changes")
    assert report == {
        "operator": "chain",
        "state": "totals",
        "commits": [
            {
                "version": 2,
                "timestamp": "1970-01-01T00:00:00Z",
                "path": CHAIN[1],
                "inserted": 0,
                "updated": 8,
                "deleted": 3,
            }
        ],
    }


def test_rows_are_written_with_the_types_of_the_state(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "changes.parquet"
    done = run(CHAIN[0], CHAIN[-1], "--uid", "chain", "--state", "entries", "--output", str(file))
    assert (done.status, done.out) == (0, "")
    table = pyarrow.parquet.read_table(file)
    feed = stateproc.changes(CHAIN[0], CHAIN[-1], "chain", "entries")
    assert table.num_rows == len(feed.to_arrow()) > 0
    assert done.err.startswith(f"{table.num_rows} rows to {file}")
    assert table.schema.names == feed.schema().names


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([RUNS, *TOTALS, "--from", "30"], "error: checkpoint 30 does not exist below"),
        ([RUNS, *TOTALS, "--from", "30"], "→ completed are: 1-9"),
        ([RUNS, *TOTALS, "--from", "3", "--to", "1"], "→ start at 1 and end at 3"),
        ([CHAIN[3], CHAIN[0], *TOTALS], "→ exchange them"),
        ([RUNS, *TOTALS, "--from", "soon"], "--starting-checkpoint soon"),
        ([CHAIN[0], CHAIN[1], *TOTALS, "--from", "1"], "checkpoint ids do not go with a snapshot"),
        ([RUNS, "--uid", "chain"], "--state is missing for operator 'chain'"),
        ([RUNS, "--uid", "nobody", "--state", "totals"], "no operator with uid, uid hash or name 'nobody'"),
        ([RUNS, "--uid", "chain", "--state", "total"], "did you mean 'totals'?"),
        ([RUNS, *TOTALS, "--summary", "--format", "csv"], "--summary and --json count changes"),
    ],
)
def test_usage_errors_exit_with_2_and_advice(arguments: list[str], says: str, run: Run) -> None:
    done = run(*arguments)
    assert done.status == 2
    assert says in done.err


def test_a_missing_snapshot_exits_with_3(run: Run) -> None:
    done = run(CHAIN[0], CHAIN[0] + "9", *TOTALS)
    assert done.status == 3
