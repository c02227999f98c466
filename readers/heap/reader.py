"""Read native heap snapshots: HashMapStateBackend checkpoints and native savepoints, heap savepoints before 1.13.

A key group (org.apache.flink.runtime.state.heap.HeapSnapshotStrategy, StateTableByKeyGroupReaders), big-endian:

    i32 key group                        never compressed
    for every state of the header:       compressed, each is a stream of snappy frames of its own
        u16 state id
        i32 number of entries
        key-value state: namespace, key, value        by their serializers, without lengths
        priority queue:  element

Since nothing has a length, a state after one whose values cannot be decoded cannot be found (`heap.unreadable_states`).
See docs/formats/heap.md.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.array_types import Bytes, Longs
from stateproc.codec.arrow_arrays import RowBytes, empty_row_bytes, numbers_of, offsets_of, row_bytes_of, values_array
from stateproc.codec.builder import Builder
from stateproc.codec.encoding.keys import composite_keys
from stateproc.codec.encoding.list_encoding import delimited
from stateproc.codec.layouts.strings import SerializedValue
from stateproc.codec.machine import HostFailure, Machine
from stateproc.errors import SnapshotError, UnsupportedSnapshot, Where
from stateproc.metadata.backend import KeyedHeader
from stateproc.readers.entry_programs import Columns, EntryProgram, Form, entry_program, skip_program
from stateproc.readers.error_context import misfit, placed
from stateproc.readers.heap.unreadable_states import (
    GROUP_HEAD,
    SECTION,
    have_known_ends,
    hidden_state_error,
    unreadable_states,
)
from stateproc.readers.key_group_blocks import Block, KeyGroupRange, fed, plain_blocks, snappy_blocks
from stateproc.readers.key_groups_file import KeyGroupsFile, KeyGroupsSplit
from stateproc.readers.keyed_file import ErrorsByKeyGroup, SizeRequest
from stateproc.readers.raw_entries import EntryCounts, RawEntries
from stateproc.readers.read_options import ReadOptions
from stateproc.readers.row_schema import (
    KEY_GROUP,
    RAW_KEY,
    finished_rows,
    key_group_array,
    record_batch,
    serialized_items,
    serialized_pairs,
    serialized_value,
    state_fields,
)
from stateproc.readers.state_descriptor import StateDescriptor, StateKind, header_states
from stateproc.serializers import LayoutContext, Undecodable
from stateproc.serializers.core.registry import load_plugins
from stateproc.serializers.described_classes import described_classes
from stateproc.storage import ByteSource

Out = TypeVar("Out")
_ROWS_AT_ONCE = 1 << 16


def heap_batches(
    source: ByteSource,
    ranges: Sequence[KeyGroupRange],
    states: Sequence[StateDescriptor | str],
    target: StateDescriptor,
    ctx: LayoutContext,
    *,
    compressed: bool,
    flatten: bool = False,
    raw_keys: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Batches of ``target``'s rows in these key groups. ``states``: all of the header's by id, or why not.

    Raises CorruptSnapshot; UnsupportedSnapshot where the values of a state before it have no known end.
    """
    fields = state_fields(target, ctx, flatten)
    schema = pa.schema([*fields, pa.field(RAW_KEY, pa.binary())] if raw_keys else fields)

    def finish(columns: Columns) -> pa.RecordBatch:
        return record_batch(finished_rows(target, columns, flatten), schema)

    program = entry_program(target, Form.STREAM, ctx, raw_keys=raw_keys)
    yield from heap_entries(source, ranges, states, target, ctx, program, finish, compressed=compressed)


def heap_entries(
    source: ByteSource,
    ranges: Sequence[KeyGroupRange],
    states: Sequence[StateDescriptor | str],
    target: StateDescriptor,
    ctx: LayoutContext,
    program: EntryProgram,
    finish: Callable[[Columns], Out],
    *,
    compressed: bool,
) -> Iterator[Out]:
    """``finish`` of the columns that ``program`` and the key group make, some thousand entries of ``target`` at a time.

    ``states`` and errors as in :func:`heap_batches`.
    """
    blocks = snappy_blocks(source, ranges, GROUP_HEAD) if compressed else plain_blocks(source, ranges)
    decoder = _SectionDecoder(source.name, states, target, ctx, program, finish, compressed)
    yield from fed(blocks, decoder.feed)


