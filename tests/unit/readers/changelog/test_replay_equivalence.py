"""Equivalence of applying random changelogs in bulk and change by change, for every kind of state."""

from __future__ import annotations

import random
import struct
import time
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot
from stateproc.readers.changelog.change_blocks import Change, blocks_of
from stateproc.readers.changelog.log_compaction import compacted_entries
from stateproc.readers.changelog.records import OPERANDS, Operation, records
from stateproc.readers.entry_programs import Columns
from stateproc.readers.heap.reader import composite_entries
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.row_schema import KEY_GROUP
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext, Serializer
from stateproc.serializers.java.scalars import SCALARS, VOID_NAMESPACE, Scalar
from stateproc.serializers.runtime.timers import Timer
from tests.helpers.changelog_replay import Store, length_suffix, load_heap, replay
from tests.helpers.sweeps import exhaustive, sweep

SCALAR = {row[0]: Scalar(*row) for row in SCALARS}
LONG, STRING = SCALAR["Long"], SCALAR["String"]
CTX = LayoutContext()
Contents = dict[tuple[int, bytes], bytes]
MERGING = [StateKind.LIST, StateKind.REDUCING, StateKind.AGGREGATING]
KINDS = [kind for kind in StateKind if kind in OPERANDS]


TEXTS = [bytes([len(text) + 1]) + text.encode() for text in ("", ",", "a", "ab", "abc", "b,", "c" * 40, "0", "1")]
"""StringValues; some are prefixes of others, some contain commas."""


def text(rng: random.Random, n: int) -> bytes:
    """Return one of the first ``n`` texts."""
    return TEXTS[rng.randrange(n)]


def state_of(kind: StateKind, namespace: Serializer) -> StateDescriptor:
    if kind.is_queue:
        timer = Timer(STRING, namespace)
        return StateDescriptor("_timer_state/event_x", kind, 0, STRING, namespace, timer)
    return StateDescriptor("s", kind, 0, STRING, namespace, STRING, LONG if kind is StateKind.MAP else None)


def part(rng: random.Random, serializer: Serializer, n: int) -> bytes:
    if serializer == STRING:
        return text(rng, n)
    return b"\0" if serializer == VOID_NAMESPACE else struct.pack(">q", rng.randrange(n))


def timer(rng: random.Random, namespace: Serializer) -> bytes:
    return struct.pack(">q", rng.randrange(5)) + text(rng, 6) + part(rng, namespace, 3)


def change(rng: random.Random, state: StateDescriptor, at: int) -> Change:
    operation = rng.choice([item for item in OPERANDS[state.kind] if item is not Operation.MERGE_NS])
    scope = b"" if state.kind.is_queue else part(rng, state.key, 9) + part(rng, state.namespace, 4)
    body = b""
    if state.kind.is_queue:
        timers = [timer(rng, state.namespace) for _ in range(rng.randrange(4))]
        added = operation is Operation.ADD_ELEMENT
        body = struct.pack(">i", len(timers)) + b"".join(timers) if added else timer(rng, state.namespace)
    elif state.kind is StateKind.MAP:
        user = struct.pack(">q", rng.randrange(4))
        pairs = [struct.pack(">q", rng.randrange(6)) for _ in range(rng.randrange(4))]
        values = [rng.choice([b"\x01", b"\0" + text(rng, 9)]) for _ in pairs]
        # A String's own null is logged as one byte of zero.
        logged = rng.choice([b"\0", text(rng, 9)])
        bodies = {
            Operation.ADD: struct.pack(">i", len(pairs)) + b"".join(k + v for k, v in zip(pairs, values, strict=True)),
            Operation.REMOVE_ELEMENT: user,
            Operation.CLEAR: b"",
        }
        body = bodies.get(operation, user + logged)
    elif operation is not Operation.CLEAR:
        elements = [text(rng, 9) for _ in range(rng.randrange(4))]
        listed = state.kind is StateKind.LIST and operation is not Operation.ADD_ELEMENT
        body = struct.pack(">i", len(elements)) + b"".join(elements) if listed else text(rng, 9)
    return Change(rng.randrange(3), bytes([operation, 0, 7]) + scope + body, "log", at)


