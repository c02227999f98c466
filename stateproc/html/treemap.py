"""Divide a rectangle by weights into cells that are nearly square (squarified treemap of Bruls, Huizing, van Wijk)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """A rectangle."""

    x: float
    y: float
    width: float
    height: float


def squarified(weights: Sequence[float], area: Cell) -> list[Cell]:
    """Return one cell per weight; weights are positive and in descending order."""
    cells: list[Cell] = []
    at, remaining = 0, float(sum(weights))
    while at < len(weights):
        side = min(area.width, area.height)
        # Weights per unit of area, so that rows are compared by the true shapes of their cells.
        scale = area.width * area.height / remaining if remaining > 0 else 0.0
        end = at + 1
        while end < len(weights) and _worst(weights[at : end + 1], scale, side) <= _worst(weights[at:end], scale, side):
            end += 1
        row = weights[at:end]
        share = min(sum(row) / remaining, 1.0) if remaining > 0 else 1.0
        placed, area = _row(row, share, area)
        cells += placed
        remaining -= sum(row)
        at = end
    return cells


def _worst(row: Sequence[float], scale: float, side: float) -> float:
    """Return the largest ratio of the sides of a cell, if these weights share a row along ``side``."""
    total, largest, smallest = sum(row) * scale, row[0] * scale, row[-1] * scale
    if total <= 0 or smallest <= 0 or side <= 0:
        return float("inf")
    return max(side * side * largest / (total * total), total * total / (side * side * smallest))


def _row(row: Sequence[float], share: float, area: Cell) -> tuple[list[Cell], Cell]:
    """Place a row along the shorter side; return its cells and the remaining area."""
    total, cells, offset = sum(row) or 1.0, [], 0.0
    if area.width >= area.height:
        width = area.width * share
        for weight in row:
            height = area.height * weight / total
            cells.append(Cell(area.x, area.y + offset, width, height))
            offset += height
        return cells, Cell(area.x + width, area.y, area.width - width, area.height)
    height = area.height * share
    for weight in row:
        width = area.width * weight / total
        cells.append(Cell(area.x + offset, area.y, width, height))
        offset += width
    return cells, Cell(area.x, area.y + height, area.width, area.height - height)
