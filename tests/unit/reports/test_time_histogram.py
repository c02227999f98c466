"""Histograms of times: exact counts, readable bins, bounded memory."""

from __future__ import annotations

import numpy as np
import pytest

from stateproc.reports.state_times import _MOST_CELLS, TimeCounter, TimeHistogram

NOON = 1_700_049_600_000


def histogram(*batches: object) -> TimeHistogram:
    counter = TimeCounter()
    for batch in batches:
        counter.add(np.array(batch, dtype=np.int64))
    return counter.histogram()


def test_times_are_counted_in_bins_that_clocks_show() -> None:
    found = histogram([NOON, NOON + 59_999], [NOON + 60_000, NOON + 3_540_000])
    assert (found.count, found.undated, found.before, found.after) == (4, 0, 0, 0)
    assert (found.start, found.width, len(found.bins)) == (NOON, 60_000, 60)
    assert (found.bins[0], found.bins[1], found.bins[59]) == (2, 1, 1)
    assert (found.first, found.last) == (NOON, NOON + 3_540_000)


def test_timers_that_never_fire_do_not_stretch_the_picture() -> None:
    found = histogram([NOON, 2**63 - 1, -(2**63), NOON + 5])
    assert (found.count, found.undated, found.width, sum(found.bins)) == (2, 2, 1, 2)


def test_single_times_far_from_the_others_are_counted_beside_the_bins() -> None:
    found = histogram(np.arange(NOON, NOON + 10_000), [0], [NOON * 2])
    assert (found.count, found.before, found.after, sum(found.bins)) == (10_002, 1, 1, 10_000)
    assert (found.first, found.last) == (0, NOON * 2)
    assert found.width <= 500


def test_nothing_and_one_time() -> None:
    assert histogram([]).bins == ()
    assert histogram([2**63 - 1]) == TimeHistogram(0, 1, None, None, 0, 1, (), 0, 0)
    one = histogram([-5])
    assert (one.bins, one.start, one.first) == ((1,), -5, -5)


@pytest.mark.parametrize("seconds", [1, 86_400, 400 * 86_400, 8_000 * 365 * 86_400])
def test_memory_is_bounded_and_nothing_is_lost(seconds: int) -> None:
    generator = np.random.default_rng(0)
    counter = TimeCounter()
    start = -60_000_000_000_000
    parts = [generator.integers(start, start + seconds * 1000, 50_000) for _ in range(8)]
    for part in parts:
        counter.add(part)
        assert len(counter._cells) <= _MOST_CELLS
    found, values = counter.histogram(), np.concatenate(parts)
    assert found.count == found.before + sum(found.bins) + found.after == len(values)
    assert 10 <= len(found.bins) <= 60
    edges = found.start + found.width * np.arange(len(found.bins) + 1)
    expected = np.histogram(values, edges)[0]
    # A time may be counted in the bin next to its own where the cells are wide: less than one percent here.
    assert np.abs(expected - np.array(found.bins)).max() <= len(values) // 100
