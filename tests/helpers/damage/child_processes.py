"""Run readers on damaged bytes in child processes, so that crashes, hangs and huge allocations are reported."""

from __future__ import annotations

import faulthandler
import os
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stateproc.errors import CorruptSnapshot, SnapshotError

SECONDS = 5
WORKERS = int(os.environ.get("STATEPROC_WORKERS", "2"))
PROGRESS = 2000
"""Cases after which a line says how far it is, for those who look (pytest -s)."""
MOST_BYTES = 256 << 20
_SPACE = 2 << 30

Case = tuple[str, Callable[[], Any]]
"""(how to find it again, what to run)."""


@dataclass(frozen=True)
class Verdict:
    """What went wrong, one text per case."""

    failures: tuple[str, ...]
    cases: int


def run_cases(cases: Iterable[Case], workers: int = WORKERS) -> Verdict:
    """Run every case; only SnapshotErrors that name file and offset may come of it.

    A child that dies (a crash, or over five seconds in one case) is reported with its case, and another one goes on
    with the next case.
    """
    queue = list(cases)
    _say(f"{len(queue)} cases in {workers} processes, the first is {queue[0][0] if queue else None}")
    shares = [queue[index::workers] for index in range(workers)]
    with tempfile.TemporaryDirectory() as folder:
        running = [_Share(share, Path(folder) / str(index)) for index, share in enumerate(shares) if share]
        for share in running:
            share.start()
        failures = [text for share in running for text in share.finish()]
    return Verdict(tuple(failures), len(queue))


class _Share:
    """The cases of one worker; its log records how far the child has come."""

    def __init__(self, cases: Sequence[Case], folder: Path) -> None:
        self._cases, self._folder = cases, folder
        self._failures: list[str] = []
        self._child = 0
        folder.mkdir()

    def start(self, first: int = 0) -> None:
        sys.stdout.flush()
        self._child = os.fork()
        if self._child == 0:
            code = 1
            try:
                _limit_space()
                _run_all(self._cases, first, self._folder)
                code = 0
            finally:
                os._exit(code)

    def finish(self) -> list[str]:
        while True:
            _, status = os.waitpid(self._child, 0)
            if status == 0:
                return self._failures + _texts(self._folder)
            at = int((self._folder / "at").read_text())
            trace = (self._folder / "trace").read_text()[-2500:]
            self._failures.append(f"{self._cases[at][0]}: the process died (status {status})\n{trace}")
            if len(self._failures) > 20 or at + 1 >= len(self._cases):
                return self._failures + _texts(self._folder)
            self.start(at + 1)


def _texts(folder: Path) -> list[str]:
    path = folder / "failures"
    return [text for text in path.read_text().split("\0") if text] if path.exists() else []


def _limit_space() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    space = pages * resource.getpagesize() + _SPACE
    resource.setrlimit(resource.RLIMIT_AS, (space, space))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _run_all(cases: Sequence[Case], first: int, folder: Path) -> None:
    with (folder / "at").open("w") as at, (folder / "trace").open("w") as trace:
        for index in range(first, len(cases)):
            at.seek(0)
            at.write(str(index))
            at.flush()
            faulthandler.enable(trace)
            faulthandler.dump_traceback_later(SECONDS * _patience(), exit=True, file=trace)
            before = _peak()
            name, run = cases[index]
            if (index + 1) % PROGRESS == 0:
                _say(f"{index + 1} of {len(cases)}: {name}")
            problem = outcome(run)
            faulthandler.cancel_dump_traceback_later()
            if index > first and _peak() - before > MOST_BYTES:
                problem = f"allocated {(_peak() - before) >> 20} MiB"
            if problem is not None:
                with (folder / "failures").open("a") as failures:
                    failures.write(f"{name}: {problem}".replace("\0", "\\0") + "\0")


def _say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


def _patience() -> float:
    """More seconds where the machine has other work: the limit is one of work, not of the clock."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def outcome(run: Callable[[], Any]) -> str | None:
    """What is wrong with what ``run`` returns or raises; None if nothing is."""
    try:
        found = run()
    except SnapshotError as error:
        return _incomplete(error)
    except Exception:
        return traceback.format_exc(limit=-8)
    errors = [item for item in found.values() if isinstance(item, SnapshotError)] if isinstance(found, dict) else []
    return next((text for text in map(_incomplete, errors) if text is not None), None)


def _incomplete(error: SnapshotError) -> str | None:
    if not str(error).strip():
        return f"{type(error).__name__} says nothing"
    if error.where.file is None:
        return f"names no file: {type(error).__name__}: {error}\n{_origin(error)}"
    if type(error) is CorruptSnapshot and error.where.offset is None:
        return f"names no offset: {type(error).__name__}: {error}\n{_origin(error)}"
    return None


def _origin(error: BaseException) -> str:
    return "".join(traceback.format_tb(error.__traceback__)[-3:])
