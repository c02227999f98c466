"""Every command and program of the tutorials, how-tos and recipes does what the page says, on the bundled snapshots."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stateproc.demo.notebook_folder import copy_notebooks
from tests.helpers.document_runs import SECONDS, check_commands, check_printed, environment, program_of
from tests.helpers.markdown_fences import GUIDES

_NAMES = [f"{page.parent.name}/{page.stem}" for page in GUIDES]
_PROGRAMS = sorted((page for page in GUIDES if program_of(page) is not None), key=lambda page: page.stem != "live-copy")
"""Delta's jars are loaded when the JVM starts, so a page that needs them is the first."""


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``stateproc notebook .`` writes into ``snapshots``."""
    return Path(copy_notebooks(tmp_path_factory.mktemp("bundled")).folder, "snapshots")


@pytest.fixture(scope="module")
def programs(snapshots: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Path]:
    """Run the programs of all pages in one process, and return the file of each."""
    files = {}
    for page in _PROGRAMS:
        folder = tmp_path_factory.mktemp(page.stem)
        (folder / "snapshots").symlink_to(snapshots)
        files[page] = folder / "program.py"
        files[page].write_text(program_of(page) or "", encoding="utf-8")
    runner = str(Path(__file__).with_name("run_programs.py"))
    command = [sys.executable, runner, *map(str, files.values())]
    subprocess.run(command, env=environment(), capture_output=True, timeout=SECONDS, check=True)
    return files


@pytest.mark.parametrize("page", _PROGRAMS, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_python_runs(page: Path, programs: dict[Path, Path]) -> None:
    errors = programs[page].with_suffix(".err")
    assert not errors.exists(), errors.read_text(encoding="utf-8")
    check_printed(page, programs[page].with_suffix(".out").read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", GUIDES, ids=_NAMES)
def test_commands_print_what_is_shown(page: Path, snapshots: Path, tmp_path: Path) -> None:
    (tmp_path / "snapshots").symlink_to(snapshots)
    check_commands(page, tmp_path)
