"""Find the rows of a copied state's entries for which a condition is true, and drop them.

Rows are those that reading returns: of a value, list or timer one row for an entry. With ``flatten`` each element of a
list and each entry of a map is a row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import RowBytes, booleans_of, empty_row_bytes, numbers_of, row_bytes_of, values_array
from stateproc.codec.encoding.list_encoding import delimited
from stateproc.errors import InvalidOption, UnsupportedSnapshot, Where
from stateproc.filters import RowFilter, allowed_by, parse
from stateproc.keygroups.key_group_pruning import key_groups
from stateproc.model.operator_context import OperatorContext
from stateproc.model.session_windows import window_mapping
from stateproc.readers.entry_decoder import decode_entries, decode_keys
from stateproc.readers.entry_programs import with_opaque_values
from stateproc.readers.heap.reader import packed_entries
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.row_schema import KEY_GROUP, state_fields
from stateproc.readers.state_descriptor import StateDescriptor, StateKind, with_python_type
from stateproc.serializers import LayoutContext, Undecodable
from stateproc.serializers.pyflink import PythonElement
from stateproc.writers.formats.entry_batches import cuts, take_rows
from stateproc.writers.rewrite.ttl import ListElements

_OF_KEYS = (KEY_GROUP, "key", "namespace", "map_key", "timestamp")
"""Columns that are decoded without values."""


class SelectedEntries:
    """Consecutive entries with the rows that a condition selects. Either all of them are decoded, or none.

    Attributes:
        batch: The entries (RAW_ENTRIES).
        rows: How many rows are decoded of them.
        selected: Per row whether the condition is true; None where no row is decoded.
        columns: The columns of the selected rows, in batches; empty unless they are asked for.
    """

    def __init__(self, batch: pa.RecordBatch, decoded: bool, elements: ListElements | None) -> None:
        self.batch = batch
        self.selected: npt.NDArray[np.bool_] | None = None
        self.columns: list[pa.RecordBatch] = []
        self._offsets: Longs | None = None
        self._items: RowBytes | None = None
        self.rows = len(batch) if decoded else 0
        if decoded and elements is not None:
            self._offsets, self._items = elements.of(row_bytes_of(batch.column("value")))
            self.rows = int(self._offsets[-1])

    @property
    def count(self) -> int:
        """How many rows the condition selects."""
        return 0 if self.selected is None else int(np.count_nonzero(self.selected))

    @property
    def values(self) -> RowBytes:
        """The bytes of each row's value: of entries, or of elements of lists."""
        return row_bytes_of(self.batch.column("value")) if self._items is None else self._items

    def entries(self, values: bool) -> RawEntries:
        """Return the entries for decoding; without ``values``, none have one."""
        return raw_entries(self.batch, values)

    def without_selected(self) -> pa.RecordBatch:
        """Return the entries without the selected rows. A list that loses all of its elements is gone."""
        assert self.selected is not None
        kept = ~self.selected
        if self._offsets is None or self._items is None:
            return self.batch.filter(values_array(kept))
        before = np.zeros(len(kept) + 1, dtype=np.int64)
        np.cumsum(kept, out=before[1:])
        offsets = before[self._offsets]
        # Lists that were empty before stay as they are.
        some = (np.diff(offsets) > 0) | (np.diff(self._offsets) == 0)
        lists = delimited(take_rows(self._items, np.flatnonzero(kept)), offsets)
        entries = self.batch.filter(values_array(some))
        return with_column(entries, "value", take_rows(lists, np.flatnonzero(some)))

    def with_values(self, values: RowBytes) -> pa.RecordBatch:
        """Return the entries with other values; of lists, of their elements: as many as `values` has."""
        if self._offsets is not None:
            values = delimited(values, self._offsets)
        return with_column(self.batch, "value", values)

    def with_keys(self, keys: RowBytes) -> pa.RecordBatch:
        """Return the entries with other keys."""
        return with_column(self.batch, "key", keys)


