"""The number of unreadable states that ``inspect`` shows is the number of states that cannot be read."""

from __future__ import annotations

import gc
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc.cli import main
from stateproc.cli.commands import inspect
from stateproc.errors import SnapshotError
from stateproc.model.operator import Operator
from stateproc.readers.heap.unreadable_states import unreadable_states
from stateproc.readers.keyed_file import FileCache
from stateproc.reports.state_sizes import OperatorSizes
from tests.helpers.paths import FIXTURES
from tests.helpers.sweeps import sampled

CANONICAL = "kitchen-hashmap-canonical"


@pytest.fixture()
def inspected(capfd: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    def run(path: Path, *arguments: str) -> Any:
        assert main(["inspect", str(path), *arguments]) == 0
        out = capfd.readouterr().out
        return json.loads(out) if "--json" in arguments else out

    return run


def unreadable(path: Path) -> int:
    """Count the states that raise an error when all their rows are read."""
    failed = 0
    for state in stateproc.open(str(path)).states:
        try:
            state.to_arrow(threads=1)
        except SnapshotError:
            failed += 1
    return failed


def missing(file: Path) -> None:
    file.unlink()


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def without_header(file: Path) -> None:
    file.write_bytes(bytes(16) + file.read_bytes()[16:])


def with_damaged_entries(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-300] + b"\xff" * 300)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *((CANONICAL, damage) for damage in (missing, truncated, without_header, with_damaged_entries)),
        *(("kitchen-hashmap-checkpoint", damage) for damage in (missing, truncated, without_header)),
        *(sampled("operators-hashmap-canonical", damage) for damage in (missing, truncated, without_header)),
        ("tiny-rocksdb-full", missing),
    ],
)
def test_each_unreadable_state_is_counted(
    name: str, damage: Callable[[Path], None], tmp_path: Path, inspected: Callable[..., Any]
) -> None:
    copy = tmp_path / "snapshot"
    shutil.copytree(FIXTURES / "1.20" / name / "snapshot", copy)
    files = [file for file in copy.rglob("*") if file.is_file() and file.name != "_metadata"]
    damage(max(files, key=lambda file: (file.stat().st_size, file.name)))
    report = inspected(copy, "--json")
    failed = unreadable(copy)
    shown = sum(state["problem"] is not None for operator in report["operators"] for state in operator["states"])
    assert shown == report["unreadable_states"] == failed
    assert sum(operator["unreadable_states"] for operator in report["operators"]) == failed
    if failed:
        assert f"({failed} unreadable)" in inspected(copy)


@pytest.mark.parametrize("name", ["many-states-hashmap-checkpoint", "edges-rocksdb-canonical"])
def test_states_of_unknown_types_are_counted(name: str, inspected: Callable[..., Any]) -> None:
    path = FIXTURES / "1.20" / name / "snapshot"
    report = inspected(path, "--json")
    assert report["unreadable_states"] == unreadable(path) > 0


def test_states_that_are_hidden_late_in_a_file_are_counted(
    inspected: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Opening a state looks for values without known end in the first bytes only, here fewer than their key group has.
    monkeypatch.setitem(unreadable_states.__kwdefaults__, "probe_bytes", 16)
    path = FIXTURES / "1.20/many-states-hashmap-checkpoint/snapshot"
    noticed = sum(state.problem is not None for state in stateproc.open(str(path)).states)
    report = inspected(path, "--json")
    assert report["unreadable_states"] == unreadable(path) > noticed


def test_an_operator_whose_states_cannot_be_listed_is_said(tmp_path: Path, inspected: Callable[..., Any]) -> None:
    copy = tmp_path / "snapshot"
    shutil.copytree(FIXTURES / "1.20" / CANONICAL / "snapshot", copy)
    for file in set(copy.iterdir()) - {copy / "_metadata"}:
        file.unlink()
    report = inspected(copy, "--json")
    assert (report["state_count"], report["unlisted_operators"]) == (0, 4)
    out = inspected(copy)
    assert "the states of 4 operators cannot be listed" in out
    # Each file is reported once.
    lost = {line for operator in report["operators"] for line in operator["problems"]}
    assert sum(len(operator["problems"]) for operator in report["operators"]) == len(lost)


@pytest.mark.parametrize("terminal", [False, True])
def test_files_are_kept_for_one_operator_at_a_time(
    inspected: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    path, kept = FIXTURES / "1.20" / CANONICAL / "snapshot", list[int]()
    expected = inspected(path, "--json")
    sizes = inspect.operator_sizes

    def known() -> int:
        gc.collect()
        # By their types: proxies of other tests' objects that are gone cannot be asked for their class.
        return sum(type(item) is FileCache for item in gc.get_objects())

    def counted(operator: Operator, **options: Any) -> OperatorSizes:
        found = sizes(operator, **options)
        kept.append(known() - before)
        assert kept[-1] <= len(operator.keyed_files)
        return found

    monkeypatch.setattr(inspect, "operator_sizes", counted)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    before = known()
    assert inspected(path, "--json") == expected
    assert sum(number > 0 for number in kept) > 1
