"""Run commands in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from stateproc.cli import main
from tests.helpers.command_runs import CommandRun


@pytest.fixture
def run_command(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., CommandRun]:
    """Run a command as into a pipe: test runners set COLUMNS."""
    monkeypatch.delenv("COLUMNS", raising=False)

    def runner(*arguments: str) -> CommandRun:
        status = main(arguments)
        sys.stdout.flush()
        return CommandRun(status, *capfd.readouterr())

    return runner