def raw_entries(batch: pa.RecordBatch, values: bool = True) -> RawEntries:
    """Return entries (RAW_ENTRIES) for decoding; without ``values``, none have one."""
    groups = numbers_of(batch.column(KEY_GROUP)).astype(np.int32, copy=False)
    stored = row_bytes_of(batch.column("value")) if values else empty_row_bytes(len(batch))
    return packed_entries(groups, row_bytes_of(batch.column("key")), stored, "<raw entries>")


def with_column(batch: pa.RecordBatch, name: str, values: RowBytes) -> pa.RecordBatch:
    """Return entries with other keys or values."""
    return batch.set_column(batch.schema.get_field_index(name), name, values.to_arrow())


@dataclass(frozen=True)
class RowSelection:
    """Selects the rows of one state for which a condition is true. Picklable.

    Attributes:
        state: The state as rows show it.
        context: Settings of layouts.
        flatten: Whether each list element or map entry is a row.
        key_groups: The key groups that such rows can be in; None for all. Entries of others are not decoded.
        needed: Columns of the selected rows that are asked for, besides those that the condition names.
    """

    state: StateDescriptor
    context: LayoutContext
    where: str
    flatten: bool = False
    key_groups: frozenset[int] | None = None
    needed: frozenset[str] = frozenset()

    def parts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[SelectedEntries]:
        """Yield all entries (RAW_ENTRIES) in their order, with the rows that are selected.

        Raises:
            CorruptSnapshot: Entries are damaged.
            UnsupportedSnapshot: A value that is needed cannot be decoded.
            InvalidOption: A value that DuckDB refuses.
        """
        condition = self._condition()
        elements = ListElements(self.state, self.context) if self.of_elements else None
        rows = _RowDecoder(condition.rows)
        values = _RowDecoder(partial(decode_entries, state=self.state, ctx=self.context, flatten=self.flatten))
        for batch in batches:
            for part, is_decoded in self._runs(batch):
                selected = SelectedEntries(part, is_decoded, elements)
                if selected.rows:
                    self._select(selected, condition, rows, values)
                yield selected

    def _select(self, part: SelectedEntries, condition: _Condition, decoder: _RowDecoder, values: _RowDecoder) -> None:
        masks: list[npt.NDArray[np.bool_]] = []
        for rows in decoder.rows(part.entries(condition.values), part.rows):
            mask = condition.mask(rows)
            masks.append(mask)
            if self.needed and condition.values and mask.any():
                part.columns.append(rows if mask.all() else rows.filter(values_array(mask)))
        part.selected = masks[0] if len(masks) == 1 else np.concatenate(masks)
        if self.needed and not condition.values and part.count:
            # Values of other entries are not decoded.
            found = part.batch.filter(values_array(part.selected))
            part.columns = list(values.rows(raw_entries(found), len(found)))

    def touches(self, key_groups: Iterable[int]) -> bool:
        """Whether rows in any of these key groups can be selected."""
        return self.key_groups is None or not self.key_groups.isdisjoint(key_groups)

    @property
    def row_words(self) -> tuple[str, str]:
        """What a row is called: one, and several."""
        return ("element", "elements") if self.of_elements else ("entry", "entries")

    @property
    def of_elements(self) -> bool:
        """Whether rows are the elements of lists."""
        return self.flatten and self.state.kind is StateKind.LIST

    def _runs(self, batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, bool]]:
        """Yield runs of entries, and whether they are decoded."""
        if self.key_groups is None:
            yield batch, True
            return
        inside = np.isin(numbers_of(batch.column(KEY_GROUP)), list(self.key_groups))
        for start, stop in pairwise(cuts(inside)):
            yield batch.slice(start, stop - start), bool(inside[start])

    def _condition(self) -> _Condition:
        return _condition(self.state, self.context, self.where, self.flatten, self.needed)


