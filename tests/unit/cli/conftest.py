"""Run commands in this process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.helpers.command_runs import CommandRun, command_runner


@pytest.fixture
def run_command(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., CommandRun]:
    """Run a command as into a pipe."""
    return command_runner(capfd, monkeypatch)
