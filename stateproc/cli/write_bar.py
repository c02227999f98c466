"""Show a bar for each step of a local write on stderr if it is a terminal: what the engine says it has done."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from stateproc.writers.local.progress import WriteProgress, progress_shown_by
from stateproc.writers.write_task import reporting_thread

BAR_SECONDS = 0.5
"""The time between two updates of a bar."""


@contextmanager
def write_bar(what: str) -> Iterator[None]:
    """Show local writes as bars while the context is open; nothing where there is no terminal.

    Args:
        what: The description.
    """
    if not sys.stderr.isatty():
        yield
        return
    with progress_shown_by(lambda progress: _bar(what, progress)):
        yield


def polled(seconds: float, function: Callable[[], None]) -> AbstractContextManager[None]:
    """Call a function regularly in a thread while the context is open."""

    def poll(ended: threading.Event) -> None:
        while not ended.wait(seconds):
            function()

    return reporting_thread(poll)


@contextmanager
def _bar(what: str, progress: WriteProgress) -> Iterator[None]:
    from rich.console import Console  # Lazy: start-up.
    from rich.progress import BarColumn, Progress, TextColumn

    columns = [TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[done]}")]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, done="")

        def update() -> None:
            state = progress.state()
            left = state.remaining_seconds
            done = state.text if left is None else f"{state.text}, about {left:,.0f} s left"
            # Without a total the bar moves to and fro.
            bar.update(task, total=None if state.part is None else 1.0, completed=state.part or 0.0, done=done)

        try:
            with polled(BAR_SECONDS, update):
                yield
        finally:
            update()
