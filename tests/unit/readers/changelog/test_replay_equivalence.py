"""Equivalence of applying random changelogs in bulk and change by change, for every kind of state."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pytest

from stateproc.codec import ops
from stateproc.codec.builder import Builder
from stateproc.codec.layouts.strings import SerializedValue
from stateproc.codec.machine import DecodeFailure, Machine
from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot, Where
from stateproc.readers.changelog.change_blocks import Change, blocks_of
from stateproc.readers.changelog.composite_keys import is_ambiguous, null_form, user_key_starts
from stateproc.readers.changelog.log_compaction import compacted_entries
from stateproc.readers.changelog.records import OPERANDS, Operand, Operation, operand_layout, records
from stateproc.readers.entry_programs import Columns
from stateproc.readers.error_context import placed
from stateproc.readers.heap.reader import composite_entries
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.row_schema import KEY_GROUP, element_layout
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext, Serializer
from stateproc.serializers.java.scalars import SCALARS, VOID_NAMESPACE, Scalar
from stateproc.serializers.runtime.streaming import Timer
from tests.helpers.sweeps import exhaustive, sweep

# Changes applied one after another to a table of Python dicts: the slow twin of `compacted_entries`.


_ENTRIES_AT_ONCE, _BYTES_AT_ONCE = 1 << 16, 16 << 20
_SEPARATOR = b","
_HEAD = 3
"""The operation and the state's id."""
_PRESENT, _NULL = b"\0", b"\1"
"""A map's value has a null mark in front."""

Row = tuple[bytes, bytes, Any]
"""Key, namespace, operand as bytes (of queues, key and namespace are empty)."""


