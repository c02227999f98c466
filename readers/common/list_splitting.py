"""Split lists that are too long for one Arrow value between their elements, for flattened list states.

RocksDB joins elements without limit as they are merged; Flink itself cannot read a value of 2^31 bytes back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from stateproc.codec import ops
from stateproc.codec.builder import Builder
from stateproc.codec.layouts import Delimited
from stateproc.codec.machine import Machine
from stateproc.errors import UnsupportedSnapshot, Where
from stateproc.readers.common.entry_programs import composite_value
from stateproc.readers.common.error_context import misfit, placed
from stateproc.readers.common.raw_entries import RawEntries
from stateproc.readers.common.state_descriptor import KeyedState
from stateproc.serializers import LayoutContext
from stateproc.serializers.described_classes import described_classes

LONGEST = 64 << 20
"""Lists of more bytes are cut, so that batches stay small."""
MOST_BYTES = (1 << 31) - 1
"""The limit of an Arrow value, and of a value in Flink itself."""
MOST_ELEMENTS = (1 << 31) - 1
"""list_index is an int32."""
_ELEMENTS_AT_ONCE = 1 << 20
_COMMA = 0x2C


def check_lists(chunk: RawEntries, state: KeyedState, most: int) -> RawEntries:
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

    def __init__(self, state: KeyedState, ctx: LayoutContext) -> None:
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


def check_index(elements: int, entry: RawEntries, state: KeyedState) -> None:
    """Raise UnsupportedSnapshot for a list with more elements than list_index can count."""
    if elements > MOST_ELEMENTS:
        raise UnsupportedSnapshot(
            f"a list of more than {MOST_ELEMENTS} elements",
            where=Where(entry.file, entry.file_at, state=state.name),
        )
