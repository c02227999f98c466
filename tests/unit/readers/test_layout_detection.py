"""Canonical and heap files of one handle type are distinguished by the beginnings of key groups, mostly of one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stateproc.metadata.stream_handles import CANONICAL_TYPE
from stateproc.readers.key_group_blocks import KeyGroupRange
from stateproc.readers.materialized_files import is_canonical

HEAP_OR_CANONICAL = 3
SIZE = 100_000


class Beginnings:
    """A file whose key groups have ``SIZE`` bytes and begin with numbers; records what is read."""

    name, size = "file", 1 << 40

    def __init__(self, heads: Sequence[int]) -> None:
        self.heads = heads
        self.reads: list[tuple[int, int]] = []

    def read(self, start: int, length: int) -> bytes:
        self.reads.append((start, length))
        return self.heads[start // SIZE].to_bytes(4, "big", signed=True)

    def read_all(self, limit: int) -> bytes:
        raise AssertionError("the whole file is read")


def detected(heads: Sequence[int], first: int = 0) -> tuple[bool, int]:
    """Whether the file is canonical, and how many reads show it. ``first``: the first key group."""
    file = Beginnings(heads)
    ranges = [KeyGroupRange(first + k, k * SIZE, (k + 1) * SIZE) for k in range(len(heads))]
    offsets = [item.start + 1 for item in ranges]
    return is_canonical(HEAP_OR_CANONICAL, offsets, file, ranges), len(file.reads)


def test_one_key_group_of_a_heap_file_suffices() -> None:
    """As canonical entries, the beginning of key group 2 would be a key of 131,072 bytes, which it does not have."""
    assert detected(range(128)) == (False, 1)
    assert detected(range(64, 128), first=64) == (False, 1)


def test_canonical_files() -> None:
    short_key = 30
    assert detected([short_key >> 16] * 128) == (True, 1)
    assert detected([3 << 16] * 128) == (True, 1), "entries of the fourth state"
    assert detected([-8_000_000] * 2) == (True, 1), "compressed"


@pytest.mark.parametrize(("heads", "canonical", "reads"), [([0], False, 1), ([0, 1], False, 2), ([0, 0], True, 2)])
def test_key_groups_that_might_be_either_are_all_read(heads: list[int], canonical: bool, reads: int) -> None:
    assert detected(heads) == (canonical, reads)


def test_the_handle_type_of_canonical_files_is_enough() -> None:
    file = Beginnings([0, 1])
    assert is_canonical(CANONICAL_TYPE, [1, 2], file, [KeyGroupRange(0, 0, SIZE), KeyGroupRange(1, SIZE, 2 * SIZE)])
    assert not file.reads
