"""A write that is killed before any of its steps on files: no partial savepoint can be loaded, nothing is harmed.

The steps are what Python's audit hooks see of the target's files: every one that is opened to be written, renamed,
linked or removed, and every directory that is made or removed. A child process runs a write and ends before step N, for
each N until it completes.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc import SavepointWriter
from stateproc.errors import SnapshotError
from tests.helpers.paths import DEMO

KILLED = 77
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES: dict[str, Callable[[SavepointWriter], Any]] = {
    "copy": lambda writer: writer,
    "rescale": lambda writer: writer.with_max_parallelism(256),
    "native-rocksdb": lambda writer: writer.with_format("native-rocksdb"),
}


def write(change: str, target: Path, mode: Any) -> None:
    writer = SavepointWriter.from_existing_savepoint(None, str(DEMO))
    CHANGES[change](writer)
    writer.write(target, mode)


def step_of(event: str, arguments: tuple[Any, ...], below: str) -> str | None:
    """The name of a step on the target's files; None of other events."""
    if event == "open":
        path, mode, flags = arguments
        writes = flags & _WRITES if isinstance(flags, int) else "w" in (mode or "")
        paths = [path] if writes else []
    elif event in ("os.rename", "os.link"):
        paths = list(arguments[:2])
    elif event in ("os.remove", "os.rmdir", "os.mkdir", "os.truncate"):
        paths = list(arguments[:1])
    else:
        return None
    named = [str(path) for path in paths if isinstance(path, str | os.PathLike) and str(path).startswith(below)]
    return f"{event} {', '.join(name.removeprefix(below) or '.' for name in named)}" if named else None


def killed_before(number: int, change: str, target: Path, mode: str) -> str | None:
    """Write in a child that ends before a step; return its name, None if the write had fewer and completed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            count = [0]

            def hook(event: str, arguments: tuple[Any, ...]) -> None:
                step = step_of(event, arguments, str(target))
                if step is not None:
                    count[0] += 1
                    if count[0] == number:
                        os.write(writing, step.encode())
                        os._exit(KILLED)

            sys.addaudithook(hook)
            write(change, target, mode)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        step = pipe.read()
    assert os.waitstatus_to_exitcode(status) == (KILLED if step else 0), (number, step)
    return step or None


def contents(path: Path) -> dict[str, list[str]]:
    """All rows of all states, whatever key groups they are in."""
    snapshot = stateproc.open(path)
    return {
        f"{state.operator.operator_id}/{state.name}": sorted(map(_shown, state.to_arrow().to_pylist()))
        for state in snapshot.states
    }


def _shown(row: dict[str, Any]) -> str:
    """A row as text; entries of maps have no order."""
    plain = {name: sorted(map(repr, value)) if isinstance(value, list) else value for name, value in row.items()}
    return repr({name: value for name, value in plain.items() if name != "key_group"})


def files(path: Path) -> dict[str, str]:
    return {
        str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


def steps(change: str, folder: Path, mode: str) -> Iterator[tuple[int, str, Path]]:
    """Kill writes before each of their steps, each with a target of its own."""
    number = 0
    while True:
        number += 1
        target = folder / f"{number}" / "savepoint"
        target.parent.mkdir()
        if mode == "overwrite":
            write("copy", target, "error")
        step = killed_before(number, change, target, mode)
        if step is None:
            assert contents(target)
            return
        yield number, step, target


@pytest.mark.processes
@pytest.mark.parametrize("mode", ["error", "overwrite"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_write_killed_before_any_step_is_no_savepoint_or_the_whole_one(
    change: str, mode: str, tmp_path: Path
) -> None:
    source, wanted = files(Path(DEMO)), contents(Path(DEMO))
    seen: list[str] = []
    for _, step, target in steps(change, tmp_path, mode):
        seen.append(step)
        assert files(Path(DEMO)) == source
        try:
            assert contents(target) == wanted, step
        except SnapshotError:
            # Only where there was no savepoint before may there be none, and then no _metadata says otherwise.
            assert mode == "error" and not (target / "_metadata").exists(), step
        # The next run succeeds, and leaves nothing of the one that was killed.
        write(change, target, "overwrite")
        assert contents(target) == wanted, step
        assert not [name for name in os.listdir(target) if name.startswith(".")], step
        assert set(os.listdir(target)) == set(kept(target)), step
    names = {step.split(" ")[0] for step in seen}
    assert len(seen) > 5 and {"open", "os.rename"} <= names, seen
    assert any("_metadata" in step for step in seen)


def kept(target: Path) -> set[str]:
    """The files that the savepoint names, and ``_metadata``."""
    assert not stateproc.open(target).verify().problems
    return {
        "_metadata",
        *(name for name in os.listdir(target) if name in (target / "_metadata").read_bytes().decode("latin-1")),
    }
