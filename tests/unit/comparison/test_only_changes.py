"""Reading only what may differ gives the same changes as reading both snapshots whole, from fewer bytes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from stateproc.comparison.state_changes import StateComparison
from stateproc.comparison.structure import operator_pairs
from stateproc.snapshot.snapshot import Snapshot
from stateproc.states.state import State
from tests.helpers.fixtures import FIXTURES, fixtures_in

FAST = {"1.20/chain-rocksdb", "2.3/chain-rescaled"}
CHAINS = [
    pytest.param(path.parent, id=name, marks=() if name in FAST else pytest.mark.exhaustive)
    for path in sorted(FIXTURES.glob("*/chain-*/manifest.json"))
    if (name := f"{path.parent.parent.name}/{path.parent.name}")
]


def changes(left: State | None, right: State | None, *, count_all: bool) -> list[str]:
    comparison = StateComparison(left, right, count_all=count_all)
    found = comparison.changes(comparison.units(1), 1)
    batches = [unit.rows for unit in found if unit.rows is not None]
    return sorted(map(repr, pa.Table.from_batches(batches).to_pylist())) if batches else []


def states(left: Snapshot, right: Snapshot) -> Iterator[tuple[State | None, State | None]]:
    for operator in operator_pairs(left, right, (), ()):
        for pair in operator.states:
            yield pair.left, pair.right


@pytest.mark.parametrize("path", CHAINS)
def test_changes_of_chains(path: Path) -> None:
    members = [member.open() for member in fixtures_in(path)]
    pairs = combinations(members, 2) if path.name in ("chain-rescaled", "chain-rocksdb") else pairwise(members)
    for left, right in pairs:
        for one, two in states(left, right):
            assert changes(one, two, count_all=False) == changes(one, two, count_all=True)