def composite(state: StateDescriptor, key: bytes, namespace: bytes) -> bytes:
    if state.namespace == STRING:
        return key + length_suffix(len(key)) + namespace + length_suffix(len(namespace))
    return key + namespace


def before(rng: random.Random, state: StateDescriptor) -> list[RawEntries]:
    """Return entries in RocksDB's layout, in two batches."""
    held: Contents = {}
    for _ in range(rng.choice([0, 30])):
        if state.kind.is_queue:
            held[rng.randrange(3), timer(rng, state.namespace)] = b""
            continue
        key = composite(state, part(rng, state.key, 9), part(rng, state.namespace, 4))
        if state.kind is StateKind.MAP:
            held[rng.randrange(3), key + struct.pack(">q", rng.randrange(4))] = b"\0" + text(rng, 9)
        else:
            many = range(rng.randrange(1, 3) if state.kind is StateKind.LIST else 1)
            held[rng.randrange(3), key] = b",".join(text(rng, 9) for _ in many)
    store = Store(replace(state, kind=StateKind.VALUE), CTX)
    for (group, key), value in held.items():
        store.put(group, key, value)
    return list(store.entries("materialized"))


def contents(entries: list[RawEntries]) -> Contents:
    found: Contents = {}
    for batch in entries:
        data = batch.data.tobytes()
        for group, (a, b, c, d) in zip(batch.key_groups.tolist(), batch.ranges.T.tolist(), strict=True):
            assert (group, data[a:b]) not in found
            found[group, data[a:b]] = data[c:d]
    return found