@dataclass
class _Position:
    """A position: before a key group (``group`` None), before a section (``left`` None), inside a section.

    ``closing``: the wanted state has been read, and what follows confirms where it ends. ``doubtful``: the types of
    states read so far depend on class descriptions.
    """

    group: int | None = None
    sections: int = 0
    state: int = 0
    left: int | None = None
    seen: set[int] = field(default_factory=set)
    closing: bool = False
    doubtful: bool = False


class _SectionDecoder(Generic[Out]):
    """Decode the sections of one state in key groups and skip those of the others."""

    def __init__(
        self,
        file: str,
        states: Sequence[StateDescriptor | str],
        target: StateDescriptor,
        ctx: LayoutContext,
        program: EntryProgram,
        finish: Callable[[Columns], Out],
        compressed: bool,
    ) -> None:
        self._compressed = compressed
        self._file, self._states, self._target, self._ctx, self._finish = file, states, target, ctx, finish
        self._program = program
        self._machine = Machine(program.program)
        self._skippers: dict[int, Machine | None] = {}
        self._at = _Position()
        self._streams: tuple[int, ...] = ()
        self._stream_starts: frozenset[int] = frozenset()
        described = {
            number: described_classes(state.serializers, ctx)
            for number, state in enumerate(states)
            if isinstance(state, StateDescriptor)
        }
        self._doubtful = frozenset(number for number, classes in described.items() if classes)
        self._described = tuple(dict.fromkeys(name for classes in described.values() for name in classes))
        self._pending: list[tuple[int, int]] = []

    def feed(self, block: Block) -> Generator[Out, None, int]:
        """What the block holds of the target; returns how many of its last bytes the next one is to begin with."""
        data, starts = block.data, list(block.groups)
        self._streams, self._stream_starts = block.streams, frozenset(block.streams)

        def offset(position: int) -> int:
            return block.file_at + (0 if block.compressed else position)

        with placed(self._file, offset, self._target.name, self._described):
            pos = 0
            while True:
                limit = starts[0][1] if starts else len(data)
                if self._at.group is None:
                    if not starts:
                        pos = len(data)
                        break
                    key_group, pos = starts[0]
                    if len(data) - pos < GROUP_HEAD:
                        break
                    starts.pop(0)
                    found = int.from_bytes(data[pos : pos + 4].tobytes(), "big", signed=True)
                    if found != key_group:
                        raise self._damage(f"key group {found} where {key_group} should begin", offset(pos))
                    self._at = _Position(group=key_group)
                    pos += GROUP_HEAD
                    continue
                whole = bool(starts) or block.last
                if self._at.left is None:
                    pos = self._pass_empty_sections(data, pos, limit)
                pos, waiting = yield from self._section(data, pos, limit, whole, offset)
                if waiting:
                    if whole:
                        raise self._damage("a key group is cut off in the middle of a state", offset(pos))
                    break
            yield from self._flush()
        return len(data) - pos

    def _pass_empty_sections(self, data: Bytes, pos: int, limit: int) -> int:
        """Return the position of the next section that has entries, is the target's or is damaged.

        Where states have few keys, most sections are empty; a loop passes them in a fifth of :meth:`_section`'s time.
        """
        at, target, n_states, seen = self._at, self._target.state_id, len(self._states), self._at.seen
        while at.sections < n_states and limit - pos >= SECTION.size:
            state, entries = SECTION.unpack_from(data.data, pos)
            if entries or state == target or state >= n_states or state in seen:
                break
            seen.add(state)
            at.sections += 1
            pos += SECTION.size
        return pos

    def _section(
        self, data: Bytes, pos: int, limit: int, whole: bool, offset: Callable[[int], int]
    ) -> Generator[Out, None, tuple[int, bool]]:
        """One step in a group, whose bytes end at ``limit`` (``whole``) or go on in the next block; returns (position,
        whether it needs more bytes)."""
        at = self._at
        if at.left is None:
            if at.sections == len(self._states):
                if pos != limit:
                    raise self._damage("there are bytes after the last state of a key group", offset(pos))
                self._at = self._at if not whole else _Position()
                return pos, not whole
            if limit - pos < SECTION.size:
                return pos, True
            if self._compressed and pos not in self._stream_starts:
                raise self._damage("the entries of a state do not end where its compressed stream does", offset(pos))
            at.state, at.left = SECTION.unpack_from(data.data, pos)
            if at.state >= len(self._states) or at.state in at.seen or at.left < 0:
                raise self._damage(f"a section of state {at.state} with {at.left} entries", offset(pos))
            at.seen.add(at.state)
            at.sections += 1
            pos += SECTION.size
        if at.closing and not self._passes(at.state, at.left):
            self._at = _Position()
            return pos, False
        wanted = at.state == self._target.state_id and not at.closing
        at.doubtful = at.doubtful or (at.state in self._doubtful and at.left > 0)
        machine = self._machine if wanted else self._skipper(at.state, at.left, offset(pos))
        if machine is None:
            return self._pass_stream(pos, limit, whole)
        while at.left:
            try:
                rows, pos = machine.run_stream(
                    data,
                    pos,
                    limit,
                    min(at.left, _ROWS_AT_ONCE),
                    append=wanted,
                    expected=_ROWS_AT_ONCE,
                    more=not whole,
                )
            except HostFailure as failure:
                if wanted or not isinstance(failure.error, UnsupportedSnapshot):
                    raise
                if at.closing:
                    self._at = _Position()
                    return pos, False
                if not self._compressed:
                    raise self._hidden(at.left, failure.error, offset(failure.position)) from failure
                self._skippers[at.state] = None
                return self._pass_stream(pos, limit, whole)
            at.left -= rows
            if wanted and rows:
                self._pending.append((at.group or 0, rows))
                if machine.is_large or sum(n for _, n in self._pending) >= _ROWS_AT_ONCE:
                    yield from self._flush()
            if rows == 0:
                return pos, True
        at.left = None
        at.closing = at.closing or wanted
        return pos, False

    def _passes(self, state: int, entries: int) -> bool:
        """Whether to pass a state that is stored after the wanted one, only to confirm where that one ends."""
        if not entries:
            return True
        if not self._at.doubtful:
            return False  # only damage could be found, and that of another state
        with suppress(UnsupportedSnapshot):
            return self._skipper(state, entries, 0) is not None
        return False

    def _pass_stream(self, pos: int, limit: int, whole: bool) -> tuple[int, bool]:
        """Skip a state by means of the next compressed stream; returns as :meth:`_section`."""
        pos, found = self._next_stream(pos, limit, whole)
        self._at.left = None if found else self._at.left
        return pos, not found

    def _next_stream(self, pos: int, limit: int, whole: bool) -> tuple[int, bool]:
        """(where the next state begins or this block ends, whether it is the former)."""
        end = next((at for at in self._streams if pos <= at < limit), limit)
        return end, end < limit or whole

    def _skipper(self, state: int, entries: int, offset: int) -> Machine | None:
        """Return a program that skips entries of ``state``; None if only the next compressed stream marks their end."""
        if state not in self._skippers:
            described = self._states[state]
            try:
                if isinstance(described, str):
                    raise Undecodable(described)
                self._skippers[state] = Machine(skip_program(described, self._ctx))
            except Undecodable as reason:
                if entries == 0:
                    return self._machine
                if self._compressed:
                    self._skippers[state] = None
                    return None
                raise self._hidden(entries, reason, offset) from reason
        return self._skippers[state]

    def _hidden(self, entries: int, reason: SnapshotError, offset: int) -> UnsupportedSnapshot:
        """Return the error for a target stored after ``entries`` entries without known end."""
        described = self._states[self._at.state]
        name = described if isinstance(described, str) else described.name
        where = Where(file=self._file, offset=offset)
        return hidden_state_error(self._target.name, name, entries, self._at.group or 0, reason, where)

    def _flush(self) -> Iterator[Out]:
        if not self._pending:
            return
        taken = self._machine.decoded()
        columns = self._program.assemble(taken)
        groups, counts = zip(*self._pending, strict=True)
        columns[KEY_GROUP] = key_group_array(np.repeat(np.array(groups, dtype=np.int32), counts))
        if self._program.raw_keys is not None:
            columns[RAW_KEY] = self._program.raw_keys(taken)
        self._machine.clear()
        self._pending.clear()
        yield self._finish(columns)

    def _damage(self, what: str, offset: int) -> SnapshotError:
        return misfit(what, self._described, Where(self._file, offset, state=self._target.name))


