"""Run a live job and, in another process, the streams that copy its states; kill and restore both."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import stateproc
from tests.helpers.document_runs import environment
from tests.helpers.live_job import Completed, LiveJob
from tests.helpers.spark.live_copy import FINISH, STATES

PATIENCE = 600.0
# Spark waits ten seconds for a worker in Python, and no setting changes that; on a busy machine that can be too short.
# A stream that it ends is started again, as whoever runs one would have it.
GAVE_UP = "Timed out while waiting for the Python worker to connect back"


@dataclass
class CopyProcess:
    """The process that follows a job; see `tests.helpers.spark.live_copy`.

    Attributes:
        folder: Its tables.
        roots: What it follows.
        kills: How often it was killed.
        given_up: How often Spark ended it, as the machine was busy.
    """

    folder: Path
    roots: Sequence[Path]
    kills: int = 0
    given_up: int = 0
    process: subprocess.Popen[bytes] = field(init=False)

    def start(self) -> None:
        """Start the process, again after it was killed."""
        command = [sys.executable, "-m", "tests.helpers.spark.live_copy", str(self.folder), *map(str, self.roots)]
        with (self.folder / "log.txt").open("w") as log:
            self.process = subprocess.Popen(command, env=environment(), stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> None:
        """Kill the process and its JVM at once."""
        self._keep_running()
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)
        self.kills += 1

    def finish(self) -> dict[str, list[str]]:
        """Have the copies completed; return their rows by state."""
        (self.folder / FINISH).touch()
        while self.process.wait(PATIENCE) != 0:
            self._keep_running()
        return {state: json.loads((self.folder / f"rows-{state}.json").read_text()) for state in STATES}

    def batches(self) -> list[dict[str, Any]]:
        """Return what was merged so far."""
        path = self.folder / "batches.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def wait_for_batches(self, count: int) -> None:
        """Wait until so many batches more were merged of each state."""
        before = self._counts()
        until = time.monotonic() + PATIENCE
        while any(now - earlier < count for now, earlier in zip(self._counts(), before, strict=True)):
            self._keep_running()
            assert time.monotonic() < until, self.log()
            time.sleep(0.1)

    def _keep_running(self) -> None:
        """Start the process again where Spark gave up a worker, at most five times; any other end is an error."""
        if self.process.poll() is None:
            return
        self.given_up += 1
        assert GAVE_UP in (self.folder / "log.txt").read_text() and self.given_up <= 5, self.log()
        self.start()

    def _counts(self) -> list[int]:
        return [sum(item["state"] == state for item in self.batches()) for state in STATES]

    def log(self) -> str:
        """Return what the process printed around the first error, else the end of it."""
        text = (self.folder / "log.txt").read_text()
        found = [at for word in ("Traceback", "Exception", "Error:") if (at := text.find(word)) >= 0]
        return text[max(min(found) - 500, 0) :][:12_000] if found else text[-6000:]


@dataclass(frozen=True)
class LiveCopyRun:
    """What happened.

    Attributes:
        copied: The rows of the copies by state.
        expected: The rows of the job's last savepoint.
        checkpoints: Those that the jobs completed.
        batches: Those that were merged.
        kills: How often the streams were killed.
    """

    copied: dict[str, list[str]]
    expected: dict[str, list[str]]
    checkpoints: list[Completed]
    batches: list[dict[str, Any]]
    kills: int
    progress: dict[str, Any] = field(default_factory=dict)


def copy_live_job(folder: Path, *, seconds: float, kills: int, claim: bool = False, **job: Any) -> LiveCopyRun:
    """Run a job, restore it half-way from a savepoint, and copy its states meanwhile.

    Args:
        folder: Where everything is written.
        seconds: How long the job runs, at least; each kill waits for a batch.
        kills: How often the streams are killed.
        claim: Whether the restored job owns the savepoint.
        **job: Arguments of `LiveJob.start`.
    """
    root, savepoints, tables = folder / "checkpoints", folder / "savepoints", folder / "tables"
    tables.mkdir(parents=True)
    copies = CopyProcess(tables, (root, savepoints))
    began = time.monotonic()
    with LiveJob.start(root, **job) as first:
        first.wait_for_checkpoint(1)
        copies.start()
        for _ in range((kills + 1) // 2):
            _kill_during_a_batch(copies, seconds / (kills + 1))
        copies.wait_for_batches(1)
        savepoint = first.cancel_with_savepoint(savepoints)
    with LiveJob.start(root, restore=savepoint, claim=claim, **job) as second:
        for _ in range(kills // 2):
            _kill_during_a_batch(copies, seconds / (kills + 1))
        copies.wait_for_batches(1)
        time.sleep(max(0.0, began + seconds - time.monotonic()))
        last = second.cancel_with_savepoint(savepoints)
    copied = copies.finish()
    return LiveCopyRun(
        copied,
        {state: _rows(last, state) for state in STATES},
        [*first.completed, *second.completed],
        copies.batches(),
        copies.kills,
        json.loads((tables / "progress.json").read_text()),
    )


def _kill_during_a_batch(copies: CopyProcess, seconds: float) -> None:
    until = time.monotonic() + seconds
    copies.wait_for_batches(1)
    # Anywhere in a batch: batches take longer than this, and begin when they like.
    time.sleep(max(until - time.monotonic(), 0.3))
    copies.kill()
    copies.start()


def _rows(savepoint: Path, state: str) -> list[str]:
    feed = stateproc.changes(savepoint, uid="accounts", state=state, uids=["accounts"]).to_arrow()
    kept = [name for name in feed.column_names if not name.startswith("_") and name != "key_group"]
    return sorted(map(repr, feed.select(kept).to_pylist()))
