"""Random databases written by Flink's own RocksDB: the reader finds exactly what RocksDB's iterator gives.

`STATEPROC_ROCKSDB_SEEDS` sets how many databases each test makes (default 12), `STATEPROC_ROCKSDB_FIRST` the first
seed (0).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stateproc.readers.rocksdb import table_properties
from tests.helpers.rocksdb.databases import contents, database
from tests.helpers.rocksdb.oracle import NEW, OLD, OLDEST, expected, generate

pytestmark = pytest.mark.flink
SEEDS = int(os.environ.get("STATEPROC_ROCKSDB_SEEDS", "12"))
FIRST = int(os.environ.get("STATEPROC_ROCKSDB_FIRST", "0"))


RUNS = [(OLDEST, "Oracle"), (OLD, "Oracle"), (NEW, "Oracle"), (NEW, "Rescale")]


@pytest.mark.parametrize(("version", "program"), RUNS)
def test_reads_what_rocksdb_reads(version: str, program: str, tmp_path: Path) -> None:
    compared, merged, deleted = 0, 0, 0
    for directory in generate(version, program, tmp_path, FIRST, SEEDS):
        files = database(directory / "checkpoint")
        for path in sorted(directory.glob("*.expected")):
            wanted = expected(path)
            found = contents(files, path.stem)
            assert list(found) == list(wanted), (directory.name, path.stem)
            assert found == wanted, (directory.name, path.stem)
            compared += len(found)
            middle = range(3, 7)
            part = {key: value for key, value in wanted.items() if key[0] in middle}
            assert contents(files, path.stem, middle, verify=False) == part, (directory.name, path.stem)
        properties = [table_properties(file.source) for file in files if file.name.endswith(".sst")]
        merged += sum(item.merge_operands for item in properties)
        deleted += sum(item.range_deletions for item in properties)
    # The comparison means something only if there was something to merge and to delete.
    assert compared and merged and (deleted or version == OLDEST)
