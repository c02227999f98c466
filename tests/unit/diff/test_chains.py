"""Differences within chains of snapshots equal those between the contents that the job itself recorded."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from stateproc.diff import keyed_entries
from stateproc.diff.snapshot_diff import SnapshotComparison
from stateproc.model.state import State
from tests.helpers.change_feeds import chains, newest_chains
from tests.helpers.fixtures import FIXTURES, Fixture, fixtures_in

NEWEST = set(newest_chains())
CHAINS = [path for path in chains() if path in NEWEST or path.parent.name in ("1.8", "1.15")]
"""Each chain as the newest release and as the oldest wrote it, RocksDB's as 1.8, changelogs as 1.15."""
FAST = {"1.20/chain-rocksdb"}
Contents: TypeAlias = dict[tuple[str, str], dict[str, str]]
"""(uid, state) → key → value, as text; entries of maps have their user key in the key."""
CASES = [
    pytest.param(path, id=name, marks=() if name in FAST else pytest.mark.exhaustive)
    for path in CHAINS
    if (name := f"{path.parent.name}/{path.name}")
]


def text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def recorded(fixture: Fixture) -> Contents:
    """What the job recorded when the snapshot was taken."""
    contents: Contents = {}
    for line in fixture.expected():
        kind, key = line["kind"], [line["key"], line["namespace"]]
        if kind.startswith("timer-"):
            state = f"{kind.removeprefix('timer-')} timers"
            contents.setdefault((line["uid"], state), {})[text([line["state"], *key, line["value"]])] = ""
            continue
        entries = contents.setdefault((line["uid"], line["state"]), {})
        if kind == "map":
            entries.update({text([*key, item["key"]]): text(item["value"]) for item in line["value"]})
        else:
            entries[text(key)] = text(line["value"])
    return contents


def differences(left: Contents, right: Contents) -> dict[tuple[str, str], tuple[int, int, int]]:
    """(uid, state) → keys added, removed, changed."""
    found = {}
    for state in {*left, *right}:
        one, two = left.get(state, {}), right.get(state, {})
        changed = sum(one[key] != two[key] for key in one.keys() & two.keys())
        found[state] = (len(two.keys() - one.keys()), len(one.keys() - two.keys()), changed)
    return {state: counts for state, counts in found.items() if any(counts)}


def found_differences(
    comparison: SnapshotComparison, states: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], tuple[int, int, int]]:
    """The same as compared; only of states that the job records."""
    found = {}
    wanted = set(states)
    for operator in comparison.operators:
        for state in operator.states:
            assert state.problem is None, state
            assert state.counts is not None
            counts = (state.counts.inserted, state.counts.deleted, state.counts.updated)
            if any(counts) and (operator.display, state.name) in wanted:
                found[operator.display, state.name] = counts
    return found


@pytest.mark.parametrize("path", CASES)
def test_differences_equal_those_of_what_the_job_recorded(path: Path) -> None:
    """Consecutive snapshots, and the first and the last: over changes of the format, the backend, the parallelism."""
    members = fixtures_in(path)
    if any(member.manifest.get("time_to_live") for member in members):
        pytest.skip("snapshots hold expired entries, which the job does not record")
    opened = [(member.open(), recorded(member)) for member in members]
    for (left, before), (right, after) in [*pairwise(opened), (opened[0], opened[-1])]:
        assert found_differences(left.diff(right), {*before, *after}) == differences(before, after)


SIZES = {
    "matched often": {"MATCHED_AT_ONCE": 0},
    "matched in any order": {"MATCHED_AT_ONCE": 0, "HELD_BYTES": 200, "_DECODED_AT_ONCE": 1},
    "divided on disk": {"MATCHED_AT_ONCE": 0, "HELD_BYTES": 0, "SPILLED_AT_ONCE": 0},
}
"""What units do whose entries do not fit into memory, on units of any size."""


LARGE = ("chain-rocksdb", "chain-changelog-sessions", "chain-changelog-heap", "chain-heaptimers", "chain-expiring")
"""Chains of each reader of entries, with windows, timers and times to live; how files are found makes no difference."""


@pytest.mark.slow
@pytest.mark.parametrize("path", [case for case in CASES if str(case.id).endswith(LARGE)])
def test_large_units_have_the_same_differences(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, *_, last = [member.open() for member in fixtures_in(path)]
    for left, right, sizes in ((first, last, list(SIZES)), (last, first, ["divided on disk"])):
        wanted = _shown(left.diff(right))
        for size in sizes:
            with monkeypatch.context() as changed:
                for name, value in SIZES[size].items():
                    changed.setattr(keyed_entries, name, value)
                assert _shown(left.diff(right)) == wanted, size


def _shown(comparison: SnapshotComparison) -> object:
    rows = [
        (operator.display, state.name, sorted(map(repr, state.to_arrow().to_pylist())))
        for operator in comparison.operators
        for state in operator.states
    ]
    return comparison.to_dict(), rows


@pytest.mark.parametrize("path", CASES)
def test_snapshots_of_one_moment_are_equal(path: Path) -> None:
    """What has equal contents by the job's record is equal, whatever the format; so is a snapshot and itself."""
    members = fixtures_in(path)
    if any(member.manifest.get("time_to_live") for member in members):
        pytest.skip("expired entries may have been dropped or not")
    contents = [(member, recorded(member)) for member in members]
    of_one_moment = [pair for pair in pairwise(contents) if pair[0][1] == pair[1][1]]
    for (one, _), (two, _) in of_one_moment:
        for left, right in ((one, two), (two, one)):
            comparison = left.open().diff(right.open())
            assert comparison.equal, [state for operator in comparison.operators for state in operator.states]
    last = members[-1].open()
    assert last.diff(last).equal
    if path.name == "chain-rocksdb" and len(members) > 6:
        assert len(of_one_moment) >= 2


def test_times_of_last_access_count_on_request() -> None:
    members = fixtures_in(FIXTURES / "1.20/chain-rocksdb")
    left, right = members[2].open(), members[3].open()
    plain, with_times = left.diff(right), left.diff(right, times=True)
    for name in ("text", "items", "entries", "sum", "totals"):
        rows = [_rows_with_times(snapshot.state("chain-ttl", name)) for snapshot in (left, right)]
        updated = sum(rows[0][key] != rows[1][key] for key in rows[0].keys() & rows[1].keys())
        found = [comparison["chain-ttl"][name].counts for comparison in (plain, with_times)]
        assert found[0] is not None and found[1] is not None
        assert found[1].updated == updated >= found[0].updated
        assert found[1].inserted == found[0].inserted


def _rows_with_times(state: State) -> dict[str, str]:
    rows = state.to_arrow(flatten=state.kind == "map").to_pylist()
    keys = ("key", "namespace", "map_key")
    return {
        repr([row.get(name) for name in keys]): repr([row[name] for name in row if name not in (*keys, "key_group")])
        for row in rows
    }
