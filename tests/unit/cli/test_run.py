"""``stateproc run``: exit statuses, the report as JSON, progress where there is no terminal."""

from __future__ import annotations

import io
import json
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from jsonschema import Draft202012Validator

import stateproc
from stateproc.cli import main
from stateproc.cli import write_output as write_bar
from stateproc.cli.commands import run as run_progress
from stateproc.errors import InvalidOption
from stateproc.storage.store import StorePath
from stateproc.writers.local.progress import WriteProgress, reported_progress
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
    run: Any = SimpleNamespace(
        job=SimpleNamespace(name="nightly"), target=str(tmp_path), target_path=StorePath(str(tmp_path))
    )
    with run_progress.run_progress("write", run, "local"):
        printed, deadline = "", time.monotonic() + 30
        while printed.count("\n") < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
            printed += capsys.readouterr().err
    lines = printed.splitlines()
    assert len(lines) >= 2
    assert all(re.match(r"nightly: writing: \d+ s, 2\.0 KiB written, ", line) for line in lines)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_shows_what_the_engine_has_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the source's bytes the part that was read, whatever the target's compression or format makes of them."""
    monkeypatch.setattr(write_bar, "BAR_SECONDS", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    out = Terminal()
    monkeypatch.setattr("sys.stderr", out)
    run: Any = SimpleNamespace(job=SimpleNamespace(name="nightly"), target="/out")
    with run_progress.run_progress("write", run, "local"):
        writing, copying = WriteProgress(), WriteProgress()
        with reported_progress(writing):
            writing.expect(1000)
            list(writing.written([pa.RecordBatch.from_pydict({"key": [1, 2, 3]})]))
            writing.done(250)
            assert writing.state().part == 0.25
        with reported_progress(copying):
            copying.expect_files(4000)
            copying.copied(3000)
            assert copying.state().part == 0.75
    shown = out.getvalue()
    assert "nightly: writing /out" in shown
    assert re.search(r"3 entries written, [\d,]+ entries/s, about \d+ s left", shown)
    assert re.search(r"1 file copied, [\d.]+ [KMG]iB/s, about \d+ s left", shown)


def test_the_bar_of_a_real_run(job: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(write_bar, "BAR_SECONDS", 0.001)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    out = Terminal()
    monkeypatch.setattr("sys.stderr", out)
    assert main(["run", job, "--json"]) == 0
    assert "entries written" in out.getvalue()
    assert json.loads(capsys.readouterr().out)["status"] == "written"


@pytest.mark.parametrize(
    ("sections", "arguments", "says"),
    [
        ("", ["--master", "local[1]"], "the master local[1] for the local engine"),
        ("engine: spark\n", ["--engine", "local", "--master", "local[1]"], "the master local[1] for the local engine"),
        (
            "sources: {t: {format: jdbc, url: 'jdbc:derby:x', table: t}}\n",
            ["--engine", "local"],
            "source 't' is jdbc, which needs Spark",
        ),
    ],
)
def test_engines_that_a_job_cannot_have(
    job: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, sections: str, arguments: list[str], says: str
) -> None:
    (tmp_path / job).write_text(JOB + sections, encoding="utf-8")
    run = _run(capsys, job, *arguments)
    assert (run.status, run.out) == (2, "")
    assert says in run.err


def test_the_engine_of_the_command_line_replaces_that_of_the_job(
    job: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / job).write_text(JOB + "engine: spark\n", encoding="utf-8")
    report = _run(capsys, job, "--engine", "local", "--json").checked("run")
    assert (report["status"], report["engine"]) == ("written", "local")
    with pytest.raises(InvalidOption, match="no engine is called 'flink'"):
        stateproc.run_job(job, engine="flink")
