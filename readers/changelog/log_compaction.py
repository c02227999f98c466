"""Compact a log of changes: of every key, only the last change is kept.

Format: org.apache.flink.state.changelog.restore.ChangelogBackendLogApplier and the StateChangeApplier classes. Where
namespaces are merged, the result depends on the values at that time: see ``namespace_merge``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import offsets_of
from stateproc.codec.native.jit import copy_bytes, exported, store_8
from stateproc.errors import UnsupportedSnapshot, Where
from stateproc.readers.changelog.change_blocks import NO_MARK, equal, joined, numbered, write_entries
from stateproc.readers.changelog.composite_keys import is_ambiguous, null_form, user_key_starts
from stateproc.readers.changelog.records import (
    HEAD,
    OPERANDS,
    ChangeOperands,
    Operand,
    Operation,
    Records,
    check_operations,
    operands_of,
)
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.row_schema import element_layout
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext

# Compact changes that merge namespaces: kernels apply them one after another.
#
# Format: MERGE_NS of org.apache.flink.state.changelog.StateChangeOperation; what it does is what mergeNamespaces of
# Flink's InternalMergingState does: sources hold nothing afterwards, lists are appended to the target's in the order of
# the sources. Of several values only the job's own function knows what they become.

PUT, APPEND, REMOVE, CLEAR, MERGE = range(5)
"""What a row does: it sets all there is (of a map one user key), adds to a list, removes one user key or timer, removes
all, or moves what one source holds to the row's key."""
NOTHING, UNSETTLED = -1, -2


@exported
def last_values(does: Longs, orders: Longs, keys: Longs, sources: Longs, held: Longs) -> None:
    """Of each key the row of its value, NOTHING, or UNSETTLED where two values were merged.

    does, orders, keys, sources: int64 [rows] in their order; keys and sources are numbers below len(held). Rows of one
    merge are neighbours of one order. held: int64 [keys], filled in.
    """
    held[:] = NOTHING
    n = len(does)
    row = 0
    while row < n:
        if does[row] != MERGE:
            held[keys[row]] = row if does[row] == PUT else NOTHING
            row += 1
            continue
        order, target, found = orders[row], keys[row], NOTHING
        while row < n and does[row] == MERGE and orders[row] == order:
            value = held[sources[row]]
            held[sources[row]] = NOTHING
            if value != NOTHING:
                found = value if found == NOTHING else UNSETTLED
            row += 1
        if found != NOTHING:
            held[target] = found if held[target] == NOTHING else UNSETTLED


@exported
def chained(does: Longs, orders: Longs, keys: Longs, sources: Longs, heads: Longs, after: Longs, tails: Longs) -> None:
    """Of each key the rows that make its list, as a chain: heads int64 [keys] its first row or NOTHING, after int64
    [rows] the row after a row, or NOTHING. tails: int64 [keys], scratch. The rest as in `last_values`."""
    heads[:] = NOTHING
    after[:] = NOTHING
    n = len(does)
    row = 0
    while row < n:
        key = keys[row]
        if does[row] != MERGE:
            if does[row] == APPEND and heads[key] != NOTHING:
                after[tails[key]] = row
            else:
                heads[key] = NOTHING if does[row] == CLEAR else row
            tails[key] = row
            row += 1
            continue
        order, head, tail = orders[row], NOTHING, NOTHING
        while row < n and does[row] == MERGE and orders[row] == order:
            source = sources[row]
            if heads[source] != NOTHING:
                if head == NOTHING:
                    head = heads[source]
                else:
                    after[tail] = heads[source]
                tail = tails[source]
                heads[source] = NOTHING
            row += 1
        if head != NOTHING:
            if heads[key] == NOTHING:
                heads[key] = head
            else:
                after[tails[key]] = head
            tails[key] = tail


@exported
def unchained(heads: Longs, after: Longs, rows: Longs, bounds: Longs) -> int:
    """Write the chains one after another: rows int64 [all], bounds int64 [keys + 1]. Returns the number of rows."""
    used = 0
    for key in range(len(heads)):
        bounds[key] = used
        row = heads[key]
        while row != NOTHING:
            rows[used] = row
            used += 1
            row = after[row]
    bounds[len(heads)] = used
    return used


