"""Files that a FileSink has written and not committed: Flink commits those that are kept, and none that is dropped.

The job of the savepoint may commit them before it is cancelled; they get their temporary names back, as if it had been
killed just then.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc import SavepointWriter
from tests.helpers.flink.compilation import JAVA, JOBS, compiled
from tests.helpers.quick_java import QUICK_JAVA

pytestmark = pytest.mark.flink

LINES = sorted(f"{subtask}:{line}" for subtask in range(2) for line in range(50))
COMMITTER = "Sink Committer: files"
CHANGES: dict[str, Callable[[SavepointWriter], Any]] = {
    "kept": lambda writer: writer,
    "dropped": lambda writer: writer.drop_pending("files"),
    "without the committer": lambda writer: writer.remove_operator(COMMITTER),
}
"""What is done to the savepoint; the files are committed in the first only."""


def run(folder: Path, *restored: Path) -> list[Path]:
    """Run the job once without a savepoint, or once restored from each; returns the savepoints that it takes."""
    path = compiled("1.20", "cases", [JOBS / "commands", JOBS / "filed"])
    pairs = [text for item in restored or ("",) for text in (str(item), (folder / "taken").as_uri())]
    command = [*JAVA, *QUICK_JAVA, "-cp", path, "filed.Filed", (folder / "out").as_uri(), *pairs]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return [Path(line.removeprefix("file:")) for line in done.stdout.splitlines()]


def local(name: str) -> Path:
    return Path(name.removeprefix("file:"))


def test_files_that_are_kept_are_committed_and_those_that_are_dropped_are_not(tmp_path: Path) -> None:
    (savepoint,) = run(tmp_path)
    rows = [row for row in stateproc.open(savepoint).pending().to_pylist() if row["status"] == "to commit"]
    files = {local(row["name"]): local(row["temporary"]) for row in rows}
    uncommit(files)
    assert sorted(line for temporary in files.values() for line in temporary.read_text().splitlines()) == LINES
    assert [row["bytes"] for row in rows] == [temporary.stat().st_size for temporary in files.values()]
    committed = {}
    for change, apply in CHANGES.items():
        uncommit(files)
        target = tmp_path / change.replace(" ", "-")
        writer = SavepointWriter.from_existing_savepoint(None, savepoint, {"uids": ["files", COMMITTER, "lines"]})
        apply(writer)
        warned = [note for note in writer.plan().notes if f"{len(files)} files to commit" in note]
        assert bool(warned) == (change != "kept"), writer.plan().notes
        writer.write(target)
        run(tmp_path, target)
        committed[change] = [name.is_file() for name in files]
        assert [not temporary.exists() for temporary in files.values()] == committed[change]
    assert committed == {
        "kept": [True] * len(files),
        "dropped": [False] * len(files),
        "without the committer": [False] * len(files),
    }


def uncommit(files: dict[Path, Path]) -> None:
    """Give the files their temporary names."""
    for name, temporary in files.items():
        if name.exists():
            os.replace(name, temporary)
