"""Run a function in a thread of its own while a context is open."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def reporting_thread(report: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run a function that reports progress until the context ends.

    Args:
        report: Called once in a thread; it must return soon after the event is set.
    """
    ended = threading.Event()
    thread = threading.Thread(target=report, args=(ended,), name="stateproc-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
