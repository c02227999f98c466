"""Entries of native heap snapshots and timers of raw keyed state, cut into bytes, in the canonical form.

Heap: org.apache.flink.runtime.state.heap.HeapSnapshotStrategy; canonical: HeapKeyValueStateIterator. Lists are whole
objects there (a count, then elements) and delimited elements here; maps are whole objects there and an entry for each
user key here. No element is decoded: programs only find where each ends.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from stateproc.codec.byte_arrays import Pieces
from stateproc.codec.encoding.keys import composite_keys
from stateproc.codec.encoding.list_encoding import delimited
from stateproc.readers.changelog.materialized import raw_program
from stateproc.readers.common.entry_programs import Columns
from stateproc.readers.common.row_schema import KEY_GROUP
from stateproc.readers.common.state_descriptor import KeyedState, StateKind
from stateproc.readers.heap.reader import heap_entries
from stateproc.readers.timers.raw_timers import raw_timer_bytes
from stateproc.serializers import LayoutContext
from stateproc.snapshot.splits import KeyGroupSplit, header_states, keyed_header
from stateproc.snapshot.timers import RawTimerSplit
from stateproc.writers.formats.common.byte_gather import empty_pieces, entry_batch, pieces_of, taken

_SIGN = np.int64(-(2**63))


def heap_batches(split: KeyGroupSplit, state_id: int) -> Iterator[pa.RecordBatch]:
    """The raw entries of a split of a native heap file. Raises CorruptSnapshot, UnsupportedSnapshot."""
    header = keyed_header(split.source, split.header_size)
    states, ctx = header_states(header), split.options.context
    target = next((item for item in states if isinstance(item, KeyedState) and item.name == split.state), None)
    if target is None:
        return
    for columns in heap_entries(
        split.source, split.ranges, states, target, ctx, raw_program(target, ctx), dict, compressed=header.compressed
    ):
        yield from canonical_batches(columns, target, state_id)


def canonical_batches(columns: Columns, state: KeyedState, state_id: int) -> Iterator[pa.RecordBatch]:
    """Raw entries of the columns that `raw_program` makes and their key groups; none for empty lists and maps."""
    groups = columns[KEY_GROUP].to_numpy(zero_copy_only=False)
    values = columns["value"]
    if state.kind.is_queue:
        batch = entry_batch(groups, state_id, pieces_of(values), empty_pieces(len(groups)))
    else:
        key, namespace = pieces_of(columns["key"]), pieces_of(columns["namespace"])
        ambiguous = state.key.length < 0 and state.namespace.length < 0
        if state.kind is StateKind.MAP:
            batch = _map_entries(groups, state_id, key, namespace, values, ambiguous)
        else:
            keys = composite_keys(key, namespace, None, ambiguous)
            if state.kind is StateKind.LIST:
                batch = _list_entries(groups, state_id, keys, values)
            else:
                batch = entry_batch(groups, state_id, keys, pieces_of(values))
    if len(batch):
        yield batch


def _list_entries(groups: np.ndarray, state_id: int, keys: Pieces, lists: pa.ListArray) -> pa.RecordBatch:
    offsets = np.asarray(lists.offsets, dtype=np.int64)
    values = delimited(pieces_of(lists.values), offsets)
    some = np.flatnonzero(np.diff(offsets))
    if len(some) < len(groups):
        groups, keys, values = groups[some], taken(keys, some), taken(values, some)
    return entry_batch(groups, state_id, keys, values)


def _map_entries(
    groups: np.ndarray, state_id: int, key: Pieces, namespace: Pieces, maps: pa.ListArray, ambiguous: bool
) -> pa.RecordBatch:
    offsets = np.asarray(maps.offsets, dtype=np.int64)
    rows = np.repeat(np.arange(len(maps)), np.diff(offsets))
    user_keys, values = pieces_of(maps.values.field("key")), pieces_of(maps.values.field("value"))
    keys = composite_keys(taken(key, rows), taken(namespace, rows), user_keys, ambiguous)
    return entry_batch(groups[rows], state_id, keys, values)


def raw_timer_entries(split: RawTimerSplit, state_id: int) -> Iterator[pa.RecordBatch]:
    """Timers of raw keyed state as entries of a priority queue (InternalTimerServiceSerializationProxy →
    TimerSerializer): timestamp with the sign flipped, key, namespace.
    """
    context: LayoutContext = split.options.context
    for key_group, table in raw_timer_bytes(split.source, list(split.ranges), split.service, split.event, context):
        flipped = (table["timestamp"].to_numpy() ^ _SIGN).astype(">i8")
        stamps = Pieces(flipped.view(np.uint8), np.arange(0, 8 * len(flipped) + 1, 8, dtype=np.int64))
        keys = composite_keys(stamps, pieces_of(table["key"]), pieces_of(table["namespace"]), False)
        yield entry_batch(np.full(len(flipped), key_group), state_id, keys, empty_pieces(len(flipped)))
