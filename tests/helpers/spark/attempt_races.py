"""Two attempts of one task that live at once, in each order in which they can end; see write_faults.py.

An attempt waits for what the other one notes, so that it is the same race each time.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stateproc.errors import WriteFailed
from stateproc.storage.layout import run_of_marker
from stateproc.writers.commit.staging import StateFile

ENOUGH = 30_000
"""Bytes: more than a handle holds, less than a state file of the rows that are written."""
_MOST_SECONDS = 100


def notes_of(target: Path) -> Path:
    """Where the attempts of a write to ``target`` keep their notes, ``<attempt>-<event>``."""
    return target.with_name(f"{target.name}-notes")


def note_of(target: Path, attempt: int, event: str) -> dict[str, Any]:
    note: dict[str, Any] = json.loads((notes_of(target) / f"{attempt}-{event}").read_text())
    return note


class Race:
    """One attempt, and what it knows of the other. Use as a context, in which its files are written."""

    def __init__(self, target: Path, attempt: int, half: Callable[[Race], None] | None = None) -> None:
        self.target, self.attempt = target, attempt
        self._half, self._bytes = half, 0
        self._files: list[str] = []

    def note(self, event: str, error: str = "") -> None:
        """What this attempt sees: files in the target, its own among them, and whether the other is at work, too."""
        notes, other = notes_of(self.target), 1 - self.attempt
        at_work = (notes / f"{other}-begun").exists() and not (notes / f"{other}-ended").exists()
        there = sorted(os.listdir(self.target)) if self.target.is_dir() else []
        note = {"own": self._files, "there": there, "other": at_work, "process": os.getpid(), "error": error}
        temporary = notes / f".{self.attempt}-{event}"
        temporary.write_text(json.dumps(note))
        temporary.rename(notes / f"{self.attempt}-{event}")

    def wait_for(self, event: str) -> None:
        """Wait for the other attempt's note."""
        wait((notes_of(self.target) / f"{1 - self.attempt}-{event}").exists)

    def wait_for_the_snapshot(self) -> None:
        """Until it is there and the write is over: its marker goes a moment after ``_metadata`` comes."""
        wait(lambda: (self.target / "_metadata").exists() and not any(map(run_of_marker, os.listdir(self.target))))

    @contextmanager
    def run(self) -> Iterator[None]:
        notes_of(self.target).mkdir(exist_ok=True)
        self.note("begun")
        try:
            with self._watched():
                yield
        except WriteFailed as error:
            self.note("ended", str(error))
            raise
        self.note("ended")

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Have state files report their names to this attempt, and when they have contents."""
        inner_init, inner_write = StateFile.__init__, StateFile.write

        def init(file: StateFile, staging: Any, name: str, threshold: int) -> None:
            inner_init(file, staging, name, threshold)
            self._files.append(name)

        def write(file: StateFile, data: bytes | memoryview) -> None:
            inner_write(file, data)
            self._bytes += len(data)
            if self._half is not None and self._bytes > ENOUGH:
                half, self._half = self._half, None
                half(self)

        StateFile.__init__, StateFile.write = init, write  # type: ignore[method-assign]
        try:
            yield
        finally:
            StateFile.__init__, StateFile.write = inner_init, inner_write  # type: ignore[method-assign]


def wait(come: Callable[[], bool]) -> None:
    """Until it has come."""
    until = time.monotonic() + _MOST_SECONDS
    while not come():
        if time.monotonic() > until:
            raise TimeoutError("what an attempt waits for does not come")
        time.sleep(0.02)


def overtaken(target: Path, attempt: int, write: Callable[[], Any]) -> Any:
    """The first attempt has written all, but reports it after the snapshot of the second has been completed."""
    race = Race(target, attempt)
    with race.run():
        written = write()
        race.note("written")
        if attempt == 0:
            race.wait_for_the_snapshot()
        else:
            race.wait_for("written")
            race.note("both")
    return written


def halfway(target: Path, attempt: int, write: Callable[[], Any]) -> Any:
    """The second attempt is within a file when the first ends, and goes on when the snapshot is there."""

    def half(race: Race) -> None:
        race.note("half")
        race.wait_for_the_snapshot()

    race = Race(target, attempt, half if attempt else None)
    with race.run():
        written = write()
        if attempt == 0:
            race.wait_for("half")
            race.note("both")
    return written


def late(target: Path, attempt: int, write: Callable[[], Any]) -> Any:
    """The second attempt begins its files when the snapshot is there."""
    race = Race(target, attempt)
    with race.run():
        if attempt:
            race.wait_for_the_snapshot()
            return write()
        written = write()
        race.wait_for("begun")
        race.note("both")
    return written


RACES: dict[str, Callable[[Path, int, Callable[[], Any]], Any]] = {
    "overtaken": overtaken, "halfway": halfway, "late": late,
}  # fmt: skip
