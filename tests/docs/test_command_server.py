"""Commands that a server runs do what the installed program does."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.helpers.command_server import command_server
from tests.helpers.document_runs import environment
from tests.helpers.paths import DEMO


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with command_server(tmp_path_factory.mktemp("commands")) as variables:
        yield variables


def _ended(line: str, folder: Path, variables: Mapping[str, str]) -> tuple[int, str, str]:
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment(variables), capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "line",
    [
        "stateproc --version",
        "exec stateproc demo --path",
        "stateproc read nowhere --uid a --state b",
        "stateproc no-such-command 2>&1",
        f"stateproc offsets {DEMO} 2>&1 | head -2",
        "mkdir -p deep && cd deep && COLUMNS=60 stateproc ls .",
        f"stateproc sql {DEMO} 'SELECT * FROM nothing' > rows 2> errors; echo $?; cat rows errors",
    ],
)
def test_a_fork_ends_as_a_process_does(line: str, tmp_path: Path, server: dict[str, str]) -> None:
    assert _ended(line, tmp_path, server) == _ended(line, tmp_path, {})


def test_an_unexpected_error_is_printed_with_its_traceback(tmp_path: Path, server: dict[str, str]) -> None:
    wrong = {"STATEPROC_KERNELS": "no such library"}
    ends = [_ended(f"stateproc inspect {DEMO}", tmp_path, wrong | variables) for variables in (server, {})]
    assert [(status, out, error.startswith("Traceback")) for status, out, error in ends] == [(1, "", True)] * 2
    assert len({error.splitlines()[-1] for _, _, error in ends}) == 1
