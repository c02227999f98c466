"""Archives of fixtures: equal files are packed to equal bytes and unpacked unchanged."""

from __future__ import annotations

import os
from pathlib import Path

from tests.helpers.fixture_archives import SUFFIX, pack, unpacked


def write_case(folder: Path) -> None:
    (folder / "snapshot" / ("x" * 120)).mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    (folder / "snapshot" / ("x" * 120) / "_metadata").write_bytes(b"\0\1")


def test_equal_files_give_equal_archives(tmp_path: Path) -> None:
    for number in (1, 2):
        write_case(tmp_path / str(number) / "case")
        os.utime(tmp_path / str(number) / "case" / "manifest.json", (number, number))
        pack(tmp_path / str(number) / "case", tmp_path / f"{number}{SUFFIX}")
    assert (tmp_path / f"1{SUFFIX}").read_bytes() == (tmp_path / f"2{SUFFIX}").read_bytes()


def test_archives_and_folders_are_unpacked_once_until_they_change(tmp_path: Path) -> None:
    archives, cache = tmp_path / "archives", tmp_path / "cache"
    write_case(tmp_path / "packed")
    pack(tmp_path / "packed", archives / "1.20" / f"packed{SUFFIX}")
    write_case(archives / "1.20" / "plain")
    tree = unpacked(archives, cache)
    for case in ("packed", "plain"):
        assert (tree / "1.20" / case / "snapshot" / ("x" * 120) / "_metadata").read_bytes() == b"\0\1"
    assert unpacked(archives, cache) == tree
    (archives / "1.20" / "plain" / "manifest.json").write_text('{"job": "other"}')
    changed = unpacked(archives, cache)
    assert changed != tree
    assert (changed / "1.20" / "plain" / "manifest.json").read_text() == '{"job": "other"}'
