"""Print to a terminal with colours and its width, to a pipe as plain text."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Sequence
from typing import Any, BinaryIO

from rich import box
from rich.console import Console, RenderableType
from rich.segment import Segment, Segments
from rich.table import Table

_PIPED_WIDTH = 140


def print_json(value: Any) -> None:
    """Print a value to stdout as JSON of several lines."""
    json.dump(value, sys.stdout, ensure_ascii=False, indent=2)
    print()


def text_table(*names: str, numbers: Sequence[str] = (), **options: Any) -> Table:
    """Return a table with columns of text, which are folded, and after them those of numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim", **options)
    for name in names:
        table.add_column(name, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right")
    return table


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


def without_controls(text: str, *, keep_lines: bool = False) -> str:
    """Return text of a snapshot without characters that control a terminal."""
    return "".join(sign if sign.isprintable() or (keep_lines and sign == "\n") else "�" for sign in text)


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
    n = min(width, len(values))
    buckets = [sum(values[len(values) * i // n : len(values) * (i + 1) // n]) for i in range(n)] if n else []
    top = max(buckets, default=0)
    if top <= 0:
        return "·" * len(buckets)
    return "".join(_STEPS[min(int(value / top * 8), 7)] if value > 0 else "·" for value in buckets)
