"""Independence of the rows from the size of the blocks in which a file is read."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

import stateproc.readers.canonical.reader as canonical
import stateproc.readers.heap.reader as heap
from stateproc.readers.key_group_blocks import BLOCK_BYTES, FILE_BLOCK_BYTES, BlockSizing, KeyGroupRange, plain_blocks
from stateproc.storage import FileSource, InlineSource
from stateproc.storage.store import StorePath
from tests.helpers.fixtures import fixtures
from tests.helpers.sweeps import exhaustive

CASES = ("1.20/kitchen-hashmap-canonical", "2.3/tiny-rocksdb-canonical-1024", "1.20/kitchen-hashmap-checkpoint")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", [exhaustive(1), exhaustive(7), 64, exhaustive(1000)])
def test_rows_do_not_depend_on_the_block_size(case: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fixture = next(item for item in fixtures() if item.name == case)
    states = [state for operator in fixture.open().operators for state in operator.keyed_states]
    whole = [state.to_arrow().to_pylist() for state in states]
    for module in (canonical, heap):
        monkeypatch.setattr(module, "plain_blocks", partial(plain_blocks, size=size))
    assert [state.to_arrow().to_pylist() for state in states] == whole


def test_unconsumed_bytes_are_returned_again_and_blocks_grow_if_nothing_is_consumed() -> None:
    data = bytes(range(20))
    source = InlineSource("data", data)
    ranges = [KeyGroupRange(3, 2, 8), KeyGroupRange(4, 8, 20)]
    blocks = plain_blocks(source, ranges, 4)
    first = next(blocks)
    assert (first.data.tobytes(), first.groups, first.last) == (data[2:6], ((3, 0),), False)
    second = blocks.send(4)
    assert (second.data.tobytes(), second.groups) == (data[2:10], ((3, 0), (4, 6)))
    third = blocks.send(3)
    assert (third.data.tobytes(), third.groups) == (data[7:11], ((4, 1),))


@pytest.mark.parametrize(
    ("entries", "then"),
    [(0, FILE_BLOCK_BYTES), (1, BLOCK_BYTES), (4096, 2 * FILE_BLOCK_BYTES), (1 << 16, FILE_BLOCK_BYTES)],
)
def test_blocks_of_files_are_larger_where_entries_are_large(entries: int, then: int, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(40 << 20))
    source = FileSource(StorePath(str(file)), 40 << 20)
    sizing = BlockSizing(source)
    blocks = plain_blocks(source, [KeyGroupRange(0, 0, 40 << 20)], sizing=sizing)
    assert len(next(blocks).data) == FILE_BLOCK_BYTES
    sizing.adapt(entries)
    assert [len(blocks.send(0).data), len(blocks.send(0).data)] == [then, then]
