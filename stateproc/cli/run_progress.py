"""Show how far a run is: a bar with rate and remaining time in a terminal, elsewhere a line every ten seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from stateproc.cli.progress import progress
from stateproc.cli.render.bars import human_bytes
from stateproc.errors import SnapshotError
from stateproc.jobs.prepared_run import PreparedRun
from stateproc.storage.filesystem import join
from stateproc.storage.listing import file_facts, scan_directory
from stateproc.writers.reporting_thread import reporting_thread

LINE_SECONDS = 10.0
_BAR_SECONDS = 0.5
_WORDS = {"check": "checking", "write": "writing"}


@contextmanager
def run_progress(phase: str, run: PreparedRun, plan: dict[str, Any] | None) -> Iterator[None]:
    """Show the progress of a phase on stderr while the context is open.

    Args:
        phase: ``check`` or ``write``.
        run: The run.
        plan: What is written, as ``SavepointPlan.to_dict`` returns it.
    """
    what = f"{run.job.name}: {_WORDS.get(phase, phase)}"

    def measure() -> int:
        return written_bytes(run) if phase == "write" else 0

    totals = (plan or {}).get("totals", {})
    expected = int(totals.get("bytes_copied", 0)) + int(totals.get("bytes_read", 0))
    if sys.stderr.isatty() and "pyspark" in sys.modules:
        # A write by Spark shows its own progress in a terminal.
        yield
        return
    if sys.stderr.isatty() and expected and phase == "write":
        with progress(f"{what} {run.target}", expected) as advance, _polled(_BAR_SECONDS, _step(advance, measure)):
            yield
        return
    started = time.monotonic()

    def line() -> None:
        done = measure()
        seconds = time.monotonic() - started
        rate = f", {human_bytes(done)} written, {human_bytes(int(done / seconds))}/s" if done else ""
        print(f"{what}: {seconds:.0f} s{rate}", file=sys.stderr, flush=True)

    with _polled(LINE_SECONDS, line):
        yield


def written_bytes(run: PreparedRun) -> int:
    """Return the bytes of the files in the target so far; 0 where it cannot be listed."""
    options = run.target_options
    try:
        entries = [entry for entry in scan_directory(run.target, options) if not entry.is_directory]
        sizes = (entry.size if entry.size is not None else _size(join(run.target, entry.name)) for entry in entries)
        return sum(sizes)
    except SnapshotError:
        return 0


def _size(uri: str) -> int:
    facts = file_facts(uri)
    return 0 if facts is None else facts.size


def _step(advance: Callable[[int], None], measure: Callable[[], int]) -> Callable[[], None]:
    shown = [0]

    def step() -> None:
        done = measure()
        advance(max(0, done - shown[0]))
        shown[0] = max(done, shown[0])

    return step


def _polled(seconds: float, function: Callable[[], None]) -> AbstractContextManager[None]:
    """Call a function regularly in a thread while the context is open."""

    def poll(ended: threading.Event) -> None:
        while not ended.wait(seconds):
            function()

    return reporting_thread(poll)
