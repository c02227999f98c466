"""What was written, read back: counts and places as they should be, before ``_metadata`` makes a snapshot of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from stateproc.errors import CorruptSnapshot, MissingFile, Where, WriteFailed
from stateproc.keygroups.ranges import prefix_width
from stateproc.metadata.handles import KeyGroupsHandle, OperatorStreamHandle
from stateproc.readers.canonical.statistics import Measure, measure_canonical
from stateproc.readers.common.key_group_blocks import group_ranges
from stateproc.readers.common.snappy_framing import whole_frames
from stateproc.readers.common.state_descriptor import KeyedState
from stateproc.readers.heap.statistics import measure_heap
from stateproc.readers.operator_state.reader import element_ranges
from stateproc.serializers import LayoutContext
from stateproc.storage import SnapshotLocation, open_handle
from stateproc.writers.formats.common.entry_batches import Longs

_ADVICE = "the storage has not kept what was written, or something else changes the file; run the write again"
_NO_GROUP = -1
_PART = 16 << 20


def verify_canonical(
    handle: KeyGroupsHandle,
    location: SnapshotLocation,
    entries: Longs,
    states: Sequence[str],
    max_parallelism: int,
    *,
    compressed: bool,
) -> None:
    """Check a canonical file of CanonicalWriter: as many entries of each state in each key group as ``entries``, int64
    [key groups, states], says, each with the prefix of its key group. Raises WriteFailed.
    """
    source = open_handle(handle.stream, location)
    with reading_back(source.name):
        ranges = group_ranges(handle.first_key_group, handle.offsets, source.size, source.name)
        found = measure_canonical(
            source, ranges, compressed=compressed, prefix=prefix_width(max_parallelism), n_states=len(states)
        )
    compare_counts(_counts(found, handle, entries), entries, handle.first_key_group, states, source.name)


def verify_heap(
    handle: KeyGroupsHandle,
    location: SnapshotLocation,
    entries: Longs,
    states: Sequence[KeyedState | str],
    ctx: LayoutContext,
    *,
    compressed: bool,
) -> None:
    """Check a native heap file of HeapWriter, as :func:`verify_canonical` does; lists and maps count as one entry."""
    source = open_handle(handle.stream, location)
    with reading_back(source.name):
        ranges = group_ranges(handle.first_key_group, handle.offsets, source.size, source.name, empty=_NO_GROUP)
        found = measure_heap(source, ranges, states, ctx, compressed=compressed)
    names = [state if isinstance(state, str) else state.name for state in states]
    compare_counts(_counts(found, handle, entries), entries, handle.first_key_group, names, source.name)


def verify_operator_state(handle: OperatorStreamHandle, location: SnapshotLocation, *, compressed: bool) -> None:
    """Check a file of OperatorStateWriter: it is whole, every element lies in it. Raises WriteFailed."""
    source = open_handle(handle.stream, location)
    with reading_back(source.name):
        if not compressed:
            for at in range(0, source.size, _PART):
                source.read(at, min(_PART, source.size - at))
        data = memoryview(source.read_all(source.size) if compressed else b"")
        for state in handle.states:
            ranges = element_ranges(handle, state, source)
            for start, stop in ranges.tolist() if compressed else ():
                if whole_frames(bytes(data[start:stop]), source.name, start) != stop - start:
                    raise CorruptSnapshot("a compressed element is cut off", where=Where(source.name, start))


def _counts(found: Measure, handle: KeyGroupsHandle, entries: Longs) -> Longs:
    counts = np.zeros_like(entries)
    rows = np.array(found.key_groups, dtype=np.int64) - handle.first_key_group
    counts[rows] = found.entries
    return counts


def compare_counts(counts: Longs, entries: Longs, first_key_group: int, states: Sequence[str], file: str) -> None:
    """Raise WriteFailed unless ``counts`` were found where ``entries`` were written (int64 [key groups, states])."""
    wrong = np.argwhere(counts != entries)
    if len(wrong):
        row, state = wrong[0].tolist()
        raise WriteFailed(
            f"{int(counts[row, state])} entries are in key group {first_key_group + row} where "
            f"{int(entries[row, state])} were written",
            where=Where(file=file, state=states[state]),
            advice=_ADVICE,
        )


@contextmanager
def reading_back(file: str) -> Iterator[None]:
    """What a reader finds wrong with a file just written is a failure of the write."""
    try:
        yield
    except (CorruptSnapshot, MissingFile) as error:
        raise WriteFailed(
            f"what was written cannot be read: {error.message}", where=error.at(file=file).where, advice=_ADVICE
        ) from error
