"""Show progress on stderr if it is a terminal."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]


@contextmanager
def progress(what: str, total: int) -> Iterator[Advance]:
    """Show a bar while the context is open.

    Yields:
        A function to call with the number of further bytes that are done.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    ]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.advance(task, done)


@contextmanager
def counting(what: str, unit: str | None = None) -> Iterator[Advance]:
    """Show the time that has passed, and a growing count, while the context is open, where the total is not known.

    Args:
        what: The description.
        unit: The name of what is counted, in the plural; None where nothing is.

    Yields:
        A function to call with the number of further units that are done.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = [
        SpinnerColumn(),
        TextColumn("{task.description}"),
        *([] if unit is None else [TextColumn(f"{{task.completed:,}} {unit}")]),
        TimeElapsedColumn(),
    ]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done: bar.advance(task, done)


@contextmanager
def logged(logger: logging.Logger) -> Iterator[None]:
    """Print what is logged about progress while the context is open, unless stderr is a terminal."""
    if sys.stderr.isatty():
        yield
        return
    handler, level = logging.StreamHandler(sys.stderr), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
