"""Compute accumulators of new calls of OVER from the rows in its frame, which its state keeps until they leave it.

    accState                RowDataSerializer: length (i32), BinaryRowData: bits of nulls, in words of 8 bytes after 8
                            bits of the header; 8 bytes for each field, a number in the first ones, little-endian
    inputState              map from a time (i64) to the rows of that time, in lists
    lastTriggeringTsState   the last time that was computed (i64): rows after it are in no frame yet

Sources: RowTimeRowsBoundedPrecedingFunction, RowTimeRangeBoundedPrecedingFunction, ProcTimeRowsBoundedPrecedingFunction
of org.apache.flink.table.runtime.operators.over; BinaryRowData.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.arrow_arrays import RowBytes, row_bytes_of
from stateproc.errors import UnsupportedSnapshot, Where
from stateproc.model.operator import Operator
from stateproc.query_plans.aggregate_conversion import FrameBuffers
from stateproc.readers.entry_decoder import decode_entries
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext
from stateproc.serializers.java.collections import ListOf
from stateproc.serializers.table.serializers import RowData
from stateproc.writers.rewrite.entries_by_key import added_up, damage, in_large_batches
from stateproc.writers.rewrite.raw_copy import CarriedSplit, carried_splits
from stateproc.writers.rewrite.rekey import Rekey, rekey
from stateproc.writers.rewrite.row_selection import raw_entries, with_column
from stateproc.writers.rewrite.transform import exact_read_options

ROWS_STATE = "inputState"
TIME_STATE = "lastTriggeringTsState"
_TIME = _WORD = 8
_BEFORE_ROW = 4
_HEADER_BITS = 8
_NUMBERS: dict[str, npt.DTypeLike] = {
    "TINYINT": "<i1", "SMALLINT": "<i2", "INTEGER": "<i4", "BIGINT": "<i8", "DOUBLE": "<f8"
}  # fmt: skip
"""Type of a buffer → how it is stored."""


@dataclass(frozen=True)
class KeptRows:
    """The rows that an aggregate of OVER keeps. Picklable.

    Attributes:
        context: How its entries are decoded.
        keys: Finds the key in an entry.
        splits: The entries in some key groups.
        times: Finds the key in an entry of the last times; None where all rows are in the frame.
        time_splits: The entries with these.
    """

    state: StateDescriptor
    context: LayoutContext
    keys: Rekey
    splits: tuple[CarriedSplit, ...]
    times: Rekey | None
    time_splits: tuple[CarriedSplit, ...]

    def sums(self, frame: FrameBuffers) -> pa.Table:
        """Return the key of each group, the number of its rows in the frame, and each buffer: ``b0``, ``b1`` …"""
        last = None if self.times is None else self._last_times(self.times)
        found = added_up(self._rows(batch, last, frame) for split in self.splits for batch in split.read())
        if found is not None:
            return found
        names = ["rows", *(f"b{at}" for at in range(len(frame.buffers)))]
        return pa.table({"key": pa.array([], pa.large_binary()), **{name: pa.array([], pa.int64()) for name in names}})

    def _last_times(self, times: Rekey) -> pa.Table:
        parts = [pa.table({"key": pa.array([], pa.large_binary()), "time": pa.array([], pa.int64())})]
        for split in self.time_splits:
            for batch, keys in times.decoded(split.read()):
                values = row_bytes_of(batch.column("value"))
                starts, stops = values.offsets[:-1], values.offsets[1:]
                if (stops - starts != _TIME).any():
                    raise damage(times.state, "a time is no number of 8 bytes")
                found = values.data[starts[:, None] + np.arange(_TIME)].view(">i8").reshape(-1).astype(np.int64)
                parts.append(pa.table({"key": keys.cast(pa.large_binary()), "time": found}))
        return pa.concat_tables(parts)

    def _rows(self, batch: pa.RecordBatch, last: pa.Table | None, frame: FrameBuffers) -> pa.Table:
        """Return the rows of entries that are in the frame: their keys, 1, and what each buffer adds of them."""
        keys = pa.concat_arrays([found for _, found in self.keys.decoded([batch])]).cast(pa.large_binary())
        stored = raw_entries(batch)
        decoded = pa.Table.from_batches(list(decode_entries([stored], self.state, self.context, flatten=True)))
        entries = decoded.combine_chunks()
        lists = entries.column("map_value").combine_chunks()
        of = pc.list_parent_indices(lists)
        rows = pc.list_flatten(lists)
        if last is not None:
            until = last.column("time").take(pc.index_in(keys, value_set=last.column("key")))
            seen = pc.fill_null(pc.less_equal(entries.column("map_key"), until), False).combine_chunks()
            inside = seen.take(of)
            of, rows = of.filter(inside), rows.filter(inside)
        columns = {"key": keys.take(of), "rows": pa.array(np.ones(len(of), dtype=np.int64))}
        names = _rows_of(self.state).names
        for at, buffer in enumerate(frame.buffers):
            values = pc.struct_field(rows, names[buffer.column])
            if buffer.is_count:
                columns[f"b{at}"] = values.is_valid().cast(pa.int64())
            else:
                wide = pa.float64() if pa.types.is_floating(values.type) else pa.int64()
                columns[f"b{at}"] = pc.fill_null(values.cast(wide), 0)
        return pa.table(columns)


@dataclass(frozen=True)
class FrameSums:
    """Sets buffers of accumulators to sums and numbers of the rows in the frame. Picklable.

    Attributes:
        state: The accumulators as their entries come, with zeros in these buffers.
        keys: Finds the key in an entry.
        rows: The rows that the aggregate keeps.
    """

    frame: FrameBuffers
    state: StateDescriptor
    keys: Rekey
    rows: KeptRows

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the entries (RAW_ENTRIES) with other values, in the same order.

        Raises CorruptSnapshot, MissingFile; UnsupportedSnapshot where accumulators are not of the rows that there are.
        """
        sums: pa.Table | None = None
        for batch in in_large_batches(batches):
            if sums is None:
                sums = self.rows.sums(self.frame)
            keys = pa.concat_arrays([found for _, found in self.keys.decoded([batch])]).cast(pa.large_binary())
            at = pc.index_in(keys, value_set=sums.column("key"))
            yield with_column(batch, "value", self._with_sums(row_bytes_of(batch.column("value")), sums.take(at)))

    def _with_sums(self, values: RowBytes, sums: pa.Table) -> RowBytes:
        value = self.state.value
        assert isinstance(value, RowData)
        arity = len(value.types)
        fields = _BEFORE_ROW + (arity + _HEADER_BITS + 63) // 64 * _WORD
        starts = values.offsets[:-1] + fields
        if (starts + arity * _WORD > values.offsets[1:]).any():
            raise damage(self.state, "an accumulator is cut off")
        data = values.data.copy()
        counted = data[(starts + self.frame.rows * _WORD)[:, None] + np.arange(_WORD)].view("<i8").reshape(-1)
        if not np.array_equal(counted, _numbers(sums.column("rows"))):
            raise UnsupportedSnapshot(
                "accumulators are of another number of rows than the frame has",
                where=Where(state=self.state.name),
                advice="let the operator begin without state: --empty UID, with its uid in the new plan",
            )
        for number, buffer in enumerate(self.frame.buffers):
            wide = _numbers(sums.column(f"b{number}"))
            stored = np.zeros((len(wide), _WORD), dtype=np.uint8)
            narrow = wide.astype(_NUMBERS[value.types[buffer.field].kind])  # Sums overflow as they do in Flink.
            stored[:, : narrow.itemsize] = narrow.view(np.uint8).reshape(len(wide), -1)
            data[(starts + buffer.field * _WORD)[:, None] + np.arange(_WORD)] = stored
        return RowBytes(data, values.offsets)


