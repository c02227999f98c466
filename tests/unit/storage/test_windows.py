"""What is different on Windows: spellings of paths, and what files and streams cannot do there."""

from __future__ import annotations

import io
import ntpath
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stateproc.cli.app import _print_unicode
from stateproc.codec.native import cache
from stateproc.storage import uris, writing
from stateproc.storage.checkpoint_roots import CheckpointRoots
from stateproc.storage.store import StorePath
from stateproc.storage.uris import absolute, basename, is_absolute, join, normalize, parent, real_path, scheme_of
from stateproc.writers.sorting import spill_buffer


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are those of Windows; files cannot be opened."""
    path = SimpleNamespace(**{name: getattr(ntpath, name) for name in ntpath.__all__})
    path.expanduser = lambda text: text.replace("~", "C:\\Users\\me")
    path.realpath = path.abspath = lambda text: ntpath.normpath(ntpath.join("C:\\work", text))
    monkeypatch.setattr(uris, "os", SimpleNamespace(path=path, sep="\\"))


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("C:\\state\\chk-1\\", "C:/state/chk-1"),
        ("C:/state/chk-1", "C:/state/chk-1"),
        ("file:///C:/state/chk-1", "C:/state/chk-1"),
        ("file:/C:/state/chk-1", "C:/state/chk-1"),
        ("\\\\host\\share\\chk-1", "//host/share/chk-1"),
        ("~\\chk-1", "C:/Users/me/chk-1"),
        ("chk-1", "C:/work/chk-1"),
        ("D:\\", "D:/"),
    ],
)
@pytest.mark.usefixtures("windows")
def test_paths_have_slashes(written: str, path: str) -> None:
    assert absolute(written) == path
    assert is_absolute(path) and not is_absolute("state/chk-1")
    assert real_path(path) == path
    assert normalize(path) == path


@pytest.mark.usefixtures("windows")
def test_parents_end_at_the_drive() -> None:
    assert parent("C:/state/chk-1") == "C:/state"
    assert parent("C:/state") == "C:/"
    assert parent("C:/") == "C:/"
    assert join("C:/", "state") == "C:/state"
    assert basename("C:/state") == "state"


@pytest.mark.usefixtures("windows")
def test_a_drive_is_no_scheme() -> None:
    assert scheme_of("C:/state") == "file"
    assert scheme_of("s3://bucket/state") == "s3"


def test_elsewhere_there_are_no_drives() -> None:
    assert scheme_of("x:/state") == "x"
    assert normalize("/state/a\\b") == "/state/a\\b"
    assert not is_absolute("C:/state")
    assert parent("x:/state") == "x:/state"


@pytest.mark.usefixtures("windows")
def test_files_are_read_below_the_directory_of_checkpoints_only() -> None:
    job = "0123456789abcdef0123456789abcdef"
    roots = CheckpointRoots.of(f"C:/state/{job}/chk-1", (), {})
    assert roots.contains(f"file:/C:/state/{job}/shared/a")
    assert roots.contains(f"C:/state/{job}/shared/a")
    assert not roots.contains("C:/elsewhere/a")
    assert not roots.contains(f"D:/state/{job}/shared/a")
    assert not roots.contains(f"C:/state/{job}/../../Windows/a")


def test_a_directory_is_not_synchronized(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    writing.sync_directory(str(tmp_path / "is not opened"))


def test_temporary_files_are_read_without_preadv(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path, target = tmp_path / "file", bytearray(3)
    path.write_bytes(b"0123456789")
    with path.open("rb") as file:
        assert (spill_buffer._read_into(file, memoryview(target), 4), target) == (3, b"456")
        monkeypatch.delattr(os, "preadv", raising=False)
        assert (spill_buffer._read_into(file, memoryview(target), 1), target) == (3, b"123")
        assert (spill_buffer._read_into(file, memoryview(target), 8), target) == (2, b"893")


def test_local_files_are_read_without_pread(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("pread", "preadv", "copy_file_range"):
        monkeypatch.delattr(os, name, raising=False)
    path = str(tmp_path / "file")
    Path(path).write_bytes(b"0123456789")
    assert StorePath(path).read_range(2, 5) == b"234"
    assert StorePath(path).read_range(8, 20) == b"89"
    first, second = bytearray(2), bytearray(4)
    assert StorePath(path).read_parts_into([(7, memoryview(first)), (1, memoryview(second))]) == 6
    assert (first, second) == (b"78", b"1234")


def test_streams_print_utf_8(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe, encoding="cp1252"))
    monkeypatch.setattr(sys, "platform", "win32")
    _print_unicode()
    print("✗ damaged", end="", flush=True)
    assert pipe.getvalue() == "✗ damaged".encode()


def test_the_cache_of_kernels_needs_no_owner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """There every folder seems to be writable by all."""
    tmp_path.chmod(0o777)
    with pytest.raises(cache.UnsafeCacheFolder):
        cache._make_private(tmp_path)
    monkeypatch.delattr(os, "geteuid")
    cache._make_private(tmp_path)
    candidates: list[Any] = list(cache._candidates(None))
    assert candidates[-1].name == "stateproc"