def length_suffix(length: int) -> bytes:
    """A part's length as CompositeKeySerializationUtils writes it after the part: lowest byte first, no zeros."""
    return length.to_bytes(max(1, (length.bit_length() + 7) // 8), "little")


class Store:
    """Per key group what each composite key (key and namespace, or timer) holds.

    VALUE, REDUCING, AGGREGATING: the value's bytes, None where the job's own function has to compute it. LIST: runs of
    elements. MAP: user key → null mark and value. Queues: nothing. A table of Python dicts: one change costs one
    look-up, whatever its kind.
    """

    def __init__(self, state: StateDescriptor, ctx: LayoutContext) -> None:
        self.state = state
        self._groups: dict[int, dict[bytes, Any]] = {}
        self._ambiguous = is_ambiguous(state)
        self._ctx = ctx
        self.null_value = null_form(element_layout(state, ctx)) if state.kind is StateKind.MAP else None
        """How a map's null value is logged, where its serializer has a form for nulls."""

    def group(self, key_group: int) -> dict[bytes, Any]:
        """The contents of a key group."""
        return self._groups.setdefault(key_group, {})

    def composite(self, key: bytes, namespace: bytes) -> bytes:
        """The composite key without key-group prefix (SerializedCompositeKeyBuilder)."""
        if not self._ambiguous:
            return key + namespace
        return key + length_suffix(len(key)) + namespace + length_suffix(len(namespace))

    def put(self, key_group: int, composite: bytes, value: Any) -> None:
        """Put a value as the serializers' programs give it: bytes, elements, pairs; empty ones leave nothing."""
        if self.state.kind is StateKind.MAP:
            value = {pair["key"]: pair["value"] for pair in value}
        if value or self.state.kind not in (StateKind.LIST, StateKind.MAP):
            self.group(key_group)[composite] = value
        else:
            self.group(key_group).pop(composite, None)

    def load(self, entries: RawEntries) -> None:
        """Put entries of a canonical snapshot or of RocksDB."""
        if self.state.kind is StateKind.MAP:
            self._load_map(entries)
            return
        data = entries.data.tobytes()
        groups = entries.key_groups.tolist()
        listed = self.state.kind is StateKind.LIST
        for group, start, stop, at, end in zip(groups, *entries.ranges.tolist(), strict=True):
            value = data[at:end]
            self.group(group)[data[start:stop]] = [value] if listed else value

    def _load_map(self, entries: RawEntries) -> None:
        data = entries.data.tobytes()
        groups, marks = entries.key_groups.tolist(), user_key_starts(entries, self.state, self._ctx).tolist()
        for group, middle, (start, stop, at, end) in zip(groups, marks, entries.ranges.T.tolist(), strict=True):
            self.group(group).setdefault(data[start:middle], {})[data[middle:stop]] = data[at:end]

    def entries(self, file: str) -> Iterator[RawEntries]:
        """All contents as composite entries, by key group. ``file``: for errors."""
        parts: list[bytes] = []
        sizes: list[tuple[int, int]] = []
        groups: list[int] = []
        held = 0
        for group, key, value in self._pairs():
            parts += (key, value)
            sizes.append((len(key), len(value)))
            groups.append(group)
            held += len(key) + len(value)
            if len(groups) == _ENTRIES_AT_ONCE or held >= _BYTES_AT_ONCE:
                yield _raw(parts, sizes, groups, file)
                parts, sizes, groups, held = [], [], [], 0
        if groups:
            yield _raw(parts, sizes, groups, file)

    def _pairs(self) -> Iterator[tuple[int, bytes, bytes]]:
        kind = self.state.kind
        for group in sorted(self._groups):
            for key, value in self._groups[group].items():
                if kind is StateKind.MAP:
                    for user_key, marked in value.items():
                        yield group, key + user_key, marked
                else:
                    yield group, key, _SEPARATOR.join(value) if kind is StateKind.LIST else value


def _raw(parts: list[bytes], sizes: list[tuple[int, int]], groups: list[int], file: str) -> RawEntries:
    bounds = np.zeros(2 * len(sizes) + 1, dtype=np.int64)
    np.cumsum(np.array(sizes, dtype=np.int64).reshape(-1), out=bounds[1:])
    ranges = np.stack([bounds[0:-1:2], bounds[1::2], bounds[1::2], bounds[2::2]])
    data = np.frombuffer(b"".join(parts) or b"\0", dtype=np.uint8)
    return RawEntries(data, np.array(groups, dtype=np.int32), ranges, file, 0, exact=False)


def replay(store: Store, changes: Sequence[Change], ctx: LayoutContext) -> None:
    """Apply ``changes`` of the store's state, in their order.

    Bytes are taken apart by compiled programs, all changes of one operation at once; applying them is one dict
    operation each. Raises CorruptSnapshot naming file and offset.
    """
    operations, rows = decoded(store.state, changes, ctx)
    apply = _APPLIERS[store.state.kind]
    for change, operation, row in zip(changes, operations, rows, strict=True):
        apply(store, store.group(change.key_group), operation, row)


def decoded(state: StateDescriptor, changes: Sequence[Change], ctx: LayoutContext) -> tuple[list[Operation], list[Row]]:
    """Each change's operation, and its parts."""
    allowed = OPERANDS[state.kind]
    operations = [_operation(state, change, allowed) for change in changes]
    codes = np.array(operations, dtype=np.int64)
    ends = np.cumsum(np.array([len(change.data) for change in changes], dtype=np.int64))
    starts = ends - [len(change.data) for change in changes]
    data = np.frombuffer(b"".join(change.data for change in changes) or b"\0", dtype=np.uint8)
    rows: list[Row] = [(b"", b"", None)] * len(changes)
    for operation in set(operations):
        which = np.flatnonzero(codes == operation)
        columns = _Columns(state, allowed[operation], ctx)
        parts = columns.run(data, starts[which], ends[which], [changes[index] for index in which.tolist()])
        for index, row in zip(which.tolist(), parts, strict=True):
            rows[index] = row
    return operations, rows


def _operation(state: StateDescriptor, change: Change, allowed: dict[Operation, Operand]) -> Operation:
    code = change.data[0]
    if code not in allowed:
        name = Operation(code).name if code <= max(Operation) else str(code)
        raise CorruptSnapshot(
            f"the operation {name}, which no {state.kind.value} state logs",
            where=Where(file=change.file, offset=change.at, state=state.name),
            advice="the file is damaged; restore it from a copy or take the snapshot again",
        )
    return Operation(code)


class _Columns:
    """The program of one operation's records."""

    def __init__(self, state: StateDescriptor, operand: Operand, ctx: LayoutContext) -> None:
        b = Builder()
        b.op(ops.SKIP, _HEAD)
        scope = () if state.kind.is_queue else (state.key, state.namespace)
        layouts = [SerializedValue(serializer.layout(ctx.inner)) for serializer in scope]
        layout = operand_layout(operand, state, ctx)
        self._scoped = bool(scope)
        self._assemblers = [item.emit(b, False) for item in (*layouts, *([layout] if layout else []))]
        b.op(ops.ROW_END)
        self._machine, self._state = Machine(b.build()), state

    def run(self, data: Any, starts: Any, ends: Any, changes: Sequence[Change]) -> list[Row]:
        rows: list[Row] = []
        while len(rows) < len(changes):
            try:
                self._machine.run(data, starts[None, :], ends[None, :], len(rows), len(changes))
            except DecodeFailure as failure:
                self._fail(failure, changes[failure.row], int(starts[failure.row]))
            taken = self._machine.decoded()
            parts = [assemble(taken).to_pylist() for assemble in self._assemblers]
            rows += self._rows(parts)
        return rows

    def _fail(self, failure: DecodeFailure, change: Change, start: int) -> NoReturn:
        """Raise with the change's place; ``start``: where its record begins in the buffer."""
        with placed(change.file, lambda position: change.at + position - start, self._state.name):
            raise failure
        raise AssertionError("placed let a failure pass")

    def _rows(self, parts: list[list[Any]]) -> list[Row]:
        if not self._scoped:
            return [(b"", b"", operand) for operand in parts[0]]
        keys, namespaces, *operands = parts
        return list(zip(keys, namespaces, operands[0] if operands else [None] * len(keys), strict=True))


# --- how each kind of state changes --------------------------------------------------------------------------

Applied = dict[bytes, Any]


def _value(store: Store, contents: Applied, operation: Operation, row: Row) -> None:
    key, namespace, operand = row
    composite = store.composite(key, namespace)
    if operation is Operation.CLEAR:
        contents.pop(composite, None)
    elif operation is Operation.MERGE_NS:
        found = _taken_sources(store, contents, row)
        if composite in contents and found:
            contents[composite] = None
        elif found:
            # One value alone moves as it is; of two, only the job's function knows what they become.
            contents[composite] = found[0] if len(found) == 1 else None
    else:
        contents[composite] = operand


def _list(store: Store, contents: Applied, operation: Operation, row: Row) -> None:
    key, namespace, operand = row
    composite = store.composite(key, namespace)
    if operation is Operation.ADD_ELEMENT:
        contents.setdefault(composite, []).append(operand)
    elif operation is Operation.ADD:
        if operand:
            contents.setdefault(composite, []).extend(operand)
    elif operation is Operation.MERGE_NS:
        for source in _taken_sources(store, contents, row):
            contents.setdefault(composite, []).extend(source)
    else:
        contents.pop(composite, None)
        if operand:
            contents[composite] = operand


def _map(store: Store, contents: Applied, operation: Operation, row: Row) -> None:
    key, namespace, operand = row
    composite = store.composite(key, namespace)
    if operation is Operation.CLEAR:
        contents.pop(composite, None)
        return
    entries = contents.setdefault(composite, {})
    if operation is Operation.REMOVE_ELEMENT:
        entries.pop(operand, None)
    elif operation is Operation.ADD:
        entries.update((pair["key"], pair["value"]) for pair in operand)
    else:
        # A null is logged in its serializer's own form; restored, it is a null of the map's, which has a mark.
        logged = operand["value"]
        entries[operand["key"]] = _NULL if logged == store.null_value else _PRESENT + logged
    if not entries:
        del contents[composite]


def _queue(store: Store, contents: Applied, operation: Operation, row: Row) -> None:
    if operation is Operation.ADD_ELEMENT:
        contents.update((timer, b"") for timer in row[2])
    else:
        contents.pop(row[2], None)


def _taken_sources(store: Store, contents: Applied, row: Row) -> list[Any]:
    """What the merged namespaces held, in their order; they hold nothing afterwards."""
    key, _, operand = row
    sources = [store.composite(key, namespace) for namespace in operand["sources"]]
    return [contents.pop(source) for source in sources if source in contents]


_APPLIERS: dict[StateKind, Callable[[Store, Applied, Operation, Row], None]] = {
    **{kind: _queue for kind in StateKind if kind.is_queue},
    **dict.fromkeys(
        (StateKind.VALUE, StateKind.REDUCING, StateKind.AGGREGATING, StateKind.FOLDING, StateKind.UNKNOWN), _value
    ),
    StateKind.LIST: _list,
    StateKind.MAP: _map,
}


def load_heap(columns: Columns, store: Store) -> None:
    """Put what a native heap file held into ``store``."""
    groups = columns[KEY_GROUP].to_pylist()
    values = columns["value"].to_pylist()
    if store.state.kind.is_queue:
        for group, timer in zip(groups, values, strict=True):
            store.group(group)[timer] = b""
        return
    scopes = zip(columns["key"].to_pylist(), columns["namespace"].to_pylist(), strict=True)
    for group, (key, namespace), value in zip(groups, scopes, values, strict=True):
        store.put(group, store.composite(key, namespace), value)


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