def frame_sums(
    operator: Operator,
    own: StateDescriptor,
    states: Sequence[StateDescriptor],
    frame: FrameBuffers,
    split: CarriedSplit | None,
) -> FrameSums:
    """Return what computes accumulators of new calls of OVER.

    Args:
        own: The state of the accumulators, as its entries come.
        states: Those of ROWS_STATE and TIME_STATE that the operator has, as they are stored.
        frame: The buffers that are computed.
        split: The entries of the accumulators; None to look at the types only.

    Raises:
        UnsupportedSnapshot: The states are not those of such a frame.
    """
    named = {state.name: state for state in states}
    wanted = (ROWS_STATE, TIME_STATE) if frame.by_time else (ROWS_STATE,)
    found = [named.get(name) for name in wanted]
    context = operator.options.context
    if any(one is None or one.ttl for one in (own, *found)):
        raise _not_of_the_plan(own, "states without a time to live that have its rows")
    rows, times = found[0], found[1] if frame.by_time else None
    assert rows is not None
    kept = _rows_of(rows)
    if any(buffer.column >= len(kept.types) for buffer in frame.buffers):
        raise _not_of_the_plan(rows, "rows of as many columns")
    splits = [
        () if split is None or state is None else carried_splits(operator, state.name, 0, key_groups=split.key_groups)
        for state in (rows, times)
    ]
    exact = replace(exact_read_options(operator.options, None).context, tail=True)
    return FrameSums(
        frame,
        own,
        rekey(own, operator.max_parallelism, context),
        KeptRows(
            rows,
            exact,
            rekey(rows, operator.max_parallelism, context),
            tuple(splits[0]),
            None if times is None else rekey(times, operator.max_parallelism, context),
            tuple(splits[1]),
        ),
    )


def _rows_of(state: StateDescriptor) -> RowData:
    """Return the type of the rows in the lists of a map. Raises UnsupportedSnapshot."""
    value = state.value
    if state.kind is not StateKind.MAP or not isinstance(value, ListOf) or not isinstance(value.element, RowData):
        raise _not_of_the_plan(state, "rows in lists, by their times")
    return value.element


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[np.generic]:
    """Return the sums; 0 of groups without a row."""
    return np.asarray(pc.fill_null(column, 0).combine_chunks())


def _not_of_the_plan(state: StateDescriptor, what: str) -> UnsupportedSnapshot:
    return UnsupportedSnapshot(
        f"a new call is computed of the rows in its frame, and the operator has not {what}",
        where=Where(state=state.name),
        advice="give the plan that the job ran, or let the operator begin without state: --empty",
    )
