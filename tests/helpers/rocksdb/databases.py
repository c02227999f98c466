"""Databases for tests: directories as lists of files, and what the reader finds in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from rocksdict import BlockBasedIndexType, BlockBasedOptions, DBCompressionType, Options, Rdict

from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.rocksdb import DatabaseFile, rocksdb_entries
from stateproc.storage import FileSource, InlineSource
from stateproc.storage.store import StorePath

FORMS = {
    "plain": (5, DBCompressionType.none, None),
    "snappy": (4, DBCompressionType.snappy, None),
    "zstd": (6, DBCompressionType.zstd, None),
    "lz4": (3, DBCompressionType.lz4, None),
    "zlib": (2, DBCompressionType.zlib, None),
    "partitioned": (5, DBCompressionType.none, BlockBasedIndexType.two_level_index_search),
}
"""Format version, compression and index of small databases."""


def write_database(
    directory: Path, form: str, rows: Mapping[bytes, bytes], *, deleted: bytes, range_deleted: tuple[bytes, bytes],
    block_size: int,
) -> dict[str, bytes]:  # fmt: skip
    """RocksDB's files of these rows, written twice: two tables, each followed by a deleted key and a deleted range."""
    version, compression, index = FORMS[form]
    table = BlockBasedOptions()
    table.set_format_version(version)
    table.set_block_size(block_size)
    table.set_metadata_block_size(100)
    if index is not None:
        table.set_index_type(index())
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_disable_auto_compactions(True)
    options.set_compression_type(compression())
    options.set_block_based_table_factory(table)
    db = Rdict(str(directory), options)
    for flush in range(2):
        for key, value in rows.items():
            db[key] = value
        db.delete(deleted)
        db.delete_range(*range_deleted)
        if flush == 0:
            db.flush()
    db.close()
    return in_memory(directory)


def database(directory: Path) -> list[DatabaseFile]:
    """The files of a directory."""
    return [
        DatabaseFile(path.name, FileSource(StorePath(str(path)), path.stat().st_size))
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


def differences(
    left: Mapping[bytes, bytes], right: Mapping[bytes, bytes]
) -> dict[bytes, tuple[bytes | None, bytes | None]]:
    """The values on both sides of keys that differ."""
    keys = left.keys() | right.keys()
    return {key: (left.get(key), right.get(key)) for key in keys if left.get(key) != right.get(key)}
