"""Feeds are what the job itself logged of its changes: step by step and net, for each backend, over restores."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import defaultdict
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc.diff.snapshot_diff import compare_snapshots
from stateproc.diff.structure import OperatorPair, StatePair
from stateproc.snapshot.selection import state_option
from stateproc.snapshot.snapshot import Snapshot
from tests.helpers.change_logs import (
    EXPIRING,
    SAME_VALUES,
    UIDS,
    Changes,
    Entries,
    LoggedChain,
    LoggedSnapshot,
    StateName,
    applied,
    changed_entries,
    entries_of,
    is_logged,
    logged_chains,
    without_access,
    without_empty,
)

RELEASES = ("1.20", "2.3")
BACKENDS = ("rocksdb", "hashmap", "changelog")
FAST = ("2.3", "rocksdb")
"""The chain that `make test-fast` reads."""
RANDOM_PAIRS = 3
each_chain = pytest.mark.parametrize(
    ("release", "backend"), [("1.20", "rocksdb"), *(("2.3", item) for item in BACKENDS)]
)
Pair = tuple[LoggedSnapshot, LoggedSnapshot]


@cache
def chain(release: str, backend: str) -> LoggedChain:
    return logged_chains(release)[backend]


@cache
def opened(snapshot: LoggedSnapshot) -> Snapshot:
    return snapshot.open()


@cache
def contents(snapshot: LoggedSnapshot) -> dict[StateName, Entries]:
    return entries_of(opened(snapshot))


def selections(logged: LoggedChain) -> dict[StateName, dict[str, str]]:
    """Return the arguments that select each logged state."""
    found = {}
    for operator in opened(logged.snapshots[0]).operators:
        for state in operator.states:
            name = (operator.display, state.name)
            if is_logged(name):
                option, value = state_option(state)
                found[name] = {"uid": operator.display, option: str(value)}
    return found


@cache
def net_changes(old: LoggedSnapshot, new: LoggedSnapshot, *, times: bool = True) -> Changes:
    feeds = {
        name: stateproc.changes(opened(old), opened(new), times=times, **selection)  # type: ignore[arg-type]
        for name, selection in selections(old.chain).items()
    }
    return without_empty({name: changed_entries(feed.to_arrow().to_pylist()) for name, feed in feeds.items()})


@cache
def changes_by_step(logged: LoggedChain) -> dict[int, Changes]:
    """Return what one feed over all snapshots has, by checkpoint id, from the changes after the first on."""
    rows: dict[int, dict[StateName, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for name, selection in selections(logged).items():
        feed = stateproc.changes(
            logged.root,
            starting_checkpoint=logged.snapshots[0].checkpoint_id,
            times=True,
            key_type=logged.key_type,
            uids=UIDS,
            **selection,  # type: ignore[arg-type]
        )
        assert [commit.version for commit in feed.commits] == [item.checkpoint_id for item in logged.snapshots[1:]]
        for row in feed.to_arrow().to_pylist():
            rows[row["_commit_version"]][name].append(row)
    return {version: {name: changed_entries(own) for name, own in states.items()} for version, states in rows.items()}


def far_pairs(snapshots: list[LoggedSnapshot]) -> list[Pair]:
    """Return the first and the last snapshot, and random pairs."""
    dice = random.Random(15)
    pairs = [sorted(dice.sample(range(len(snapshots)), 2)) for _ in range(RANDOM_PAIRS)]
    return [(snapshots[0], snapshots[-1]), *((snapshots[one], snapshots[two]) for one, two in pairs)]


@each_chain
@pytest.mark.exhaustive
def test_every_snapshot_contains_what_the_job_logged(release: str, backend: str) -> None:
    logged = chain(release, backend)
    for snapshot in logged.snapshots:
        found = {name: logged.alive(name, entries, snapshot.now) for name, entries in contents(snapshot).items()}
        assert without_empty(found) == without_empty(logged.contents(snapshot)), snapshot.path


@each_chain
@pytest.mark.exhaustive
def test_changes_of_each_step_are_those_of_the_log(release: str, backend: str) -> None:
    logged = chain(release, backend)
    found = changes_by_step(logged)
    for old, new in pairwise(logged.snapshots):
        changes = logged.alive_changes(found.get(new.checkpoint_id, {}), new.now)
        assert changes == logged.changes(old, new), (old.path, new.path)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("release", "backend"),
    [
        pytest.param(name, item, marks=() if (name, item) == FAST else pytest.mark.exhaustive)
        for name in RELEASES
        for item in BACKENDS
    ],
)
def test_net_changes_of_many_steps_are_those_of_the_log(release: str, backend: str) -> None:
    logged = chain(release, backend)
    for old, new in far_pairs(logged.snapshots):
        changes = logged.alive_changes(net_changes(old, new), new.now)
        assert changes == logged.changes(old, new), (old.path, new.path)


@each_chain
@pytest.mark.exhaustive
def test_changes_applied_to_a_snapshot_give_the_later_one(release: str, backend: str) -> None:
    """Each step to the snapshot before, all steps one after another to the first, and of pairs what changed net."""
    logged = chain(release, backend)
    steps = changes_by_step(logged)
    reached = contents(logged.snapshots[0])
    for new in logged.snapshots[1:]:
        reached = applied(reached, steps.get(new.checkpoint_id, {}))
        assert reached == contents(new), new.path
    for old, new in far_pairs(logged.snapshots):
        assert applied(contents(old), net_changes(old, new)) == contents(new), (old.path, new.path)


@each_chain
@pytest.mark.exhaustive
def test_without_times_entries_count_whose_values_differ(release: str, backend: str) -> None:
    logged = chain(release, backend)
    (before, after), refreshed = logged.snapshots[2:4], 0
    assert after.step == SAME_VALUES
    for name in changes_by_step(logged)[after.checkpoint_id]:
        if name[0] == EXPIRING:
            selection = selections(logged)[name]
            feed = stateproc.changes(opened(before), opened(after), **selection)  # type: ignore[arg-type]
            found = {name: changed_entries(feed.to_arrow().to_pylist())}
            with_times = {name: changes_by_step(logged)[after.checkpoint_id][name]}
            assert without_access(found) == without_access(with_times)
            refreshed += len(with_times[name]) - len(found[name])
    assert refreshed > 20


@each_chain
@pytest.mark.exhaustive
def test_diff_has_the_same_changes(release: str, backend: str) -> None:
    """Of snapshots before and after a restore, and in either order."""
    logged = chain(release, backend)
    one, two = logged.snapshots[5:7]
    for old, new in ((one, two), (two, one)):
        rows: dict[StateName, list[dict[str, Any]]] = defaultdict(list)

        def keep(operator: OperatorPair, state: StatePair, batch: pa.RecordBatch) -> None:
            rows[str(operator.uid), state.name].extend(batch.to_pylist())  # noqa: B023

        assert compare_snapshots(opened(old), opened(new), times=True, rows=keep).is_readable
        found = {name: changed_entries(own) for name, own in rows.items() if is_logged(name)}
        assert logged.alive_changes(found, two.now) == logged.changes(old, new)


@pytest.mark.exhaustive
def test_backends_and_releases_may_differ() -> None:
    """All chains are of the same changes, so that the log of one is true of snapshots of two."""
    chains = [chain(release, backend) for release in RELEASES for backend in BACKENDS]
    dice = random.Random(20)
    for left, right in zip(chains, [*chains[1:], chains[0]], strict=True):
        old, new = dice.choice(left.snapshots[:12]), dice.choice(right.snapshots[12:])
        changes = left.alive_changes(net_changes(old, new), new.now)
        assert changes == left.changes(old, new), (old.path, new.path)


@each_chain
@pytest.mark.exhaustive
def test_appended_elements_are_the_ends_of_lists(release: str, backend: str) -> None:
    """Rows of elements have their positions: of a list that only grew, the new elements are inserted."""
    logged = chain(release, backend)
    appended = 0
    for old, new in pairwise(logged.snapshots[:6]):
        feed = stateproc.changes(opened(old), opened(new), "feed", "items", list_changes="appended")
        inserted: dict[str, list[tuple[int, str]]] = defaultdict(list)
        touched = set()
        for row in feed.to_arrow().to_pylist():
            if row["_change_type"] == "insert":
                inserted[row["key"]].append((row["list_index"], row["list_element"]))
            else:
                touched.add(row["key"])
        for identity, (before, after) in logged.changes(old, new).get(("feed", "items"), {}).items():
            key = json.loads(identity)[0]
            if after is not None and after[: len(before or ())] == (before or []):
                start = len(before or ())
                assert sorted(inserted[key]) == list(enumerate(after[start:], start))
                assert key not in touched
                appended += 1
    assert appended > 20


@pytest.mark.slow
def test_commits_have_the_time_at_which_they_were_completed(tmp_path: Path) -> None:
    """Which is when their `_metadata` was written."""
    logged = chain("2.3", "hashmap")
    root = tmp_path / "checkpoints"
    shutil.copytree(logged.root, root)
    for item in logged.snapshots:
        metadata = root / Path(item.path).relative_to(logged.root) / "_metadata"
        os.utime(metadata, ns=(item.completed * 1_000_000,) * 2)
    rows = stateproc.changes(str(root), uid="feed", state="sum", mode="steps").to_arrow().to_pylist()
    found = {row["_commit_version"]: round(row["_commit_timestamp"].timestamp() * 1000) for row in rows}
    completed = {item.checkpoint_id: item.completed for item in logged.snapshots}
    assert len(found) > 15
    assert found == {version: completed[version] for version in found}
