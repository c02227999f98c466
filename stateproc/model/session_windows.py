"""Resolve session windows: Flink stores contents under a state window, users know the merged window.

org.apache.flink.streaming.runtime.operators.windowing.MergingWindowSet keeps, for each key, the pairs (window,
state window) in the list state ``merging-window-set``. Reading ``window-contents`` replaces the state
window by the window; the windows of the DataStream API V2 (org.apache.flink.datastream.impl.extension.window.operators)
call their contents otherwise. SQL does the same (org.apache.flink.table.runtime.operators.window.groupwindow.internal.
MergingWindowProcessFunction) with the map state ``session-window-mapping``, for the aggregates and their data views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.arrow_arrays import numbers_of, offsets_of, values_array
from stateproc.model.null_values import NullSplit
from stateproc.readers.row_schema import KEY_GROUP, RAW_KEY
from stateproc.readers.splits import KeyedSplit
from stateproc.readers.state_descriptor import PREFIX, TIMER_PREFIX
from stateproc.readers.state_descriptor import WINDOW_SET as PYTHON_WINDOW_SET

WINDOW_SET = "merging-window-set"
CONTENTS = ("window-contents", "window-state", "two-input-window-left-state", "two-input-window-right-state")
_PYTHON_CONTENTS = frozenset(PREFIX + name for name in CONTENTS)
SQL_WINDOWS, SQL_RETRACTED = "session-window-mapping", "previous-aggs"


def window_mapping(state: str, others: Set[str]) -> str | None:
    """Return which of the operator's ``others`` maps windows to the state windows of ``state``; None if none does."""
    if state.startswith(TIMER_PREFIX):
        return None  # timers are registered for the window itself
    if SQL_WINDOWS in others:
        # AggregateWindowOperator keeps what it sent before under the window itself.
        return None if state == SQL_RETRACTED else SQL_WINDOWS
    if state in _PYTHON_CONTENTS and PYTHON_WINDOW_SET in others:
        return PYTHON_WINDOW_SET
    return WINDOW_SET if WINDOW_SET in others and state in CONTENTS else None


@dataclass(frozen=True)
class SessionSplit:
    """Window contents of some key groups, and the merging sets of the same key groups.

    Attributes:
        contents: The contents, under state windows.
        windows: The merging sets.
        times: Converts windows to the times that the rows have; None where these are windows as they are stored.
    """

    contents: KeyedSplit | NullSplit
    windows: KeyedSplit
    times: Callable[[pa.Array], pa.Array] | None = None

    @property
    def bytes(self) -> int:
        return self.contents.bytes

    @property
    def key_groups(self) -> tuple[int, ...]:
        return self.contents.key_groups

    def read(self) -> Iterator[pa.RecordBatch]:
        stream = self.contents.namespace_first
        known = self._windows(stream)
        for batch in self.contents.read():
            yield _resolved(batch, known, self.times)

    def _windows(self, stream: bool) -> tuple[pa.Array, pa.Array]:
        """(key group, key and state window as the contents' raw keys; the windows)."""
        keys: list[pa.Array] = []
        windows: list[pa.Array] = []
        for batch in self.windows.read():
            lists = batch.column("value")
            parents = values_array(np.repeat(np.arange(len(lists)), np.diff(offsets_of(lists))))
            pairs = lists.values
            raw = batch.column(RAW_KEY).take(parents)
            groups = batch.column(KEY_GROUP).take(parents)
            keys.append(_identity(groups, _contents_key(raw, _window_bytes(pairs.field(1)), stream)))
            windows.append(pairs.field(0))
        if not keys:
            return pa.array([], pa.binary()), pa.array([], _WINDOW)
        return pa.concat_arrays(keys), pa.concat_arrays(windows)


_WINDOW = pa.struct([pa.field("start", pa.int64()), pa.field("end", pa.int64())])


def _window_bytes(windows: pa.StructArray) -> pa.Array:
    """TimeWindow.Serializer's bytes."""
    parts = [numbers_of(windows.field(index)) for index in (0, 1)]
    joined = np.stack(parts, axis=1).byteswap().view(np.uint8).reshape(-1)
    fixed = pa.Array.from_buffers(pa.binary(16), len(windows), [None, pa.py_buffer(joined)])
    return fixed.cast(pa.binary())


def _contents_key(raw: pa.Array, window: pa.Array, stream: bool) -> pa.Array:
    """A key's raw bytes under VoidNamespace (one byte) as those under a window: before the key in heap streams."""
    if stream:
        return pc.binary_join_element_wise(window, pc.binary_replace_slice(raw, 0, 1, b""), b"")
    return pc.binary_join_element_wise(pc.binary_slice(raw, 0, -1), window, b"")


def _identity(groups: pa.Array, keys: pa.Array) -> pa.Array:
    """Keys with their key group before them, so that one look-up serves a whole split."""
    raw = np.asarray(groups, dtype=np.int32).astype(">i4").view(np.uint8).copy()
    fixed = pa.Array.from_buffers(pa.binary(4), len(groups), [None, pa.py_buffer(raw)])
    return pc.binary_join_element_wise(fixed.cast(pa.binary()), keys, b"")


def _resolved(
    batch: pa.RecordBatch, known: tuple[pa.Array, pa.Array], times: Callable[[pa.Array], pa.Array] | None
) -> pa.RecordBatch:
    keys, windows = known
    place = batch.schema.get_field_index("namespace")
    found = pc.index_in(_identity(batch.column(KEY_GROUP), batch.column(RAW_KEY)), value_set=keys)
    namespace = batch.column(place)
    parts = [
        pc.if_else(found.is_valid(), windows.field(name).take(found), namespace.field(name))
        for name in ("start", "end")
    ]
    resolved = pa.StructArray.from_arrays(parts, fields=list(namespace.type))
    resolved = resolved if times is None else times(resolved)
    batch = batch.set_column(place, pa.field("namespace", resolved.type), resolved)
    return batch.drop_columns([RAW_KEY])
