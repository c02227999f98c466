"""Every command of the tutorials, how-tos and recipes prints what the page says, on the bundled snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stateproc.demo.bundled import copy_notebooks
from tests.helpers.command_server import command_server
from tests.helpers.document_runs import check_commands, folder_of
from tests.helpers.markdown_fences import GUIDES

_NAMES = [f"{page.parent.name}/{page.stem}" for page in GUIDES]


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``stateproc notebook .`` writes into ``snapshots``."""
    return Path(copy_notebooks(tmp_path_factory.mktemp("bundled")).folder, "snapshots")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment in which commands are forks of one process."""
    with command_server(tmp_path_factory.mktemp("commands")) as variables:
        yield variables


@pytest.mark.parametrize("page", GUIDES, ids=_NAMES)
def test_commands_print_what_is_shown(page: Path, snapshots: Path, tmp_path: Path, server: dict[str, str]) -> None:
    check_commands(page, folder_of(page, tmp_path, snapshots), server)