class _RowDecoder:
    """Decodes entries, some at a time, with one decoder."""

    def __init__(self, decode: Callable[[Iterable[RawEntries]], Iterator[pa.RecordBatch]]) -> None:
        self._waiting: deque[RawEntries] = deque()
        # A decoder yields all rows of a chunk before it asks for the next one, so that each finds its chunk here.
        self._decoded = decode(iter(self._waiting.popleft, None))

    def rows(self, entries: RawEntries, n: int) -> Iterator[pa.RecordBatch]:
        """Yield the ``n`` rows of entries. Raises CorruptSnapshot, UnsupportedSnapshot."""
        self._waiting.append(entries)
        while n > 0:
            rows = next(self._decoded)
            n -= len(rows)
            yield rows
        assert n == 0


@dataclass(frozen=True)
class _Condition:
    """A condition on the rows of a state, and how these are decoded.

    Attributes:
        values: Whether values are decoded with the keys; else those of the selected rows are, if they are needed.
        user_keys: Whether the condition names keys of maps.
    """

    state: StateDescriptor
    context: LayoutContext
    flatten: bool
    filter: RowFilter = field(repr=False)
    values: bool
    user_keys: bool

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it reads."""
        return frozenset(self.filter.condition.columns)

    def rows(self, entries: Iterable[RawEntries]) -> Iterator[pa.RecordBatch]:
        if self.values:
            return decode_entries(entries, self.state, self.context, flatten=self.flatten)
        return decode_keys(entries, self.state, self.context, user_keys=self.user_keys)

    def mask(self, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Return per row whether the condition is true."""
        return booleans_of(self.filter.mask(rows)).view(np.bool_)


def row_schemas(state: StateDescriptor, context: LayoutContext, flatten: bool) -> tuple[pa.Schema, pa.Schema]:
    """Return the columns of a state's rows, and the same with dates and times as Arrow's types.

    What cannot be decoded has the null type. Raises Undecodable for a key or namespace.
    """
    found = (
        state_fields(state, ctx, flatten, unknown=pa.null()) for ctx in (context, replace(context, temporal="micros"))
    )
    rows, temporal = map(pa.schema, found)
    return rows, temporal


def _condition(
    state: StateDescriptor, context: LayoutContext, where: str, flatten: bool, needed: frozenset[str]
) -> _Condition:
    """Parse the condition. Raises InvalidOption; UnsupportedSnapshot where it names what cannot be decoded."""
    rows, temporal = row_schemas(state, context, flatten)
    parsed = parse(where, temporal)
    named = {*parsed.columns, *needed}
    is_flat_list = flatten and state.kind is StateKind.LIST
    # Where all rows are selected, nothing is decoded before their values.
    is_any = not parsed.columns and bool(needed)
    values = is_flat_list or is_any or not set(parsed.columns) <= set(_OF_KEYS)
    user_keys = "map_key" in parsed.columns
    if is_flat_list or not named <= set(_OF_KEYS) or "map_key" in named:
        try:
            state_fields(state, context, flatten)
        except Undecodable as error:
            raise UnsupportedSnapshot(
                f"a row has what cannot be decoded: {error.message}",
                where=Where(state=state.name),
                advice=error.advice or "name key, key_group and namespace only",
            ) from error
    if not values:
        # What is decoded has these columns only.
        rows = pa.schema([item for item in rows if item.name in parsed.columns])
    return _Condition(state, context, flatten, RowFilter(parsed, rows, temporal), values, user_keys)


