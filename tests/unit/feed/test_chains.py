"""Feeds of chains of snapshots: applied to the rows of the first, they give the rows of the last."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import stateproc
from stateproc.diff.common_schema import RowForm
from stateproc.feed.changes import FeedSnapshots, state_feed
from stateproc.feed.commits import commits
from stateproc.feed.state_feed import StateFeed
from stateproc.model.state import State
from stateproc.snapshot.selection import StateSelection, state_option
from stateproc.snapshot.snapshot import Snapshot
from tests.helpers.change_feeds import apply_feed, change_types, newest_chains, pairs_in, rows_of
from tests.helpers.fixtures import FIXTURES, fixtures_in
from tests.helpers.sweeps import exhaustive

CHAINS = newest_chains()
FAST = {"chain-claimed"}
CASES = [pytest.param(path, id=path.name, marks=() if path.name in FAST else pytest.mark.exhaustive) for path in CHAINS]
RESCALED = FIXTURES / "1.20/chain-rescaled"


def found(snapshot: Snapshot, uid: str, name: str) -> State | None:
    """The state of this name; None if the snapshot does not have it."""
    return next((item for item in snapshot[uid].states if item.name == name), None) if uid in snapshot else None


def feed(left: Snapshot, right: Snapshot, uid: str, state: State, **options: object) -> StateFeed:
    option, value = state_option(state)
    return stateproc.changes(left, right, uid, **{option: value}, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", CASES)
def test_feeds_of_pairs_lead_from_the_first_to_the_last(path: Path) -> None:
    """Neighbours, the first and the last, and a random pair, over formats, backends and parallelisms."""
    members = [member.open() for member in fixtures_in(path)]
    order = random.Random(path.name)
    some = sorted(order.sample(range(len(members)), 2))
    changed = 0

    @cache
    def rows(snapshot: Snapshot, uid: str, name: str, elements: bool) -> Counter[str]:
        """The rows of a state, which several pairs need."""
        return rows_of(found(snapshot, uid, name), elements=elements)

    for left, right in pairs_in(members, [(some[0], some[1])]):
        for operator in right.operators:
            for state in operator.states:
                elements = order.random() < 0.5
                made = feed(left, right, operator.display, state, list_changes="appended" if elements else "whole")
                table = made.to_arrow()
                before, after = (rows(snapshot, operator.display, state.name, elements) for snapshot in (left, right))
                assert apply_feed(before, table) == after, (left.path, right.path, state)
                assert set(table.column("_commit_version").to_pylist()) <= {right.metadata.checkpoint_id}
                changed += len(table)
    assert changed > 0


@pytest.mark.parametrize(
    ("path", "most"),
    [(RESCALED, 3), exhaustive(RESCALED, None), exhaustive(FIXTURES / "1.20/chain-changelog-switched", None)],
    ids=lambda value: value.name if isinstance(value, Path) else str(value),
)
def test_a_range_is_read_step_by_step_or_net(path: Path, most: int | None) -> None:
    """Over three runs of a job, each restored from the one before."""
    root = str(path / "snapshot")
    log = commits(root)
    states = [member.open() for member in fixtures_in(path)]
    uid = "chain"
    for state in states[-1][uid].states[:most]:
        option, value = state_option(state)
        steps, net = (
            stateproc.changes(root, uid=uid, starting_checkpoint=log[1].version, mode=mode, **{option: value})  # type: ignore[arg-type]
            for mode in ("steps", "net")
        )
        before = rows_of(found(states[1], uid, state.name))
        after = rows_of(found(states[-1], uid, state.name))
        assert apply_feed(before, steps.to_arrow()) == after
        assert apply_feed(before, net.to_arrow()) == after
        assert [item.version for item in steps.commits] == [item.version for item in log[2:]]
        assert [item.version for item in net.commits] == [log[-1].version]
        assert len(net.to_arrow()) <= len(steps.to_arrow())


def test_a_feed_from_nothing_inserts_the_oldest_first() -> None:
    root = str(RESCALED / "snapshot")
    members = [member.open() for member in fixtures_in(RESCALED)]
    for mode in ("steps", "net"):
        made = stateproc.changes(root, uid="chain", state="entries", mode=mode)
        table = made.to_arrow()
        assert not any(rows_of(None))
        assert apply_feed(rows_of(None), table) == rows_of(members[-1]["chain"]["entries"])
        oldest = table.filter(pc.equal(table.column("_commit_version"), made.commits[0].version))
        assert set(change_types(oldest)) == {"insert"}


@pytest.mark.slow
def test_splits_are_read_in_other_processes() -> None:
    members = [member.open() for member in fixtures_in(RESCALED)]
    for operator in members[-1].operators:
        for state in operator.states:
            option, value = state_option(state)
            selection = StateSelection(uid=operator.display, **{option: value})  # type: ignore[arg-type]
            log = commits(str(RESCALED / "snapshot"))
            made = state_feed(FeedSnapshots(tuple(members), log, True), selection, RowForm())
            splits = made.splits(split_bytes=1 << 10)
            pickled = [pickle.dumps(split) for split in splits]
            batches = [batch for data in pickled for batch in pickle.loads(data).read()]
            assert pa.Table.from_batches(batches, made.schema()).equals(made.to_arrow())
            assert max(map(len, pickled)) < 32_000
