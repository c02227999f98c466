"""What differs between two databases that share tables, found without reading both whole."""

from __future__ import annotations

import random
from itertools import combinations
from pathlib import Path

import pytest

from stateproc.readers.rocksdb.changed_entries import DatabaseOfState, PairedTables, changed_entries, paired_tables
from stateproc.readers.rocksdb.key_ranges import KeySpan
from tests.helpers.rocksdb.databases import contents, differences, inline, keyed
from tests.helpers.rocksdb.histories import GROUPS, Files, History
from tests.helpers.sweeps import exhaustive

Contents = dict[bytes, bytes]


def stated(files: Files, state: str = "default") -> DatabaseOfState:
    """A database whose tables of one name are one file."""
    return DatabaseOfState(tuple(inline(files)), {name: name for name in files}, state)


def changed(tables: PairedTables, groups: list[range], keys: list[KeySpan] | None = None) -> tuple[Contents, Contents]:
    """What is read of both sides."""
    found = list(changed_entries(tables, "default", groups, 1, keys=keys or ()))
    one, two = (keyed(entries for side, entries in found if side == wanted) for wanted in (0, 1))
    return one, two


def check(tables: PairedTables, whole: list[Contents], groups: list[range]) -> None:
    """Both sides of all keys that differ are read, and nothing that is not there."""
    kept = [{key: value for key, value in side.items() if any(key[0] in run for run in groups)} for side in whole]
    one, two = changed(tables, groups)
    assert differences(one, two) == differences(*kept)
    assert one.items() <= kept[0].items() and two.items() <= kept[1].items()


@pytest.mark.parametrize(
    "seeds", [range(6), *(exhaustive(range(first, min(first + 25, 406))) for first in range(6, 406, 25))]
)
def test_random_histories(seeds: range, tmp_path: Path) -> None:
    shared = 0
    for seed in seeds:
        rnd = random.Random(seed)
        databases = [stated(files) for files in History(tmp_path / str(seed), seed).checkpoints(3)]
        found = [(database, contents(list(database.files), database.state)) for database in databases]
        for pair in combinations(found, 2):
            (left, one), (right, two) = pair if rnd.random() < 0.5 else pair[::-1]
            tables = paired_tables(left, right)
            assert tables is not None
            shared += len(tables.shared)
            start = rnd.randrange(GROUPS)
            some = [range(start), range(start + 1, GROUPS)]
            check(tables, [one, two], some if rnd.random() < 0.3 else [range(GROUPS)])
    assert shared > len(seeds)
