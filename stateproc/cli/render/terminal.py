"""Print to a terminal with colours and its width, to a pipe as plain text."""

from __future__ import annotations

import io
import os
import sys
from typing import BinaryIO

from rich.console import Console, RenderableType

_PIPED_WIDTH = 140


def show(renderable: RenderableType, stream: BinaryIO | None = None) -> None:
    """Print to stdout, or as plain text to ``stream``."""
    if stream is None and sys.stdout.isatty():
        Console(highlight=False).print(renderable)
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
    Console(file=drawn, width=width, highlight=False, force_terminal=False).print(renderable)
    return "".join(line.rstrip() + "\n" for line in drawn.getvalue().splitlines())


def printable(text: str) -> str:
    """Return a text with its control characters as escapes: those in file names could control the terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
