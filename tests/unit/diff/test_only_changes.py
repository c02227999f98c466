"""Reading only what may differ gives the same changes as reading both snapshots whole, from fewer bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from stateproc.diff.state_changes import StateComparison
from stateproc.diff.structure import operator_pairs
from stateproc.errors import MissingFile
from stateproc.model.keyed_state import KeyedState
from stateproc.model.state import State
from stateproc.readers.changelog import changed_entries as changed_keys
from stateproc.snapshot.snapshot import Snapshot
from stateproc.storage import FileSource, StorePath
from tests.helpers.fixtures import FIXTURES, fixtures_in
from tests.helpers.sweeps import exhaustive

FAST = {"2.3/chain-partitioned"}
SAMPLED = {"1.20/chain-rocksdb", "2.3/chain-changelog", "2.3/chain-rescaled"}
SHARING = re.compile(r"chain-(rocksdb|rescaled.*|changelog|async-rocksdb|claimed|compressed|filemerging|partitioned)")
"""Chains of checkpoints that share tables or materialized state."""


def _marks(name: str) -> tuple[pytest.MarkDecorator, ...]:
    if name in FAST:
        return ()
    return (pytest.mark.sampled if name in SAMPLED else pytest.mark.exhaustive,)


CHAINS = [
    pytest.param(path.parent, id=name, marks=_marks(name))
    for path in sorted(FIXTURES.glob("2.3/chain-*/manifest.json"))
    + sorted(FIXTURES.glob("1.20/chain-r*/manifest.json"))
    if (name := f"{path.parent.parent.name}/{path.parent.name}")
]


def changes(left: State | None, right: State | None, *, count_all: bool) -> tuple[list[str], int]:
    """The changed rows, and how many entries were read."""
    comparison = StateComparison(left, right, count_all=count_all)
    found = list(comparison.changes(comparison.units(1), 1))
    batches = [unit.rows for unit in found if unit.rows is not None]
    rows = pa.Table.from_batches(batches).to_pylist() if batches else []
    return sorted(map(repr, rows)), sum(unit.counts.left + unit.counts.right for unit in found)


def states(left: Snapshot, right: Snapshot) -> Iterator[tuple[State | None, State | None]]:
    for operator in operator_pairs(left, right, (), ()):
        for pair in operator.states:
            yield pair.left, pair.right


@pytest.mark.parametrize("path", CHAINS)
def test_changes_of_chains(path: Path) -> None:
    """Of neighbours and ends: incremental checkpoints, changelogs, savepoints, of the same or another parallelism.

    Where snapshots share nothing, of the ends and one more pair.
    """
    members = [member.open() for member in fixtures_in(path)]
    read, there = 0, 0
    pairs = [(members[0], members[-1]), *pairwise(members)]
    for left, right in pairs if SHARING.fullmatch(path.name) else pairs[:2]:
        for one, two in states(left, right):
            found, some = changes(one, two, count_all=False)
            wanted, whole = changes(one, two, count_all=True)
            assert found == wanted
            assert some <= whole
            read, there = read + some, there + whole
    assert read < there or not SHARING.fullmatch(path.name)


@pytest.mark.parametrize("most", [3, exhaustive(None)])
def test_logs_that_change_many_keys_are_read_whole(most: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    members = [member.open() for member in fixtures_in(FIXTURES / "2.3/chain-changelog")[:most]]
    fewer = 0
    for one, two in (pair for left, right in pairwise(members) for pair in states(left, right)):
        wanted, some = changes(one, two, count_all=False)
        with monkeypatch.context() as patch:
            patch.setattr(changed_keys, "MOST_KEYS", 0)
            found, more = changes(one, two, count_all=False)
        assert found == wanted
        fewer += some < more
    assert fewer


def test_a_table_that_is_missing_is_named() -> None:
    left, right = (member.open() for member in fixtures_in(FIXTURES / "1.20/chain-rocksdb")[3:5])
    refused = 0
    for one, two in states(left, right):
        if isinstance(one, KeyedState) and isinstance(two, KeyedState):
            comparison = StateComparison(one, two)
            units = comparison.units(1)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(StorePath, "file_status", lambda _: None)
                patch.setattr(FileSource, "_read_at_once", lambda _: None)
                try:
                    list(comparison.changes(units, 1))
                except MissingFile as error:
                    assert error.where.file is not None
                    refused += 1
    assert refused