@exported
def composed(
    key_at: Longs, key_sizes: Longs, space_at: Longs, space_sizes: Longs, suffixes: bool, out: int, offsets: Longs
) -> None:
    """Write keys and namespaces (by address and size) as composite keys; ``suffixes``: each followed by its length,
    lowest byte first, no zeros. offsets: int64 [n + 1], filled in."""
    used = np.int64(0)
    for k in range(len(key_at)):
        offsets[k] = used
        for part in range(2):
            at, size = (key_at[k], key_sizes[k]) if part == 0 else (space_at[k], space_sizes[k])
            copy_bytes(out + used, at, size)
            used += size
            left = size
            while suffixes:
                store_8(out + used, left & 0xFF)
                used += 1
                left >>= 8
                if left == 0:
                    break
    offsets[len(key_at)] = used


def check_settled(held: Longs, groups: Longs, state: StateDescriptor, file: str) -> None:
    """Raise UnsupportedSnapshot if only the job's reduce or aggregate function can compute a value.

    held: of `last_values`; groups: int64, the keys' key groups.
    """
    unsettled = groups[held == UNSETTLED]
    if state.kind not in (StateKind.REDUCING, StateKind.AGGREGATING) or not len(unsettled):
        return
    group = int(unsettled.min())
    count = int((unsettled == group).sum())
    raise UnsupportedSnapshot(
        f"MERGE_NS: the changelog merges namespaces of this {state.kind.value} state ({count} in key group {group}), "
        f"and only the job's own function knows what their values become",
        where=Where(file=file, state=state.name),
        advice="take a savepoint of the job, or open a checkpoint taken after the next materialization",
    )


_ENTRIES_AT_ONCE, _BYTES_AT_ONCE = 1 << 16, 16 << 20
_SUFFIX = 10


@dataclass
class ChangeRows:
    """Changes of composite keys: one row for each value, user key, timer or merged source, in int64 arrays of one
    length.

    order: rows of smaller numbers happened before. key, user, value: address and size (0 where there is none); of
    merges, user is the composite key of the source. marks: the null mark before a map's value, NO_MARK if it has one
    already.
    """

    order: Longs
    groups: Longs
    does: Longs
    key_at: Longs
    key_sizes: Longs
    user_at: Longs
    user_sizes: Longs
    value_at: Longs
    value_sizes: Longs
    marks: Longs

    def __len__(self) -> int:
        return len(self.order)

    def take(self, which: Longs) -> ChangeRows:
        return ChangeRows(*(getattr(self, field.name)[which] for field in fields(self)))


def _rows(n: int, **columns: Longs | int) -> ChangeRows:
    whole = {field.name: np.zeros(n, dtype=np.int64) for field in fields(ChangeRows)}
    whole["marks"][:] = NO_MARK
    for name, values in columns.items():
        whole[name][:] = values
    return ChangeRows(**whole)


def _joined_rows(parts: Sequence[ChangeRows]) -> ChangeRows:
    return ChangeRows(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(ChangeRows)))


def compacted_entries(
    state: StateDescriptor, materialized: Iterable[RawEntries], found: Records, ctx: LayoutContext, file: str
) -> Iterator[RawEntries]:
    """Apply changes to materialized entries and yield the resulting entries by key group.

    Raises:
        CorruptSnapshot: A change is damaged; names file and offset.
        UnsupportedSnapshot: A value can only be computed by the job's function.
    """
    rows = RowCollector(state, ctx)
    check_operations(found, state)
    for entries in materialized:
        rows.load(entries)
    for code in np.unique(found.operations).tolist():
        rows.apply(found, Operation(code))
    yield from _written(rows.compacted(file), file)


