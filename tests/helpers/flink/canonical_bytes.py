"""Canonical savepoints taken apart to the bytes of their headers and entries, each file read once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import cramjam

import stateproc
from stateproc.keygroups.ranges import prefix_width
from stateproc.readers.keyed_file import KeyedFile

END_OF_KEY_GROUP = 0xFFFF
LAST_OF_STATE = 0x80


def contents(savepoint: str | Path) -> dict[tuple[str, str], object]:
    """(operator id, what) → the bytes: snapshots as `key`, `state/role`; entries as `state`, in an order of their own.

    Of operator state only the snapshots of serializers.
    """
    found: dict[tuple[str, str], object] = {}
    for operator in stateproc.open(str(savepoint)).operators:
        for file in operator.keyed_files:
            assert file.header is not None
            found[operator.operator_id, "key"] = file.header.key_snapshot
            names = [info.name for info in file.header.states]
            entries: dict[str, list[tuple[int, bytes, bytes]]] = {name: [] for name in names}
            for state, *entry in _entries(file):
                entries[names[state]].append(tuple(entry))  # type: ignore[arg-type]
            for info in file.header.states:
                known = found.setdefault((operator.operator_id, info.name), [])
                assert isinstance(known, list)
                known += entries[info.name]
                found |= {(operator.operator_id, f"{info.name}/{role}"): raw for role, raw in info.snapshots.items()}
        for own in operator.operator_files:
            for info in (*own.header.states, *own.header.broadcast):
                found |= {(operator.operator_id, f"{info.name}/{role}"): raw for role, raw in info.snapshots.items()}
    return {at: sorted(item) if isinstance(item, list) else item for at, item in found.items()}


def _entries(file: KeyedFile) -> Iterator[tuple[int, int, bytes, bytes]]:
    """(state id, key group, key without its key group, value)."""
    assert file.header is not None
    width = prefix_width(file.max_parallelism)
    for group in file.ranges:
        data = file.source.read(group.start, group.stop - group.start)
        if file.header.compressed:
            data = bytes(cramjam.snappy.decompress(data))
        at, state = 2, int.from_bytes(data[:2], "big")
        while state != END_OF_KEY_GROUP:
            key, at = _sized(data, at)
            value, at = _sized(data, at)
            yield state, group.key_group, key[width:], value
            if key[0] & LAST_OF_STATE:
                state = int.from_bytes(data[at : at + 2], "big")
                at += 2
        assert at == len(data)


def _sized(data: bytes, at: int) -> tuple[bytes, int]:
    start = at + 4
    stop = start + int.from_bytes(data[at:start], "big")
    return data[start:stop], stop


def differences(ours: str | Path, theirs: str | Path) -> list[str]:
    """What differs, empty if nothing does."""
    left, right = contents(ours), contents(theirs)
    return [
        f"{at}: {left.get(at)!r:.200} is not {right.get(at)!r:.200}"
        for at in sorted(left.keys() | right.keys())
        if left.get(at) != right.get(at)
    ]
