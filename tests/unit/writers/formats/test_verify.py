"""Verification of written files: lost or additional entries are reported before the snapshot is committed."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from stateproc.errors import WriteFailed
from stateproc.metadata.operator_handles import OperatorStreamHandle
from stateproc.metadata.stream_handles import ByteStreamHandle, KeyGroupsHandle, RelativeFileHandle
from stateproc.serializers import LayoutContext
from stateproc.storage import SnapshotLocation
from stateproc.storage.store import StorePath
from stateproc.writers.formats.canonical import CanonicalWriter, verify_canonical
from stateproc.writers.formats.heap import HeapWriter, verify_heap
from stateproc.writers.formats.operator_state import OperatorStateWriter, verify_operator_state
from tests.helpers.writers.keyed_entries import batches
from tests.helpers.writers.written_files import written_file
from tests.unit.writers.formats.test_heap import ENTRIES, STATES
from tests.unit.writers.formats.test_operator_state import info

NAMES = ("first", "second", "third")
HERE = SnapshotLocation(StorePath("/nowhere/_metadata"))


def canonical(compressed: bool) -> tuple[KeyGroupsHandle, CanonicalWriter]:
    sink = io.BytesIO()
    writer = CanonicalWriter(sink, b"header", NAMES, range(5), 128, compressed=compressed)
    for batch in batches(ENTRIES):
        writer.write(batch)
    offsets = writer.close()
    return KeyGroupsHandle(7, 0, offsets, ByteStreamHandle("n", sink.getvalue())), writer


@pytest.mark.parametrize("compressed", [False, True])
def test_canonical_files(compressed: bool) -> None:
    handle, writer = canonical(compressed)
    verify_canonical(written_file(HERE, NAMES, compressed=compressed), handle, writer.entries)
    empty = KeyGroupsHandle(7, 0, (0,) * 5, handle.stream)
    verify_canonical(written_file(HERE, NAMES, compressed=compressed), empty, np.zeros((5, 3), np.int64))
    more = writer.entries.copy()
    more[3, 2] += 1
    with pytest.raises(WriteFailed, match=r"4 entries are in key group 3 where 5 were written .*state 'third'"):
        verify_canonical(written_file(HERE, NAMES, compressed=compressed), handle, more)
    with pytest.raises(WriteFailed, match=r"0 entries are in key group 1 where 1 were written .*state 'first'"):
        one = replace(handle, offsets=(0, 0, 0, handle.offsets[3], 0))
        verify_canonical(written_file(HERE, NAMES, compressed=compressed), one, writer.entries)


@pytest.mark.parametrize("compressed", [False, True])
def test_truncated_and_changed_canonical_files_are_refused(compressed: bool, tmp_path: Path) -> None:
    handle, writer = canonical(compressed)
    assert isinstance(handle.stream, ByteStreamHandle)
    location = SnapshotLocation(StorePath(str(tmp_path / "_metadata")))
    in_file = replace(handle, stream=RelativeFileHandle("file", handle.stream.size))
    with pytest.raises(WriteFailed, match=r"what was written cannot be read: a file of the snapshot is missing"):
        verify_canonical(written_file(location, NAMES, compressed=compressed), in_file, writer.entries)
    (tmp_path / "file").write_bytes(handle.stream.data[:-1])
    with pytest.raises(WriteFailed, match=r"the file has .* bytes where the snapshot says"):
        verify_canonical(written_file(location, NAMES, compressed=compressed), in_file, writer.entries)
    refused = 0
    for at in range(6, handle.stream.size):
        damaged = bytearray(handle.stream.data)
        damaged[at] ^= 0x40
        (tmp_path / "file").write_bytes(damaged)
        # Damage inside uncompressed values is not detected, nor damage that turns a stream's identifier into padding.
        try:
            verify_canonical(written_file(location, NAMES, compressed=compressed), in_file, writer.entries)
        except WriteFailed as error:
            refused += 1
            assert error.where.file == str(tmp_path / "file")
    assert refused > handle.stream.size // 3


@pytest.mark.parametrize("compressed", [False, True])
def test_heap_files(compressed: bool) -> None:
    sink = io.BytesIO()
    writer = HeapWriter(sink, b"header", STATES, range(5), LayoutContext(), compressed=compressed)
    for batch in batches(ENTRIES):
        writer.write(batch)
    handle = KeyGroupsHandle(12, 0, writer.close(), ByteStreamHandle("n", sink.getvalue()), "id")
    verify_heap(written_file(HERE, STATES, compressed=compressed), handle, writer.entries)
    with pytest.raises(WriteFailed, match=r"3 entries are in key group 3 where 4 were written .*state 'map'"):
        more = writer.entries.copy()
        more[3, 2] += 1
        verify_heap(written_file(HERE, STATES, compressed=compressed), handle, more)
    with pytest.raises(WriteFailed, match="cannot be read"):
        short = replace(handle, stream=ByteStreamHandle("n", sink.getvalue()[:-1]))
        verify_heap(written_file(HERE, STATES, compressed=compressed), short, writer.entries)


@pytest.mark.parametrize("compressed", [False, True])
def test_operator_state(compressed: bool) -> None:
    sink = io.BytesIO()
    writer = OperatorStateWriter(sink, [info("list")], [], version=6, compressed=compressed)
    writer.elements("list", pa.array([b"one", b"", b"three"]))
    handle = OperatorStreamHandle(4, writer.close(), ByteStreamHandle("n", sink.getvalue()))
    verify_operator_state(handle, HERE, compressed=compressed)
    (state,) = handle.states
    beyond = replace(handle, states=(replace(state, offsets=(*state.offsets, len(sink.getvalue()) + 1)),))
    with pytest.raises(WriteFailed, match="an element of state 'list' begins at byte"):
        verify_operator_state(beyond, HERE, compressed=compressed)
    if compressed:
        with pytest.raises(WriteFailed, match="a compressed element is cut off"):
            short = replace(handle, stream=ByteStreamHandle("n", sink.getvalue()[:-1]))
            verify_operator_state(short, HERE, compressed=True)