class RowCollector:
    """Collect rows, and references to the buffers that their addresses point into."""

    def __init__(self, state: StateDescriptor, ctx: LayoutContext) -> None:
        self._state, self._ctx = state, ctx
        self._rows: list[ChangeRows] = []
        self._buffers: list[object] = []
        self._loaded = 0

    def load(self, entries: RawEntries) -> None:
        """Add entries as they were when the state was materialized."""
        base = entries.data.ctypes.data
        self._buffers.append(entries.data)
        start, stop, at, end = entries.ranges
        middle = stop
        if self._state.kind is StateKind.MAP:
            middle = user_key_starts(entries, self._state, self._ctx)
        self._rows.append(
            _rows(
                len(entries),
                order=self._earlier(len(entries)),
                groups=entries.key_groups.astype(np.int64),
                does=PUT,
                key_at=base + start,
                key_sizes=middle - start,
                user_at=base + middle,
                user_sizes=stop - middle,
                value_at=base + at,
                value_sizes=end - at,
            )
        )

    def _earlier(self, n: int) -> Longs:
        """Return order numbers for ``n`` rows that precede all changes."""
        self._loaded += n
        return np.arange(self._loaded - n, self._loaded) - (1 << 62)

    def apply(self, found: Records, operation: Operation) -> None:
        """Add the changes of one operation."""
        parts = operands_of(found, operation, self._state, self._ctx)
        operand = OPERANDS[self._state.kind][operation]
        which = parts.which
        base = found.data.ctypes.data
        self._buffers.append(found.data)
        key_at, key_sizes = self._composite(found, parts)
        rows = _rows(len(which), order=which, groups=found.groups[which], key_at=key_at, key_sizes=key_sizes)
        listed = self._state.kind is StateKind.LIST
        if operand is Operand.NOTHING:
            rows.does[:] = CLEAR
        elif operand is Operand.NAMESPACES:
            rows = self._merges(rows, found, parts)
        elif operand is Operand.PAIR:
            rows.user_at, rows.user_sizes = base + parts.scope_ends, parts.user_ends - parts.scope_ends
            rows.value_at, rows.value_sizes = base + parts.user_ends, found.ends[which] - parts.user_ends
            self._mark_nulls(rows)
        elif operand is Operand.ONE and operation is Operation.REMOVE_ELEMENT:
            rows.does[:] = REMOVE
            if self._state.kind is StateKind.MAP:
                rows.user_at, rows.user_sizes = base + parts.scope_ends, found.ends[which] - parts.scope_ends
        elif operand is Operand.ONE:
            rows.does[:] = APPEND if listed else PUT
            rows.value_at, rows.value_sizes = base + parts.scope_ends, found.ends[which] - parts.scope_ends
        elif operand is Operand.PAIRS:
            rows = self._pairs(rows, parts.items)
        elif listed:
            rows = self._items(rows, parts.items, replaces=operation is not Operation.ADD)
        else:
            rows = self._timers(rows, parts.items)
        self._rows.append(rows)

    def _composite(self, found: Records, parts: ChangeOperands) -> tuple[Longs, Longs]:
        """Return addresses and sizes of the composite keys: in the records, unless lengths must be inserted."""
        starts, which = found.starts[parts.which] + HEAD, parts.which
        if self._state.kind.is_queue:
            return found.data.ctypes.data + starts, found.ends[which] - starts
        if not is_ambiguous(self._state):
            return found.data.ctypes.data + starts, parts.scope_ends - starts
        base = found.data.ctypes.data
        spaces = base + parts.key_ends, parts.scope_ends - parts.key_ends
        return self._composed(base + starts, parts.key_ends - starts, *spaces)

    def _composed(self, key_at: Longs, key_sizes: Longs, space_at: Longs, space_sizes: Longs) -> tuple[Longs, Longs]:
        """Write composite keys of keys and namespaces, given by address and size; return addresses and sizes."""
        offsets = np.zeros(len(key_at) + 1, dtype=np.int64)
        out = np.empty(int((key_sizes + space_sizes).sum()) + 2 * _SUFFIX * len(key_at) + 1, dtype=np.uint8)
        suffixes = is_ambiguous(self._state)
        composed(key_at, key_sizes, space_at, space_sizes, suffixes, out.ctypes.data, offsets)
        self._buffers.append(out)
        return out.ctypes.data + offsets[:-1], np.diff(offsets)

    def _merges(self, rows: ChangeRows, found: Records, parts: ChangeOperands) -> ChangeRows:
        """A row for each source of the merges, in their order."""
        assert parts.items is not None
        counts, sources = _flat(parts.items.field("sources"))
        which = np.repeat(np.arange(len(rows)), counts)
        rows = rows.take(which)
        rows.does[:] = MERGE
        key_at = found.data.ctypes.data + found.starts[parts.which] + HEAD
        key_sizes = parts.key_ends - found.starts[parts.which] - HEAD
        rows.user_at, rows.user_sizes = self._composed(key_at[which], key_sizes[which], *self._blobs(sources))
        return rows

    def _mark_nulls(self, rows: ChangeRows) -> None:
        """A null is logged in its serializer's own form; restored, it is a null of the map's, which has a mark."""
        rows.marks[:] = 0
        null = null_form(element_layout(self._state, self._ctx))
        if null is not None:
            form = np.frombuffer(null or b"\0", dtype=np.uint8)
            is_null = np.zeros(len(rows), dtype=np.bool_)
            equal(rows.value_at, rows.value_sizes, form.ctypes.data, len(null), is_null)
            rows.marks[is_null], rows.value_sizes[is_null] = 1, 0

    def _pairs(self, rows: ChangeRows, items: pa.Array | None) -> ChangeRows:
        """A row for each pair of the maps."""
        counts, pairs = _flat(items)
        rows = rows.take(np.repeat(np.arange(len(rows)), counts))
        rows.user_at, rows.user_sizes = self._blobs(pairs.field("key"))
        rows.value_at, rows.value_sizes = self._blobs(pairs.field("value"))
        return rows

    def _items(self, rows: ChangeRows, items: pa.Array | None, *, replaces: bool) -> ChangeRows:
        """Lists as RocksDB would hold them; an empty one adds nothing, or leaves nothing."""
        counts, elements = _flat(items)
        at, sizes = self._blobs(elements)
        some = np.flatnonzero(counts)
        bounds = np.append(0, np.cumsum(counts[some]))
        data, rows.value_at[some], rows.value_sizes[some] = joined(at, sizes, bounds)
        self._buffers.append(data)
        if not replaces:
            rows.does[:] = APPEND
            return rows.take(some)
        rows.does[counts == 0] = CLEAR
        return rows

    def _timers(self, rows: ChangeRows, items: pa.Array | None) -> ChangeRows:
        """A row for each timer that was added."""
        counts, timers = _flat(items)
        rows = rows.take(np.repeat(np.arange(len(rows)), counts))
        rows.key_at, rows.key_sizes = self._blobs(timers)
        return rows

    def _blobs(self, array: pa.Array) -> tuple[Longs, Longs]:
        """Addresses and sizes of an array's binary values."""
        self._buffers.append(array)
        _, offsets, data = array.buffers()
        width = np.int64 if pa.types.is_large_binary(array.type) else np.int32
        bounds = np.frombuffer(offsets, dtype=width)[array.offset : array.offset + len(array) + 1].astype(np.int64)
        return (0 if data is None else data.address) + bounds[:-1], np.diff(bounds)

    def rows(self) -> ChangeRows:
        """Return what was collected, and forget it; its addresses are valid as long as the collector exists."""
        parts, self._rows = self._rows, []
        if len(parts) == 1:
            return parts[0]
        return _joined_rows(parts) if parts else _rows(0)

    def compacted(self, file: str) -> ChangeRows:
        """Return the rows after all changes, by key group and composite key. ``file``: for errors."""
        rows = self.rows()
        if not len(rows):
            return rows
        if (np.diff(rows.order) < 0).any():
            rows = rows.take(np.argsort(rows.order, kind="stable"))
        if (rows.does == MERGE).any():
            return self._merged_rows(rows, file)
        keys, n = numbered(rows.groups, rows.key_at, rows.key_sizes)
        if self._state.kind is StateKind.LIST:
            found, keys = self._joined_lists(rows, keys, n)
        elif self._state.kind is StateKind.MAP:
            found, keys = _last_mappings(rows, keys, n)
        else:
            which = _last(keys, n)
            which = which[rows.does[which] == PUT]
            found, keys = rows.take(which), keys[which]
        return found.take(np.lexsort((keys, found.groups)))

    def _merged_rows(self, rows: ChangeRows, file: str) -> ChangeRows:
        """Of each key what it holds after all changes, which may be what others held before."""
        merging = rows.does == MERGE
        at = np.concatenate([rows.key_at, rows.user_at[merging]])
        sizes = np.concatenate([rows.key_sizes, rows.user_sizes[merging]])
        groups = np.concatenate([rows.groups, rows.groups[merging]])
        numbers, n = numbered(groups, at, sizes)
        keys, sources = numbers[: len(rows)], np.zeros(len(rows), dtype=np.int64)
        sources[merging] = numbers[len(rows) :]
        places = _last(numbers, n)
        if self._state.kind is StateKind.LIST:
            heads, after = np.empty(n, dtype=np.int64), np.empty(len(rows), dtype=np.int64)
            chained(rows.does, rows.order, keys, sources, heads, after, np.empty(n, dtype=np.int64))
            which, bounds = np.empty(len(rows), dtype=np.int64), np.empty(n + 1, dtype=np.int64)
            which = which[: unchained(heads, after, which, bounds)]
            held = np.flatnonzero(np.diff(bounds))
            bounds = np.append(bounds[held], bounds[-1])
            data, value_at, value_sizes = joined(rows.value_at[which], rows.value_sizes[which], bounds)
            self._buffers.append(data)
        else:
            last = np.empty(n, dtype=np.int64)
            last_values(rows.does, rows.order, keys, sources, last)
            check_settled(last, groups[places], self._state, file)
            held = np.flatnonzero(last >= 0)
            value_at, value_sizes = rows.value_at[last[held]], rows.value_sizes[last[held]]
        places = places[held]
        found = _rows(
            len(held),
            groups=groups[places],
            key_at=at[places],
            key_sizes=sizes[places],
            value_at=value_at,
            value_sizes=value_sizes,
        )
        return found.take(np.lexsort((held, found.groups)))

    def _joined_lists(self, rows: ChangeRows, keys: Longs, n: int) -> tuple[ChangeRows, Longs]:
        """Of each list what came since it was last set or cleared, joined."""
        resets = np.full(n, -1, dtype=np.int64)
        resetting = np.flatnonzero(rows.does != APPEND)
        resets[keys[resetting]] = resetting
        at = np.arange(len(rows))
        kept = np.flatnonzero((at >= resets[keys]) & (rows.does != CLEAR))
        kept = kept[np.argsort(keys[kept], kind="stable")]
        if not len(kept):
            return rows.take(kept), keys[kept]
        bounds = np.append(np.flatnonzero(np.diff(keys[kept], prepend=-1)), len(kept))
        data, value_at, value_sizes = joined(rows.value_at[kept], rows.value_sizes[kept], bounds)
        self._buffers.append(data)
        first = kept[bounds[:-1]]
        found = rows.take(first)
        found.value_at, found.value_sizes = value_at, value_sizes
        return found, keys[first]


