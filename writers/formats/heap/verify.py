"""Verification of a native heap file that was just written."""

from __future__ import annotations

from collections.abc import Sequence

from stateproc.codec.array_types import Longs
from stateproc.metadata.handles import KeyGroupsHandle
from stateproc.readers.heap.reader import measure_heap
from stateproc.readers.key_group_blocks import group_ranges
from stateproc.readers.state_descriptor import KeyedState
from stateproc.serializers import LayoutContext
from stateproc.storage import SnapshotLocation, open_handle
from stateproc.writers.formats.common.read_back import compare_counts, measured_counts, reading_back

_NO_GROUP = -1
"""The offset of a key group that a handle has no data for."""


def verify_heap(
    handle: KeyGroupsHandle,
    location: SnapshotLocation,
    entries: Longs,
    states: Sequence[KeyedState | str],
    ctx: LayoutContext,
    *,
    compressed: bool,
) -> None:
    """Read a file of HeapWriter back and compare its entries per key group and state with the written ones.

    Args:
        handle: the file.
        location: the snapshot's directory.
        entries: the entries written, int64 [key groups, states]; a list or a map counts as one.
        states: by state id; a state that is only a name has no entries.
        ctx: the layout of the serializers' values.
        compressed: as the file's header says.

    Raises:
        WriteFailed: the file cannot be read, or its entries are not those written.
    """
    source = open_handle(handle.stream, location)
    with reading_back(source.name):
        ranges = group_ranges(handle.first_key_group, handle.offsets, source.size, source.name, empty=_NO_GROUP)
        measure = measure_heap(source, ranges, states, ctx, compressed=compressed)
    names = [state if isinstance(state, str) else state.name for state in states]
    compare_counts(measured_counts(measure, handle, entries), entries, handle.first_key_group, names, source.name)
