"""Rows of windows that have a start and an end fill those that are open, with their timers."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stateproc.errors import InvalidOption, InvalidRows, NotFound, UnsupportedSnapshot
from stateproc.query_plans.node_states import node_states
from stateproc.query_plans.plan_file import read_plan
from tests.unit.query_plans.test_node_states import call, edited, filled, values

TUMBLE, SESSION, OF_TABLE = "212_group-window-aggregate", "215_group-window-aggregate", "196_window-aggregate"
"""GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), SESSION(ts, INTERVAL '1' HOUR), and SESSION of a table with the same gap."""


def at(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(f"2024-01-01T{text}")


def given(windows: list[tuple[Any, ...]], watermark: str | None = None, **columns: list[Any]) -> dict[str, pa.Table]:
    """Rows of windows, each a product, or a customer, with its start or without it, and its end."""
    names = ["product", *["window_start", "window_end"][-len(windows[0]) + 1 :]]
    made = dict(zip(names, zip(*windows, strict=True), strict=True))
    times = {name: [at(one) for one in column] for name, column in made.items() if name != "product"}
    n = len(windows)
    rows = {"product": made["product"], "customer": range(n), "total": [1.0] * n, "n": [1] * n, **times, **columns}
    return {
        "window-aggs": pa.table({name: pa.array(column) for name, column in rows.items()}),
        "watermark": pa.table({"watermark": pa.array([at(watermark)], pa.timestamp("ms"))}),
    }


def timers(operator: Any) -> list[tuple[Any, str]]:
    """The key and the window of each timer, which is at the last millisecond of its window."""
    found = operator.state("_timer_state/event_window-timers").to_arrow().to_pylist()
    windows = [list(row["namespace"].values()) for row in found]
    for row, (_, end) in zip(found, windows, strict=True):
        assert row["timestamp"] == round((end - datetime(1970, 1, 1)).total_seconds() * 1000) - 1
    keys = [row["key"].get("product") for row in found]
    return sorted(
        ((key, f"{start:%H:%M}-{end:%H:%M}") for key, (start, end) in zip(keys, windows, strict=True)), key=str
    )


def hopping(size: str = "PT1H30M", slide: str = "PT1H") -> dict[str, Any]:
    """The plan with HOP in place of TUMBLE."""
    return edited(lambda node: node["window"].update(kind="SLIDING", size=size, slide=slide), TUMBLE)


@pytest.mark.parametrize(
    ("watermark", "left"),
    [
        (None, ["01:00-02:00", "02:00-03:00"]),
        ("01:59:59.998", ["01:00-02:00", "02:00-03:00"]),
        ("01:59:59.999", ["02:00-03:00"]),
        ("03:00", []),
    ],
)
def test_windows_are_left_out_after_their_end(watermark: str | None, left: list[str], tmp_path: Path) -> None:
    made = filled(TUMBLE, given([("tea", "02:00"), ("tea", "03:00")], watermark), tmp_path)
    assert timers(made) == [("tea", window) for window in left]
    assert len(values(made, "window-aggs")) == len(left)
    assert "watermark" not in [state.name for state in made.states]


@pytest.mark.parametrize(
    ("watermark", "left", "due"),
    [
        (None, 3, ["00:00-01:30", "01:00-02:30", "02:00-03:30", "23:00-00:30"]),
        ("01:29:59.998", 3, ["00:00-01:30", "01:00-02:30", "02:00-03:30"]),
        ("01:29:59.999", 2, ["01:00-02:30", "02:00-03:30"]),
        ("02:30", 1, ["02:00-03:30"]),
        ("03:30", 0, []),
    ],
)
def test_panes_are_left_out_after_their_last_window_and_have_timers_of_all(
    watermark: str | None, left: int, due: list[str], tmp_path: Path
) -> None:
    """Windows of 90 minutes begin each hour, so that panes have 30 minutes; that until 02:00 is in one window only."""
    rows = given([("tea", "00:30"), ("tea", "02:00"), ("tea", "02:30")], watermark)
    rows["window-aggs"] = rows["window-aggs"].rename_columns({"window_end": "slice_end"})
    made = filled(TUMBLE, rows, tmp_path, hopping())
    assert timers(made) == [("tea", window) for window in due]
    assert len(values(made, "window-aggs")) == left
    names = {tuple(row["namespace"]) for row in made.state("window-aggs").to_arrow().to_pylist()}
    assert names <= {("slice_start", "slice_end")}


@pytest.mark.parametrize("uid", [SESSION, OF_TABLE])
def test_sessions_have_a_timer_and_a_window_each(uid: str, tmp_path: Path) -> None:
    sessions = [
        ("tea", "00:00", "01:30"),
        ("mate", "01:00", "02:00"),
        ("tea", "01:30:00.001", "02:45"),
        (None, "01:00", "02:00"),
    ]
    made = filled(uid, given(sessions, "01:30", customer=[1, 2, 1, None]), tmp_path)
    assert sorted(window for _, window in timers(made)) == ["01:00-02:00", "01:00-02:00", "01:30-02:45"]
    rows = made.state("session-window-mapping").to_arrow(flatten=True).to_pylist()
    assert len(rows) == 3 and all(row["map_key"] == row["map_value"] for row in rows)
    assert len(values(made, "window-aggs")) == 3
    assert ("watermark" in [state.name for state in made.states]) == (uid == OF_TABLE)


@pytest.mark.parametrize(
    ("uid", "windows", "error", "text"),
    [
        (TUMBLE, [("tea", "02:00:01")], InvalidRows, "ends are 3600000 ms from each other, from 0 ms on"),
        (TUMBLE, [("tea", None)], InvalidRows, "'window_end' cannot be null"),
        (SESSION, [("tea", "02:00")], NotFound, "no column 'window_start'"),
        (SESSION, [("tea", "02:00", None)], InvalidRows, "'window_end' cannot be null"),
        (SESSION, [("tea", "02:00", "02:59")], InvalidRows, "is shorter than the gap of 3600000 ms"),
        (SESSION, [("tea", "02:00", "03:00"), ("tea", "03:00", "04:00")], InvalidRows, "overlap or touch"),
        (SESSION, [(None, "02:30", "04:00"), (None, "02:00", "03:00")], InvalidRows, "overlap or touch"),
    ],
)
def test_windows_that_a_query_does_not_have_are_refused(
    uid: str, windows: list[Any], error: type[Exception], text: str, tmp_path: Path
) -> None:
    if windows[0][-1] is None:
        windows = [*windows, ("mate", *["02:00", "03:00"][-len(windows[0]) + 1 :])]
    with pytest.raises(error, match=text):
        filled(uid, given(windows), tmp_path)


def test_sessions_of_keys_that_are_not_sorted_need_spark(tmp_path: Path) -> None:
    rows = given([("tea", "02:00", "03:00")])
    rows["window-aggs"] = rows["window-aggs"].set_column(0, "product", pa.array([["tea"]]))
    with pytest.raises(InvalidOption, match=r"sessions by keys of the types list(?s:.)*DataFrame of Spark"):
        filled(SESSION, rows, tmp_path)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"kind": "SLIDING", "slide": "PT2H"}, "windows of 3600000 ms every 7200000 ms"),
        ({"isTimeWindow": False}, "of such windows only those of TUMBLE, HOP and SESSION of times"),
        (
            {"timeField": {"fieldType": {"type": "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "kind": "PROCTIME"}}},
            "processing time",
        ),
    ],
)
def test_windows_that_are_not_filled(changed: dict[str, Any], text: str) -> None:
    plan = edited(lambda node: node["window"].update(changed), TUMBLE)
    with pytest.raises(UnsupportedSnapshot, match=text):
        node_states(read_plan(plan), TUMBLE)


def test_windows_of_another_time_zone_are_refused() -> None:
    def change(node: dict[str, Any]) -> None:
        node["window"]["timeField"]["fieldType"]["type"] = "TIMESTAMP_WITH_LOCAL_TIME_ZONE"
        node["configuration"]["table.local-time-zone"] = "Europe/Rome"

    with pytest.raises(UnsupportedSnapshot, match=r"table\.local-time-zone is UTC; it is Europe/Rome"):
        node_states(read_plan(edited(change, TUMBLE)), TUMBLE)


@pytest.mark.parametrize("release", ["1.15", "1.19"])
def test_sessions_of_a_table_are_those_of_releases_that_have_them(release: str) -> None:
    uid = "196_stream-exec-window-aggregate_1_window-aggregate" if release == "1.15" else OF_TABLE
    plan = edited(lambda node: None, OF_TABLE) | {"flinkVersion": release}
    with pytest.raises(UnsupportedSnapshot, match=f"Flink {release} has other states for SESSION of a table"):
        node_states(read_plan(plan), uid)


def test_sessions_of_rows_with_windows_are_refused() -> None:
    plan = edited(lambda node: node["windowing"].update(strategy="WindowAttached"), OF_TABLE)
    with pytest.raises(UnsupportedSnapshot, match="over rows without a window"):
        node_states(read_plan(plan), OF_TABLE)


def test_calls_with_distinct_have_a_bit_each_in_windows_of_group_by() -> None:
    """HOP of a table counts, as its operator takes rows back."""
    calls = [call("COUNT", 2, distinct=True), call("SUM", 2, distinct=True)]
    for plan, uid, kind in (
        (edited(lambda node: node.update(aggCalls=calls), TUMBLE), TUMBLE, "BIGINT NOT NULL"),
        (hopping() | edited(lambda node: node.update(aggCalls=calls), TUMBLE), TUMBLE, "BIGINT NOT NULL"),
        (
            edited(
                lambda node: node.update(aggCalls=[call(one, 1, distinct=True) for one in ("COUNT", "SUM")]),
                HOP_OF_TABLE,
            ),
            HOP_OF_TABLE,
            "ARRAY<BIGINT NOT NULL>",
        ),
    ):
        (seen,) = (state for state in node_states(read_plan(plan), uid) if state.name == "distinctAcc_0")
        assert seen.value.serializer.type_name == kind


HOP_OF_TABLE = "189_window-aggregate"
