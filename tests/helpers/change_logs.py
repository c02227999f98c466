"""Chains of snapshots whose job logged each change of its states (`tests/fixtures/*/feed-*`), and rows as such changes.

Contents of states are dictionaries from the identity of an entry (key, namespace, map key; of timers and elements of
operator states all they consist of) to its value, both as JSON; of states with a time to live the value has the time of
last access beside it.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import stateproc
from stateproc.snapshot.snapshot import Snapshot
from tests.helpers.paths import FIXTURES
from tests.helpers.value_comparison import plain

UIDS = {"feed", "feed-ttl", "feed-elements", "feed-windows", "feed-sessions"}
EXPIRING = "feed-ttl"
NOT_LOGGED = {"merging-window-set"}
"""What the window operator keeps for itself."""
SAME_VALUES = 4
"""The step that writes values which are there already."""
START = 1_700_000_000_000
"""Milliseconds at hour 0 of the job's clock."""
PRESENT = {"value": "present"}
"""The value of what is all identity."""
T = TypeVar("T")
StateName: TypeAlias = tuple[str, str]
"""The uid of an operator, and the name of its state; timers are called as `stateproc` does."""
Entries: TypeAlias = dict[str, Any]
Changes: TypeAlias = dict[StateName, dict[str, tuple[Any, Any]]]
"""Of each state the entries that changed, with their values before and after; None is no entry."""


@dataclass(frozen=True)
class LoggedSnapshot:
    """One snapshot of a chain.

    Attributes:
        chain: The chain.
        path: Where it is.
        kind: `checkpoint`, `canonical` or `native`.
        step: The number of the last step that it contains.
        now: The time of the job's clock, in milliseconds.
        completed: When it was completed, in milliseconds.
        parallelism: That of the job.
    """

    chain: LoggedChain
    path: str
    kind: str
    step: int
    now: int
    completed: int
    parallelism: int

    @cached_property
    def checkpoint_id(self) -> int:
        return self.open().metadata.checkpoint_id

    def open(self, **options: Any) -> Snapshot:
        return stateproc.open(self.path, uids=UIDS, key_type=self.chain.key_type, **options)


