"""SQL session windows: aggregates and their data views are returned with the merged windows that users see."""

from __future__ import annotations

from typing import Any

import pytest

from stateproc.model.state import State
from tests.helpers.fixtures import fixtures

CASES = [item for item in fixtures() if "/sql-sessions-" in item.name]


@pytest.mark.parametrize("fixture", CASES, ids=lambda fixture: fixture.name)
def test_data_views_have_the_windows_of_their_aggregates(fixture: Any) -> None:
    snapshot = fixture.open()
    (operator,) = [item for item in snapshot.operators if any(state.name == "window-aggs" for state in item.states)]
    windows = {(line["key"]["product"], *line["namespace"].values()): line["value"] for line in fixture.expected()}
    assert {_window(row) for row in _rows(operator.state("window-aggs"))} == windows.keys()
    distinct = {_window(row): len(row["value"]) for row in _rows(operator.state("distinctAcc_0"))}
    assert distinct == {window: value["customers"] for window, value in windows.items()}
    flat = [_window(row) for row in _rows(operator.state("distinctAcc_0"), flatten=True)]
    assert {window: flat.count(window) for window in set(flat)} == distinct


@pytest.mark.parametrize("fixture", CASES, ids=lambda fixture: fixture.name)
def test_timers_are_set_to_the_ends_of_the_merged_windows(fixture: Any) -> None:
    snapshot = fixture.open()
    (operator,) = [item for item in snapshot.operators if any(state.name == "window-aggs" for state in item.states)]
    windows = {(line["key"]["product"], *line["namespace"].values()) for line in fixture.expected()}
    timers = _rows(operator.state("event timers"))
    assert {(*_window(row), row["timestamp"]) for row in timers} == {(*item, item[2] - 1) for item in windows}


def _rows(state: State, **options: Any) -> list[dict[str, Any]]:
    return list(state.to_arrow(**options).to_pylist())


def _window(row: dict[str, Any]) -> tuple[str, int, int]:
    return (row["key"]["f0"], row["namespace"]["start"], row["namespace"]["end"])
