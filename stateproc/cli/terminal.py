"""Print to a terminal with colours and its width, to a pipe as plain text."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import BinaryIO

from rich.console import Console, RenderableType
from rich.segment import Segment, Segments

from stateproc.html.units import human_bytes as human_bytes

_PIPED_WIDTH = 140


def show(renderable: RenderableType, stream: BinaryIO | None = None) -> None:
    """Print to stdout, or as plain text to ``stream``."""
    if stream is None and sys.stdout.isatty():
        _print(Console(highlight=False), renderable)
        return
    text = plain(renderable)
    if stream is None:
        sys.stdout.write(text)
    else:
        stream.write(text.encode("utf-8", "replace"))


def plain(renderable: RenderableType) -> str:
    """Render as text without colours and trailing blanks. COLUMNS sets the width, as on terminals."""
    drawn = io.StringIO()
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() and 0 < len(columns) < 5 else _PIPED_WIDTH
    _print(Console(file=drawn, width=width, highlight=False, force_terminal=False), renderable)
    return "".join(line.rstrip() + "\n" for line in drawn.getvalue().splitlines())


def _print(console: Console, renderable: RenderableType) -> None:
    """Print with the control characters of names, types and messages as escapes; those of rich remain."""
    segments = console.render(renderable)
    safe = (
        item if item.control else Segment("\n".join(map(printable, item.text.split("\n"))), item.style)
        for item in segments
    )
    console.print(Segments(safe), end="")


def printable(text: str) -> str:
    """Return a text with its control characters as escapes: those in file names could control the terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


# Draw bars and sparklines as text.

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_STEPS = "▁▂▃▄▅▆▇█"


def bar(share: float, width: int = 10) -> str:
    """Return a bar of ``width`` characters for a share from 0 to 1; every positive share is visible."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    if share > 0:
        eighths = max(eighths, 1)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)


def sparkline(values: Sequence[float], width: int = 64) -> str:
    """Return the values as a line of columns. Neighbours share a column if ``width`` is too small; a dot is zero."""
    buckets = _buckets(values, width)
    top = max(buckets, default=0)
    if top <= 0:
        return "·" * len(buckets)
    return "".join(_STEPS[min(int(value / top * 8), 7)] if value > 0 else "·" for value in buckets)


def _buckets(values: Sequence[float], width: int) -> list[float]:
    n = min(width, len(values))
    return [sum(values[len(values) * i // n : len(values) * (i + 1) // n]) for i in range(n)] if n else []


# Show reports and rows on a terminal with rich. Imports stateproc.row_formats.json_values and rich only.
