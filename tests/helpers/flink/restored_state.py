"""Compares what a restored job read back with what its state must hold, both as lines of expected.jsonl."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tests.helpers.value_comparison import same

Line = dict[str, Any]
KEYED = ("value", "list", "map", "reducing", "aggregating", "window")
MERGING = "merging-window-set"


def differences(expected: Iterable[Line], found: Iterable[Line], *, parallelism: int) -> list[str]:
    """What differs at this parallelism, empty if all is equal.

    `expected` are lines as in `tests/fixtures/…/expected.jsonl`, of every state that was found. Flink decides
    which subtask gets an element of operator state: of a split list the elements of all subtasks count, of union and
    broadcast state every subtask has to have all.
    """
    ours, theirs = _by_state(found), _by_state(expected)
    messages: list[str] = []
    for at in theirs.keys() | ours.keys():
        messages += [f"{at[0]}.{at[1]} ({at[2]}): {text}" for text in _CHECKS[at[2]](ours[at], theirs[at], parallelism)]
    return sorted(messages)


def in_their_windows(lines: Iterable[Line]) -> list[Line]:
    """Lines of merging windows with the window that contents belong to in place of the one they are stored under.

    `merging-window-set` maps each to its state window (`MergingWindowSet`); it is no more in the result.
    """
    lines = list(lines)
    windows = {
        (line["uid"], json.dumps(line["key"]), json.dumps(pair["f1"])): pair["f0"]
        for line in lines
        if line["state"] == MERGING
        for pair in line["value"]
    }
    merging = {uid for uid, _, _ in windows}

    def moved(line: Line) -> Line:
        if line["uid"] not in merging or line["kind"] not in KEYED:
            return line
        stored = (line["uid"], json.dumps(line["key"]), json.dumps(line["namespace"]))
        return {**line, "namespace": windows[stored]}

    return [moved(line) for line in lines if line["state"] != MERGING]


def _by_state(lines: Iterable[Line]) -> defaultdict[tuple[str, str, str], list[Line]]:
    groups: defaultdict[tuple[str, str, str], list[Line]] = defaultdict(list)
    for line in lines:
        kind = "keyed" if line["kind"] in KEYED else line["kind"]
        groups[(line["uid"], line["state"], kind)].append(line)
    return groups


def _keyed(ours: list[Line], theirs: list[Line], parallelism: int) -> Iterator[str]:
    rest = {_at(line): line for line in ours}
    if len(rest) < len(ours):
        yield f"{len(ours) - len(rest)} keys were read more than once"
    for line in theirs:
        found = rest.pop(_at(line), None)
        if found is None:
            yield f"key {line['key']!r} of {line['namespace']!r} is missing"
        elif not same(found["value"], line["value"]):
            yield f"key {line['key']!r}: {found['value']!r} is not {line['value']!r}"
        elif "last_access" in line and not _within(found.get("last_access"), line["last_access"]):
            yield f"key {line['key']!r}: last access {found.get('last_access')!r} is not {line['last_access']!r}"
    if rest:
        yield f"{len(rest)} keys too many, such as {next(iter(rest.values()))!r}"


def _at(line: Line) -> str:
    return json.dumps([line["key"], line["namespace"]], sort_keys=True)


def _within(found: Any, bounds: list[int]) -> bool:
    """Bounds are the earliest and latest access of a key; elements and entries have one each."""
    if isinstance(found, list):
        return all(_within(item["value"] if isinstance(item, dict) else item, bounds) for item in found)
    return found is not None and bounds[0] <= found <= bounds[-1]


def _timers(ours: list[Line], theirs: list[Line], parallelism: int) -> Iterator[str]:
    yield from _unequal([_timer(line) for line in ours], theirs, _timer)


def _timer(line: Line) -> Any:
    return [line["key"], line["namespace"], line["value"]]


def _unequal(ours: list[Any], theirs: list[Line], take: Callable[[Line], Any]) -> Iterator[str]:
    """As multisets."""
    rest = list(ours)
    for line in theirs:
        wanted = take(line)
        match = next((item for item in rest if same(item, wanted)), None)
        if match is None:
            yield f"{wanted!r} is missing"
            return
        rest.remove(match)
    if rest:
        yield f"{len(rest)} too many, such as {rest[0]!r}"


def _value(line: Line) -> Any:
    return line["value"]


def _entry(line: Line) -> Any:
    return [line["key"], line["value"]]


def _elements(ours: list[Line], theirs: list[Line], parallelism: int) -> Iterator[str]:
    yield from _unequal([line["value"] for line in ours], theirs, _value)


def _everywhere(ours: list[Line], theirs: list[Line], take: Callable[[Line], Any], parallelism: int) -> Iterator[str]:
    for subtask in sorted({line["subtask"] for line in ours} | set(range(parallelism))):
        here = [take(line) for line in ours if line["subtask"] == subtask]
        yield from (f"subtask {subtask}: {text}" for text in _unequal(here, theirs, take))


def _union(ours: list[Line], theirs: list[Line], parallelism: int) -> Iterator[str]:
    yield from _everywhere(ours, theirs, _value, parallelism)


def _broadcast(ours: list[Line], theirs: list[Line], parallelism: int) -> Iterator[str]:
    # Each subtask recorded its own copy, all the same.
    first = min((line["subtask"] for line in theirs), default=0)
    yield from _everywhere(ours, [line for line in theirs if line["subtask"] == first], _entry, parallelism)


_CHECKS: dict[str, Callable[[list[Line], list[Line], int], Iterator[str]]] = {
    "keyed": _keyed,
    "timer-event": _timers,
    "timer-processing": _timers,
    "operator-list": _elements,
    "operator-union": _union,
    "broadcast": _broadcast,
    "splits": _elements,
    "enumerator": _elements,
    "master": _elements,
}


def leaves(value: Any) -> tuple[str, ...]:
    """All scalars within a value, as texts: rows of SQL, whose fields have names of their own in every job."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return tuple(leaf for item in value for leaf in leaves(item))
    return () if value is None else (str(value),)
