"""Checkpoints that share tables, written by Flink's own RocksDB: all changes between them are found, and only those.

`STATEPROC_ROCKSDB_SEEDS` sets how many chains each test makes (default 12), `STATEPROC_ROCKSDB_FIRST` the first seed
(0).
"""

from __future__ import annotations

import hashlib
import os
from itertools import permutations
from pathlib import Path

import pytest

from stateproc.readers.rocksdb.changed_entries import DatabaseOfState, changed_entries, paired_tables
from tests.helpers.rocksdb.databases import differences, in_memory, inline, keyed
from tests.helpers.rocksdb.oracle import NEW, OLD, expected, generate

pytestmark = pytest.mark.flink
SEEDS = int(os.environ.get("STATEPROC_ROCKSDB_SEEDS", "12"))
FIRST = int(os.environ.get("STATEPROC_ROCKSDB_FIRST", "0"))
STATE = "counts"


def opened(directory: Path) -> DatabaseOfState:
    """A checkpoint whose files are the same as others' if their bytes are: numbers repeat after a restore."""
    files = in_memory(directory)
    identities = {name: hashlib.sha256(data).digest() for name, data in files.items()}
    return DatabaseOfState(tuple(inline(files)), identities, STATE)


@pytest.mark.parametrize("version", [OLD, NEW])
def test_finds_what_rocksdb_reads_differently(version: str, tmp_path: Path) -> None:
    shared, differing, left_out = 0, 0, 0
    for directory in generate(version, "Chain", tmp_path, FIRST, SEEDS):
        databases = [opened(directory / f"checkpoint-{number}") for number in range(3)]
        contents = [expected(directory / f"{number}-{STATE}.expected") for number in range(3)]
        for left, right in permutations(range(3), 2):
            tables = paired_tables(databases[left], databases[right])
            assert tables is not None
            shared += len(tables.shared)
            found = list(changed_entries(tables, STATE, [range(128)], 1))
            one, two = (keyed(entries for side, entries in found if side == wanted) for wanted in (0, 1))
            wanted = differences(contents[left], contents[right])
            assert differences(one, two) == wanted, (directory.name, left, right)
            assert one.items() <= contents[left].items() and two.items() <= contents[right].items()
            differing += len(wanted)
            left_out += len(contents[left]) - len(one)
    assert shared and differing and left_out
