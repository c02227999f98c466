"""Decode raw entries of one state to batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.array_types import Flags, Longs
from stateproc.codec.arrow_arrays import numbers_of, values_array
from stateproc.codec.builder import Builder
from stateproc.codec.layouts import Delimited
from stateproc.codec.layouts.collections import offsets_of_lengths, refuse_null_keys
from stateproc.codec.machine import HostFailure, Machine
from stateproc.codec.native.jit import exported, load_u8
from stateproc.errors import SnapshotError, UnsupportedSnapshot, Where
from stateproc.readers.entry_programs import Columns, EntryProgram, Form, composite_value, entry_program
from stateproc.readers.error_context import misfit, placed
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.row_schema import (
    KEY_GROUP,
    RAW_KEY,
    finished_rows,
    flat_entries,
    key_group_array,
    record_batch,
    state_fields,
)
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext
from stateproc.serializers.described_classes import described_classes

# Split lists that are too long for one Arrow value between their elements, for flattened list states.
#
# RocksDB joins elements without limit as they are merged; Flink itself cannot read a value of 2^31 bytes back.

LONGEST = 64 << 20
"""Lists of more bytes are cut, so that batches stay small."""
MOST_BYTES = (1 << 31) - 1
"""The limit of an Arrow value, and of a value in Flink itself."""
MOST_ELEMENTS = (1 << 31) - 1
"""list_index is an int32."""
_ELEMENTS_AT_ONCE = 1 << 20
_COMMA = 0x2C


def check_lists(chunk: RawEntries, state: StateDescriptor, most: int) -> RawEntries:
    """The entries as they are. Raises UnsupportedSnapshot for a list of more than ``most`` bytes."""
    long = np.flatnonzero(chunk.ranges[3] - chunk.ranges[2] > most)
    if len(long):
        start, end = chunk.ranges[2:, long[0]].tolist()
        raise UnsupportedSnapshot(
            f"a list of {end - start} bytes, more than one value can hold",
            where=Where(chunk.file, chunk.offset(start), state=state.name),
            advice="read its elements as rows: flatten=true in Spark, flatten=True in Python, --flatten",
        )
    return chunk


def cut_lists(chunk: RawEntries, longest: int) -> Iterator[tuple[RawEntries, bool]]:
    """The entries in their order, those with more than ``longest`` bytes of value by themselves (True)."""
    long = np.flatnonzero(chunk.ranges[3] - chunk.ranges[2] > longest).tolist()
    first = 0
    for at in [*long, len(chunk)]:
        if at > first:
            yield _part(chunk, first, at), False
        if at < len(chunk):
            yield _part(chunk, at, at + 1), True
        first = at + 1


def _part(chunk: RawEntries, first: int, last: int) -> RawEntries:
    return replace(chunk, key_groups=chunk.key_groups[first:last], ranges=chunk.ranges[:, first:last])


class ElementCutter:
    """Finds where the elements of a list state's entries end, by running the element's program."""

    def __init__(self, state: StateDescriptor, ctx: LayoutContext) -> None:
        value = composite_value(state, ctx)
        assert isinstance(value, Delimited)
        b = Builder()
        self._mark = b.column(8, 0)
        value.item.skip(b)
        b.op(ops.MARK, self._mark)
        b.op(ops.SKIP, 1)
        b.op(ops.ROW_END)
        self._machine, self._state = Machine(b.build()), state
        self._described = described_classes(state.serializers, ctx)

    def split(self, entry: RawEntries, longest: int) -> Iterator[RawEntries]:
        """One entry with a long list as several with the same key, of about ``longest`` bytes or one element.

        Raises CorruptSnapshot where elements are not parted by commas.
        """
        key_start, key_end, start, end = entry.ranges[:, 0].tolist()
        first, last = start, start
        while True:
            with placed(entry.file, entry.offset, self._state.name, self._described):
                rows, reached = self._machine.run_stream(entry.data, last, end, _ELEMENTS_AT_ONCE)
            marks = np.array(self._machine.decoded().column(self._mark, np.int64), dtype=np.int64)
            wrong = np.flatnonzero(entry.data[marks] != _COMMA)
            if len(wrong):
                where = Where(entry.file, entry.offset(int(marks[wrong[0]])), state=self._state.name)
                raise misfit("elements of a list are not parted by a comma", self._described, where)
            while len(marks) and marks[-1] - first > longest:
                fits = max(int(np.searchsorted(marks, first + longest, side="right")) - 1, 0)
                at = int(marks[fits])
                yield replace(entry, ranges=np.array([[key_start], [key_end], [first], [at]]))
                first, marks = at + 1, marks[fits + 1 :]
            last = reached
            if rows < _ELEMENTS_AT_ONCE:
                break
        yield replace(entry, ranges=np.array([[key_start], [key_end], [first], [end]]))


def check_index(elements: int, entry: RawEntries, state: StateDescriptor) -> None:
    """Raise UnsupportedSnapshot for a list with more elements than list_index can count."""
    if elements > MOST_ELEMENTS:
        raise UnsupportedSnapshot(
            f"a list of more than {MOST_ELEMENTS} elements",
            where=Where(entry.file, entry.file_at, state=state.name),
        )


# Map state in composite entries: neighbours with the same key and namespace become one row.


@exported
def _new_keys(source: int, starts: Longs, stops: Longs, out: Flags) -> None:
    """out[i] = whether the bytes [starts[i], stops[i]) differ from those before; out[0] is left as it is."""
    for i in range(1, len(starts)):
        n = stops[i] - starts[i]
        same = n == stops[i - 1] - starts[i - 1]
        k = 0
        while same and k < n:
            same = load_u8(source + starts[i] + k) == load_u8(source + starts[i - 1] + k)
            k += 1
        out[i] = not same


class MapGrouper:
    """Collects entries; yields rows with a map value each. The last row waits until the next one begins.

    A map of more than ``most`` bytes, which no Arrow value can hold, is refused once so many have come.
    """

    def __init__(self, state: str, most: int) -> None:
        self._state, self._most = state, most
        self._open: list[Columns] = []
        self._open_key: tuple[int, bytes] | None = None
        self._open_bytes = 0

    def feed(self, entries: RawEntries, columns: Columns, marks: npt.NDArray[np.int64]) -> Iterator[Columns]:
        """``columns``: the decoded entries. ``marks``: where user keys begin."""
        starts = entries.ranges[0]
        new = np.zeros(len(starts), dtype=np.bool_)
        _new_keys(entries.data.ctypes.data, starts, marks, new)
        new[1:] |= np.diff(entries.key_groups) != 0
        new[0] = self._key(entries, marks, 0) != self._open_key
        self._open_key = self._key(entries, marks, len(starts) - 1)
        bounds = np.flatnonzero(new)
        sizes = entries.ranges[3] - entries.ranges[2] + entries.ranges[1] - marks
        self._check(entries, self._open_bytes + int(sizes[: bounds[0] if len(bounds) else None].sum()))
        if len(bounds) == 0:
            self._open_bytes += int(sizes.sum())
            self._open.append(columns)
            return
        if self._open or bounds[0] > 0:
            self._open.append(_slice(columns, 0, int(bounds[0])))
            yield self._row(self._open)
        last = int(bounds[-1])
        self._open_bytes = int(sizes[last:].sum())
        if len(bounds) > 1:
            yield _rows_of_maps(_slice(columns, int(bounds[0]), last), bounds[:-1] - bounds[0])
        self._open = [_slice(columns, last, len(starts))]

    def finish(self) -> Iterator[Columns]:
        """The row that still waits."""
        if self._open:
            yield self._row(self._open)
        self._open = []

    def _check(self, entries: RawEntries, size: int) -> None:
        """Raise UnsupportedSnapshot if the open map has grown to more bytes than a value can have."""
        if size > self._most:
            raise UnsupportedSnapshot(
                f"a map of {size} bytes or more, which is more than one value can hold",
                where=Where(entries.file, entries.file_at, state=self._state),
                advice="read its entries as rows: flatten=true in Spark, flatten=True in Python, --flatten",
            )

    def _row(self, parts: list[Columns]) -> Columns:
        joined = {name: pa.concat_arrays([part[name] for part in parts]) for name in parts[0]}
        return _rows_of_maps(joined, np.zeros(1, dtype=np.int64))

    @staticmethod
    def _key(entries: RawEntries, marks: npt.NDArray[np.int64], row: int) -> tuple[int, bytes]:
        return int(entries.key_groups[row]), entries.data[entries.ranges[0, row] : marks[row]].tobytes()


def _slice(columns: Columns, start: int, stop: int) -> Columns:
    return {name: column.slice(start, stop - start) for name, column in columns.items()}


def _rows_of_maps(columns: Columns, starts: npt.NDArray[np.int64]) -> Columns:
    """Entries as rows that begin at ``starts``. Raises NullKey."""
    columns = dict(columns)
    keys, items = columns.pop("user_key"), columns.pop("value")
    refuse_null_keys(keys, "flatten the state: a row for each entry may have a null key")
    lengths = np.diff(np.append(starts, len(keys)))
    fields = [pa.field("key", keys.type, nullable=False), pa.field("value", items.type)]
    pairs = pa.StructArray.from_arrays([keys, items], fields=fields)
    first = values_array(starts)
    rows = {name: column.take(first) for name, column in columns.items()}
    buffers = [None, pa.py_buffer(offsets_of_lengths(lengths.astype(np.int32)))]
    rows["value"] = pa.Array.from_buffers(pa.map_(keys.type, items.type), len(starts), buffers, children=[pairs])
    return rows


Report: TypeAlias = Callable[[SnapshotError], None]


def decode_entries(
    entries: Iterable[RawEntries],
    state: StateDescriptor,
    ctx: LayoutContext,
    *,
    flatten: bool = False,
    raw_keys: bool = False,
    longest: int = LONGEST,
    most: int = MOST_BYTES,
    report: Report | None = None,
) -> Iterator[pa.RecordBatch]:
    """Decode entries to batches of the state's rows.

    Args:
        entries: The entries of the state.
        ctx: Settings of layouts.
        flatten: Whether each list element or map entry is a row.
        raw_keys: Whether to add the bytes of key and namespace as a column ``raw_key``.
        longest: Flattened lists of more bytes are decoded in parts.
        most: Lists and maps of more bytes are refused if they are not flattened.
        report: Called with the error of each value that cannot be decoded, which is null then; without it, the error
            is raised.

    Raises:
        CorruptSnapshot: The entries are damaged; names file and offset.
        UnsupportedSnapshot: A key cannot be decoded; or a value, without ``report``.
    """
    if state.kind is not StateKind.LIST:
        yield from _decoded(entries, state, ctx, flatten=flatten, raw_keys=raw_keys, most=most, report=report)
        return
    if not flatten:
        checked = (check_lists(chunk, state, most) for chunk in entries)
        yield from _decoded(checked, state, ctx, flatten=False, raw_keys=raw_keys, report=report)
        return
    cutter = ElementCutter(state, ctx)
    parts = (part for chunk in entries for part in cut_lists(chunk, longest))
    for long, run in groupby(parts, key=itemgetter(1)):
        chunks = (part for part, _ in run)
        if not long:
            yield from _decoded(chunks, state, ctx, flatten=True, raw_keys=raw_keys, report=report)
            continue
        for entry in chunks:
            before = 0
            for batch in _decoded(cutter.split(entry, longest), state, ctx, flatten=True, raw_keys=raw_keys):
                check_index(before + len(batch), entry, state)
                at = batch.schema.get_field_index("list_index")
                index = values_array(numbers_of(batch.column(at)) + np.int32(before))
                yield batch.set_column(at, batch.schema.field(at), index)
                before += len(batch)


def _placed_error(error: SnapshotError, chunk: RawEntries) -> SnapshotError:
    """Return the error of a value with its position in the file instead of that in the buffer."""
    where = Where(chunk.file, chunk.offset(error.where.offset or 0))
    return type(error)(error.message, where=where, advice=error.advice)


def _decoded(
    entries: Iterable[RawEntries],
    state: StateDescriptor,
    ctx: LayoutContext,
    *,
    flatten: bool,
    raw_keys: bool,
    most: int = MOST_BYTES,
    report: Report | None = None,
) -> Iterator[pa.RecordBatch]:
    program = entry_program(state, Form.COMPOSITE, ctx, raw_keys=raw_keys)
    machine = Machine(program.program)
    described = described_classes(state.serializers, ctx)
    fields = state_fields(state, ctx, flatten)
    schema = pa.schema([*fields, pa.field(RAW_KEY, pa.binary())] if raw_keys else fields)
    without_values = _ValueSkipper(state, ctx, raw_keys)
    grouper = MapGrouper(state.name, most) if state.kind is StateKind.MAP and not flatten else None
    chunk: RawEntries | None = None
    for chunk in entries:
        done, n = 0, len(chunk)
        starts, ends = chunk.ranges[0::2], chunk.ranges[1::2]
        while done < n:
            with placed(chunk.file, chunk.offset, state.name, described):
                ran, ran_machine = program, machine
                try:
                    reached = machine.run(chunk.data, starts, ends, done, n)
                except HostFailure as failure:
                    if report is None or not isinstance(failure.error, UnsupportedSnapshot):
                        raise
                    report(_placed_error(failure.error, chunk))
                    if failure.row == done:
                        ran, ran_machine = without_values.program, without_values.machine
                    reached = ran_machine.run(chunk.data, starts, ends, done, max(failure.row, done + 1))
                taken = ran_machine.decoded()
                columns = ran.assemble(taken)
                columns[KEY_GROUP] = key_group_array(chunk.key_groups[done:reached])
                if ran.raw_keys is not None:
                    columns[RAW_KEY] = ran.raw_keys(taken)
                if grouper is None and ran is not program:
                    yield _null_rows(columns, schema)
                elif grouper is None:
                    yield record_batch(_rows(state, columns, flatten), schema)
                else:
                    part = RawEntries(
                        chunk.data,
                        chunk.key_groups[done:reached],
                        chunk.ranges[:, done:reached],
                        chunk.file,
                        chunk.file_at,
                        chunk.exact,
                    )
                    if ran is not program:
                        columns["value"] = pa.nulls(reached - done, without_values.value_type)
                    marks = taken.column(ran.marks, np.int64)
                    for rows in grouper.feed(part, columns, marks):
                        yield record_batch(finished_rows(state, rows, False), schema)
            done = reached
    if grouper is not None and chunk is not None:
        with placed(chunk.file, chunk.offset, state.name, described):
            for rows in grouper.finish():
                yield record_batch(finished_rows(state, rows, False), schema)


def _rows(state: StateDescriptor, columns: Columns, flatten: bool) -> Columns:
    if state.kind is StateKind.MAP:
        return flat_entries(state, columns)
    return finished_rows(state, columns, flatten)


class _ValueSkipper:
    """The program for entries whose values cannot be decoded, compiled when the first of them is met."""

    def __init__(self, state: StateDescriptor, ctx: LayoutContext, raw_keys: bool) -> None:
        self._state, self._ctx, self._raw_keys = state, ctx, raw_keys

    @cached_property
    def program(self) -> EntryProgram:
        return entry_program(self._state, Form.COMPOSITE, self._ctx, raw_keys=self._raw_keys, values=False)

    @cached_property
    def machine(self) -> Machine:
        return Machine(self.program.program)

    @property
    def value_type(self) -> pa.DataType:
        return composite_value(self._state, self._ctx).arrow_type


def _null_rows(columns: Columns, schema: pa.Schema) -> pa.RecordBatch:
    """Return one row for each entry, with its keys and a null value; of a flattened list, a null element."""
    if "user_key" in columns:
        columns = {**columns, "map_key": columns["user_key"]}
    rows = len(columns[KEY_GROUP])
    return record_batch({field.name: columns.get(field.name, pa.nulls(rows, field.type)) for field in schema}, schema)


def decode_keys(
    entries: Iterable[RawEntries], state: StateDescriptor, ctx: LayoutContext, *, user_keys: bool = False
) -> Iterator[pa.RecordBatch]:
    """Decode keys and namespaces of entries, a row each, whatever the bytes of their values.

    Args:
        entries: The entries of the state; they need not have values.
        ctx: Settings of layouts.
        user_keys: Whether to decode the user keys of map entries, too, as ``map_key``.

    Raises:
        CorruptSnapshot: The entries are damaged; names file and offset.
        UnsupportedSnapshot: A key cannot be decoded.
    """
    program = entry_program(state, Form.COMPOSITE, ctx, values=False, user_keys=user_keys)
    machine = Machine(program.program)
    described = described_classes(state.serializers, ctx)
    for chunk in entries:
        done, n = 0, len(chunk)
        starts, ends = chunk.ranges[0::2], chunk.ranges[1::2]
        while done < n:
            with placed(chunk.file, chunk.offset, state.name, described):
                reached = machine.run(chunk.data, starts, ends, done, n)
                columns = program.assemble(machine.decoded())
            if state.kind.is_queue:
                columns = finished_rows(state, columns, False)
            elif "user_key" in columns:
                columns["map_key"] = columns.pop("user_key")
            columns[KEY_GROUP] = key_group_array(chunk.key_groups[done:reached])
            yield pa.RecordBatch.from_pydict(columns)
            done = reached
