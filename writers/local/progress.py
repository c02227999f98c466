"""Report the progress of a local write: on a terminal as lines, elsewhere to the log every ten seconds."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TextIO

import pyarrow as pa

from stateproc.writers.reporting_thread import reporting_thread

LOGGER = logging.getLogger("stateproc.progress")
"""Receives a line every ten seconds, at the level INFO, while nothing is printed on a terminal."""
_FIRST_SECONDS, _MOST_SECONDS = 5.0, 60.0
"""When the first line is printed on a terminal, and the longest time between two; the time doubles until then."""
_LOG_SECONDS = 10.0


class WriteProgress:
    """What a write has done. Threads add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begin = time.monotonic()
        self._read = self._written = 0
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

    def line(self) -> str:
        """Return what has been done so far, its rate, and the remaining time where it can be estimated."""
        with self._lock:
            seconds = max(time.monotonic() - self._begin, 1e-3)
            waiting = f", {self._read:,} read" if self._read else ""
            # Entries that are sorted on disk are first read, then written: either is half of the work.
            rate = (self._read / 2 + self._written / (2 if self._read else 1)) / seconds
            text = f"stateproc: {self._written:,} entries written{waiting}, {rate:,.0f} entries/s"
            if not self._is_total_known or not self._bytes_done:
                return text
            done = self._bytes_done / max(self._bytes, self._bytes_done)
            if self._read:
                done = (done + self._written / max(self._read / done, 1)) / 2
            return f"{text}, about {seconds * (1 - done) / done:,.0f} s left"


def reported_progress(progress: WriteProgress, out: TextIO | None = None) -> AbstractContextManager[None]:
    """Report the progress while the context lasts; a short write reports nothing.

    Args:
        progress: What is done.
        out: Where to print if it is a terminal, by default standard error; else the lines go to LOGGER.
    """
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
