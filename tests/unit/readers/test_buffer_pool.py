"""Reuse of buffers: a buffer is reused only if no view refers to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stateproc.metadata.handles import FileHandle
from stateproc.readers.key_group_blocks import BufferPool
from stateproc.storage import FileSource, SnapshotLocation, open_handle

SIZE = 1 << 20


@pytest.fixture
def source(tmp_path: Path) -> FileSource:
    path = tmp_path / "blocks"
    path.write_bytes(b"".join(bytes([number]) * SIZE for number in range(8)))
    opened = open_handle(FileHandle(f"file:{path}", 8 * SIZE), SnapshotLocation(f"file:{tmp_path}", f"file:{path}"))
    assert isinstance(opened, FileSource)
    return opened


def test_a_buffer_without_references_is_reused(source: FileSource) -> None:
    pool, addresses = BufferPool(), set()
    for number in range(8):
        block = pool.read(source, number * SIZE, SIZE)
        assert block[0] == block[-1] == number
        addresses.add(block.ctypes.data)
    assert len(addresses) == 2, "the current block and the next"


def test_a_buffer_with_a_view_is_not_reused(source: FileSource) -> None:
    pool = BufferPool()
    views = [pool.read(source, number * SIZE, SIZE)[::1000] for number in range(8)]
    assert [np.unique(view).tolist() for view in views] == [[number] for number in range(8)]
    memory = [memoryview(pool.read(source, number * SIZE, SIZE))[10:20] for number in range(8)]
    assert [bytes(view) for view in memory] == [bytes([number]) * 10 for number in range(8)]
