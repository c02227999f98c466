"""Links of the source tree that were checked out as text files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT
from tools.source_links import LINKS, restore_links


def test_the_table_has_all_links_of_the_repository() -> None:
    listed = subprocess.run(["git", "ls-files", "-s"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    links = {line.split("\t")[1] for line in listed.splitlines() if line.startswith("120000 ")}
    assert {name: os.readlink(ROOT / name) for name in links} == LINKS


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A tree as git makes it with core.symlinks=false."""
    for name, target in LINKS.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(target)
        real = Path(os.path.normpath(path.parent / target))
        if real.suffix:
            real.parent.mkdir(parents=True, exist_ok=True)
            real.write_bytes(b"archive")
        else:
            real.mkdir(parents=True)
            (real / "content").write_text(name)
    return tmp_path


@pytest.mark.parametrize("links_are_allowed", [True, False])
def test_text_files_become_what_they_name(
    links_are_allowed: bool, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("a required privilege is not held by the client")

    if not links_are_allowed:
        monkeypatch.setattr(Path, "symlink_to", refuse)
    assert restore_links(checkout) == list(LINKS)
    for name in LINKS:
        path = checkout / name
        assert path.is_symlink() == links_are_allowed
        assert path.read_bytes() == b"archive" if path.suffix else (path / "content").read_text() == name
    assert restore_links(checkout) == []


def test_other_files_are_left_alone(checkout: Path) -> None:
    (checkout / "stateproc/readers").write_text("notes")
    assert "stateproc/readers" not in restore_links(checkout)
    assert (checkout / "stateproc/readers").read_text() == "notes"
