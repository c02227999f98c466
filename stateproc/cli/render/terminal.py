"""Print to a terminal with colours and its width, to a pipe as plain text."""

from __future__ import annotations

import io
import os
import sys
from typing import BinaryIO

from rich.console import Console, RenderableType
from rich.segment import Segment, Segments

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
