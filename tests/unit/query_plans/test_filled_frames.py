"""State of OVER that is filled from rows: which rows wait, what follows from those in a frame, and what is refused.

That it is what real Flink wrote is shown in test_node_states.py, that Flink goes on with it in
tests/integration/flink/test_filled_queries.py.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter
from stateproc.errors import InvalidOption, InvalidRows, NotFound, SnapshotError, UnsupportedSnapshot
from stateproc.query_plans.node_states import node_states
from stateproc.query_plans.plan_file import read_plan
from stateproc.query_plans.state_parts import NodeState
from tests.helpers.plan_parts import with_inputs
from tests.helpers.planned_states import planned_job

READS_EVERY_MODE = False
ROWS, RANGE, UNBOUNDED, PROC_ROWS, PROC_RANGE = (
    f"{number}_over-aggregate" for number in (241, 244, 247, 261, 264)
)  # fmt: skip
"""Three rows, an hour and all rows by their time; two rows and an hour by processing time."""
HOUR = 3_600_000
Json = dict[str, Any]
Tables = dict[str, pa.Table]


def plan(release: str = "1.20") -> Path:
    return planned_job(release, "plain").path / "plan.json"


def row(number: int, time: int | None, product: str | None = "tea", amount: float | None = 1.0) -> Json:
    ts = None if time is None else datetime(1970, 1, 1) + timedelta(milliseconds=time)
    return {"id": number, "product": product, "amount": amount, "ts": ts}


KINDS = pa.struct({"id": pa.int64(), "product": pa.string(), "amount": pa.float64(), "ts": pa.timestamp("ms")})


def by_time(
    *rows: tuple[str | None, int | None, int], watermark: int | None = 1000, counted: Json | None = None
) -> Tables:
    """Product, time in milliseconds and number of rows; of each product as many are in the frame as do not wait."""
    kept = pa.table({
        "product": pa.array([one[0] for one in rows], pa.string()),
        "ts": pa.array([one[1] for one in rows], pa.timestamp("ms")),
        "rows": pa.array([[row(at, one[1], one[0]) for at in range(one[2])] for one in rows], pa.list_(KINDS)),
    })  # fmt: skip
    counts: dict[str | None, int] = {}
    for product, time, number in rows:
        if time is not None and watermark is not None and time <= watermark:
            counts[product] = counts.get(product, 0) + number
    counts = counts if counted is None else counted
    numbers = pa.array(counts.values(), pa.int64())
    return {
        "accState": pa.table({
            "product": pa.array(counts.keys(), pa.string()), "count_amount": numbers,
            "sum_amount": numbers.cast(pa.float64()), "row_count": numbers, "count": numbers,
        }),
        "inputState": kept,
        "watermark": pa.table({"watermark": pa.array([watermark], pa.timestamp("ms"))}),
    }  # fmt: skip


def filled(uid: str, rows: Tables, folder: Path, of: Any = None) -> Any:
    of = plan() if of is None else of
    writer = SavepointWriter.new_savepoint(None).with_operator(uid, OperatorBootstrap.from_plan(of, uid, rows))
    writer.write(folder / "filled")
    return stateproc.open(folder / "filled", plan=of).operator(uid)


def values(operator: Any, state: str) -> Json:
    """The values of each key."""
    found = operator.state(state).to_arrow().to_pylist()
    return {repr([*one["key"].values()]): one["value"] for one in found}


def times(operator: Any, state: str = "event timers") -> list[tuple[Any, int]]:
    return sorted((*one["key"].values(), one["timestamp"]) for one in operator.state(state).to_arrow().to_pylist())


GIVEN = (("tea", 900, 1), ("tea", 1000, 2), ("tea", 1001, 1), ("mate", 5, 1), ("late", 1500, 2))


def test_rows_of_a_frame_say_what_was_computed_and_what_waits(tmp_path: Path) -> None:
    made = filled(ROWS, by_time(*GIVEN), tmp_path)
    assert values(made, "lastTriggeringTsState") == {"['tea']": 1000, "['mate']": 5}
    assert values(made, "processedCountState") == {"['tea']": 3, "['mate']": 1}
    assert times(made) == [("late", 1500), ("tea", 1001)]
    kept = made.state("inputState").to_arrow(flatten=True).to_pylist()
    assert sorted((one["key"]["product"], one["map_key"], len(one["map_value"])) for one in kept) == sorted(GIVEN)


def test_state_of_a_frame_that_is_as_long_as_a_time_is_dropped_after_its_last_row(tmp_path: Path) -> None:
    made = filled(RANGE, by_time(*GIVEN), tmp_path)
    after = HOUR * 3 // 2 + 1
    cleanups = {"tea": 1001 + after, "mate": 5 + after, "late": 1500 + after}
    assert values(made, "cleanupTsState") == {repr([key]): time for key, time in cleanups.items()}
    assert values(made, "lastTriggeringTsState") == {"['tea']": 1000, "['mate']": 5}
    assert times(made) == sorted([("late", 1500), ("tea", 1001), *cleanups.items()])


@pytest.mark.parametrize(
    ("watermark", "waits", "due"),
    [
        (None, ["late", "mate", "tea", "tea", "tea"], 0),
        (-500, ["late", "mate", "tea", "tea", "tea"], 0),
        (899, ["late", "tea", "tea", "tea"], 900),
        (1000, ["late", "tea"], 1001),
        (1500, [], None),
        (2**63 - 1, [], None),
    ],
)
@pytest.mark.parametrize("release", ["1.20", "2.3"])
def test_of_frames_from_the_first_row_on_rows_are_kept_that_wait(
    release: str, watermark: int | None, waits: list[str], due: int | None, tmp_path: Path
) -> None:
    """Flink 1 has one timer for all rows of a key, Flink 2 one at the time of each."""
    rows = by_time(*GIVEN) | {"watermark": pa.table({"watermark": pa.array([watermark], pa.int64())})}
    made = filled(UNBOUNDED, rows, tmp_path, plan(release))
    kept = made.state("inputState").to_arrow(flatten=True).to_pylist()
    assert sorted(one["key"]["product"] for one in kept) == waits
    wanted = (
        {(key, due) for key in waits}
        if release == "1.20"
        else {(one["key"]["product"], one["map_key"]) for one in kept}
    )
    assert times(made) == sorted(wanted)


@pytest.mark.parametrize(
    ("uid", "rows", "error", "text"),
    [
        (ROWS, by_time(*GIVEN, counted={"tea": 2, "mate": 1}), InvalidRows, r"\{'product': 'tea'\} has 3 .* and 2 by"),
        (RANGE, by_time(*GIVEN, counted={"tea": 4, "mate": 1}), InvalidRows, "has 3 rows that do not wait, and 4 by"),
        (RANGE, by_time(*GIVEN, counted={"tea": 3}), InvalidRows, r"\{'product': 'mate'\} has 1 rows .* and 0 by"),
        (RANGE, by_time(*GIVEN, counted={"tea": 3, "mate": 1, "gone": 2}), InvalidRows, "has 0 rows .* and 2 by"),
        (ROWS, by_time(("tea", 5, 2), ("tea", 7, 2)), InvalidRows, "has 4 rows that do not wait, and 3 are the most"),
        (ROWS, by_time(("tea", 0, 1)), InvalidRows, "has the time 0 ms, and Flink drops rows before 1 ms as late"),
        (RANGE, by_time(("tea", -5, 1)), InvalidRows, "has the time -5 ms"),
        (UNBOUNDED, by_time(("tea", None, 1)), InvalidRows, "'ts' cannot be null"),
        (RANGE, by_time(("tea", 5, 0), counted={}), InvalidRows, "'rows' cannot be null or empty"),
        (ROWS, by_time() | {"watermark": pa.table({"watermark": [1, 2]})}, InvalidOption, "there are 2 rows with a"),
        (UNBOUNDED, {"accState": pa.table({})}, InvalidOption, "(?s)inputState .* has no rows.*product, ts, rows"),
        (PROC_ROWS, by_time(), NotFound, "no state 'watermark'"),
    ],
)  # fmt: skip
def test_rows_that_are_not_those_of_a_frame_are_refused(
    uid: str, rows: Tables, error: type[SnapshotError], text: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=text):
        filled(uid, rows, tmp_path)
    assert not (tmp_path / "filled").exists()


@pytest.mark.parametrize(
    ("column", "error", "text"),
    [
        (pa.array([[1]]), InvalidOption, r"'rows' is list<.*>, where an array of structs is needed"),
        (pa.array(["x"]), InvalidOption, "'rows' is string, where an array"),
        (pa.array([[{"id": 1}]]), NotFound, "no field in the rows of column 'rows' 'product'"),
        (pa.array([[row(1, 2000), None]], pa.list_(KINDS)), InvalidRows, "'rows' cannot have null rows"),
        (pa.array([None], pa.list_(KINDS)), InvalidRows, "'rows' cannot be null"),
    ],
)
def test_rows_are_an_array_of_structs(column: pa.Array, error: type[SnapshotError], text: str, tmp_path: Path) -> None:
    rows = by_time(("tea", 2000, 1))
    rows["inputState"] = rows["inputState"].set_column(2, "rows", column)
    with pytest.raises(error, match=text):
        filled(RANGE, rows, tmp_path)


def as_they_came(*rows: tuple[int | None, int, int], by: str = "proc") -> Tables:
    """Customer, time and number of rows, without the column of processing time, which is null in state."""
    customers, counts = [one[0] for one in rows], [one[2] for one in rows]
    element = pa.struct({"amount": pa.float64(), "id": pa.int64(), "customer": pa.int64()})
    arrays = [[{"id": at, "customer": one[0], "amount": None} for at in range(one[2])] for one in rows]
    return {
        "accState": pa.table({
            "customer": pa.array(customers, pa.int64()), "row_count": counts, "count_amount": [0] * len(rows),
            "sum_amount": pa.nulls(len(rows)),
        }),
        "inputState": pa.table({
            "rows": pa.array(arrays, pa.list_(element)), by: [one[1] for one in rows],
            "customer": pa.array(customers, pa.int32()),
        }),
    }  # fmt: skip


def test_rows_by_processing_time_have_the_time_at_which_they_came(tmp_path: Path) -> None:
    rows = as_they_came((7, 0, 2), (None, 5, 1))
    made = filled(PROC_ROWS, rows, tmp_path / "rows")
    assert values(made, "smallestTSState") == {"[7]": 0, "[None]": 5}
    assert values(made, "processedCountState") == {"[7]": 2, "[None]": 1}
    assert "processing timers" not in [state.name for state in made.states]
    made = filled(PROC_RANGE, rows, tmp_path / "range")
    due = {7: HOUR * 3 // 2 + 1, None: HOUR * 3 // 2 + 6}
    assert values(made, "cleanupTsState") == {repr([key]): time for key, time in due.items()}
    timers = made.state("processing timers").to_arrow().to_pylist()
    assert {one["key"]["customer"]: one["timestamp"] for one in timers} == due
    with pytest.raises(InvalidRows, match="has 3 rows that do not wait, and 2 are the most"):
        filled(PROC_ROWS, as_they_came((7, 0, 3)), tmp_path / "more")


def edited(uid: str, change: Callable[[Json], object], release: str = "1.20") -> Json:
    """The plan with another aggregate; `change`: of its groups."""
    found = json.loads(plan(release).read_text())
    (node,) = [copy.deepcopy(one) for one in found["nodes"] if one["id"] == int(uid.split("_")[0])]
    change(node["overSpec"])
    return with_inputs(found, node)


def states(of: Json, uid: str) -> dict[str, NodeState]:
    return {state.name: state for state in node_states(read_plan(of), uid)}


def test_the_time_of_a_partition_is_a_column_of_its_own() -> None:
    found = states(edited(RANGE, lambda spec: spec["partition"].update(fields=[3])), RANGE)
    assert found["inputState"].columns == ("ts", "ts_1", "rows")


def test_minus_zero_is_a_key_of_its_own(tmp_path: Path) -> None:
    of = edited(ROWS, lambda spec: spec["partition"].update(fields=[2]))
    amounts = [0.0, -0.0, float("nan"), float("nan")]
    kept = pa.table({
        "amount": amounts, "ts": pa.array([1, 2, 3, 4], pa.int64()),
        "rows": pa.array([[row(at, 1)] for at in range(4)], pa.list_(KINDS)),
    })  # fmt: skip
    totals = pa.table(
        {"amount": amounts[:3], "count_amount": [1, 1, 2], "row_count": [1, 1, 2], "sum_amount": [0.0] * 3}
    )
    totals = totals.rename_columns(["amount", "count_amount", "row_count", "sum_amount"])
    rows = {"accState": totals, "inputState": kept, "watermark": pa.table({"watermark": [9]})}
    assert values(filled(ROWS, rows, tmp_path, of), "processedCountState") == {"[0.0]": 1, "[-0.0]": 1, "[nan]": 2}


LAG = {"internalName": "$LAG$1", "filterArg": -1, "distinct": False, "type": "BIGINT"}


def lags(*arguments: list[int]) -> Json:
    """An aggregate of LAG, whose constants begin with the fourth column."""

    def change(spec: Json) -> None:
        spec["groups"][0]["aggCalls"] = [LAG | {"argList": one} for one in arguments]
        written = [(2, "INT NOT NULL"), (70, "BIGINT NOT NULL"), ("no", "CHAR(2) NOT NULL"), (-1, "INT NOT NULL")]
        spec["constants"] = [{"kind": "LITERAL", "value": value, "type": type_} for value, type_ in written]

    return edited(UNBOUNDED, change)


def test_the_values_before_are_an_array_without_those_of_a_call_that_are_constants(tmp_path: Path) -> None:
    of = lags([0], [0, 4, 5], [1, 4, 6])
    assert states(of, UNBOUNDED)["accState"].value.columns == (
        "lag_id", "lag_id_constant_0_constant_1", "lag_product_constant_0_constant_2",
    )  # fmt: skip
    rows = by_time()
    rows["accState"] = pa.table({
        "product": ["tea"], "lag_id": [[None, 1]], "lag_id_constant_0_constant_1": [[3, None, 1]],
        "lag_product_constant_0_constant_2": pa.nulls(1),
    })  # fmt: skip
    assert [*values(filled(UNBOUNDED, rows, tmp_path, of), "accState")["['tea']"].values()] == [
        {"offset": 1, "defaultValue": None, "buffer": [None, 1]},
        {"offset": 2, "defaultValue": 70, "buffer": [3, None, 1]},
        {"offset": 2, "defaultValue": "no", "buffer": []},
    ]


def bounds(**parts: Any) -> Callable[[Json], object]:
    return lambda spec: spec["groups"][0].update(parts)


def constant(value: Any, type_: str) -> Callable[[Json], object]:
    return lambda spec: spec["constants"][0].update(value=value, type=type_)


BOUNDS = "the bounds of its frame are no numbers of rows, or days, hours, minutes and seconds"


@pytest.mark.parametrize(
    ("of", "uid", "text"),
    [
        (edited(ROWS, bounds(upperBound={"kind": "UNBOUNDED_FOLLOWING"})), ROWS, BOUNDS),
        (edited(ROWS, bounds(lowerBound=None)), ROWS, BOUNDS),
        (edited(ROWS, constant(-1, "INT NOT NULL")), ROWS, BOUNDS),
        (edited(RANGE, constant("1", "INTERVAL MONTH NOT NULL")), RANGE, BOUNDS),
        (edited(RANGE, constant("1.5", "INTERVAL SECOND(3) NOT NULL")), RANGE, BOUNDS),
        (
            edited(ROWS, bounds(orderBy={"fields": [{"index": 0, "isAscending": True}]})), ROWS,
            "in the order of row time or of processing time",
        ),
        (lags([0, 0]), UNBOUNDED, r"LAG\(id, id\) is filled with an offset and a default that are constants"),
        (lags([0, 7]), UNBOUNDED, "that are constants"),
        (lags([2, 4, 5]), UNBOUNDED, r"LAG\(amount, 2, 70\), with a default of DOUBLE, is not filled"),
    ],
)  # fmt: skip
def test_frames_and_calls_that_are_not_filled(of: Json, uid: str, text: str) -> None:
    with pytest.raises(UnsupportedSnapshot, match=text):
        OperatorBootstrap.from_plan(of, uid, {})


def test_a_frame_of_the_current_row_has_one_row() -> None:
    frame = states(edited(ROWS, bounds(lowerBound={"kind": "CURRENT_ROW"})), ROWS)["inputState"].frame
    assert frame is not None and (frame.rows, frame.millis) == (1, None)
