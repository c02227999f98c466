"""CPU time and memory of the processes of a Spark session: its JVM, and its Python workers."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _USER, _SYSTEM, _CHILDREN_USER, _CHILDREN_SYSTEM = 1, 11, 12, 13, 14
"""Fields of /proc/PID/stat after the name of the command."""
_RESET_PEAK = "5"
"""Written to /proc/PID/clear_refs, see proc(5)."""
_INTERVAL = 0.02


@dataclass
class Usage:
    """What the processes of a session used: seconds of CPU, and the peak memory of one Python worker."""

    jvm_seconds: float = 0.0
    worker_seconds: float = 0.0
    peak_mb: float = 0.0
    anonymous_mb: float = 0.0


@dataclass
class _Workers:
    """The Python workers of one JVM: forks of a daemon that is its child."""

    jvm: int
    peaks: Usage = field(default_factory=Usage)

    def seconds(self) -> float:
        return sum(_seconds(process, children=True) for process in self._processes())

    def sample(self) -> None:
        for process in self._processes():
            try:
                lines = Path(f"/proc/{process}/status").read_text().splitlines()
            except OSError:  # the process has ended
                continue
            status = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
            # The kernel keeps the peak of each process since it was forked, or since `reset_peaks`.
            self.peaks.peak_mb = max(self.peaks.peak_mb, _megabytes(status, "VmHWM"))
            self.peaks.anonymous_mb = max(self.peaks.anonymous_mb, _megabytes(status, "RssAnon"))

    def reset_peaks(self) -> None:
        """Let the peaks begin anew: sessions keep their workers."""
        for process in self._processes():
            Path(f"/proc/{process}/clear_refs").write_text(_RESET_PEAK)

    def _processes(self) -> Iterator[int]:
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if b"pyspark.daemon" in (path / "cmdline").read_bytes() and self._is_mine(int(path.name)):
                    yield int(path.name)
            except OSError:  # the process has ended
                continue

    def _is_mine(self, process: int) -> bool:
        while process > 1 and process != self.jvm:
            process = int(_stat(process)[_PARENT])
        return process == self.jvm


@contextmanager
def usage(spark: Any) -> Iterator[Usage]:
    """Measure what the session's processes use within the context; complete when it ends."""
    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    workers = _Workers(jvm)
    workers.reset_peaks()
    before = _seconds(jvm), workers.seconds()
    done = threading.Event()

    def sample() -> None:
        while not done.wait(_INTERVAL):
            workers.sample()

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield workers.peaks
    finally:
        done.set()
        thread.join()
        workers.sample()
        workers.peaks.jvm_seconds = _seconds(jvm) - before[0]
        workers.peaks.worker_seconds = workers.seconds() - before[1]


def _stat(process: int) -> list[str]:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def _seconds(process: int, *, children: bool = False) -> float:
    """Seconds of CPU of a process, and of its children that have ended."""
    fields = _stat(process)
    counted = (_USER, _SYSTEM, _CHILDREN_USER, _CHILDREN_SYSTEM) if children else (_USER, _SYSTEM)
    return sum(int(fields[index]) for index in counted) / _TICKS


def _megabytes(status: dict[str, str], name: str) -> float:
    return int(status.get(name, "0 kB").split()[0]) / 1024