@dataclass(frozen=True)
class LoggedChain:
    """All snapshots of a job, and what it logged between them."""

    path: Path

    @cached_property
    def manifest(self) -> dict[str, Any]:
        return dict(json.loads((self.path / "manifest.json").read_text()))

    @property
    def root(self) -> str:
        """The directory that all its snapshots are below."""
        return str(self.path / "snapshot")

    @property
    def key_type(self) -> str | None:
        """The type of keys that no file declares."""
        given = self.manifest["key_type"]
        return None if given is None else str(given)

    @property
    def time_to_live(self) -> int:
        return int(self.manifest["time_to_live"])

    @cached_property
    def snapshots(self) -> list[LoggedSnapshot]:
        return [
            LoggedSnapshot(
                self,
                str(self.path / item["snapshot"]),
                item["kind"],
                item["step"],
                START + item["hours"] * 3_600_000,
                item["completed"],
                item["parallelism"],
            )
            for item in self.manifest["snapshots"]
        ]

    @cached_property
    def lines(self) -> list[dict[str, Any]]:
        """The log. Fails if a line does not continue what the one before says of its entry."""
        lines = [json.loads(line) for line in (self.path / "changes.jsonl").read_text().splitlines()]
        current: dict[tuple[StateName, str], Any] = {}
        for line in lines:
            name, identity, before, after = _of_line(line)
            assert current.get((name, identity)) == before, line
            current[name, identity] = after
        return lines

    @cached_property
    def _contents(self) -> dict[int, dict[StateName, Entries]]:
        contents: dict[StateName, Entries] = defaultdict(dict)
        after_step: dict[int, dict[StateName, Entries]] = {}
        lines = iter([*self.lines, None])
        line = next(lines)
        for step in range(1, self.snapshots[-1].step + 1):
            while line is not None and line["step"] == step:
                name, identity, _, after = _of_line(line)
                contents[name].pop(identity, None)
                if after is not None:
                    contents[name][identity] = after
                line = next(lines)
            after_step[step] = {name: dict(entries) for name, entries in contents.items()}
        assert line is None
        return after_step

    def contents(self, snapshot: LoggedSnapshot) -> dict[StateName, Entries]:
        """Return what all logged states contain in a snapshot; of states with a time to live what has not expired."""
        return {
            name: self.alive(name, entries, snapshot.now) for name, entries in self._contents[snapshot.step].items()
        }

    def changes(self, old: LoggedSnapshot, new: LoggedSnapshot) -> Changes:
        """Return the net change by the log; what expires until the later snapshot is in neither."""
        now = max(old.now, new.now)
        left, right = (
            {name: self.alive(name, entries, now) for name, entries in self._contents[item.step].items()}
            for item in (old, new)
        )
        found = {name: (left.get(name, {}), right.get(name, {})) for name in {*left, *right}}
        return without_empty(
            {
                name: {key: (one.get(key), two.get(key)) for key in {*one, *two} if one.get(key) != two.get(key)}
                for name, (one, two) in found.items()
            }
        )

    def alive(self, name: StateName, entries: Entries, now: int) -> Entries:
        """Return entries without those, and without elements, whose time to live has ended."""
        if name[0] != EXPIRING:
            return entries
        kept = {key: self._alive(value, now) for key, value in entries.items()}
        return {key: value for key, value in kept.items() if value is not None}

    def alive_changes(self, changes: Changes, now: int) -> Changes:
        """Return changes as those between what has not expired by now."""
        found: Changes = {}
        for name, entries in changes.items():
            pairs = entries
            if name[0] == EXPIRING:
                pairs = {
                    key: (self._alive(before, now), self._alive(after, now)) for key, (before, after) in entries.items()
                }
            found[name] = {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
        return without_empty(found)

    def _alive(self, value: Any, now: int) -> Any:
        if isinstance(value, list):
            return [item for item in value if self._alive(item, now)] or None
        return value if value is not None and value["access"] + self.time_to_live > now else None


def logged_chains(release: str) -> dict[str, LoggedChain]:
    """The chains that a release wrote, by the name of their backend."""
    return {path.name.removeprefix("feed-"): LoggedChain(path) for path in sorted((FIXTURES / release).glob("feed-*"))}


def without_empty(states: Mapping[StateName, dict[str, T]]) -> dict[StateName, dict[str, T]]:
    """Return the states of which there is anything."""
    return {name: entries for name, entries in states.items() if entries}


def without_access(changes: Changes) -> Changes:
    """Return changes of values, without times of last access and without entries that only these change."""
    plain_pairs = {
        name: {key: (_value_of(before), _value_of(after)) for key, (before, after) in entries.items()}
        for name, entries in changes.items()
    }
    return without_empty(
        {
            name: {key: pair for key, pair in entries.items() if pair[0] != pair[1]}
            for name, entries in plain_pairs.items()
        }
    )


def applied(contents: Mapping[StateName, Entries], changes: Changes) -> dict[StateName, Entries]:
    """Return contents after changes; fails if an entry is not what a change says it was before."""
    result = {name: dict(entries) for name, entries in contents.items()}
    for name, entries in changes.items():
        state = result.setdefault(name, {})
        for key, (before, after) in entries.items():
            assert state.pop(key, None) == before, (name, key)
            if after is not None:
                state[key] = after
    return without_empty(result)


def is_logged(name: StateName) -> bool:
    """Whether the job logs a state."""
    return name[0] in UIDS and name[1] not in NOT_LOGGED


def entries_of(snapshot: Snapshot) -> dict[StateName, Entries]:
    """Read all states that the job logs."""
    found: dict[StateName, Entries] = {}
    for operator in snapshot.operators:
        for state in operator.states:
            name = (operator.display, state.name)
            if is_logged(name):
                rows = state.to_arrow(flatten=state.kind == "map").to_pylist()
                found[name] = dict(map(entry, rows))
                assert len(found[name]) == len(rows), f"{name}: entries have one identity"
    return without_empty(found)


def changed_entries(rows: Iterable[Mapping[str, Any]]) -> dict[str, tuple[Any, Any]]:
    """Return rows with `_change_type` as entries with their values before and after."""
    found: dict[str, tuple[Any, Any]] = {}
    pending: tuple[str, Any] | None = None
    for row in rows:
        identity, value = entry(row)
        change = row["_change_type"]
        assert (change == "update_postimage") == (pending is not None), "an update is two rows, one after the other"
        if change == "update_preimage":
            pending = identity, value
            continue
        assert identity not in found, f"{identity} changes twice"
        if pending is not None:
            assert pending[0] == identity
            found[identity] = (pending[1], value)
            pending = None
        else:
            found[identity] = (None, value) if change == "insert" else (value, None)
    assert pending is None
    return found


def entry(row: Mapping[str, Any]) -> tuple[str, Any]:
    """Return a row's identity and value."""
    if "timestamp" in row:
        return _text([row["service"], plain(row["key"]), row.get("namespace"), _millis(row["timestamp"])]), PRESENT
    if "key" not in row and "map_key" not in row:
        return _text(plain(row["value"])), PRESENT
    identity = _text([plain(row.get("key")), plain(row.get("namespace")), plain(row.get("map_key"))])
    value = plain(row["map_value"] if "map_value" in row else row["value"])
    if "last_access" not in row:
        return identity, value
    access = row["last_access"]
    if isinstance(access, list):
        return identity, [{"value": item, "access": _millis(at)} for item, at in zip(value, access, strict=True)]
    return identity, {"value": value, "access": _millis(access)}


def _of_line(line: dict[str, Any]) -> tuple[StateName, str, Any, Any]:
    """Return state, identity and the values before and after of a line of the log."""
    before, after, kind = line.get("before"), line.get("after"), line["kind"]
    name = line["uid"], line["state"]
    if kind.startswith("timer-"):
        name = line["uid"], f"{kind.removeprefix('timer-')} timers"
        time = before if after is None else after
        identity = _text([line["state"], line["key"], line.get("namespace"), time])
    elif kind.startswith("operator-"):
        identity = _text(before if after is None else after)
    else:
        identity = _text([line.get("key"), line.get("namespace"), line.get("map_key")])
        return name, identity, before, after
    return name, identity, before and PRESENT, after and PRESENT


def _value_of(value: Any) -> Any:
    if isinstance(value, list):
        return [_value_of(item) for item in value]
    return value["value"] if isinstance(value, dict) and value.keys() == {"value", "access"} else value


def _millis(moment: Any) -> int:
    return round(moment.timestamp() * 1000) if isinstance(moment, dt.datetime) else int(moment)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
