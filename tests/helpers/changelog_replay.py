"""Changes applied one after another to a table of Python dicts: the slow twin of `compacted_entries`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from stateproc.codec import ops
from stateproc.codec.builder import Builder
from stateproc.codec.machine import DecodeFailure, Machine
from stateproc.errors import CorruptSnapshot, Where
from stateproc.readers.changelog.change_blocks import Change
from stateproc.readers.changelog.composite_keys import is_ambiguous, null_form, user_key_starts
from stateproc.readers.changelog.records import OPERANDS, Operand, Operation, operand_layout
from stateproc.readers.entry_programs import Columns
from stateproc.readers.error_context import placed
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.row_schema import KEY_GROUP, SerializedValue, element_layout
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext

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

Contents = dict[bytes, Any]


def _value(store: Store, contents: Contents, operation: Operation, row: Row) -> None:
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


def _list(store: Store, contents: Contents, operation: Operation, row: Row) -> None:
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


def _map(store: Store, contents: Contents, operation: Operation, row: Row) -> None:
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


def _queue(store: Store, contents: Contents, operation: Operation, row: Row) -> None:
    if operation is Operation.ADD_ELEMENT:
        contents.update((timer, b"") for timer in row[2])
    else:
        contents.pop(row[2], None)


def _taken_sources(store: Store, contents: Contents, row: Row) -> list[Any]:
    """What the merged namespaces held, in their order; they hold nothing afterwards."""
    key, _, operand = row
    sources = [store.composite(key, namespace) for namespace in operand["sources"]]
    return [contents.pop(source) for source in sources if source in contents]


_APPLIERS: dict[StateKind, Callable[[Store, Contents, Operation, Row], None]] = {
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
