"""The site builds without a warning: no dead link or anchor, no page outside the navigation, no broken docstring."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_public_classes_are_documented_with_their_arguments(site: Path) -> None:
    reading = (site / "api/reading.html").read_text(encoding="utf-8")
    writing = (site / "api/writing.html").read_text(encoding="utf-8")
    assert 'id="stateproc.snapshot.opening.open"' in reading and "path_mapping" in reading
    assert 'id="stateproc.model.state.State.to_arrow"' in reading
    assert 'id="stateproc.writers.savepoint_writer.SavepointWriter.write"' in writing


def test_files_of_the_root_are_pages_with_links_that_work(site: Path) -> None:
    contributing = (site / "contributing.html").read_text(encoding="utf-8")
    assert 'href="types.html"' in contributing and 'href="docs/' not in contributing


def test_no_page_loads_anything_from_another_server(site: Path) -> None:
    loaded = ('src="http', "src='http", "url(http", "@import")
    for page in [*site.rglob("*.html"), *site.glob("assets/*.css")]:
        text = page.read_text(encoding="utf-8")
        assert not [mark for mark in loaded if mark in text], page.name
