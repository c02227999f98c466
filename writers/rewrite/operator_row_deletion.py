"""Drop the elements of list and union states, and the entries of broadcast states, for which a condition is true.

Rows are those that reading returns, of connectors' states with the columns of their formats. What is kept stays the
bytes it is, in its order and its subtask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.arrow_arrays import numbers_of, values_array
from stateproc.codec.layouts import Counted, StructLayout
from stateproc.codec.machine import ValueDecoder
from stateproc.errors import CorruptSnapshot, InvalidOption, Where
from stateproc.filters import RowFilter, parse
from stateproc.model.operator import Operator
from stateproc.model.operator_state import SUBTASK, opened_state
from stateproc.readers.error_context import placed
from stateproc.readers.operator_state import state_info
from stateproc.readers.row_schema import SerializedValue
from stateproc.writers.rewrite.operator_state_copy import (
    Elements,
    GivenElements,
    KeptElements,
    RawElements,
    raw_elements,
)


@dataclass(frozen=True)
class RemainingElements:
    """The elements of an operator state that stay.

    Attributes:
        elements: Of each subtask.
        deleted: How many rows each condition deletes.
        rows: How many rows stay.
        row_words: What a row is called: one, and several.
    """

    elements: tuple[Elements, ...]
    deleted: tuple[int, ...]
    rows: int
    row_words: tuple[str, str]


def remaining_elements(operator: Operator, state: str, conditions: Sequence[str]) -> RemainingElements:
    """Read an operator state and return what stays of it.

    Args:
        operator: The operator.
        state: A list, union or broadcast state.
        conditions: The conditions, in SQL, of the rows that are deleted, one after another.

    Raises:
        InvalidOption: A condition does not fit the rows.
        SnapshotError: The state cannot be read or decoded.
    """
    operator = operator.with_options(replace(operator.options, on_error="fail"))
    view = opened_state(operator.operator_state(state))
    batches = [batch for split in view.splits() for batch in split.read()]
    schema = view.schema()
    rows = pa.Table.from_batches(batches, schema).combine_chunks().to_batches() if batches else []
    kept = np.ones(sum(map(len, rows)), dtype=np.bool_)
    deleted = []
    for where in conditions:
        temporal = view.with_temporal("micros").schema()
        condition = RowFilter(parse(where, temporal), schema, temporal)
        before = np.count_nonzero(kept)
        if len(kept):
            kept &= ~condition.mask(rows[0]).to_numpy(zero_copy_only=False)
        deleted.append(int(before - np.count_nonzero(kept)))
    parts = raw_elements(operator, state)
    if any(part.broadcast for part in parts):
        found: list[Elements] = [_without(operator, part, kept) for part in parts]
        return RemainingElements(tuple(found), tuple(deleted), int(np.count_nonzero(kept)), ("entry", "entries"))
    subtasks = np.repeat([part.subtask for part in parts], [len(part) for part in parts])
    # Rows have the order of elements.
    assert len(kept) == len(subtasks)
    assert not len(kept) or np.array_equal(subtasks, numbers_of(rows[0].column(SUBTASK)))
    ends = np.cumsum([len(part) for part in parts])
    remaining = tuple(
        KeptElements(part, tuple(np.flatnonzero(chosen).tolist()))
        for part, chosen in zip(parts, np.split(kept, ends[:-1]), strict=True)
    ) if parts else ()  # fmt: skip
    return RemainingElements(remaining, tuple(deleted), int(np.count_nonzero(kept)), ("element", "elements"))


def _without(operator: Operator, part: RawElements, kept: npt.NDArray[np.bool_]) -> GivenElements:
    """Return the element of a broadcast state with these of its entries. Raises CorruptSnapshot."""
    info, context = state_info(part.file.header, part.partition), operator.options.context.inner
    key, value = (None, None) if info is None else (info.key_serializer, info.value_serializer)
    if key is None or value is None:
        where = Where(file=part.file.source.name, offset=0, state=part.partition.name)
        raise CorruptSnapshot(f"broadcast state '{part.partition.name}' lacks a serializer", where=where)
    pairs = (("key", SerializedValue(key.layout(context))), ("value", SerializedValue(value.layout(context))))
    decoder = ValueDecoder(Counted(StructLayout(pairs)))
    (stored,) = part.read()
    with placed(part.file.source.name, int, part.partition.name):
        entries = decoder.decode(stored.data, stored.offsets[:-1], stored.offsets[1:]).values
    assert len(entries) == len(kept)
    chosen = entries.filter(values_array(kept))
    joined = pc.binary_join_element_wise(chosen.field(0), chosen.field(1), pa.scalar(b"", pa.binary()))
    data = len(chosen).to_bytes(4, "big") + b"".join(joined.to_pylist())
    return GivenElements(part.subtask, (data,), broadcast=True)


def refuse_flatten(operator: str, state: str, *, flatten: bool) -> None:
    """Raise InvalidOption where elements of operator state are asked for as rows, which they are."""
    if flatten:
        raise InvalidOption(
            "rows of operator state are elements and entries already",
            where=Where(operator=operator, state=state),
            advice="leave out flatten",
        )
