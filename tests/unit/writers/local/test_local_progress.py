"""Lines about the progress of a local write."""

from __future__ import annotations

import io
import logging
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stateproc import OperatorBootstrap, SavepointWriter
from stateproc.cli.progress import logged
from stateproc.writers.local import progress as module
from stateproc.writers.local.progress import LOGGER, WriteProgress, reported_progress

BATCH = pa.RecordBatch.from_pydict({"key": [1, 2, 3, 4]})


def wait_until(condition: Callable[[], Any]) -> None:
    """Wait until a condition is true, or for a time in which even a busy machine makes it so."""
    until = time.monotonic() + 60
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_SECONDS", 0.02)
    progress, out = WriteProgress(), Terminal()
    with reported_progress(progress, out):
        list(progress.written([BATCH, BATCH]))
        wait_until(out.getvalue)
    lines = out.getvalue().splitlines()
    assert lines and all(re.fullmatch(r"stateproc: 8 entries written, [\d,]+ entries/s", line) for line in lines)


def test_a_pipe_gets_nothing_and_the_log_lines(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_LOG_SECONDS", 0.02)
    progress, out = WriteProgress(), io.StringIO()
    with caplog.at_level(logging.INFO, LOGGER.name), reported_progress(progress, out):
        wait_until(lambda: caplog.messages)
    assert out.getvalue() == ""
    assert caplog.messages and caplog.messages[0].startswith("stateproc: 0 entries written")


@pytest.mark.parametrize(
    ("read", "written", "done", "left"),
    [
        (0, 1, 25, "about 30 s left"),  # a quarter is done
        (2, 0, 50, "about 30 s left"),  # half is read, nothing written
        (2, 1, 100, "about 3 s left"),  # all is read, half is written
        (2, 2, 100, "about 0 s left"),
    ],
)
def test_the_remaining_time(monkeypatch: pytest.MonkeyPatch, read: int, written: int, done: int, left: str) -> None:
    """Entries that are sorted on disk are half done when they are read."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    progress = WriteProgress()
    progress.expect(100)
    assert "left" not in progress.line()
    list(progress.read([BATCH] * read))
    list(progress.written([BATCH] * written))
    progress.done(done)
    now[0] += 10
    assert progress.line().endswith(left)
    progress.expect(None)
    assert "left" not in progress.line()


def test_a_short_write_reports_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = OperatorBootstrap().value_state("v", pa.table({"key": [1], "value": [2]}))
    SavepointWriter.new_savepoint(None).with_operator("op", state).write(tmp_path / "s")
    assert capsys.readouterr() == ("", "")


def test_the_command_line_prints_what_is_logged_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with logged(LOGGER):
        LOGGER.info("stateproc: 5 entries written")
    LOGGER.info("later")
    assert capsys.readouterr().err == "stateproc: 5 entries written\n"
