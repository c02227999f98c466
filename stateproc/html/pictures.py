"""Draw bars, columns, histograms and treemaps as inline SVG. Colours come from the style sheet; text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from stateproc.html.units import visible

# Divide a rectangle by weights into cells that are nearly square (squarified treemap of Bruls, Huizing, van Wijk).


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


_AREA = Cell(0.0, 0.0, 1000.0, 360.0)
"""The shape of treemaps; coordinates are written as shares of it, so that text keeps its size."""
_HEAD = 20.0
"""The height of a group's title in a treemap."""
_LETTER = 5.8
"""The width of a letter in a treemap that is 1200 pixels wide."""


@dataclass(frozen=True)
class TreeItem:
    """A leaf of a treemap: its label, weight, class for its colour, and what a pointer shows."""

    label: str
    weight: int
    style: str
    title: str


@dataclass(frozen=True)
class TreeGroup:
    """A group of leaves, in descending order of weight."""

    label: str
    items: tuple[TreeItem, ...]
    title: str

    @property
    def weight(self) -> int:
        return sum(item.weight for item in self.items)


def bar(share: float) -> Markup:
    """Return a horizontal bar for a share from 0 to 1; every positive share is visible."""
    width = min(max(share, 0.012 if share > 0 else 0.0), 1.0) * 100
    return Markup('<svg class="bar" aria-hidden="true"><rect width="{:.3g}%"/></svg>').format(width)


def stacked_bar(parts: Sequence[tuple[str, float, str]]) -> Markup:
    """Return one bar of several parts: (class, share from 0 to 1, what a pointer shows)."""
    drawn, at = [], 0.0
    for style, share, title in parts:
        drawn.append(
            Markup('<rect class="{}" x="{:.3g}%" width="{:.3g}%"><title>{}</title></rect>').format(
                style, at * 100, share * 100, title
            )
        )
        at += share
    return Markup('<svg class="bar stacked" role="img">{}</svg>').format(Markup("").join(drawn))


def skyline(values: Sequence[float], mean: float, label: str, columns: int = 128) -> Markup:
    """Return columns without gaps, e.g. bytes by key group, and a line at ``mean``. Neighbours may share a column."""
    sums = shared_columns(values, columns)
    top = max(sums, default=0.0) or 1.0
    steps = "".join(f"V{100 - round(value / top * 100)}h1" for value in sums)
    line = max(100 - mean / top * 100, 0.0)
    return Markup(
        '<svg class="skyline" viewBox="0 0 {n} 100" preserveAspectRatio="none" role="img" aria-label="{label}">'
        '<path d="M0 100{steps}V100z"/><line x2="{n}" y1="{mean:.4g}" y2="{mean:.4g}"/></svg>'
    ).format(n=len(sums), label=visible(label), steps=Markup(steps), mean=line)


def shared_columns(values: Sequence[float], columns: int) -> list[float]:
    """Return at most ``columns`` values: means of neighbours where there are more."""
    n = min(columns, len(values))
    edges = [len(values) * at // n for at in range(n + 1)] if n else [0]
    return [sum(values[low:high]) / (high - low) for low, high in pairwise(edges)]


def histogram(counts: Sequence[int], titles: Sequence[str], label: str) -> Markup:
    """Return one column per count. With titles, a pointer shows them; without any, the picture is small."""
    top = max(counts, default=0) or 1
    heights = [0.0 if count == 0 else max(count / top * 100, 1.5) for count in counts]
    path = "".join(f"M{at} 100V{100 - height:.3g}h.86V100z" for at, height in enumerate(heights) if height)
    targets = [
        Markup('<rect x="{}" width="1" height="100"><title>{}</title></rect>').format(at, title)
        for at, title in enumerate(titles)
    ]
    drawn = Markup('<path d="{}"/>{}').format(Markup(path), Markup("").join(targets))
    return Markup(
        '<svg class="histogram" viewBox="0 0 {} 100" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(max(len(counts), 1), visible(label), drawn)


def treemap(groups: Sequence[TreeGroup], rest: TreeItem | None, label: str) -> Markup:
    """Return groups of leaves with areas in proportion to their weights, and ``rest`` on the right."""
    ordered = sorted((group for group in groups if group.weight > 0), key=lambda group: -group.weight)
    drawn, whole = [], _AREA
    if rest is not None:
        width = _AREA.width * rest.weight / (rest.weight + sum(group.weight for group in ordered))
        whole = Cell(0.0, 0.0, _AREA.width - width, _AREA.height)
        drawn.append(_cell(rest, Cell(whole.width, _HEAD, width, _AREA.height - _HEAD)))
    for group, area in zip(ordered, squarified([group.weight for group in ordered], whole), strict=True):
        drawn.append(_group(group, area))
    return Markup('<svg class="treemap" role="img" aria-label="{}">{}</svg>').format(label, Markup("").join(drawn))


def _group(group: TreeGroup, area: Cell) -> Markup:
    """Return a group's cells below its title, or without it where the area is too small for one."""
    titled = area.height > 2.2 * _HEAD and area.width > 60
    head = _HEAD if titled else 0.0
    inner = Cell(area.x, area.y + head, area.width, area.height - head)
    items = [item for item in group.items if item.weight > 0]
    cells = [
        _cell(item, cell) for item, cell in zip(items, squarified([item.weight for item in items], inner), strict=True)
    ]
    title = (
        Markup('<svg {}><text x="4" y="14">{}</text></svg>').format(
            _place(Cell(area.x, area.y, area.width, head)), _fitting(group.label, area.width)
        )
        if titled
        else ""
    )
    return Markup("<g><title>{}</title>{}{}</g>").format(visible(group.title), title, Markup("").join(cells))


def _cell(item: TreeItem, cell: Cell) -> Markup:
    text = Markup("")
    if cell.width > 34 and cell.height > 17:
        text = Markup('<text x="5" y="15">{}</text>').format(_fitting(item.label, cell.width))
    return Markup('<svg class="{}" {}><title>{}</title><rect width="100%" height="100%"/>{}</svg>').format(
        item.style, _place(cell), visible(item.title), text
    )


def _fitting(label: str, width: float) -> str:
    """Return what fits a width, of which the whole picture has 1000, on a wide screen."""
    most = max(int(width / _LETTER) - 1, 1)
    shown = visible(label)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def _place(cell: Cell) -> Markup:
    width, height = _AREA.width, _AREA.height
    shares = (cell.x / width, cell.y / height, cell.width / width, cell.height / height)
    return Markup('x="{:.4g}%" y="{:.4g}%" width="{:.4g}%" height="{:.4g}%"').format(*(share * 100 for share in shares))


# Name the style of a kind of state: one colour for each in all pictures.

_STYLES = {
    "value": "value",
    "list": "list",
    "map": "map",
    "reducing": "aggregating",
    "aggregating": "aggregating",
    "event timers": "timers",
    "processing timers": "timers",
}


def state_style(kind: str, distribution: str) -> str:
    """Return the class that colours a state."""
    return _STYLES.get(kind, "operator") if distribution == "keyed" else "operator"
