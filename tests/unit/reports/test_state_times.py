"""Times of timers and last accesses equal those of the rows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc.reports import state_times as module
from stateproc.reports.state_times import StateTimes, state_times
from tests.helpers.paths import DEMO, FIXTURES

KITCHENS = ("kitchen-rocksdb-incremental", "kitchen-hashmap-canonical", "kitchen-hashmap-checkpoint")


def flat(value: Any) -> list[Any]:
    """All moments in a last access: of a value, a list, or a map."""
    if value is None:
        return []
    if isinstance(value, list):
        return [moment for item in value for moment in flat(item)]
    return flat(value[1]) if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("path", [DEMO, *(FIXTURES / "1.20" / name / "snapshot" for name in KITCHENS)], ids=str)
def test_counts_equal_those_of_the_rows(path: Path) -> None:
    snapshot = stateproc.open(str(path))
    found = {(item.operator_id, item.state): item for item in state_times(snapshot.operators, scan=False)}
    expected = 0
    for operator in snapshot.operators:
        for state in (*operator.timer_states, *(state for state in operator.keyed_states if state.ttl)):
            timers = state in operator.timer_states
            column = state.to_arrow().column("timestamp" if timers else "last_access")
            moments = flat(column.to_pylist())
            item = found.pop((operator.operator_id, state.name))
            assert item.kind == (state.name if timers else "last access") and item.note is None
            assert item.histogram is not None
            assert item.histogram.count + item.histogram.undated == len(moments)
            if moments:
                first = min(moments) if timers else round(min(moments).timestamp() * 1000)
                assert item.histogram.first == first
            expected += len(moments)
    assert found == {} and expected > 0


def test_large_operators_are_read_with_scan_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SMALL", 1_000)
    operators = stateproc.open(str(DEMO)).operators

    def notes(scan: bool) -> list[StateTimes]:
        return [item for item in state_times(operators, scan=scan) if item.note is not None]

    assert notes(False) and all("--scan reads them" in str(item.note) for item in notes(False))
    assert notes(True) == []


def test_so_are_operators_with_thousands_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BUDGET", 5 * module._FILE_COST)
    operators = stateproc.open(str(DEMO)).operators
    found = list(state_times(operators, scan=False))
    assert 0 < sum(item.note is not None for item in found) < len(found)


def test_a_damaged_file_is_a_note(tmp_path: Path) -> None:
    shutil.copytree(DEMO, tmp_path / "snapshot")
    largest = max((tmp_path / "snapshot").iterdir(), key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[: largest.stat().st_size // 2])
    operators = stateproc.open(str(tmp_path / "snapshot"), uids=["orders-per-customer"]).operators
    found = [item for item in state_times(operators, scan=False) if item.note is not None]
    assert found and all(item.histogram is None and largest.name in str(item.note) for item in found)
