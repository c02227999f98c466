"""Drop the entries of a copied state for whose rows a condition is true. What is kept stays the bytes it is.

Rows are those that reading returns: of a value, list or timer one row for an entry. With ``flatten`` each element of a
list and each entry of a map is a row; a list without elements is dropped, as Flink's state backends do it.
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
from stateproc.codec.arrow_arrays import RowBytes, empty_row_bytes, numbers_of, row_bytes_of, values_array
from stateproc.codec.encoding.list_encoding import delimited
from stateproc.errors import InvalidOption, UnsupportedSnapshot, Where
from stateproc.filters import RowFilter, allowed_by, parse
from stateproc.keygroups.key_group_pruning import key_groups
from stateproc.model.operator_context import OperatorContext
from stateproc.model.session_windows import window_mapping
from stateproc.readers.entry_decoder import decode_entries
from stateproc.readers.entry_programs import with_opaque_values
from stateproc.readers.heap.reader import packed_entries
from stateproc.readers.key_decoder import decode_keys
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.row_schema import KEY_GROUP, state_fields
from stateproc.readers.state_descriptor import StateDescriptor, StateKind, with_python_type
from stateproc.serializers import LayoutContext, Undecodable
from stateproc.serializers.pyflink import PythonElement
from stateproc.writers.formats.entry_batches import cuts, take_rows
from stateproc.writers.rewrite.ttl import ListElements

_OF_KEYS = (KEY_GROUP, "key", "namespace", "map_key", "timestamp")
"""Columns that are decoded without values."""


@dataclass(frozen=True)
class RowDeletion:
    """Drops the rows of one state for which a condition is true. Picklable.

    Attributes:
        state: The state as rows show it.
        context: Settings of layouts.
        where: The condition.
        flatten: Whether each list element or map entry is a row.
        key_groups: The key groups that such rows can be in; None for all. Entries of others are not decoded.
    """

    state: StateDescriptor
    context: LayoutContext
    where: str
    flatten: bool = False
    key_groups: frozenset[int] | None = None

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
        for part, dropped in self._dropped(batches):
            number = 0 if dropped is None else int(np.count_nonzero(dropped))
            observe(number)
            kept = part.batch if dropped is None or not number else part.without(dropped)
            if len(kept):
                yield kept

    def touches(self, key_groups: Iterable[int]) -> bool:
        """Whether rows in any of these key groups can be dropped."""
        return self.key_groups is None or not self.key_groups.isdisjoint(key_groups)

    @property
    def row_words(self) -> tuple[str, str]:
        """What a row is called: one, and several."""
        return ("element", "elements") if self._of_elements else ("entry", "entries")

    @property
    def _of_elements(self) -> bool:
        return self.flatten and self.state.kind is StateKind.LIST

    def _dropped(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[_Part, npt.NDArray[np.bool_] | None]]:
        """Yield the entries in their order, with a mask of the rows that are dropped; None where none are decoded."""
        condition = _condition(self.state, self.context, self.where, self.flatten)
        elements = ListElements(self.state, self.context) if self._of_elements else None
        open_parts: deque[_Part] = deque()

        def chunks() -> Iterator[RawEntries]:
            for batch in batches:
                for slice_ in self._runs(batch):
                    part = _Part(slice_, self._in(slice_), elements)
                    open_parts.append(part)
                    if part.rows:
                        yield part.entries(condition.values)

        masks: list[npt.NDArray[np.bool_]] = []
        found = 0
        for rows in condition.rows(chunks()):
            masks.append(condition.mask(rows))
            found += len(rows)
            while open_parts and found >= open_parts[0].rows:
                part = open_parts.popleft()
                if not part.rows:
                    yield part, None
                    continue
                # The rows of a chunk are decoded before the next chunk is read, so that none are left over.
                assert found == part.rows
                yield part, np.concatenate(masks)
                masks, found = [], 0
        assert all(not part.rows for part in open_parts)
        yield from ((part, None) for part in open_parts)

    def _runs(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the runs of entries that are decoded, and of those that are not."""
        if self.key_groups is None or not len(batch):
            yield batch
            return
        groups = numbers_of(batch.column(KEY_GROUP))
        bounds = cuts(np.isin(groups, list(self.key_groups)))
        for start, stop in pairwise(bounds):
            yield batch.slice(start, stop - start)

    def _in(self, batch: pa.RecordBatch) -> bool:
        return self.key_groups is None or (len(batch) > 0 and batch.column(KEY_GROUP)[0].as_py() in self.key_groups)


class _Part:
    """Consecutive entries that are all decoded, or not at all.

    Attributes:
        batch: The entries (RAW_ENTRIES).
        rows: How many rows are decoded of them.
    """

    def __init__(self, batch: pa.RecordBatch, decoded: bool, elements: ListElements | None) -> None:
        self.batch = batch
        self._offsets: Longs | None = None
        self._items: RowBytes | None = None
        self.rows = len(batch) if decoded else 0
        if decoded and elements is not None:
            self._offsets, self._items = elements.of(row_bytes_of(batch.column("value")))
            self.rows = int(self._offsets[-1])

    def entries(self, values: bool) -> RawEntries:
        """Return the entries for decoding; without ``values``, none have one."""
        batch = self.batch
        groups = numbers_of(batch.column(KEY_GROUP)).astype(np.int32, copy=False)
        stored = row_bytes_of(batch.column("value")) if values else empty_row_bytes(len(batch))
        return packed_entries(groups, row_bytes_of(batch.column("key")), stored, "<raw entries>")

    def without(self, dropped: npt.NDArray[np.bool_]) -> pa.RecordBatch:
        """Return the entries without these rows."""
        if self._offsets is None or self._items is None:
            return self.batch.filter(values_array(~dropped))
        before = np.zeros(len(dropped) + 1, dtype=np.int64)
        np.cumsum(~dropped, out=before[1:])
        offsets = before[self._offsets]
        # Lists that were empty before stay as they are.
        some = (np.diff(offsets) > 0) | (np.diff(self._offsets) == 0)
        lists = delimited(take_rows(self._items, np.flatnonzero(~dropped)), offsets)
        kept = self.batch.filter(values_array(some))
        index = kept.schema.get_field_index("value")
        return kept.set_column(index, "value", take_rows(lists, np.flatnonzero(some)).to_arrow())


