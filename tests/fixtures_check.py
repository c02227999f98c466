"""Read a fixture with stateproc and compare every row with what the job that wrote it expects."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any



import stateproc
from comparing import plain, same
from stateproc.snapshot import Snapshot
from stateproc.states import State

FIXTURES = Path(__file__).parent / "fixtures"
ReadRows = Callable[[Snapshot, State], Iterable[dict[str, Any]]]


@dataclass(frozen=True)
class Fixture:
    """One snapshot that real Flink wrote."""

    path: Path
    manifest: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}/{self.path.name}"

    @property
    def snapshot(self) -> str:
        return str(self.path / self.manifest["snapshot"])

    def expected(self) -> Iterator[dict[str, Any]]:
        for line in (self.path / "expected.jsonl").read_text(encoding="utf-8").splitlines():
            yield json.loads(line)

    def open(self, **options: Any) -> Snapshot:
        uids = {line["uid"] for line in self.expected()}
        return stateproc.open(self.snapshot, uids=uids, **options)


def fixtures(*kinds: str) -> list[Fixture]:
    """All fixtures; of those with a layout in ``kinds`` if any are given."""
    found = [Fixture(path.parent, json.loads(path.read_text())) for path in sorted(FIXTURES.glob("*/*/manifest.json"))]
    return [item for item in found if not kinds or item.manifest["kind"] in kinds]


def arrow_rows(snapshot: Snapshot, state: State) -> list[dict[str, Any]]:
    """The state's rows through the Arrow core."""
    return [row for batch in state.batches() for row in batch.to_pylist()]


def differences(fixture: Fixture, snapshot: Snapshot, read: ReadRows = arrow_rows) -> list[str]:
    """What differs from the expected contents, row by row; empty if all is equal."""
    expected: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in fixture.expected():
        expected[(line["uid"], line["state"], line["kind"])].append(line)
    found: list[str] = []
    for (uid, name, kind), lines in expected.items():
        check = _CHECKS.get(kind)
        if check is None:
            continue
        found += [f"{uid}.{name} ({kind}): {text}" for text in check(snapshot, uid, name, kind, lines, read)]
    return found


def _keyed(
    snapshot: Snapshot, uid: str, name: str, kind: str, lines: list[dict[str, Any]], read: ReadRows
) -> Iterator[str]:
    state = snapshot.state(uid, name)
    rows = [plain(row) for row in read(snapshot, state)]
    rest = {_index(row["key"], row.get("namespace")): row for row in rows}
    if len(rest) != len(rows):
        yield f"{len(rows) - len(rest)} rows have the key and namespace of another"
    for line in lines:
        row = rest.pop(_index(line["key"], line["namespace"]), None)
        if row is None:
            yield f"missing: key {line['key']!r}, namespace {line['namespace']!r}"
        elif not _same_value(row["value"], line["value"]):
            yield f"key {line['key']!r}: {row['value']!r} is not {line['value']!r}"
        elif "last_access" in line and not _within(row["last_access"], line["last_access"]):
            yield f"key {line['key']!r}: last access {row['last_access']!r} is not within {line['last_access']!r}"
    if rest:
        yield f"{len(rest)} rows too many, such as {next(iter(rest.values()))!r}"


def _index(key: Any, namespace: Any) -> str:
    return json.dumps([key, namespace], sort_keys=True)


def _same_value(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, list) and theirs and isinstance(theirs[0], dict) and set(theirs[0]) == {"timestamp", "value"}:
        # Evicting windows hold stream records; that they are records is told here by a field of its own.
        ours = [{"timestamp": item["timestamp"], "value": item["value"]} for item in ours]
    return same(ours, theirs)


def _within(value: Any, bounds: list[int]) -> bool:
    if isinstance(value, list):
        return all(_within(item["value"] if isinstance(item, dict) else item, bounds) for item in value)
    import datetime as dt

    moment = dt.datetime.fromisoformat(value)
    return bounds[0] <= round(moment.timestamp() * 1000) <= bounds[1]


def _timers(
    snapshot: Snapshot, uid: str, name: str, kind: str, lines: list[dict[str, Any]], read: ReadRows
) -> Iterator[str]:
    state = snapshot.operator(uid).timers(kind.removeprefix("timer-"))
    rows = [row for row in read(snapshot, state) if row["service"] == name]
    ours = sorted(_index(plain(row["key"]), [plain(row.get("namespace")), row["timestamp"]]) for row in rows)
    theirs = sorted(_index(line["key"], [line["namespace"], line["value"]]) for line in lines)
    if ours != theirs:
        yield f"{len(ours)} timers where {len(theirs)} are expected, or others"


def _elements(
    snapshot: Snapshot, uid: str, name: str, kind: str, lines: list[dict[str, Any]], read: ReadRows
) -> Iterator[str]:
    rows = [plain(row) for row in read(snapshot, snapshot.state(uid, name))]
    # The expected lines are in no order of their own.
    rest = [(line["subtask"], line["value"]) for line in lines]
    for row in rows:
        match = next((item for item in rest if item[0] == row["subtask"] and same(row["value"], item[1])), None)
        if match is None:
            yield f"{row!r} is not expected"
        else:
            rest.remove(match)
    if rest:
        yield f"{len(rest)} elements are missing, such as {rest[0]!r}"


def _broadcast(
    snapshot: Snapshot, uid: str, name: str, kind: str, lines: list[dict[str, Any]], read: ReadRows
) -> Iterator[str]:
    rows = [plain(row) for row in read(snapshot, snapshot.state(uid, name))]
    ours = {json.dumps(row["map_key"], sort_keys=True): row["map_value"] for row in rows}
    theirs = {json.dumps(line["key"], sort_keys=True): line["value"] for line in lines}
    if ours.keys() != theirs.keys() or not all(same(ours[key], theirs[key]) for key in theirs):
        yield f"{ours!r} is not {theirs!r}"


_CHECKS: dict[str, Callable[..., Iterator[str]]] = {
    **dict.fromkeys(("value", "list", "map", "reducing", "aggregating", "window"), _keyed),
    "timer-event": _timers,
    "timer-processing": _timers,
    "operator-list": _elements,
    "operator-union": _elements,
    "broadcast": _broadcast,
}


