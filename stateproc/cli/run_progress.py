"""Show how far a run is: a bar with rate and remaining time in a terminal, elsewhere a line every ten seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from stateproc.cli.progress import elapsing
from stateproc.cli.render.bars import human_bytes
from stateproc.cli.write_bar import polled, write_bar
from stateproc.errors import SnapshotError
from stateproc.jobs.engines import LOCAL
from stateproc.jobs.prepared_run import PreparedRun
from stateproc.storage.filesystem import join
from stateproc.storage.listing import file_facts, scan_directory

LINE_SECONDS = 10.0
_WORDS = {"check": "checking", "write": "writing"}


@contextmanager
def run_progress(phase: str, run: PreparedRun, engine: str) -> Iterator[None]:
    """Show the progress of a phase on stderr while the context is open.

    Args:
        phase: ``check`` or ``write``.
        run: The run.
        engine: ``local`` or ``spark``, which shows its own progress in a terminal.
    """
    what = f"{run.job.name}: {_WORDS.get(phase, phase)}"

    def measure() -> int:
        return written_bytes(run) if phase == "write" else 0

    if sys.stderr.isatty():
        shown = write_bar(f"{what} {run.target}") if phase == "write" else elapsing(what)
        with shown if engine == LOCAL else nullcontext():
            yield
        return
    started = time.monotonic()

    def line() -> None:
        done = measure()
        seconds = time.monotonic() - started
        rate = f", {human_bytes(done)} written, {human_bytes(int(done / seconds))}/s" if done else ""
        print(f"{what}: {seconds:.0f} s{rate}", file=sys.stderr, flush=True)

    with polled(LINE_SECONDS, line):
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
