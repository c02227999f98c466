"""Read a fixture with stateproc and compare every row with what the job that wrote it expects."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import stateproc
from stateproc.model.operator_state import opened_state
from stateproc.model.state import State
from stateproc.snapshot.metadata_tables import METADATA_TABLES
from stateproc.snapshot.snapshot import Snapshot
from tests.helpers.paths import FIXTURES
from tests.helpers.value_comparison import plain, same

# Classes without fields in their snapshots: Kryo classes, and POJO subclasses that heap snapshots do not list.
CLASSES = {
    "fixtures.Edges$Dog": {"legs": "int", "name": "String", "weight": "Double"},
    "fixtures.Edges$Generic": {"text": "String", "number": "int", "longs": "long[]"},
}
UNKNOWN_TYPES = "many-states"
"""The job of two states with a serializer that stateproc does not know; native heap files hide more states by it."""
PLANNED = "plan"
"""The jobs of compiled plans, whose states `tests.helpers.planned_states` reads under the names of their queries."""
LOGGED = "feed"
"""The job that logs its changes, whose chains `tests.helpers.change_logs` reads."""
ReadRows = Callable[[Snapshot, State], Iterable[dict[str, Any]]]


@dataclass(frozen=True)
class Fixture:
    """One snapshot that real Flink wrote; ``part`` names it among those of a chain."""

    path: Path
    manifest: dict[str, Any]
    part: str = ""

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}/{self.path.name}{self.part and '/' + self.part}"

    @property
    def snapshot(self) -> str:
        return str(self.path / self.manifest["snapshot"])

    @property
    def expected_path(self) -> Path:
        return self.path / str(self.manifest.get("expected", "expected.jsonl"))

    def expected_lines(self) -> list[str]:
        return self.expected_path.read_text(encoding="utf-8").splitlines()

    def expected(self) -> Iterator[dict[str, Any]]:
        return map(json.loads, self.expected_lines())

    def open(self, **options: Any) -> Snapshot:
        uids = {line["uid"] for line in self.expected() if line["uid"]}
        declared = {"key_type": self.manifest.get("key_type")}
        return stateproc.open(self.snapshot, uids=uids, **declared | options)


def fixtures(*kinds: str, backends: tuple[str, ...] = ()) -> list[Fixture]:
    """All fixtures whose states can be read, every snapshot of every chain; of ``kinds`` and ``backends`` if given."""
    return [
        item
        for item in _every_fixture()
        if (not kinds or item.manifest["kind"] in kinds) and (not backends or item.manifest["backend"] in backends)
    ]


@cache
def _every_fixture() -> tuple[Fixture, ...]:
    found = (item for path in sorted(FIXTURES.glob("*/*/manifest.json")) for item in fixtures_in(path.parent))
    return tuple(item for item in found if item.manifest["job"] not in (UNKNOWN_TYPES, PLANNED, LOGGED))


def unknown_type_fixtures(*modes: str) -> list[Fixture]:
    """The fixtures with states of an unknown serializer, by Flink 1.20 and 2.3, in these modes; all without any."""
    found = (item for path in sorted(FIXTURES.glob(f"*/{UNKNOWN_TYPES}-*")) for item in fixtures_in(path))
    return [item for item in found if not modes or item.manifest["mode"] in modes]


def fixtures_in(path: Path) -> list[Fixture]:
    """The fixture of a folder; of a chain's folder one for each snapshot, in the order in which they were taken."""
    manifest = json.loads((path / "manifest.json").read_text())
    if "snapshots" not in manifest:
        return [Fixture(path, manifest)]
    return [Fixture(path, manifest | item, f"{n + 1}-{_short(item)}") for n, item in enumerate(manifest["snapshots"])]


def _short(item: dict[str, Any]) -> str:
    return f"{item['kind']}-by-{item['parallelism']}"


def arrow_rows(snapshot: Snapshot, state: State) -> list[dict[str, Any]]:
    """The state's rows through the Arrow core."""
    return [row for batch in state.batches() for row in batch.to_pylist()]


