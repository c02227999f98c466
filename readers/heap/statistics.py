"""Count the entries and bytes of each state in native heap key groups, in one pass.

Format: org.apache.flink.runtime.state.heap.HeapSnapshotStrategy, as in stateproc.readers.heap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from stateproc.codec.array_types import Bytes
from stateproc.codec.machine import Machine
from stateproc.errors import Where
from stateproc.readers.common.entry_counts import EntryCounts
from stateproc.readers.common.entry_programs import skip_program
from stateproc.readers.common.error_context import misfit, placed
from stateproc.readers.common.key_group_blocks import KeyGroupRange, plain_blocks, snappy_blocks
from stateproc.readers.common.state_descriptor import KeyedState
from stateproc.readers.heap.unreadable_states import GROUP_HEAD, SECTION
from stateproc.serializers import LayoutContext, Undecodable
from stateproc.serializers.described_classes import described_classes
from stateproc.storage import ByteSource

_READ_AT_ONCE = 1 << 20
"""Bytes of key groups that are read without blocks, of which many little ones would each need some."""


def measure_heap(
    source: ByteSource,
    ranges: Sequence[KeyGroupRange],
    states: Sequence[KeyedState | str],
    ctx: LayoutContext,
    *,
    compressed: bool,
    advance: Callable[[int], None] = lambda _: None,
) -> EntryCounts:
    """Count these key groups; each is held in memory as a whole. An entry is a key's value, list or map, or a timer.

    ``advance`` is called with the bytes of each key group. Raises CorruptSnapshot; Undecodable where a state's values
    have no known end.
    """
    machines = [_machine(state, ctx) for state in states]
    entries = np.zeros((len(ranges), len(states)), dtype=np.int64)
    sizes = np.zeros((len(ranges), len(states)), dtype=np.int64)
    row = 0

    def offset(position: int) -> int:
        """Return the file offset of a position; in compressed key groups only that of the group is known."""
        return ranges[row].start + (0 if compressed else position)

    types = [part for state in states if isinstance(state, KeyedState) for part in state.serializers]
    described = described_classes(types, ctx)
    with placed(source.name, offset, described=described):
        for row, item in enumerate(ranges):
            data = _whole(source, item, compressed)
            _sections(data, machines, entries[row], sizes[row], Where(source.name, item.start), described)
            advance(item.stop - item.start)
    return EntryCounts(tuple(item.key_group for item in ranges), entries, sizes)


def _machine(state: KeyedState | str, ctx: LayoutContext) -> Machine:
    if isinstance(state, str):
        raise Undecodable(f"nothing is known of state '{state}'")
    return Machine(skip_program(state, ctx))


def _whole(source: ByteSource, item: KeyGroupRange, compressed: bool) -> Bytes:
    size = item.stop - item.start
    if not compressed and size <= _READ_AT_ONCE:
        return np.frombuffer(source.read(item.start, size), dtype=np.uint8)
    blocks = snappy_blocks(source, [item], GROUP_HEAD) if compressed else plain_blocks(source, [item])
    return np.concatenate([block.data for block in blocks])


def _sections(
    data: Bytes,
    machines: Sequence[Machine],
    entries: np.ndarray,
    sizes: np.ndarray,
    where: Where,
    described: Sequence[str],
) -> None:
    """Count the sections of one key group into the rows ``entries`` and ``sizes``."""
    pos = GROUP_HEAD
    for _ in machines:
        state, count = SECTION.unpack_from(data.data, pos) if len(data) - pos >= SECTION.size else (0, -1)
        if state >= len(machines) or count < 0 or entries[state]:
            raise misfit("a key group's states are cut off, or begin elsewhere", described, where)
        begin = pos
        pos += SECTION.size
        if not count:
            continue
        rows, pos = machines[state].run_stream(data, pos, len(data), count)
        if rows < count:
            raise misfit("a state's entries are cut off", described, where)
        entries[state] = count
        sizes[state] += pos - begin
    if pos != len(data):
        raise misfit("there are bytes after the last state of a key group", described, where)
