"""Reads of tables are requested ahead, one more for each result, up to a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from stateproc.readers.rocksdb.prefetch import Fetcher
from stateproc.readers.rocksdb.sorted_runs import pieces_ahead, read_limit

MB = 1 << 20


@pytest.mark.parametrize(("is_ahead", "wanted"), [(True, [1, 2, 3, 4, 4, 4]), (False, [0] * 6)])
def test_results_are_in_order_and_reads_ahead_grow_up_to_the_limit(is_ahead: bool, wanted: list[int]) -> None:
    taken = 0

    def jobs() -> Iterator[Callable[[], int]]:
        nonlocal taken
        for number in range(20):
            taken += 1
            yield partial(int, number)

    ahead = []
    with Fetcher(ahead=is_ahead) as fetcher:
        for position, number in enumerate(fetcher.each(jobs(), 4)):
            assert number == position
            ahead.append(taken - number - 1)
    assert (ahead[:6], len(ahead)) == (wanted, 20)


@pytest.mark.parametrize(("runs", "size", "ahead"), [(1, 4 * MB, 7), (2, 4 * MB, 3), (4, 4 * MB, 1), (64, MB // 4, 1)])
def test_the_bytes_that_are_held_and_requested_are_bounded(runs: int, size: int, ahead: int) -> None:
    assert (read_limit(runs), pieces_ahead(runs)) == (size, ahead)
    assert runs * size * (1 + ahead) <= 32 * MB