def differences(fixture: Fixture, snapshot: Snapshot, read: ReadRows = arrow_rows) -> list[str]:
    """What differs from the expected contents, row by row; empty if all is equal."""
    expected: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in fixture.expected():
        expected[(line["uid"], line["state"], line["kind"])].append(line)
    if fixture.manifest.get("time_to_live"):
        read = _unexpired(read, fixture.manifest["time_to_live"], fixture.manifest["told"])
    found: list[str] = []
    for (uid, name, kind), lines in expected.items():
        found += [f"{uid}.{name} ({kind}): {text}" for text in _CHECKS[kind](snapshot, uid, name, kind, lines, read)]
    return found


def _unexpired(read: ReadRows, time_to_live: int, recorded: list[int]) -> ReadRows:
    """Leave out entries that had expired when the job recorded its states; compactions may have dropped them or not."""

    def is_alive(moment: Any) -> bool:
        expiry = round(moment.timestamp() * 1000) + time_to_live
        assert not recorded[0] <= expiry <= recorded[1], (
            "expired while the job recorded its states: write the fixture again"
        )
        return bool(expiry > recorded[1])

    def alive(snapshot: Snapshot, state: State) -> Iterator[dict[str, Any]]:
        for row in read(snapshot, state):
            accesses = row["last_access"]
            if isinstance(accesses, list):
                moments = [item[1] if isinstance(item, tuple) else item for item in accesses]
                kept = [n for n, moment in enumerate(moments) if is_alive(moment)]
                if kept:
                    yield {**row, **{name: [row[name][n] for n in kept] for name in ("value", "last_access")}}
            elif is_alive(accesses):
                yield row

    return alive


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
        # Evicting windows hold stream records; here a field of their own says that they are records.
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


def _splits(
    snapshot: Snapshot, uid: str, name: str, kind: str, lines: list[dict[str, Any]], read: ReadRows
) -> Iterator[str]:
    """Kafka splits in the readers' state, opened as columns."""
    ours = [{**row} for row in map(plain, read(snapshot, opened_state(snapshot.state(uid, name))))]
    theirs = [{"subtask": line["subtask"], **line["value"]} for line in lines]
    if sorted(map(_leaves, ours)) != sorted(map(_leaves, theirs)):
        yield f"{ours!r} is not {theirs!r}"


def _enumerator(
    snapshot: Snapshot, uid: str, name: str, kind: str, lines: list[dict[str, Any]], read: ReadRows
) -> Iterator[str]:
    """What the source's coordinator knows of partitions."""
    coordinator = snapshot.operator(uid).coordinator
    decoded = coordinator["decoded"] if coordinator else None
    partitions = {(item["topic"], item["partition"]) for item in (decoded or {"partitions": []})["partitions"]}
    if partitions != {(line["value"]["topic"], line["value"]["partition"]) for line in lines}:
        yield f"{partitions!r} is not what {len(lines)} lines say"


def _versioned(
    snapshot: Snapshot, uid: str, name: str, kind: str, lines: list[dict[str, Any]], read: ReadRows
) -> Iterator[str]:
    """Sink writers' states: version and bytes, in the order of their subtask."""
    ours = [plain(row) for row in read(snapshot, opened_state(snapshot.state(uid, name)))]
    yield from _other_rows(ours, [{"subtask": line["subtask"], **line["value"]} for line in lines])


def _committer(
    snapshot: Snapshot, uid: str, name: str, kind: str, lines: list[dict[str, Any]], read: ReadRows
) -> Iterator[str]:
    """Committables that waited, each with the checkpoint and subtask it came from."""
    rows = [plain(row) for row in read(snapshot, opened_state(snapshot.state(uid, name)))]
    ours = [{"in": row["subtask"], **item} for row in rows for item in row["committables"]]
    yield from _other_rows(ours, [{"in": line["subtask"], **line["value"]} for line in lines])


