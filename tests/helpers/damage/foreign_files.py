"""Snapshots whose ``_metadata`` names files outside of their checkpoint root, and which files a process opens."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from stateproc.metadata import read_metadata, walk_stream_handles
from stateproc.metadata.stream_handles import (
    FileHandle,
    KeyGroupsHandle,
    RelativeFileHandle,
    SegmentHandle,
    StreamHandle,
)
from stateproc.storage import FileSource, locate, open_handle
from tests.helpers.byte_builders import metadata as builders
from tests.helpers.fixtures import Fixture

_OPENED: list[set[str]] = []


def foreign_copy(fixture: Fixture, folder: Path, role: str, spell: Callable[[Path], str] = str) -> tuple[Path, Path]:
    """Copy a fixture, with the files of a role in a directory outside of its checkpoint root.

    Args:
        fixture: The snapshot.
        folder: Where the copy and the directory outside are made.
        role: The beginning of the files' roles.
        spell: How ``_metadata`` names such a file.

    Returns:
        The directory of the copied snapshot, and the directory outside.
    """
    root, outside = folder / "checkpoints", folder / "outside"
    shutil.copytree(fixture.path, root)
    outside.mkdir()
    directory = root / fixture.manifest["snapshot"]
    place_outside(directory / "_metadata", outside, role, spell)
    return directory, outside


def place_outside(metadata: Path, outside: Path, role: str, spell: Callable[[Path], str] = str) -> None:
    """Move the files of a role to another directory, and change their paths in ``_metadata``."""
    location, data = locate(metadata), metadata.read_bytes()
    moved: dict[str, Path] = {}
    for use in walk_stream_handles(read_metadata(data, file=str(metadata))):
        source = open_handle(use.handle, location, whole=False)
        if not use.role.startswith(role) or not isinstance(source, FileSource):
            continue
        source.read(0, 0)
        target = moved[source.name] = outside / Path(source.name).name
        before, after = _encoded(use.handle, spell(target))
        assert before in data or after in data
        data = data.replace(before, after)
    assert moved
    for old, new in moved.items():
        shutil.move(old, new)
    metadata.write_bytes(data)


def _encoded(handle: StreamHandle, path: str) -> tuple[bytes, bytes]:
    """Return the bytes of a handle, and those of one of the same file with an absolute path."""
    if isinstance(handle, KeyGroupsHandle):
        return _encoded(handle.stream, path)
    if isinstance(handle, SegmentHandle):
        return builders.utf(handle.path), builders.utf(path)
    assert isinstance(handle, FileHandle | RelativeFileHandle)
    build = builders.file if isinstance(handle, FileHandle) else builders.relative
    return build(handle.path, handle.size), builders.file(path, handle.size)


@contextmanager
def opened_files() -> Iterator[set[str]]:
    """Collect the paths that this process opens or lists while the context is open."""
    _install()
    found: set[str] = set()
    _OPENED.append(found)
    try:
        yield found
    finally:
        _OPENED.remove(found)


def _install() -> None:
    if not hasattr(_install, "done"):
        sys.addaudithook(_record)
        _install.done = True  # type: ignore[attr-defined]


def _record(event: str, arguments: tuple[object, ...]) -> None:
    if _OPENED and event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], str | os.PathLike):
        for found in _OPENED:
            found.add(os.path.abspath(arguments[0]))
