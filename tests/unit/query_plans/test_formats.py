"""Native savepoints, of the heap and of RocksDB, have the same rows under the same names as canonical ones."""

from __future__ import annotations

from typing import Any

import pytest

from stateproc.model.state import State
from tests.helpers.planned_states import in_order, planned_job
from tests.helpers.sweeps import sampled


def rows(state: State) -> list[dict[str, Any]]:
    flatten = state.kind in ("list", "map")
    return sorted(state.to_arrow(flatten=flatten).to_pylist(), key=in_order)


@pytest.mark.parametrize("release", ("1.20", "2.3"))
@pytest.mark.parametrize("case", (sampled("plain"), "mini-batch"))
def test_all_states(release: str, case: str) -> None:
    canonical, native = (planned_job(release, case, savepoint).snapshot for savepoint in ("snapshot", "native"))
    compared = 0
    for one in canonical.operators:
        other = native.operator(one.operator_id)
        names = sorted(state.name for state in (*one.keyed_states, *one.timer_states))
        for name in names:
            assert other.state(name).schema() == one.state(name).schema()
            assert rows(other.state(name)) == rows(one.state(name))
            compared += 1
    assert compared >= 10


def test_exact_times_are_text() -> None:
    job = planned_job("1.20", "plain")
    found = job.operator("tumble").state("window-aggs").with_temporal("exact").to_arrow().to_pylist()
    window = {"window_start": "2024-01-01T00:02:00", "window_end": "2024-01-01T00:03:00"}
    assert [row["namespace"] for row in found] == [window, window]
    sessions = job.operator("session").state("window-aggs").with_temporal("exact").to_arrow().to_pylist()
    assert {"window_start": "2024-01-01T00:02:25", "window_end": "2024-01-01T01:02:25"} in [
        row["namespace"] for row in sessions
    ]