Groups = npt.NDArray[np.int32]


def serialized_program(state: StateDescriptor, ctx: LayoutContext) -> EntryProgram:
    """Compile a program that divides heap entries into the bytes of namespace, key and value (or items, or pairs).

    Of timers there is the value only. Raises Undecodable.
    """
    scope = () if state.kind.is_queue else (("namespace", state.namespace), ("key", state.key))
    layouts = {name: SerializedValue(serializer.layout(ctx.inner)) for name, serializer in scope}
    value = {StateKind.LIST: serialized_items, StateKind.MAP: serialized_pairs}.get(state.kind, serialized_value)
    b = Builder()
    columns = {name: layout.emit(b, False) for name, layout in layouts.items()}
    columns["value"] = value(state, ctx).emit(b, False)
    b.op(ops.ROW_END)
    return EntryProgram(b.build(), columns, -1, None)


def composite_entries(columns: Columns, state: StateDescriptor, file: str) -> RawEntries:
    """Assemble composite entries; empty lists and maps have none."""
    groups = numbers_of(columns[KEY_GROUP])
    values = columns["value"]
    if state.kind.is_queue:
        return packed_entries(groups, row_bytes_of(values), empty_row_bytes(len(groups)), file)
    ambiguous = state.key.length < 0 and state.namespace.length < 0
    if state.kind is StateKind.MAP:
        return _map_entries(groups, columns, ambiguous, file)
    keys = composite_keys(row_bytes_of(columns["key"]), row_bytes_of(columns["namespace"]), None, ambiguous)
    if state.kind is StateKind.LIST:
        return _list_entries(groups, keys, values, file)
    return packed_entries(groups, keys, row_bytes_of(values), file)


