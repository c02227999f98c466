"""Apply changes to the bytes of a state's logical contents.

Format: org.apache.flink.state.changelog.restore.ChangelogBackendLogApplier and the StateChangeApplier classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from stateproc.codec import ops
from stateproc.codec.builder import Builder
from stateproc.codec.machine import DecodeFailure, Machine
from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot, Where
from stateproc.readers.changelog.operations import OPERANDS, Operand, Operation, Raw, operand_layout
from stateproc.readers.changelog.segments import Change
from stateproc.readers.changelog.store import Store
from stateproc.readers.failures import placed
from stateproc.readers.states import KeyedState, StateKind
from stateproc.serializers import LayoutContext

_HEAD = 3
"""The operation and the state's id."""
_PRESENT, _NULL = b"\0", b"\1"
"""A map's value has a null mark in front."""

Row = tuple[bytes, bytes, Any]
"""Key, namespace, operand as bytes (of queues, key and namespace are empty)."""


def replay(store: Store, changes: Sequence[Change], ctx: LayoutContext) -> None:
    """Apply ``changes`` of the store's state, in their order.

    Bytes are taken apart by compiled programs, all changes of one operation at once; applying them is one dict
    operation each. Raises CorruptSnapshot naming file and offset.
    """
    operations, rows = decoded(store.state, changes, ctx)
    apply = _APPLIERS[store.state.kind]
    for change, operation, row in zip(changes, operations, rows, strict=True):
        apply(store, store.group(change.key_group), operation, row)


def decoded(state: KeyedState, changes: Sequence[Change], ctx: LayoutContext) -> tuple[list[Operation], list[Row]]:
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


def _operation(state: KeyedState, change: Change, allowed: dict[Operation, Operand]) -> Operation:
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

    def __init__(self, state: KeyedState, operand: Operand, ctx: LayoutContext) -> None:
        b = Builder()
        b.op(ops.SKIP, _HEAD)
        scope = () if state.kind.is_queue else (state.key, state.namespace)
        layouts = [Raw(serializer.layout(ctx.inner)) for serializer in scope]
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
            taken = self._machine.taken()
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


def check_settled(store: Store, key_groups: Sequence[int], file: str) -> None:
    """Raise UnsupportedSnapshot if a value is what only the job's reduce or aggregate function could tell."""
    if store.state.kind not in (StateKind.REDUCING, StateKind.AGGREGATING):
        return
    for key_group in key_groups:
        unsettled = sum(value is None for value in store.group(key_group).values())
        if unsettled:
            raise UnsupportedSnapshot(
                f"MERGE_NS: the changelog merges namespaces of this {store.state.kind.value} state ({unsettled} in key "
                f"group {key_group}), and only the job's own function knows what their values become",
                where=Where(file=file, state=store.state.name),
                advice="take a savepoint of the job, or open a checkpoint taken after the next materialization",
            )
