"""Completion in a real bash: its function is called as the shell calls it when Tab is pressed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import stateproc
from stateproc.cli import main
from tests.helpers.paths import FIXTURES
from tests.helpers.sql_job import AGGREGATE, JOIN, SQL, renamed

DEMO = str(FIXTURES / "1.20/demo/snapshot")
_BASH = """
eval "$2"
COMP_LINE="$1" COMP_POINT=${#1} COMP_TYPE=9 COMP_KEY=9
_python_argcomplete stateproc
for word in "${COMPREPLY[@]}"; do printf '%s\\n' "$word"; done
"""
Complete = Callable[..., list[str]]


@cache
def _code() -> str:
    """Return what `stateproc completion bash` prints."""
    command = [sys.executable, "-m", "stateproc", "completion", "bash"]
    environment = {**os.environ, "PYTHONPATH": str(Path(stateproc.__file__).parent.parent)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.fixture()
def complete(tmp_path: Path) -> Complete:
    """Return a function from a command line to the words that bash proposes at its end."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    program = tmp_path / "bin" / "stateproc"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m stateproc "$@"\n')
    program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(stateproc.__file__).parent.parent),
    }

    def run(line: str, folder: Path = tmp_path) -> list[str]:
        ran = subprocess.run(
            [bash, "--norc", "-c", _BASH, "bash", line, _code()],
            env=environment, cwd=folder, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        return [word.strip() for word in ran.stdout.splitlines()]

    return run


@pytest.mark.processes
def test_commands_and_options_are_completed(complete: Complete) -> None:
    assert "inspect" in complete("stateproc in")
    assert complete("stateproc read --on-err") == ["--on-error"]
    assert set(complete("stateproc read --timers ")) == {"event", "processing"}


@pytest.mark.processes
def test_paths_are_completed(complete: Complete, tmp_path: Path) -> None:
    (tmp_path / "savepoint-4f1b").mkdir()
    assert complete("stateproc inspect savep") == ["savepoint-4f1b/"]
    # Values that are no paths are not completed with paths.
    assert complete("stateproc read x --where savep") == []


@pytest.mark.processes
def test_uids_and_hashes_are_completed(complete: Complete, tmp_path: Path) -> None:
    path = renamed(tmp_path, {AGGREGATE: "6_group-aggregate"})
    assert complete(f"stateproc read {path} --uid 6_g") == ["6_group-aggregate"]
    assert complete(f"stateproc read {path} --uid-hash 71") == [JOIN]
    assert complete(f"stateproc inspect {DEMO} --uids orders-per-customer --uid ord") == ["orders-per-customer"]


@pytest.mark.processes
def test_states_are_completed(complete: Complete) -> None:
    assert complete(f"stateproc read {DEMO} --uid orders-per-customer --state pro") == ["profile"]
    assert complete(f"stateproc describe {SQL} --uid {JOIN[:4]} --state l") == ["left-records"]
    assert complete(f"stateproc read {DEMO} --operator-state Sour") == ["SourceReaderState"]


@pytest.mark.processes
@pytest.mark.parametrize("path", ["s3://bucket/savepoint", "nowhere", "''"])
def test_nothing_is_proposed_for_what_cannot_be_opened(complete: Complete, path: str) -> None:
    assert complete(f"stateproc read {path} --uid ") == []
    assert complete(f"stateproc read {path} --state ") == []


@pytest.mark.parametrize(
    ("shell", "part"), [("bash", "complete -o"), ("zsh", "compdef"), ("fish", "complete --command")]
)
def test_code_is_printed_for_each_shell(shell: str, part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert part in capsys.readouterr().out


def test_other_shells_are_refused() -> None:
    with pytest.raises(SystemExit) as caught:
        main(["completion", "tcsh"])
    assert caught.value.code == 2
