"""Verification of an operator state file that was just written."""

from __future__ import annotations

from stateproc.errors import CorruptSnapshot, Where
from stateproc.metadata.handles import OperatorStreamHandle
from stateproc.readers.key_group_blocks import whole_frames
from stateproc.readers.operator_state import element_ranges
from stateproc.storage import SnapshotLocation, open_handle
from stateproc.writers.formats.common.read_back import reading_back

_READ_BYTES = 16 << 20


def verify_operator_state(handle: OperatorStreamHandle, location: SnapshotLocation, *, compressed: bool) -> None:
    """Read a file of OperatorStateWriter back and check that every element is inside of it.

    Raises:
        WriteFailed: the file cannot be read, or an element is cut off.
    """
    source = open_handle(handle.stream, location)
    with reading_back(source.name):
        if not compressed:
            for at in range(0, source.size, _READ_BYTES):
                source.read(at, min(_READ_BYTES, source.size - at))
        data = memoryview(source.read_all(source.size) if compressed else b"")
        for state in handle.states:
            ranges = element_ranges(handle, state, source)
            for start, stop in ranges.tolist() if compressed else ():
                if whole_frames(bytes(data[start:stop]), source.name, start) != stop - start:
                    raise CorruptSnapshot("a compressed element is cut off", where=Where(source.name, start))
