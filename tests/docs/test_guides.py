"""Every command of the tutorials, how-tos and recipes prints what the page says, on the bundled snapshots."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateproc.demo.bundled import copy_notebooks
from tests.helpers.document_runs import check_commands, folder_of
from tests.helpers.markdown_fences import GUIDES

_NAMES = [f"{page.parent.name}/{page.stem}" for page in GUIDES]


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``stateproc notebook .`` writes into ``snapshots``."""
    return Path(copy_notebooks(tmp_path_factory.mktemp("bundled")).folder, "snapshots")


@pytest.mark.parametrize("page", GUIDES, ids=_NAMES)
def test_commands_print_what_is_shown(page: Path, snapshots: Path, tmp_path: Path) -> None:
    check_commands(page, folder_of(page, tmp_path, snapshots))
