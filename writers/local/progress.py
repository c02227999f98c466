"""Report the progress of a local write: on a terminal as lines, elsewhere to the log every ten seconds."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TextIO

import pyarrow as pa

from stateproc.html.units import human_bytes
from stateproc.writers.write_task import reporting_thread

LOGGER = logging.getLogger("stateproc.progress")
"""Receives a line every ten seconds, at the level INFO, while nothing is printed on a terminal."""
_FIRST_SECONDS, _MOST_SECONDS = 5.0, 60.0
"""When the first line is printed on a terminal, and the longest time between two; the time doubles until then."""
_LOG_SECONDS = 10.0


@dataclass(frozen=True)
class ProgressState:
    """How far a step of a write is.

    Attributes:
        text: What has been done, and its rate.
        seconds: The time it took so far.
        part: Which part of all is done, from 0 to 1; None where that is not known.
    """

    text: str
    seconds: float
    part: float | None

    @property
    def remaining_seconds(self) -> float | None:
        """The remaining time at the same rate; None where it cannot be estimated."""
        return None if not self.part else self.seconds * (1 - self.part) / self.part


class WriteProgress:
    """What a write has done. Threads add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begin = time.monotonic()
        self._read = self._written = 0
        self._files: int | None = None
        self._bytes_done = self._bytes = 0
        self._is_total_known = True

    def expect(self, stored_bytes: int | None) -> None:
        """Add to what is to be read, in stored bytes; None: it is not known how much."""
        with self._lock:
            self._bytes += stored_bytes or 0
            self._is_total_known = self._is_total_known and stored_bytes is not None

    def done(self, stored_bytes: int) -> None:
        """Add to what has been read of it."""
        with self._lock:
            self._bytes_done += stored_bytes

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Count entries that are read now and written later."""
        for batch in batches:
            with self._lock:
                self._read += batch.num_rows
            yield batch

    def written(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Count entries that are written."""
        for batch in batches:
            with self._lock:
                self._written += batch.num_rows
            yield batch

    def expect_files(self, stored_bytes: int) -> None:
        """Start to copy files as they are, of so many bytes together."""
        with self._lock:
            self._files, self._bytes = 0, stored_bytes

    def copied(self, stored_bytes: int) -> None:
        """Add a file that was copied."""
        with self._lock:
            self._files = (self._files or 0) + 1
            self._bytes_done += stored_bytes

    def state(self) -> ProgressState:
        """Return what has been done so far and its rate, and which part of all that is."""
        with self._lock:
            seconds = max(time.monotonic() - self._begin, 1e-3)
            part: float | None = None
            if self._is_total_known and self._bytes_done:
                part = self._bytes_done / max(self._bytes, self._bytes_done)
            if self._files is not None:
                rate = human_bytes(int(self._bytes_done / seconds))
                files = "1 file" if self._files == 1 else f"{self._files:,} files"
                return ProgressState(f"{files} copied, {rate}/s", seconds, part)
            waiting = f", {self._read:,} read" if self._read else ""
            # Entries that are sorted on disk are first read, then written: either is half of the work.
            rate = f"{(self._read / 2 + self._written / (2 if self._read else 1)) / seconds:,.0f}"
            if part is not None and self._read:
                part = (part + self._written / max(self._read / part, 1)) / 2
            return ProgressState(f"{self._written:,} entries written{waiting}, {rate} entries/s", seconds, part)

    def line(self) -> str:
        """Return what has been done so far, its rate, and the remaining time where it can be estimated."""
        state = self.state()
        left = state.remaining_seconds
        return f"stateproc: {state.text}" + ("" if left is None else f", about {left:,.0f} s left")


ShowProgress = Callable[[WriteProgress], AbstractContextManager[None]]
_shown: ContextVar[ShowProgress | None] = ContextVar("shown_progress", default=None)


@contextmanager
def progress_shown_by(show: ShowProgress) -> Iterator[None]:
    """Let ``show`` show the progress of local writes, instead of lines, while the context is open.

    Args:
        show: Called for each step of a write; the context that it returns is open while the step lasts.
    """
    token = _shown.set(show)
    try:
        yield
    finally:
        _shown.reset(token)


def reported_progress(progress: WriteProgress, out: TextIO | None = None) -> AbstractContextManager[None]:
    """Report the progress while the context lasts; a short write reports nothing.

    Args:
        progress: What is done.
        out: Where to print if it is a terminal, by default standard error; else the lines go to LOGGER.
    """
    show = _shown.get()
    if show is not None:
        return show(progress)
    to = sys.stderr if out is None else out
    return reporting_thread(lambda ended: _report(progress, to, ended))


def _report(progress: WriteProgress, out: TextIO, ended: threading.Event) -> None:
    on_terminal = out.isatty()
    seconds = _FIRST_SECONDS if on_terminal else _LOG_SECONDS
    while not ended.wait(seconds):
        if on_terminal:
            print(progress.line(), file=out, flush=True)
            seconds = min(2 * seconds, _MOST_SECONDS)
        else:
            LOGGER.info(progress.line())