def _list_entries(groups: Groups, keys: RowBytes, lists: pa.ListArray, file: str) -> RawEntries:
    offsets, items = _flattened(lists)
    values = delimited(row_bytes_of(items), offsets)
    present = np.flatnonzero(np.diff(offsets))
    if len(present) < len(groups):
        rows = values_array(present)
        groups = groups[present]
        keys, values = (row_bytes_of(pieces.to_arrow().take(rows)) for pieces in (keys, values))
    return packed_entries(groups, keys, values, file)


def _flattened(lists: pa.ListArray) -> tuple[Longs, pa.Array]:
    """Return the offsets of lists, beginning at 0, and their items."""
    offsets = offsets_of(lists)
    return offsets - offsets[0], lists.flatten()


def _map_entries(groups: Groups, columns: Columns, ambiguous: bool, file: str) -> RawEntries:
    maps = columns["value"]
    offsets, pairs = _flattened(maps)
    rows = np.repeat(np.arange(len(maps)), np.diff(offsets))
    taken = values_array(rows)
    # Repeated keys may exceed the 2 GiB of 32-bit offsets.
    key, namespace = (row_bytes_of(columns[name].cast(pa.large_binary()).take(taken)) for name in ("key", "namespace"))
    user_keys, values = row_bytes_of(pairs.field("key")), row_bytes_of(pairs.field("value"))
    return packed_entries(groups[rows], composite_keys(key, namespace, user_keys, ambiguous), values, file)


def packed_entries(groups: Groups, keys: RowBytes, values: RowBytes, file: str) -> RawEntries:
    """Put keys and values into one buffer: all keys, then all values."""
    key_bytes, value_bytes = (part.data[part.offsets[0] : part.offsets[-1]] for part in (keys, values))
    key_offsets = keys.offsets - keys.offsets[0]
    value_offsets = values.offsets - values.offsets[0] + len(key_bytes)
    ranges = np.stack([key_offsets[:-1], key_offsets[1:], value_offsets[:-1], value_offsets[1:]])
    data = np.concatenate([key_bytes, value_bytes])
    return RawEntries(data, groups, ranges, file, 0, exact=False, packed=True)


_READ_AT_ONCE = 1 << 20
"""Bytes of key groups that are read without blocks, of which many little ones would each need some."""


def measure_heap(
    source: ByteSource,
    ranges: Sequence[KeyGroupRange],
    states: Sequence[StateDescriptor | str],
    ctx: LayoutContext,
    *,
    compressed: bool,
    advance: Callable[[int], None] = lambda _: None,
) -> EntryCounts:
    """Count these key groups; each is held in memory as a whole. An entry is a key's value, list or map, or a timer.

    ``advance`` is called with the bytes of each key group. Raises CorruptSnapshot; Undecodable where a state's values
    have no known end.
    """
    machines = [_machine(state, ctx) for state in states]
    entries = np.zeros((len(ranges), len(states)), dtype=np.int64)
    sizes = np.zeros((len(ranges), len(states)), dtype=np.int64)
    row = 0

    def offset(position: int) -> int:
        """Return the file offset of a position; in compressed key groups only that of the group is known."""
        return ranges[row].start + (0 if compressed else position)

    types = [part for state in states if isinstance(state, StateDescriptor) for part in state.serializers]
    described = described_classes(types, ctx)
    with placed(source.name, offset, described=described):
        for row, item in enumerate(ranges):
            data = _whole(source, item, compressed)
            _sections(data, machines, entries[row], sizes[row], Where(source.name, item.start), described)
            advance(item.stop - item.start)
    return EntryCounts(tuple(item.key_group for item in ranges), entries, sizes)


