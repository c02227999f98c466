"""Reads of sorted runs are requested ahead, as far as memory allows."""

from __future__ import annotations

import pytest

from stateproc.readers.rocksdb.sorted_runs import pieces_ahead, read_limit

MB = 1 << 20


@pytest.mark.parametrize(("runs", "size", "ahead"), [(1, 4 * MB, 7), (2, 4 * MB, 3), (4, 4 * MB, 1), (64, MB // 4, 1)])
def test_the_bytes_that_are_held_and_requested_are_bounded(runs: int, size: int, ahead: int) -> None:
    assert (read_limit(runs, is_remote=True), pieces_ahead(runs)) == (size, ahead)
    assert runs * size * (1 + ahead) <= 32 * MB
    assert read_limit(runs, is_remote=False) == max(MB // 4, min(size, 8 * MB // runs))
