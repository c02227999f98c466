"""Copies of fixtures whose files can be damaged, one file at a time."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import stateproc
from stateproc.errors import SnapshotError
from stateproc.metadata import walk_stream_handles
from stateproc.readers.changelog.log_segments import log_source
from stateproc.snapshot.snapshot import Snapshot
from stateproc.storage import open_handle
from stateproc.storage.sources import FileSource
from tests.helpers.fixtures import CLASSES, Fixture


class SnapshotCopy:
    """A copy of a fixture in a folder of its own."""

    def __init__(self, fixture: Fixture, folder: Path) -> None:
        self._fixture = fixture
        self.root = folder / "copy"
        shutil.copytree(fixture.path, self.root)
        self.path = str(self.root / fixture.manifest["snapshot"])

    def open(self) -> Snapshot:
        uids = {line["uid"] for line in self._fixture.expected() if line["uid"]}
        declared = {"key_type": self._fixture.manifest.get("key_type")}
        return stateproc.open(self.path, uids=uids, classes=CLASSES, **declared)

    def files(self, *roles: str) -> list[Path]:
        """The files that the snapshot refers to, in the order of ``_metadata``; of roles that begin so, if given."""
        snapshot, found = self.open(), dict[Path, None]()
        for use in walk_stream_handles(snapshot.metadata):
            if roles and not use.role.startswith(roles):
                continue
            try:
                opener = log_source if use.role == "changelog segment" else open_handle
                source = opener(use.handle, snapshot.location)
                source.read(0, 0)
            except SnapshotError:
                continue
            if isinstance(source, FileSource):
                found[Path(source.name.removeprefix("file://"))] = None
        return list(found)

    @contextmanager
    def changed(self, file: Path, data: bytes | None) -> Iterator[Snapshot]:
        """The snapshot while a file has other bytes, or (None) does not exist."""
        before = file.read_bytes()
        try:
            if data is None:
                file.unlink()
            else:
                file.write_bytes(data)
            yield self.open()
        finally:
            file.write_bytes(before)