@dataclass(frozen=True)
class _Condition:
    """A condition on the rows of a state, and how these are decoded."""

    state: StateDescriptor
    context: LayoutContext
    flatten: bool
    filter: RowFilter = field(repr=False)
    values: bool

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it reads."""
        return frozenset(self.filter.condition.columns)

    def rows(self, entries: Iterable[RawEntries]) -> Iterator[pa.RecordBatch]:
        if self.values:
            return decode_entries(entries, self.state, self.context, flatten=self.flatten)
        return decode_keys(entries, self.state, self.context, user_keys="map_key" in self.columns)

    def mask(self, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Return per row whether the condition is true."""
        mask: npt.NDArray[np.bool_] = self.filter.mask(rows).to_numpy(zero_copy_only=False)
        return mask


def _condition(state: StateDescriptor, context: LayoutContext, where: str, flatten: bool) -> _Condition:
    """Parse the condition. Raises InvalidOption; Undecodable where it names what cannot be decoded."""

    def schema(context: LayoutContext) -> pa.Schema:
        return pa.schema(state_fields(state, context, flatten, unknown=pa.null()))

    rows, temporal = schema(context), schema(replace(context, temporal="micros"))
    parsed = parse(where, temporal)
    named = set(parsed.columns)
    of_elements = flatten and state.kind is StateKind.LIST
    values = of_elements or not named <= set(_OF_KEYS)
    if values or "map_key" in named:
        try:
            state_fields(state, context, flatten)
        except Undecodable as error:
            raise UnsupportedSnapshot(
                f"the condition names what cannot be decoded: {error.message}",
                where=Where(state=state.name),
                advice=error.advice or "name key, key_group and namespace only",
            ) from error
    if not values:
        # What is decoded has these columns only.
        rows = pa.schema([item for item in rows if item.name in named])
    return _Condition(state, context, flatten, RowFilter(parsed, rows, temporal), values)


def row_deletion(
    state: StateDescriptor, where: str, operator: OperatorContext, names: Iterable[str], *, flatten: bool = False
) -> RowDeletion:
    """Return what drops the rows of a state for which a condition is true.

    Args:
        state: The state, as a header describes it.
        where: The condition, in SQL; see docs/cli.md.
        operator: The operator of the snapshot.
        names: The keyed states of the operator.
        flatten: Whether each list element or map entry is a row.

    Raises:
        InvalidOption: The condition does not fit the rows, or names columns that entries do not determine.
        UnsupportedSnapshot: It names what cannot be decoded.
    """
    context = replace(operator.options.context, tail=True)
    state = with_python_type(state, operator.options.value_types)
    if operator.row_names is not None:
        state = operator.row_names.applied(state)
    state = with_opaque_values(state, context)
    at = Where(operator=operator.display, state=state.name)
    if flatten and state.kind not in (StateKind.LIST, StateKind.MAP):
        raise InvalidOption(f"the state has no elements: it is {state.kind.value} state", where=at,
                            advice="leave out flatten")  # fmt: skip
    condition = _condition(state, context, where, flatten)
    named = condition.columns
    if state.kind is StateKind.MAP and not flatten and not named <= set(_OF_KEYS):
        raise InvalidOption(
            "a condition on whole maps",
            where=at,
            advice="delete entries of maps by map_key and map_value, with flatten=True, --flatten",
        )
    is_python = isinstance(state.value, PythonElement) and state.kind is StateKind.LIST
    if is_python and (flatten or not named <= set(_OF_KEYS)):
        raise InvalidOption(
            "a condition on values of a Python function's state, which are in lists of byte arrays",
            where=at,
            advice="name the key only, or read the rows without value_type, as bytes",
        )
    merging = state.namespace.type_name == "TimeWindow" and window_mapping(state.name, set(names)) is not None
    if merging and "namespace" in named:
        raise InvalidOption(
            "a condition on windows that merge: entries have the state window, not the window of the row",
            where=at,
            advice="name other columns, such as key",
        )
    of_keys = partial(_key_groups_of, state=state, context=operator.options.context, operator=operator)
    row_filter = condition.filter
    _, groups = allowed_by(row_filter.condition, row_filter.temporal, operator.max_parallelism, of_keys)
    return RowDeletion(state, context, where, flatten, None if groups is None else frozenset(groups))


def _key_groups_of(
    keys: Iterable[object], state: StateDescriptor, context: LayoutContext, operator: OperatorContext
) -> set[int] | None:
    return key_groups(state.key, list(keys), context, operator.max_parallelism, operator.metadata_version)