def _machine(state: StateDescriptor | str, ctx: LayoutContext) -> Machine:
    if isinstance(state, str):
        raise Undecodable(f"nothing is known of state '{state}'")
    return Machine(skip_program(state, ctx))


def _whole(source: ByteSource, item: KeyGroupRange, compressed: bool) -> Bytes:
    size = item.stop - item.start
    if not compressed and size <= _READ_AT_ONCE:
        return np.frombuffer(source.read(item.start, size), dtype=np.uint8)
    blocks = snappy_blocks(source, [item], GROUP_HEAD) if compressed else plain_blocks(source, [item])
    return np.concatenate([block.data for block in blocks])


def _sections(
    data: Bytes,
    machines: Sequence[Machine],
    entries: np.ndarray,
    sizes: np.ndarray,
    where: Where,
    described: Sequence[str],
) -> None:
    """Count the sections of one key group into the rows ``entries`` and ``sizes``."""
    pos = GROUP_HEAD
    for _ in machines:
        state, count = SECTION.unpack_from(data.data, pos) if len(data) - pos >= SECTION.size else (0, -1)
        if state >= len(machines) or count < 0 or entries[state]:
            raise misfit("a key group's states are cut off, or begin elsewhere", described, where)
        begin = pos
        pos += SECTION.size
        if not count:
            continue
        rows, pos = machines[state].run_stream(data, pos, len(data), count)
        if rows < count:
            raise misfit("a state's entries are cut off", described, where)
        entries[state] = count
        sizes[state] += pos - begin
    if pos != len(data):
        raise misfit("there are bytes after the last state of a key group", described, where)


@dataclass(frozen=True)
class HeapSplit(KeyGroupsSplit):
    """Some key groups of a native heap file."""

    namespace_first = True

    def raw_entries(self) -> Iterator[RawEntries]:
        target, ctx = self.target(), self.scan.options.context
        if target is None:
            return
        columns_of_chunks = heap_entries(
            self.source,
            self.ranges,
            header_states(self.header),
            target,
            ctx,
            serialized_program(target, ctx),
            dict,
            compressed=self.header.compressed,
        )
        for columns in columns_of_chunks:
            entries = composite_entries(columns, target, self.source.name)
            if len(entries):
                yield entries

    def read(self) -> Iterator[pa.RecordBatch]:
        """Decode in one pass, which saves the conversion to composite entries."""
        load_plugins(self.scan.options.plugins)
        target = self.target()
        if target is not None:
            yield from heap_batches(
                self.source,
                self.ranges,
                header_states(self.header),
                target,
                self.scan.options.context,
                compressed=self.header.compressed,
                flatten=self.scan.flatten,
                raw_keys=self.scan.raw_keys,
            )


@dataclass(frozen=True)
class HeapFile(KeyGroupsFile):
    """A file of key groups as heap backends write them."""

    layout = "heap"
    split_type = HeapSplit

    def measure(
        self, source: ByteSource, ranges: Sequence[KeyGroupRange], header: KeyedHeader, request: SizeRequest
    ) -> EntryCounts:
        return measure_heap(
            source,
            ranges,
            self.states,
            request.options_of(self).context,
            compressed=header.compressed,
            advance=request.advance,
        )

    def find_unreadable_states(self, options: ReadOptions) -> Mapping[str, ErrorsByKeyGroup]:
        """Find states whose values have no known end, and states that are stored after them."""
        header, context = self.header, options.context
        if header is None or self.shared.are_readable(header, options, partial(have_known_ends, ctx=context)):
            return {}
        return unreadable_states(
            self.source,
            self.ranges,
            self.states,
            context,
            compressed=header.compressed,
            whole=options.on_error == "null",
        )

    def stores_lengths(self, state: StateDescriptor) -> bool:
        return False
