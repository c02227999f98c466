"""The logical contents of one state in some key groups, as bytes: what the log's changes are applied to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.builder import Builder
from stateproc.codec.layouts.base import Layout, Unwritable
from stateproc.codec.machine import Machine
from stateproc.codec.pieces import Unencodable
from stateproc.readers.changelog.operations import element_of
from stateproc.readers.entries import Longs, RawEntries
from stateproc.readers.failures import placed
from stateproc.readers.states import KeyedState, StateKind
from stateproc.serializers import LayoutContext

_ENTRIES_AT_ONCE, _BYTES_AT_ONCE = 1 << 16, 16 << 20
_SEPARATOR = b","


def length_suffix(length: int) -> bytes:
    """A part's length as CompositeKeySerializationUtils writes it behind the part: lowest byte first, no zeros."""
    return length.to_bytes(max(1, (length.bit_length() + 7) // 8), "little")


def null_form(layout: Layout) -> bytes | None:
    """The bytes of a null, if the layout's own bytes can say so."""
    if not layout.tells_null:
        return None
    try:
        return layout.encode(pa.nulls(1, layout.arrow_type)).data.tobytes()
    except (Unencodable, Unwritable):
        return None


def is_ambiguous(state: KeyedState) -> bool:
    """Whether key and namespace both have any length, so that each has its length behind it."""
    return not state.kind.is_queue and state.key.length < 0 and state.namespace.length < 0


def user_key_starts(entries: RawEntries, state: KeyedState, ctx: LayoutContext) -> Longs:
    """Where in the data of a map's entries the user keys begin: found by running the key's program."""
    b = Builder()
    mark = b.column(8, 0)
    for serializer in (state.key, state.namespace):
        if is_ambiguous(state):
            b.op(ops.PUSH_POS)
        serializer.layout(ctx.inner).skip(b)
        if is_ambiguous(state):
            b.op(ops.LENGTH_SUFFIX)
    b.op(ops.MARK, mark)
    b.op(ops.SKIP_REST)
    b.op(ops.ROW_END)
    machine = Machine(b.build())
    starts, ends = np.ascontiguousarray(entries.ranges[:1]), np.ascontiguousarray(entries.ranges[1:2])
    marks = np.empty(len(entries), dtype=np.int64)
    done = 0
    with placed(entries.file, entries.offset, state.name):
        while done < len(entries):
            machine.run(entries.data, starts, ends, done, len(entries))
            found = machine.taken().column(mark, np.int64)
            marks[done : done + len(found)] = found
            done += len(found)
    return marks


class Store:
    """Per key group what each composite key (key and namespace, or timer) holds.

    VALUE, REDUCING, AGGREGATING: the value's bytes, None where only the job's own function could tell. LIST: runs of
    elements. MAP: user key → null mark and value. Queues: nothing. A table of Python dicts: one change costs one
    look-up, whatever its kind.
    """

    def __init__(self, state: KeyedState, ctx: LayoutContext) -> None:
        self.state = state
        self._groups: dict[int, dict[bytes, Any]] = {}
        self._ambiguous = is_ambiguous(state)
        self._ctx = ctx
        self.null_value = null_form(element_of(state, ctx)) if state.kind is StateKind.MAP else None
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
