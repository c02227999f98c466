"""What ``inspect`` shows of many operators: order, folding, summary and the least size."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stateproc.cli import main
from tests.helpers.paths import FIXTURES
from tests.helpers.sql_job import AGGREGATE, DEDUPLICATE, JOIN, RANK, SQL, WINDOW, renamed

Inspect = Callable[..., str]


@pytest.fixture()
def inspect(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Inspect:
    def run(path: Path, *arguments: str, columns: int = 140, status: int = 0) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        assert main(["inspect", str(path), *arguments]) == status
        out, err = capfd.readouterr()
        return out if status == 0 else err

    return run


def test_the_largest_operators_and_states_come_first(inspect: Inspect) -> None:
    report = json.loads(inspect(SQL, "--json"))
    sizes = {operator["uid_hash"]: operator["bytes"] for operator in report["operators"] if operator["states"]}
    out = inspect(SQL)
    shown = sorted(sizes, key=lambda item: out.index(item))
    assert [sizes[item] for item in shown] == sorted(sizes.values(), reverse=True)
    window = out[out.index(WINDOW) :]
    assert window.index("window-aggs") < window.index("event timers") < window.index("watermark")


def test_operators_without_state_share_one_line(inspect: Inspect, tmp_path: Path) -> None:
    stateless = "60ad15c2138de97bf8210462790523dc"
    path = renamed(tmp_path, {stateless: "14_calc"})
    (line,) = [line for line in inspect(path).splitlines() if "without state" in line]
    assert line.startswith("23 operators without state: 14_calc, d39ee742, ")
    assert len(line) <= 140 and line.endswith("…")
    # One that is asked for is shown.
    assert "14_calc" in inspect(path, "--uid", "14_calc") and "without state" not in inspect(path, "--uid", "14_calc")


@pytest.mark.parametrize("columns", [80, 140])
def test_the_summary_has_one_line_per_operator(inspect: Inspect, tmp_path: Path, columns: int) -> None:
    path = renamed(tmp_path, {AGGREGATE: "6_group-aggregate"})
    out = inspect(path, "--summary", columns=columns)
    assert all(len(line) <= columns for line in out.splitlines())
    rows = [line.split() for line in out.splitlines() if line.startswith(" ") and "KiB" in line]
    names = [row[0] for row in rows]
    assert names == (["6_group-aggregate"] if columns == 140 else [rows[0][0]]) + [
        item[:8] for item in (RANK, WINDOW, JOIN, DEDUPLICATE)
    ]
    assert {"2", "5", "14", "15.4", "KiB", "1.0×"} <= set(rows[0])


def test_unreadable_operators_are_marked(inspect: Inspect) -> None:
    out = inspect(FIXTURES / "1.20/many-states-hashmap-checkpoint/snapshot", "--summary")
    assert "✗ 6a29a41a" in out and "52 states (42 unreadable)" in out


def test_small_states_and_operators_are_left_out(inspect: Inspect) -> None:
    full = json.loads(inspect(SQL, "--json"))
    report = json.loads(inspect(SQL, "--json", "--min-bytes", "1KB"))
    states = [state for operator in report["operators"] for state in operator["states"]]
    assert states and all(state["bytes"] >= 1024 for state in states)
    assert report["hidden"]["operators"] == len(full["operators"]) - len(report["operators"]) == 23
    kept = {operator["uid_hash"] for operator in report["operators"]}
    of_kept = sum(len(operator["states"]) for operator in full["operators"] if operator["uid_hash"] in kept)
    assert report["hidden"]["states"] == of_kept - len(states) > 0
    assert (report["state_count"], report["operator_count"]) == (full["state_count"], full["operator_count"])
    assert "not shown: 23 operators and" in inspect(SQL, "--min-bytes", "1KB")


def test_unreadable_states_are_shown_whatever_their_size(inspect: Inspect) -> None:
    path = FIXTURES / "1.20/many-states-hashmap-canonical/snapshot"
    report = json.loads(inspect(path, "--json", "--min-bytes", "1GB"))
    problems: list[Any] = [state["problem"] for operator in report["operators"] for state in operator["states"]]
    assert len(problems) == 2 and all(problems)


@pytest.mark.parametrize("command", ["inspect", "describe"])
def test_names_do_not_control_the_terminal(
    command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    uid = "join\x1b[2J\x07"
    path = renamed(tmp_path, {JOIN: uid})
    arguments = [command, str(path), "--uids", uid, *(["--uid", uid] if command == "describe" else ["--summary"])]
    for terminal in (False, True):
        monkeypatch.setattr("sys.stdout.isatty", lambda terminal=terminal: terminal)
        assert main(arguments) == 0
        out = capfd.readouterr().out
        assert "join\\x1b[2J" in out and "\x1b[2J" not in out and "\x07" not in out


@pytest.mark.parametrize("size", ["-1", "0", "many", "10XB"])
def test_a_size_that_is_none_is_refused(inspect: Inspect, size: str) -> None:
    assert "--min-bytes" in inspect(SQL, f"--min-bytes={size}", status=2)
