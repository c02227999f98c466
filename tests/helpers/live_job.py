"""A job of real Flink that goes on changing its state and taking checkpoints while a test reads them.

    with LiveJob.start(tmp_path / "checkpoints", retained=3) as job:
        job.wait_for_checkpoint(5)
        savepoint = job.cancel_with_savepoint(tmp_path / "savepoints")
    with LiveJob.start(tmp_path / "checkpoints", restore=savepoint) as job: ...

Its operator `accounts` has the value states `account` and `closing`, the list `recent`, the map `products` and timers,
by a key of the type Long; its source `changes` has the list `position`.
"""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from tests.helpers.flink.compilation import JAVA, JOBS, compiled, core_folders
from tests.helpers.quick_java import QUICK_JAVA

COMMAND_SECONDS = 300


class JobFailed(RuntimeError):
    """The job failed, or the JVM ended."""


@dataclass(frozen=True)
class Completed:
    """A completed checkpoint, as the job's own statistics say; it may be gone by now.

    Attributes:
        number: Its id.
        millis: When the last task acknowledged it.
        path: Where it was.
    """

    number: int
    millis: int
    path: Path


@dataclass
class LiveJob:
    """A running job; leaving the context kills the JVM.

    Attributes:
        root: The directory of checkpoints, below which each job has its own.
        job_id: Its id; a restored job has a new one.
        completed: All its checkpoints so far, oldest first.
    """

    root: Path
    process: subprocess.Popen[str]
    log: Path
    job_id: str = ""
    completed: list[Completed] = field(default_factory=list)
    _results: queue.Queue[tuple[str, str]] = field(default_factory=queue.Queue)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _failure: str | None = None

    @classmethod
    def start(
        cls,
        root: Path,
        *,
        release: str = "2.3",
        backend: str = "rocksdb",
        interval: float = 1.0,
        retained: int = 3,
        keys: int = 500,
        rate: int = 300,
        parallelism: int = 2,
        restore: Path | str | None = None,
        claim: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> LiveJob:
        """Start the job in a process of its own and wait until it runs.

        Args:
            root: The directory for checkpoints.
            release: Flink's release.
            backend: `rocksdb` (incremental checkpoints) or `hashmap`.
            interval: Seconds between checkpoints.
            retained: The number of checkpoints that are kept.
            keys: The number of keys.
            rate: Changes a second.
            parallelism: That of the keyed operator.
            restore: A savepoint or checkpoint to restore.
            claim: Whether Flink owns, and may delete, what it is restored from.
            options: Further options of Flink.
        """
        root.mkdir(parents=True, exist_ok=True)
        configuration = {
            "keys": str(keys),
            "rate": str(rate),
            "parallelism": str(parallelism),
            **_options(root, release, backend, interval, retained),
            **_restored(restore, claim),
            **(options or {}),
        }
        class_path = compiled(release, "fixtures", [*core_folders(release), JOBS / "commands", JOBS / "live"])
        arguments = [f"{name}={value}" for name, value in configuration.items()]
        java = [*JAVA, *QUICK_JAVA, "-Xmx512m"]
        log = root.with_name(f"{root.name}-{time.time_ns()}.log")
        with log.open("w") as errors:
            process = subprocess.Popen(
                [*java, "-cp", class_path, "live.LiveJob", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        job = cls(root, process, log)
        threading.Thread(target=job._listen, daemon=True).start()
        try:
            job._wait(lambda: bool(job.job_id), COMMAND_SECONDS)
        except JobFailed:
            job.kill()
            raise
        return job

    @property
    def directory(self) -> Path:
        """The directory of this job's checkpoints."""
        return self.root / self.job_id

    def retained(self) -> list[Path]:
        """Return the complete checkpoints that are there now, oldest first."""
        found = [path.parent for path in self.directory.glob("chk-*/_metadata")]
        return sorted(found, key=lambda path: int(path.name.removeprefix("chk-")))

    def wait_for_checkpoint(self, number: int, timeout: float = 300) -> Completed:
        """Wait until a checkpoint with this id, or a later one, is complete; return the first such."""
        self._wait(lambda: any(item.number >= number for item in self.completed), timeout)
        return next(item for item in self.completed if item.number >= number)

    def pause(self) -> None:
        """Have the job change nothing more; checkpoints go on, and those that begin from now on are equal."""
        self._command("pause")

    def resume(self) -> None:
        """Have the job go on with its changes."""
        self._command("resume")

    def checkpoint(self) -> Path:
        """Take a checkpoint now."""
        return self._path("checkpoint")

    def savepoint(self, directory: Path, kind: str = "canonical") -> Path:
        """Take a savepoint; the job goes on."""
        return self._path("savepoint", kind, directory.as_uri())

    def stop_with_savepoint(self, directory: Path, kind: str = "canonical") -> Path:
        """Stop the job with a savepoint, whereupon Flink deletes its checkpoints, and wait until the JVM has ended.

        Args:
            directory: Where the savepoint is written, a directory of its own below.
            kind: `canonical` or `native`.
        """
        path = self._path("stop", kind, directory.as_uri())
        self.process.wait(COMMAND_SECONDS)
        return path

    def cancel_with_savepoint(self, directory: Path, kind: str = "canonical") -> Path:
        """Stop the job with a savepoint that equals its last checkpoint; checkpoints stay.

        Args:
            directory: Where the savepoint is written, a directory of its own below.
            kind: `canonical` or `native`.
        """
        self.pause()
        self.checkpoint()
        path = self.savepoint(directory, kind)
        self._command("cancel")
        self.process.wait(COMMAND_SECONDS)
        return path

    def kill(self) -> None:
        """End the JVM at once, as a crash does; checkpoints stay."""
        self.process.kill()
        self.process.wait(COMMAND_SECONDS)

    def __enter__(self) -> LiveJob:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def _path(self, *words: str) -> Path:
        return Path(self._command(*words).removeprefix("file:"))

    def _command(self, *words: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write("\t".join(words) + "\n")
        self.process.stdin.flush()
        try:
            outcome, result = self._results.get(timeout=COMMAND_SECONDS)
        except queue.Empty:
            raise JobFailed(f"{words[0]} takes longer than {COMMAND_SECONDS} seconds") from None
        if outcome != "done":
            raise JobFailed(f"{words[0]}: {result}{self._tail()}")
        return result

    def _wait(self, is_reached: object, timeout: float) -> None:
        assert callable(is_reached)
        with self._changed:
            done = self._changed.wait_for(lambda: self._failure is not None or is_reached(), timeout)
        if not done or self._failure is not None:
            raise JobFailed(f"{self._failure or f'nothing for {timeout} seconds'}{self._tail()}")

    def _tail(self) -> str:
        return "\n" + self.log.read_text()[-4000:]

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._hear(*line.rstrip("\n").split("\t"))
        with self._changed:
            self._failure = self._failure or "the JVM has ended"
            self._changed.notify_all()
        self._results.put(("failed", self._failure))

    def _hear(self, event: str, *words: str) -> None:
        with self._changed:
            if event == "started":
                self.job_id = words[0]
            elif event == "completed":
                path = Path(words[2].removeprefix("file:"))
                self.completed.append(Completed(int(words[0]), int(words[1]), path))
            elif event in ("done", "refused"):
                self._results.put((event, words[0] if words else ""))
            elif event == "failed":
                self._failure = words[0]
                self._results.put((event, words[0]))
            self._changed.notify_all()


def _options(root: Path, release: str, backend: str, interval: float, retained: int) -> dict[str, str]:
    return {
        "rest.port": "0",
        "rest.bind-port": "0-65000",
        "restart-strategy.type": "none",
        "taskmanager.memory.network.min": "16mb",
        "taskmanager.memory.network.max": "16mb",
        "taskmanager.memory.managed.size": "64mb",
        "state.backend.type": backend,
        "execution.checkpointing.incremental": "true",
        "state.backend.incremental": "true",
        "execution.checkpointing.dir": root.as_uri(),
        "state.checkpoints.dir": root.as_uri(),
        "execution.checkpointing.interval": f"{round(1000 * interval)}ms",
        "execution.checkpointing.num-retained": str(retained),
        "state.checkpoints.num-retained": str(retained),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.checkpointing.data-inline-threshold": "0",
        "state.storage.fs.memory-threshold": "0",
        "state.backend.rocksdb.log.level": "FATAL_LEVEL",
    }


def _restored(path: Path | str | None, claim: bool) -> dict[str, str]:
    if path is None:
        return {}
    mode = "CLAIM" if claim else "NO_CLAIM"
    return {
        "execution.savepoint.path": str(path),
        "execution.state-recovery.path": str(path),
        "execution.savepoint-restore-mode": mode,
        "execution.state-recovery.claim-mode": mode,
    }