@pytest.mark.parametrize("namespace", [VOID_NAMESPACE, exhaustive(LONG), STRING], ids=["void", "fixed", "any length"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.value)
@pytest.mark.parametrize("seeds", sweep(60), ids=str)
def test_bulk_replay_of_raw_entries_equals_sequential_replay(
    seeds: range, kind: StateKind, namespace: Serializer
) -> None:
    state = state_of(kind, namespace)
    for seed in seeds:
        rng = random.Random(seed)
        earlier = before(rng, state)
        changes = [change(rng, state, at) for at in range(rng.choice([1, 10, 300]))]
        store = Store(state, CTX)
        for entries in earlier:
            store.load(entries)
        replay(store, changes, CTX)
        found = records(list(blocks_of(changes)))
        ours = list(compacted_entries(state, earlier, found, CTX, "file"))
        assert contents(ours) == contents(list(store.entries("file"))), seed
        keys = [(int(group), key) for batch in ours for group, key in zip(batch.key_groups, _keys(batch), strict=True)]
        assert [group for group, _ in keys] == sorted(group for group, _ in keys)


def heap_columns(rng: random.Random, state: StateDescriptor) -> Columns:
    """Return columns as decoded from a native heap file: ascending key groups, keys and namespaces as bytes, values."""
    held: dict[tuple[int, bytes, bytes], Any] = {}
    for _ in range(30):
        group = rng.randrange(3)
        if state.kind.is_queue:
            held[group, timer(rng, state.namespace), b""] = None
            continue
        key, namespace = part(rng, state.key, 9), part(rng, state.namespace, 4)
        value: Any = text(rng, 9)
        if state.kind is StateKind.LIST:
            value = [text(rng, 9) for _ in range(rng.randrange(3))]
        elif state.kind is StateKind.MAP:
            value = [{"key": struct.pack(">q", at), "value": b"\0" + text(rng, 9)} for at in range(rng.randrange(3))]
        held[group, key, namespace] = value
    rows = sorted(held.items(), key=lambda item: item[0][0])
    pair = pa.struct([("key", pa.binary()), ("value", pa.binary())])
    kind = {StateKind.LIST: pa.list_(pa.binary()), StateKind.MAP: pa.list_(pair)}.get(state.kind, pa.binary())
    groups = pa.array([group for (group, _, _), _ in rows], pa.int32())
    if state.kind.is_queue:
        return {KEY_GROUP: groups, "value": pa.array([timer for (_, timer, _), _ in rows], pa.binary())}
    return {
        KEY_GROUP: groups,
        "key": pa.array([key for (_, key, _), _ in rows], pa.binary()),
        "namespace": pa.array([namespace for (_, _, namespace), _ in rows], pa.binary()),
        "value": pa.array([value for _, value in rows], kind),
    }


@pytest.mark.parametrize("namespace", [VOID_NAMESPACE, exhaustive(LONG), STRING], ids=["void", "fixed", "any length"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.value)
@pytest.mark.parametrize("seeds", sweep(30), ids=str)
def test_bulk_replay_on_heap_columns_equals_sequential_replay(
    seeds: range, kind: StateKind, namespace: Serializer
) -> None:
    state = state_of(kind, namespace)
    for seed in seeds:
        rng = random.Random(seed)
        columns = heap_columns(rng, state)
        cut = {name: column.slice(4) for name, column in columns.items()}
        changes = [change(rng, state, at) for at in range(rng.choice([1, 100]))]
        store = Store(state, CTX)
        load_heap(cut, store)
        replay(store, changes, CTX)
        ours = list(
            compacted_entries(
                state, [composite_entries(cut, state, "file")], records(list(blocks_of(changes))), CTX, "file"
            )
        )
        assert contents(ours) == contents(list(store.entries("file"))), seed


def _keys(batch: RawEntries) -> list[bytes]:
    data = batch.data.tobytes()
    return [data[start:stop] for start, stop in batch.ranges[:2].T.tolist()]


def test_entries_of_one_map_are_adjacent() -> None:
    state = state_of(StateKind.MAP, VOID_NAMESPACE)
    rng = random.Random(1)
    changes = [change(rng, state, at) for at in range(500)]
    (batch,) = compacted_entries(state, before(rng, state), records(list(blocks_of(changes))), CTX, "file")
    maps = [(int(group), key[:-8]) for group, key in zip(batch.key_groups, _keys(batch), strict=True)]
    seen = [item for at, item in enumerate(maps) if at == 0 or maps[at - 1] != item]
    assert len(seen) == len(set(seen)) > 5


def merge(rng: random.Random, state: StateDescriptor, at: int) -> Change:
    """Return a merge of a key's namespaces; sources may be empty, absent, repeated or equal to the target."""
    key, spaces = part(rng, state.key, 3), [part(rng, state.namespace, 4) for _ in range(rng.randrange(5))]
    target = part(rng, state.namespace, 4)
    body = key + target + target + struct.pack(">i", len(spaces)) + b"".join(spaces)
    return Change(rng.randrange(3), bytes([Operation.MERGE_NS, 0, 7]) + body, "log", at)


@pytest.mark.parametrize("namespace", [exhaustive(LONG), STRING], ids=["fixed", "any length"])
@pytest.mark.parametrize("kind", MERGING, ids=lambda kind: kind.value)
@pytest.mark.parametrize("seeds", [range(25), exhaustive(range(25, 200))], ids=str)
def test_bulk_merge_of_namespaces_equals_sequential_merge(seeds: range, kind: StateKind, namespace: Serializer) -> None:
    state = state_of(kind, namespace)
    settled, unsettled = 0, 0
    for seed in seeds:
        rng = random.Random(seed)
        earlier = before(rng, state)
        makers = [change] * rng.choice([1, 4, 30]) + [merge]
        changes = [rng.choice(makers)(rng, state, at) for at in range(rng.choice([3, 20, 400]))]
        store = Store(state, CTX)
        for entries in earlier:
            store.load(entries)
        replay(store, changes, CTX)
        found = records(list(blocks_of(changes)))
        unknown = {group: sum(value is None for value in store.group(group).values()) for group in range(3)}
        if kind is not StateKind.LIST and any(unknown.values()):
            group = min(group for group, count in unknown.items() if count)
            with pytest.raises(UnsupportedSnapshot, match=rf"MERGE_NS.* \({unknown[group]} in key group {group}\)"):
                list(compacted_entries(state, earlier, found, CTX, "file"))
            unsettled += 1
            continue
        ours = list(compacted_entries(state, earlier, found, CTX, "file"))
        assert contents(ours) == contents(list(store.entries("file"))), seed
        groups = [group for batch in ours for group in batch.key_groups.tolist()]
        assert groups == sorted(groups)
        settled += any(item.data[0] == Operation.MERGE_NS for item in changes)
    few = 0.15 * len(seeds)
    assert settled > few and (unsettled > few or kind is StateKind.LIST)


@pytest.mark.exhaustive
def test_merging_60000_namespaces_takes_linear_time() -> None:
    """The two sessions of each key are merged into one, whose value is then set."""
    state = state_of(StateKind.REDUCING, LONG)
    one, two = struct.pack(">q", 1), struct.pack(">q", 2)
    changes = []
    for at in range(60_000):
        key = b"\x07%06d" % at
        changes += [
            Change(0, bytes([Operation.SET, 0, 7]) + key + one + b"\x02a", "log", 0),
            Change(0, bytes([Operation.SET, 0, 7]) + key + two + b"\x02b", "log", 0),
            Change(0, bytes([Operation.MERGE_NS, 0, 7]) + key + one + one + struct.pack(">i", 1) + two, "log", 0),
            Change(0, bytes([Operation.SET_INTERNAL, 0, 7]) + key + one + b"\x02c", "log", 0),
        ]
    found = records(list(blocks_of(changes)))
    list(compacted_entries(state, [], records(list(blocks_of(changes[:4]))), CTX, "file"))
    began = time.process_time()
    held = contents(list(compacted_entries(state, [], found, CTX, "file")))
    assert time.process_time() - began < 3
    assert len(held) == 60_000 and set(held.values()) == {b"\x02c"}


@pytest.mark.parametrize("kind", [StateKind.VALUE, StateKind.MAP, StateKind.LIST, StateKind.EVENT_TIMERS])
@pytest.mark.parametrize("seeds", sweep(300), ids=str)
def test_bulk_replay_reports_damage_like_sequential_replay(seeds: range, kind: StateKind) -> None:
    state = state_of(kind, VOID_NAMESPACE)
    rng = random.Random(3 + seeds.start)
    reported = 0
    for seed in seeds:
        changes = [change(rng, state, 1000 * at) for at in range(6)]
        at = rng.randrange(6)
        data = bytearray(changes[at].data)
        if seed % 3:
            data[0 if seed % 3 == 1 else rng.randrange(3, len(data))] ^= 1 << rng.randrange(8)
        else:
            del data[rng.randrange(3, len(data)) :]
        changes[at] = replace(changes[at], data=bytes(data))

        def outcome(at_once: bool, changes: list[Change] = changes) -> object:
            try:
                if at_once:
                    return contents(list(compacted_entries(state, [], records(list(blocks_of(changes))), CTX, "file")))
                store = Store(state, CTX)
                replay(store, changes, CTX)
                return contents(list(store.entries("file")))
            except CorruptSnapshot as error:
                return error.message, error.where

        assert outcome(True) == outcome(False), seed
        reported += isinstance(outcome(True), tuple)
    assert reported > len(seeds) / 15


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[65536, 4464], exhaustive([65536, 65536, 18928])])
def test_changes_are_returned_in_batches_of_65536(sizes: list[int]) -> None:
    state = state_of(StateKind.VALUE, VOID_NAMESPACE)
    changes = [
        Change(at % 4, bytes([Operation.SET, 0, 7]) + b"\x07%06d\0" % at + b"\x03ab", "log", at)
        for at in range(sum(sizes))
    ]
    began = time.process_time()
    batches = list(compacted_entries(state, [], records(list(blocks_of(changes))), CTX, "file"))
    assert time.process_time() - began < 3
    assert [len(batch) for batch in batches] == sizes
    assert len(contents(batches)) == sum(sizes)
