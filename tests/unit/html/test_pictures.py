"""Pictures are well-formed SVG with areas and heights in proportion."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from stateproc.html.pictures import (
    Cell,
    TreeGroup,
    TreeItem,
    bar,
    histogram,
    shared_columns,
    skyline,
    squarified,
    stacked_bar,
    treemap,
)
from tests.helpers.page_reports import HOSTILE


@pytest.mark.parametrize("weights", [[1.0], [5, 3, 2], [100.0] * 37, [2.0**-n for n in range(30)]])
def test_a_treemap_has_areas_in_proportion_and_no_overlap(weights: list[float]) -> None:
    cells = squarified(weights, Cell(0, 0, 300, 200))
    assert len(cells) == len(weights)
    for weight, cell in zip(weights, cells, strict=True):
        assert cell.width * cell.height == pytest.approx(60_000 * weight / sum(weights))
        assert cell.x >= -1e-9 and cell.x + cell.width <= 300 + 1e-6
        assert cell.y >= -1e-9 and cell.y + cell.height <= 200 + 1e-6


def test_cells_are_nearly_square() -> None:
    cells = squarified([100.0] * 24, Cell(0, 0, 300, 200))
    assert max(max(cell.width / cell.height, cell.height / cell.width) for cell in cells) < 1.6


def test_every_positive_share_is_visible() -> None:
    assert 'width="1.2%"' in bar(1e-9) and 'width="0%"' in bar(0) and 'width="100%"' in bar(7)


def test_neighbours_share_columns() -> None:
    assert shared_columns([1, 3, 5, 7], 2) == [2, 6]
    assert shared_columns([1, 3], 5) == [1, 3]
    assert shared_columns([], 5) == []


def test_pictures_are_well_formed_whatever_the_labels() -> None:
    group = TreeGroup(HOSTILE, tuple(TreeItem(HOSTILE, size, "value", HOSTILE) for size in (50, 20, 1)), HOSTILE)
    drawn = [
        bar(0.5),
        stacked_bar([("level0", 0.25, HOSTILE), ("level1", 0.75, "b")]),
        skyline([0, 1, 5], 3.0, HOSTILE),
        skyline([], 0.0, "nothing"),
        histogram([1, 0, 5], [HOSTILE] * 3, HOSTILE),
        histogram([1, 0, 5], (), "small"),
        treemap([group, TreeGroup("empty", (), "")], TreeItem("rest", 5, "other", HOSTILE), HOSTILE),
    ]
    for picture in drawn:
        assert ElementTree.fromstring(picture).tag == "svg"
        assert "<script" not in picture


def test_columns_of_a_histogram_touch_the_base_line() -> None:
    picture = histogram([4, 2, 0], (), "x")
    assert re.search(r'd="([^"]*)"', picture)[1] == "M0 100V0h.86V100zM1 100V50h.86V100z"  # type: ignore[index]