def _last_mappings(rows: ChangeRows, keys: Longs, n: int) -> tuple[ChangeRows, Longs]:
    """Return the last row of each user key, if it is a value and the map was not cleared after it."""
    cleared = np.full(n, -1, dtype=np.int64)
    clearing = np.flatnonzero(rows.does == CLEAR)
    cleared[keys[clearing]] = clearing
    single = np.flatnonzero(rows.does != CLEAR)
    users, many = numbered(keys[single], rows.user_at[single], rows.user_sizes[single])
    which = single[_last(users, many)]
    which = which[(rows.does[which] == PUT) & (which > cleared[keys[which]])]
    return rows.take(which), keys[which]


def _last(numbers: Longs, n: int) -> Longs:
    """The last row of each number."""
    found = np.zeros(n, dtype=np.int64)
    found[numbers] = np.arange(len(numbers))
    return found


def _flat(items: pa.Array | None) -> tuple[Longs, pa.Array]:
    """Of a list array, the counts and the elements."""
    assert items is not None
    counts = np.diff(offsets_of(items))
    return counts, items.flatten()


def _written(rows: ChangeRows, file: str) -> Iterator[RawEntries]:
    """The rows as composite entries, at most 65,536 at a time."""
    sizes = rows.key_sizes + rows.user_sizes + rows.value_sizes + 1
    before = np.append(0, np.cumsum(sizes))
    row = 0
    while row < len(rows):
        last = min(row + _ENTRIES_AT_ONCE, len(rows))
        fits = int(np.searchsorted(before, before[row] + _BYTES_AT_ONCE, side="right")) - 1
        last = max(row + 1, min(last, fits))
        data = np.empty(int(before[last] - before[row]), dtype=np.uint8)
        ranges = np.empty((4, last - row), dtype=np.int64)
        _, used = write_entries(
            rows.key_at,
            rows.key_sizes,
            rows.user_at,
            rows.user_sizes,
            rows.marks,
            rows.value_at,
            rows.value_sizes,
            row,
            last,
            len(data),
            data.ctypes.data,
            ranges,
        )
        groups = rows.groups[row:last].astype(np.int32)
        yield RawEntries(data[:used], groups, ranges, file, 0, exact=False)
        row = last
