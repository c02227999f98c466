"""Snapshots of jobs as people have them: every state has, row by row, what the job itself recorded."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from stateproc.errors import SnapshotError
from tests.helpers.cases import ExpectedState, compared_states, refused_states
from tests.helpers.command_runs import CommandRun, command_runner

DAMAGED = re.compile(r"damaged|take the snapshot again|from a copy")


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., CommandRun]:
    return command_runner(capfd, monkeypatch)


@pytest.mark.parametrize("expected", compared_states(), ids=str)
def test_python_reads_what_the_job_recorded(expected: ExpectedState) -> None:
    assert expected.differences(expected.python_rows()) == []


@pytest.mark.parametrize("expected", compared_states(), ids=str)
def test_the_command_line_reads_what_the_job_recorded(expected: ExpectedState, run: Callable[..., CommandRun]) -> None:
    assert expected.differences(run(*expected.arguments()).rows) == []


@pytest.mark.parametrize("expected", refused_states(), ids=str)
def test_a_state_that_cannot_be_read_is_refused_with_what_helps(expected: ExpectedState) -> None:
    refusal = expected.refusal
    assert refusal is not None
    with pytest.raises(SnapshotError) as caught:
        expected.python_rows()
    assert re.search(refusal["error"], caught.value.message), caught.value
    assert re.search(refusal["advice"], caught.value.advice or ""), caught.value
    assert not DAMAGED.search(str(caught.value))
