"""Encode rows of a DataFrame as raw entries of one keyed state.

    key      key group (1 byte, or 2 if there are more than 128), key, namespace, of maps the user key
             Key and namespace are each followed by their length if neither has a fixed length.
    value    what the state's serializer writes; list elements are separated by 2C; a map's value follows a null mark

These are the bytes of canonical savepoints and RocksDB: docs/formats/canonical.md; stateproc.readers.entry_programs
decodes them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.array_types import Ints
from stateproc.codec.arrow_arrays import (
    RowBytes,
    Unencodable,
    as_type,
    entries_of,
    items_of,
    list_of,
    null_rows,
    numbers_of,
    refuse_nulls,
    scalar_text,
    values_array,
)
from stateproc.codec.encoding.keys import composite_keys
from stateproc.codec.layouts.base import Unwritable
from stateproc.errors import InvalidRows, Where
from stateproc.keygroups.key_group_assignment import HASH_COLUMN, AnyHash, key_groups, text_kept
from stateproc.readers.entry_programs import composite_value
from stateproc.readers.row_schema import KEY_GROUP
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext
from stateproc.serializers.runtime.ttl import LAST_ACCESS
from stateproc.types import TIME_WINDOW
from stateproc.writers.bootstrap.column_types import (
    conformed,
    in_milliseconds,
    listed,
    of_column,
    refuse_empty_windows,
    times_of,
)
from stateproc.writers.formats.entry_batches import empty_row_bytes, entry_batch, take_rows

KEY, NAMESPACE, VALUE, TIMESTAMP = "key", "namespace", "value", "timestamp"
MAP_KEY, MAP_VALUE = "map_key", "map_value"


@dataclass(frozen=True)
class RowEncoder:
    """Turns rows of one state into raw entries.

    Columns: ``key``; ``namespace`` where the state has one; ``value`` (a list or a map holds all elements of its
    key), or ``map_key`` and ``map_value`` with a row for each entry, or ``timestamp`` (ms since the epoch) for timers;
    ``last_access`` (timestamp, or ms) with TTL, the time of encoding where it is missing; ``hash``, Java's hashCode,
    if it cannot be computed from keys, or ``key_group`` if it is known. Rows whose value is null,
    an empty list or an empty map have no entry, as in Flink.
    """

    state: StateDescriptor
    max_parallelism: int
    context: LayoutContext
    hash: AnyHash | None
    operator: str
    now: int = field(default_factory=lambda: int(time.time() * 1000))

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Raw entries (RAW_ENTRIES), in the order of rows. Raises InvalidRows."""
        columns = {name: batch.column(name) for name in batch.schema.names}
        columns = {name: conformed(column, self.types.get(name)) for name, column in columns.items()}
        kept = self.kept(columns)
        if kept is not None:
            columns = {name: column.filter(kept) for name, column in columns.items()}
        try:
            return self._entries(columns)
        except Unencodable as error:
            raise refused(columns, error, Where(operator=self.operator, state=self.state.name)) from error
        except Unwritable as error:
            raise error.at(operator=self.operator, state=self.state.name) from error

    @cached_property
    def types(self) -> dict[str, pa.DataType]:
        """The Arrow type of each column's values, by its role."""
        state, inner = self.state, self.context.inner
        value = state.value.layout(self.context).arrow_type
        found = {KEY: state.key.layout(inner).arrow_type, MAP_VALUE: value}
        if state.has_namespace:
            found[NAMESPACE] = state.namespace.layout(inner).arrow_type
        if state.user_key is not None:
            found[MAP_KEY] = state.user_key.layout(self.context).arrow_type
            value = pa.map_(found[MAP_KEY], value)
        return {**found, VALUE: pa.list_(value) if state.kind is StateKind.LIST else value}

    def kept(self, columns: dict[str, pa.Array]) -> pa.Array | None:
        """Which rows have state; None for all."""
        if VALUE not in columns:
            return None
        value, kind = columns[VALUE], self.state.kind
        kept = value.is_valid()
        if kind in (StateKind.LIST, StateKind.MAP):
            kept = pc.and_kleene(kept, pc.fill_null(pc.greater(pc.list_value_length(listed(value)), 0), False))
        return None if pc.all(kept).as_py() is not False else kept

    def _entries(self, columns: dict[str, pa.Array]) -> pa.RecordBatch:
        state, inner = self.state, self.context.inner
        # Generated projections write the rows of SQL keys, and reserve more bytes for some nulls than serializers do.
        layout = state.key.layout(replace(inner, projected=True))
        with of_column(KEY):
            keys = as_type(columns[KEY], text_kept(layout.arrow_type, columns[KEY].type))
        refuse_nulls(keys, "a key")
        key = _located(KEY, layout, keys)
        namespace = _located(NAMESPACE, state.namespace.layout(inner), self._namespaces(columns, len(keys)))
        groups = self._key_groups(columns, keys, key)
        ambiguous = state.key.length < 0 and state.namespace.length < 0
        if state.kind.is_queue:
            return entry_batch(
                groups, state.state_id, self._timers(columns, key, namespace), empty_row_bytes(len(groups))
            )
        parents, user_key, encoded = self.contents(columns)
        if parents is not None:
            key, namespace, groups = take_rows(key, parents), take_rows(namespace, parents), groups[parents]
        return entry_batch(groups, state.state_id, composite_keys(key, namespace, user_key, ambiguous), encoded)

    def contents(self, columns: dict[str, pa.Array]) -> tuple[np.ndarray[Any, Any] | None, RowBytes | None, RowBytes]:
        """Return what entries have below their keys: the row of each (None: they are the rows), user keys, values.

        Raises Unencodable, Unwritable.
        """
        state = self.state
        if state.kind is not StateKind.MAP or state.user_key is None:
            return None, None, self._values(columns, columns[VALUE], None)
        parents, user_keys, values = self._map_entries(columns)
        try:
            user_key = _located(MAP_KEY, state.user_key.layout(self.context), user_keys)
            return parents, user_key, self._values(columns, values, parents)
        except Unencodable as error:
            row = error.row if parents is None else int(parents[error.row])
            raise Unencodable(error.message, row) from error

    def _key_groups(self, columns: dict[str, pa.Array], keys: pa.Array, key: RowBytes) -> Ints:
        given = columns.get(KEY_GROUP)
        if given is None:
            with of_column(HASH_COLUMN if HASH_COLUMN in columns else KEY):
                return key_groups(keys, key, self.state.key, self.hash, self._codes(columns), self.max_parallelism)
        with of_column(KEY_GROUP):
            refuse_nulls(given, "a key group")
            groups: Ints = numbers_of(as_type(given, pa.int32()))
            wrong = np.flatnonzero((groups < 0) | (groups >= self.max_parallelism))
            if len(wrong):
                raise Unencodable(f"there are key groups 0 to {self.max_parallelism - 1}", int(wrong[0]))
            return groups

    def _codes(self, columns: dict[str, pa.Array]) -> pa.Array | None:
        codes = columns.get(HASH_COLUMN)
        if codes is not None and codes.null_count:
            raise Unencodable("no hash", int(np.flatnonzero(null_rows(codes))[0]))
        return codes

    def _namespaces(self, columns: dict[str, pa.Array], n: int) -> pa.Array:
        if self.state.has_namespace and NAMESPACE in columns:
            spaces = in_milliseconds(columns[NAMESPACE])
            if self.state.namespace == TIME_WINDOW:
                refuse_empty_windows(spaces)
            return spaces
        return pa.nulls(n, self.state.namespace.layout(self.context.inner).arrow_type)

    def _timers(self, columns: dict[str, pa.Array], key: RowBytes, namespace: RowBytes) -> RowBytes:
        """TimerSerializer: timestamp, key, namespace."""
        times = times_of(columns[TIMESTAMP], TIMESTAMP)
        if times.null_count:
            raise Unencodable("a timer without a time", int(np.flatnonzero(null_rows(times))[0]))
        flipped = (numbers_of(times) ^ np.int64(-(2**63))).astype(">i8")
        stamp = RowBytes(flipped.view(np.uint8), np.arange(0, 8 * len(flipped) + 1, 8, dtype=np.int64))
        return composite_keys(stamp, key, namespace, False)

    def _map_entries(self, columns: dict[str, pa.Array]) -> tuple[np.ndarray[Any, Any] | None, pa.Array, pa.Array]:
        """(row of each entry or None if they are the rows, user keys, user values)."""
        if MAP_KEY in columns:
            return None, columns[MAP_KEY], columns[MAP_VALUE]
        offsets, user_keys, values = entries_of(columns[VALUE])
        return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), user_keys, values

    def _values(self, columns: dict[str, pa.Array], values: pa.Array, parents: np.ndarray[Any, Any] | None) -> RowBytes:
        """The entries' values, with the time of last access where the state has a time to live."""
        layout = composite_value(self.state, self.context)
        if self.state.ttl:
            if self.state.kind is StateKind.LIST:
                offsets, items = items_of(values)
                parents = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
                values = list_of(offsets, _with_times(self._last_access(columns, parents), items))
            else:
                values = _with_times(self._last_access(columns, parents), values)
        return _located(VALUE, layout, values)

    def _last_access(self, columns: dict[str, pa.Array], parents: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
        """The last access of each entry or element, in ms; ``parents``: their rows, None if entries are the rows.

        A column of lists or maps, as reading gives it, has a time for each.
        """
        column = columns.get(LAST_ACCESS)
        if column is None:
            n = len(columns[KEY]) if parents is None else len(parents)
            return np.full(n, self.now, dtype=np.int64)
        if parents is not None and pa.types.is_nested(column.type):
            times = entries_of(column)[2] if pa.types.is_map(column.type) else items_of(column)[1]
            if len(times) != len(parents):
                raise Unencodable(f"{len(times)} times of last access for {len(parents)} elements", 0)
            parents = None
        else:
            times = column
        found = numbers_of(pc.fill_null(times_of(times, LAST_ACCESS), self.now))
        return np.asarray(found if parents is None else found[parents], dtype=np.int64)


def _located(name: str, layout: Any, array: pa.Array) -> RowBytes:
    """Encode a column; errors carry its name."""
    with of_column(name):
        pieces: RowBytes = layout.encode(array)
    return pieces


def _with_times(times: np.ndarray[Any, Any], values: pa.Array) -> pa.Array:
    """TtlValues; a null user value of a map is a null in one, as in Flink, not a null of the map."""
    return pa.StructArray.from_arrays([values_array(times), values], [LAST_ACCESS, "value"])


def refused(columns: Mapping[str, pa.Array], error: Unencodable, where: Where) -> InvalidRows:
    """The error that shows the row."""
    row = {name: column[error.row] for name, column in columns.items() if error.row < len(column)}
    shown = ", ".join(f"{name}={_shown(value)}" for name, value in row.items())
    return InvalidRows(
        f"a row cannot become state: {error.message} (row: {shown})",
        where=where,
        advice="drop or fix such rows, or give the column another type (stateproc.types)",
    )


def _shown(value: Any) -> str:
    text = scalar_text(value)
    return text if len(text) <= 80 else text[:80] + "…"
