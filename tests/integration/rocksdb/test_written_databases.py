"""Flink's own RocksDB opens databases that the writer made: every entry, every checksum, and goes on from there."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from stateproc.keygroups.ranges import prefix_width
from stateproc.readers.rocksdb import database_files
from stateproc.storage.store import StorePath
from stateproc.writers.commit.commit import Commit
from stateproc.writers.commit.staging import Staging
from stateproc.writers.formats.rocksdb.block_builder import COMPRESSIONS
from stateproc.writers.formats.rocksdb.options import TableOptions
from tests.helpers.rocksdb.oracle import NEW, OLD, OLDEST, expected, opened
from tests.unit.writers.formats.test_rocksdb import SMALL, random_entries, written

pytestmark = pytest.mark.flink
STATES = ["values", "Zustände", 'e#m:p\\t"y]', "_timer_state/event_user-timers"]
ENTRIES = [entry for entry in random_entries(7, 4000, 4, 300) if entry[1] != 2]
CASES: list[tuple[int, TableOptions]] = [
    *((32768, dataclasses.replace(SMALL, compression_per_level=(name,))) for name in COMPRESSIONS),
    (32768, dataclasses.replace(SMALL, bloom_bits_per_key=10.0)),
    (1000, TableOptions(bloom_bits_per_key=10.0)),
    (1000, TableOptions(block_size=64, memory=1 << 20)),
]
NEW_KEY = (b"\xff\xffnew", b"a,b")


def database(root: Path, max_parallelism: int, options: TableOptions) -> None:
    """A database in the folder layout that Flink restores it to."""
    staging: Staging = Commit.begin(StorePath.of(root / "savepoint")).staging
    handle, _ = written(staging, ENTRIES, STATES, max_parallelism, options, at_once=1000)
    (root / "db").mkdir()
    for file in database_files(handle, staging.location):
        (root / "db" / file.name).write_bytes(file.source.read_all(1 << 30))


@pytest.mark.parametrize("version", [OLDEST, OLD, NEW])
def test_rocksdb_finds_what_was_written(version: str, tmp_path: Path) -> None:
    roots = [tmp_path / str(n) for n in range(len(CASES))]
    for root, (max_parallelism, options) in zip(roots, CASES, strict=True):
        database(root, max_parallelism, options)
    for root, (max_parallelism, options), families in zip(roots, CASES, opened(version, roots), strict=True):
        assert [name for name, _, _ in families] == ["default", *STATES]
        width = prefix_width(max_parallelism)
        for state_id, name in enumerate(STATES):
            wanted = {group.to_bytes(width, "big") + key: v for group, state, key, v in ENTRIES if state == state_id}
            assert list(expected(root / f"{state_id + 1}.expected").items()) == list(wanted.items()), name
            after = [*wanted.items(), NEW_KEY]
            assert list(expected(root / f"{state_id + 1}.compacted").items()) == after, name
            useful = families[state_id + 1][2]
            filtered = options.bloom_bits_per_key is not None and wanted
            assert (900 < useful <= 1000) if filtered else useful == 0, (name, useful)