def _other_rows(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> Iterator[str]:
    texts = [sorted(json.dumps(row, sort_keys=True) for row in rows) for rows in (ours, theirs)]
    if texts[0] != texts[1]:
        yield f"{texts[0]!r} is not {texts[1]!r}"


def _channels(
    snapshot: Snapshot, uid: str, name: str, kind: str, lines: list[dict[str, Any]], read: ReadRows
) -> Iterator[str]:
    """Records in flight are listed among the files, with what their files hold."""
    rows = [row for row in METADATA_TABLES["files"].table(snapshot).to_pylist() if row["role"].startswith("channel ")]
    if not {"channel in", "channel out"} <= {row["role"] for row in rows if row["uid"] == uid}:
        yield f"{uid} has no channel state in and out, among {rows!r}"
    folder = Path(snapshot.location.directory_uri.removeprefix("file:"))
    for path in {row["path"] for row in rows}:
        size = (folder / Path(path).name).stat().st_size
        known = max(row["start"] + row["bytes"] for row in rows if row["path"] == path)
        if known > size:
            yield f"{path} has {size} bytes where channels need {known}"


def _master(
    snapshot: Snapshot, uid: None, name: str, kind: str, lines: list[dict[str, Any]], read: ReadRows
) -> Iterator[str]:
    ours = [
        {"version": item.version, "bytes": base64.b64encode(item.payload).decode()}
        for item in snapshot.metadata.master_states
        if item.name == name
    ]
    theirs = [line["value"] for line in lines]
    if ours != theirs:
        yield f"{ours!r} is not {theirs!r}"


def _broadcast(
    snapshot: Snapshot, uid: str, name: str, kind: str, lines: list[dict[str, Any]], read: ReadRows
) -> Iterator[str]:
    rows = [plain(row) for row in read(snapshot, snapshot.state(uid, name))]
    ours = {json.dumps(row["map_key"], sort_keys=True): row["map_value"] for row in rows}
    theirs = {json.dumps(line["key"], sort_keys=True): line["value"] for line in lines}
    if ours.keys() != theirs.keys() or not all(same(ours[key], theirs[key]) for key in theirs):
        yield f"{ours!r} is not {theirs!r}"


def _sql(
    snapshot: Snapshot, uid: str | None, name: str, kind: str, lines: list[dict[str, Any]], read: ReadRows
) -> Iterator[str]:
    """States of SQL operators: the operator is found by the state; fields have no names before Flink 2.4.

    Every value expected of a key must be in that key's row.
    """
    state = next(view for view in snapshot.states if view.name == name)
    rows = {
        _leaves([row["key"], row.get("namespace")]): _leaves(row["value"]) for row in map(plain, read(snapshot, state))
    }
    for line in lines:
        found = list(rows.pop(_leaves([line["key"], line["namespace"]]), ()))
        for leaf in _leaves(line["value"]):
            if leaf not in found:
                yield f"{leaf} of key {line['key']!r} is missing"
                break
            found.remove(leaf)
    if rows:
        yield f"{len(rows)} keys too many, such as {next(iter(rows))!r}"


def _leaves(value: Any) -> tuple[str, ...]:
    """All scalars within a value, as texts."""
    if isinstance(value, dict):
        value = [item for key, item in value.items() if key != "last_access"]
    if isinstance(value, list):
        return tuple(leaf for item in value for leaf in _leaves(item))
    return () if value is None else (str(value),)


_CHECKS: dict[str, Callable[..., Iterator[str]]] = {
    **dict.fromkeys(("value", "list", "map", "reducing", "aggregating", "window"), _keyed),
    "timer-event": _timers,
    "timer-processing": _timers,
    "operator-list": _elements,
    "operator-union": _elements,
    "broadcast": _broadcast,
    "sql": _sql,
    "splits": _splits,
    "enumerator": _enumerator,
    "versioned": _versioned,
    "committer": _committer,
    "channels": _channels,
    "master": _master,
}


@cache
def newest_fixtures() -> tuple[Fixture, ...]:
    """Return the fixtures of each job and mode as the newest release wrote them, of a chain its last snapshot.

    For sweeps of what does not depend on how a release writes: the reading of all fixtures has sweeps of its own.
    """
    newest: dict[tuple[str, str], Fixture] = {}
    for fixture in sorted(fixtures(), key=lambda item: [int(part) for part in item.path.parent.name.split(".")]):
        newest[fixture.manifest["job"], fixture.path.name] = fixture
    return tuple(newest.values())