def row_selection(
    state: StateDescriptor,
    where: str,
    operator: OperatorContext,
    names: Iterable[str],
    *,
    flatten: bool = False,
    needed: Iterable[str] = (),
    context: LayoutContext | None = None,
) -> RowSelection:
    """Return what selects the rows of a state for which a condition is true.

    Args:
        state: The state, as a header describes it.
        where: The condition, in SQL; see docs/cli.md.
        operator: The operator of the snapshot.
        names: The keyed states of the operator.
        flatten: Whether each list element or map entry is a row.
        needed: Columns of the selected rows that are asked for.
        context: Settings of layouts; default those of the operator.

    Raises:
        InvalidOption: The condition does not fit the rows, or names columns that entries do not determine.
        UnsupportedSnapshot: It names what cannot be decoded.
    """
    context = replace(context or operator.options.context, tail=True)
    at = Where(operator=operator.display, state=state.name)
    state = with_python_type(state, operator.options.value_types)
    if operator.row_names is not None:
        state = operator.row_names.applied(state)
    state = with_opaque_values(state, context)
    if flatten and state.kind not in (StateKind.LIST, StateKind.MAP):
        raise InvalidOption(
            f"the state has no elements: it is {state.kind.value} state", where=at, advice="leave out flatten"
        )
    condition = _condition(state, context, where, flatten, frozenset(needed))
    named = condition.columns
    of_values = not {*named, *needed} <= set(_OF_KEYS)
    if state.kind is StateKind.MAP and not flatten and of_values:
        raise InvalidOption(
            "a condition on whole maps",
            where=at,
            advice="name entries of maps by map_key and map_value, with flatten=True, --flatten",
        )
    if isinstance(state.value, PythonElement) and state.kind is StateKind.LIST and (flatten or of_values):
        raise InvalidOption(
            "a condition on values of a Python function's state, which are in lists of byte arrays",
            where=at,
            advice="name the key only, or read the rows without value_type, as bytes",
        )
    refuse_merged_windows(state, names, named, at, "a condition")
    of_keys = partial(_key_groups_of, state=state, context=operator.options.context, operator=operator)
    row_filter = condition.filter
    _, groups = allowed_by(row_filter.condition, row_filter.temporal, operator.max_parallelism, of_keys)
    allowed = None if groups is None else frozenset(groups)
    return RowSelection(state, context, where, flatten, allowed, frozenset(needed))


def refuse_merged_windows(
    state: StateDescriptor, names: Iterable[str], columns: Iterable[str], at: Where, what: str
) -> None:
    """Raise InvalidOption for what reads the window of a row, if entries have only that of their state."""
    if "namespace" not in columns or state.namespace.type_name != "TimeWindow":
        return
    if window_mapping(state.name, set(names)) is not None:
        raise InvalidOption(
            f"{what} on windows that merge: entries have the state window, not the window of the row",
            where=at,
            advice="name other columns, such as key",
        )


def _key_groups_of(
    keys: Iterable[object], state: StateDescriptor, context: LayoutContext, operator: OperatorContext
) -> set[int] | None:
    return key_groups(state.key, list(keys), context, operator.max_parallelism, operator.metadata_version)


@dataclass(frozen=True)
class RowEdit:
    """Edits the rows of one state that are selected. Picklable."""

    selection: RowSelection

    def touches(self, key_groups: Iterable[int]) -> bool:
        """Whether rows in any of these key groups can be selected."""
        return self.selection.touches(key_groups)

    @property
    def row_words(self) -> tuple[str, str]:
        """What a row is called: one, and several."""
        return self.selection.row_words


class RowDeletion(RowEdit):
    """Drops the selected rows. What is kept stays the bytes it is.

    A list whose elements are all dropped is dropped, as Flink's state backends do it.
    """

    def batches(
        self, batches: Iterable[pa.RecordBatch], observe: Callable[[int], object] = lambda _: None
    ) -> Iterator[pa.RecordBatch]:
        """Return the entries that are kept (RAW_ENTRIES), in the same order.

        Args:
            batches: The entries (RAW_ENTRIES).
            observe: Called with numbers of dropped rows.

        Raises:
            CorruptSnapshot: Entries are damaged.
            UnsupportedSnapshot: A value that the condition names cannot be decoded.
            InvalidOption: A value that DuckDB refuses.
        """
        for part in self.selection.parts(batches):
            number = part.count
            observe(number)
            kept = part.without_selected() if number else part.batch
            if len(kept):
                yield kept


def row_deletion(
    state: StateDescriptor, where: str, operator: OperatorContext, names: Iterable[str], *, flatten: bool = False
) -> RowDeletion:
    """Return what drops the rows of a state for which a condition is true. Arguments and errors as `row_selection`."""
    return RowDeletion(row_selection(state, where, operator, names, flatten=flatten))
