"""A write that is killed before any of its steps on files, or whose step fails: no partial savepoint, nothing harmed.

The steps are what Python's audit hooks see of the target's files: every one that is opened to be written, renamed,
linked or removed, and every directory that is made or removed. A child process runs a write; before step N it ends, or
the step raises what a full, broken or read-only disk raises; for each N until the write completes.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc import SavepointWriter
from stateproc.errors import WriteFailed
from tests.helpers.paths import DEMO
from tests.helpers.writers.small_writes import CHANGES, assert_whole_or_nothing, contents, files, kept, write
from tests.helpers.writers.write_steps import step_of

KILLED, REFUSED = 77, 3


@dataclass(frozen=True)
class Fault:
    """What happens at a step: an error, or without one the end of the process.

    ``stays``: it happens at all later steps, too. ``only``: at steps of this kind only.
    """

    number: int = 0
    stays: bool = False
    only: str = ""


FAULTS = {
    "killed": Fault(),
    "an I/O error": Fault(errno.EIO),
    "a full disk": Fault(errno.ENOSPC, stays=True, only="open"),
    "a read-only file system": Fault(errno.EROFS, stays=True),
    "no permission any more": Fault(errno.EACCES, stays=True),
}


def fault_at(number: int, fault: Fault, change: str, target: Path, mode: str) -> tuple[str | None, int]:
    """Write in a child; return the name of the step at which something happened, None if there are fewer, and how the
    child ended: KILLED, REFUSED (an error that says what to do), or 0 for a complete write."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        # Held until the child is dead: between the report and the end another thread could end it otherwise.
        one_step = threading.RLock()
        try:
            os.close(reading)
            count = [0]

            def hook(event: str, arguments: tuple[Any, ...]) -> None:
                step = step_of(event, arguments, str(target))
                if step is None or not step.startswith(fault.only):
                    return
                with one_step:
                    count[0] += 1
                    if count[0] == number:
                        os.write(writing, step.encode())
                    if count[0] == number or (fault.stays and count[0] > number):
                        if not fault.number:
                            os._exit(KILLED)
                        raise OSError(fault.number, os.strerror(fault.number), str(target))

            sys.addaudithook(hook)
            try:
                write(change, target, mode)
                code = 0
            except WriteFailed as error:
                code = REFUSED if error.advice and str(target) in str(error) else 1
        finally:
            with one_step:
                os._exit(code)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        step = pipe.read()
    ended = os.waitstatus_to_exitcode(status)
    assert ended in ((0, REFUSED) if fault.number else (KILLED,)) if step else ended == 0, (number, step, ended)
    return step or None, ended


def steps(fault: Fault, change: str, folder: Path, mode: str) -> Iterator[tuple[str, int, Path]]:
    """Disturb writes at each of their steps, each with a target of its own."""
    number = 0
    while True:
        number += 1
        target = folder / f"{number}" / "savepoint"
        target.parent.mkdir()
        if mode == "overwrite":
            write("copy", target, "error")
        step, ended = fault_at(number, fault, change, target, mode)
        if step is None:
            assert contents(target)
            return
        yield step, ended, target


@pytest.mark.processes
@pytest.mark.parametrize("mode", ["error", "overwrite"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_write_that_is_disturbed_at_any_step_is_no_savepoint_or_the_whole_one(
    fault: str, change: str, mode: str, tmp_path: Path
) -> None:
    source, wanted = files(Path(DEMO)), contents(Path(DEMO))
    seen: list[str] = []
    for step, ended, target in steps(FAULTS[fault], change, tmp_path, mode):
        seen.append(step)
        assert files(Path(DEMO)) == source
        # Only where there was no savepoint before may there be none, and then no _metadata says otherwise.
        assert_whole_or_nothing(target, wanted, mode == "error" and ended != 0, step)
        # The next run succeeds, and leaves nothing of the one that was disturbed.
        write(change, target, "overwrite")
        assert contents(target) == wanted, step
        assert set(os.listdir(target)) == kept(target), step
    names = {step.split(" ")[0] for step in seen}
    assert len(seen) >= (2 if FAULTS[fault].only else 5) and "open" in names, seen
    assert FAULTS[fault].only or ("os.rename" in names and any("_metadata" in step for step in seen))


# Where a write meets no error, but other conditions than usual.


@pytest.mark.processes
@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no second file system")
@pytest.mark.parametrize("change", CHANGES)
def test_a_source_that_may_only_be_read_and_a_target_on_another_file_system(change: str) -> None:
    """Temporary files are on the file system of the source; the user may not change anything in the source."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        source, target = Path(folder) / "source", Path(other) / "savepoint"
        shutil.copytree(DEMO, source)
        before = files(source)
        for path, mode in ((Path(folder), 0o755), (source, 0o555), (Path(other), 0o777)):
            path.chmod(mode)
        for path in source.iterdir():
            path.chmod(0o444)
        assert os.stat(folder).st_dev != os.stat(other).st_dev
        child = os.fork()
        if child == 0:
            code = 1
            try:
                if os.getuid() == 0:
                    os.setgid(65534)
                    os.setuid(65534)
                writer = SavepointWriter.from_existing_savepoint(None, str(source))
                CHANGES[change](writer)
                writer.write(target)
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert contents(target) == contents(Path(DEMO)) and files(source) == before
        source.chmod(0o755)


@pytest.mark.parametrize("days", [-2, 2])
def test_clocks_decide_nothing(days: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the machine differs from that of the file system, whose files seem old or of the future."""
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + days * 86400)
    target = tmp_path / "savepoint"
    step, ended = fault_at(6, FAULTS["killed"], "rescale", target, "error")
    assert (step is not None, ended) == (True, KILLED)
    found = stateproc.find_orphans(tmp_path)
    young, old = ({Path(one.path).name for one in files} for files in (found.in_progress, found.orphans))
    assert (young, old) == (({*os.listdir(target)}, set()) if days < 0 else (set(), {*os.listdir(target)}))
    for mode in ("overwrite", "overwrite"):
        write("rescale", target, mode)
        assert contents(target) == contents(Path(DEMO)) and set(os.listdir(target)) == kept(target)
