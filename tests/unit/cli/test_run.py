"""``stateproc run``: exit statuses, the report as JSON, progress where there is no terminal."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import stateproc
from stateproc.cli import main, run_progress
from tests.helpers.command_runs import CommandRun

SHOP = stateproc.bundled_snapshot("shop")
JOB = f"""\
job: drop-profiles
base: {{path: {SHOP}, open: {{uids: [orders-per-customer]}}}}
variables: {{state: profile, least: 1}}
changes:
  - drop-state: {{uid: orders-per-customer, state: ["${{state}}"]}}
target: {{path: "out/dropped-{{run_id}}"}}
checks:
  - {{state: spent-per-product, uid: orders-per-customer, min: "${{least}}"}}
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(JOB, encoding="utf-8")
    return "job.yaml"


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> CommandRun:
    status = main(["run", *arguments])
    printed = capsys.readouterr()
    return CommandRun(status, printed.out, printed.err)


def test_plan_apply_and_repeat(
    job: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = _run(capsys, job, "--plan", "--json").checked("run")
    assert (plan["status"], plan["checks"][0]["passed"]) == ("planned", None)
    assert not (tmp_path / "out").exists()
    # Print as wide as to a pipe: test runners set COLUMNS.
    monkeypatch.delenv("COLUMNS", raising=False)
    shown = _run(capsys, job, "--plan")
    assert shown.status == 0 and f"\ntarget: {plan['target']}\n" in shown.out
    assert "plan: nothing was written" in shown.out and "profile value" in shown.out
    assert "nothing is written yet" in shown.out
    written = _run(capsys, job, "--json").checked("run")
    assert (written["status"], written["target"]) == ("written", plan["target"])
    again = _run(capsys, job)
    assert again.status == 0
    assert "nothing to do: this job has written the target already, from the same inputs" in again.out
    assert _run(capsys, job, "--json").checked("run")["status"] == "unchanged"


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["--set", "least=301"], 1, "a check failed"),
        (["--set", "state=profil"], 2, "did you mean 'profile'?"),
        (["--set", "least=many"], 2, "line 8: 'many' is not a whole number"),
        (["--set", "unknown=1"], 2, "no variable 'unknown'"),
        (["--set", "least"], 2, "give NAME=VALUE"),
    ],
)
def test_exit_statuses(
    job: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], status: int, says: str
) -> None:
    run = _run(capsys, job, *arguments)
    assert (run.status, run.out) == (status, "")
    assert says in run.err
    assert list(tmp_path.rglob("out/*")) == []


def test_a_source_that_cannot_be_read_is_3_and_the_report_is_printed(
    job: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / job).write_text(JOB.replace(SHOP, "/nowhere/at/all"), encoding="utf-8")
    run = _run(capsys, job, "--json")
    assert run.status == 3
    assert run.checked("run")["status"] == "failed"


def test_the_schema_of_jobs_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    Draft202012Validator.check_schema(json.loads(_run(capsys, "--schema").out))
    assert _run(capsys).status == 2


def test_lines_instead_of_a_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(run_progress, "LINE_SECONDS", 0.05)
    (tmp_path / "file").write_bytes(bytes(2048))
    run: Any = SimpleNamespace(job=SimpleNamespace(name="nightly"), target=str(tmp_path), target_options={})
    with run_progress.run_progress("write", run, None):
        time.sleep(0.3)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) >= 2
    assert all(line.startswith("nightly: writing: 0 s, 2.0 KiB written, ") for line in lines)
