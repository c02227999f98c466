"""Small writes from the bundled snapshot, and what is in their targets, for tests that disturb them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import stateproc
from stateproc import SavepointWriter
from stateproc.errors import SnapshotError
from tests.helpers.paths import DEMO

CHANGES: dict[str, Callable[[SavepointWriter], Any]] = {
    "copy": lambda writer: writer,
    "rescale": lambda writer: writer.with_max_parallelism(256),
    "native-rocksdb": lambda writer: writer.with_format("native-rocksdb"),
}


def write(change: str, target: Path, mode: Any) -> None:
    writer = SavepointWriter.from_existing_savepoint(None, str(DEMO))
    CHANGES[change](writer)
    writer.write(target, mode)


def contents(path: str | Path, options: Mapping[str, Any] | None = None) -> dict[str, list[str]]:
    """All rows of all states, whatever key groups they are in; ``options``: of the store."""
    snapshot = stateproc.open(path, storage_options=options)
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


def kept(target: Path) -> set[str]:
    """The files that the savepoint names, and ``_metadata``; none where there is no savepoint."""
    if not (target / "_metadata").exists():
        return set()
    assert not stateproc.open(target).verify().problems
    named = (target / "_metadata").read_bytes().decode("latin-1")
    return {"_metadata", *(name for name in os.listdir(target) if name in named)}


def assert_whole_or_nothing(target: Path, wanted: dict[str, list[str]], may_be_nothing: bool, step: str) -> None:
    """Assert this of the target of a write that ended before a step, and that leftovers are found as such."""
    try:
        assert contents(target) == wanted, step
    except SnapshotError:
        assert may_be_nothing and not (target / "_metadata").exists(), step
    left = {*os.listdir(target)} - kept(target) if target.exists() else set()
    found = stateproc.find_orphans(target.parent, min_age="0s")
    assert left <= {Path(one.path).name for one in (*found.orphans, *found.in_progress)}, (step, left)
