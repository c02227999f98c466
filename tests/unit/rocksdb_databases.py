"""Databases for tests: directories as lists of files, and what the reader finds in them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from stateproc.readers.entries import RawEntries
from stateproc.readers.rocksdb import DatabaseFile, rocksdb_entries
from stateproc.storage import FileSource, InlineSource


def database(directory: Path) -> list[DatabaseFile]:
    """The files of a directory."""
    return [
        DatabaseFile(path.name, FileSource(str(path), path.stat().st_size))
        for path in sorted(directory.iterdir())
        if path.is_file()
    ]


def in_memory(directory: Path) -> dict[str, bytes]:
    """The files that a checkpoint would hold, by name."""
    names = (".sst", "CURRENT", "MANIFEST-")
    return {path.name: path.read_bytes() for path in directory.iterdir() if any(n in path.name for n in names)}


def inline(files: dict[str, bytes]) -> list[DatabaseFile]:
    return [DatabaseFile(name, InlineSource(name, data)) for name, data in files.items()]


def keyed(batches: Iterable[RawEntries], prefix: int = 1) -> dict[bytes, bytes]:
    """Key with its key-group prefix → value, in the order of the batches; no key may come twice."""
    found: dict[bytes, bytes] = {}
    for batch in batches:
        data = batch.data.tobytes()
        for group, (a, b, c, d) in zip(batch.key_groups.tolist(), batch.ranges.T.tolist(), strict=True):
            key = group.to_bytes(prefix, "big") + data[a:b]
            assert key not in found
            found[key] = data[c:d]
    return found


def contents(
    files: list[DatabaseFile], state: str, key_groups: range = range(128), prefix: int = 1, *, verify: bool = True
) -> dict[bytes, bytes]:
    return keyed(rocksdb_entries(files, state, key_groups, prefix, verify=verify), prefix)
