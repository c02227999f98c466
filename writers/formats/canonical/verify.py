"""Verification of a canonical file that was just written."""

from __future__ import annotations

from collections.abc import Sequence

from stateproc.codec.array_types import Longs
from stateproc.keygroups.ranges import prefix_width
from stateproc.metadata.handles import KeyGroupsHandle
from stateproc.readers.canonical.entry_scan import measure_canonical
from stateproc.readers.key_group_blocks import group_ranges
from stateproc.storage import SnapshotLocation, open_handle
from stateproc.writers.formats.common.read_back import compare_counts, measured_counts, reading_back


def verify_canonical(
    handle: KeyGroupsHandle,
    location: SnapshotLocation,
    entries: Longs,
    states: Sequence[str],
    max_parallelism: int,
    *,
    compressed: bool,
) -> None:
    """Read a file of CanonicalWriter back and compare its entries per key group and state with the written ones.

    Args:
        handle: the file.
        location: the snapshot's directory.
        entries: the entries written, int64 [key groups, states].
        states: names by state id.
        max_parallelism: the operator's number of key groups, which decides on the width of key prefixes.
        compressed: as the file's header says.

    Raises:
        WriteFailed: the file cannot be read, or its entries are not those written.
    """
    source = open_handle(handle.stream, location)
    with reading_back(source.name):
        ranges = group_ranges(handle.first_key_group, handle.offsets, source.size, source.name)
        measure = measure_canonical(
            source, ranges, compressed=compressed, prefix=prefix_width(max_parallelism), n_states=len(states)
        )
    compare_counts(measured_counts(measure, handle, entries), entries, handle.first_key_group, states, source.name)
