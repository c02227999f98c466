"""Compares two savepoints byte by byte: serializers' snapshots, and keyed entries whatever their order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import stateproc
from stateproc.metadata.backend import StateMetaInfo
from stateproc.model.operator import Operator
from stateproc.writers.rewrite.raw_copy import carried_splits


def byte_differences(ours: str | Path, theirs: str | Path) -> list[str]:
    """What differs, empty if all is equal. Keyed states without entries count as if they were not there.

    Savepoints for one release, of one max parallelism; format, state backend and parallelism may differ.
    """
    left, right = ({op.operator_id: op for op in stateproc.open(str(path)).operators} for path in (ours, theirs))
    found: list[str] = []
    for operator in left.keys() | right.keys():
        mine, other = (contents(side[operator]) if operator in side else {} for side in (left, right))
        found += [f"{operator}: {text}" for text in _unequal(mine, other)]
    return sorted(found)


def _unequal(ours: dict[str, object], theirs: dict[str, object]) -> Iterator[str]:
    for name in ours.keys() | theirs.keys():
        if ours.get(name) != theirs.get(name):
            yield f"{name}: {ours.get(name)!r:.400} is not {theirs.get(name)!r:.400}"


def contents(operator: Operator) -> dict[str, object]:
    """Name → bytes: of states the snapshots of their serializers, as `state/part`, and the entries, as `state`."""
    found: dict[str, object] = {}
    entries: dict[str, list[tuple[int, bytes, bytes]]] = {}
    for file in operator.keyed_files:
        if file.header is None:
            continue
        found["key serializer"] = file.header.key_snapshot
        for info in file.header.states:
            entries.setdefault(info.name, [])
            found |= _declared(info)
    for own in operator.operator_files:
        for info in (*own.header.states, *own.header.broadcast):
            found |= _declared(info)
    for name, rows in entries.items():
        for split in carried_splits(operator, name, 0):
            for batch in split.read():
                columns = (batch.column(column).to_pylist() for column in ("key_group", "key", "value"))
                rows += zip(*columns, strict=True)
    # A state without entries, such as timers of a domain, is registered or not as the job goes.
    empty = {name for name, rows in entries.items() if not rows}
    found = {name: data for name, data in found.items() if name.rpartition("/")[0] not in empty}
    return found | {name: sorted(rows) for name, rows in entries.items() if rows}


def _declared(info: StateMetaInfo) -> dict[str, object]:
    """What a header says of a state: its kind and its serializers."""
    options = {f"{info.name}/{option}": value for option, value in info.options.items()}
    return options | {f"{info.name}/{part}": data for part, data in info.snapshots.items()}
