"""Narrower bounds of interval joins and of a RANGE of OVER: state stays as it is; wider ones are refused.

Real Flink goes on with it in tests/integration/flink/test_evolved_bounds.py.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc import SavepointWriter
from stateproc.errors import InvalidOption
from tests.helpers.plan_parts import with_inputs
from tests.helpers.planned_states import planned_job

Json = dict[str, Any]
JOB = planned_job("2.3", "plain").path
PLAN: Json = json.loads((JOB / "plan.json").read_text())
JOINS = [node["id"] for node in PLAN["nodes"] if node["type"].startswith("stream-exec-interval-join")]
FRAMES = [
    node["id"]
    for node in PLAN["nodes"]
    if node["type"].startswith("stream-exec-over")
    and not node["overSpec"]["groups"][0]["isRows"]
    and node["overSpec"]["constants"]
]
ROWS = [
    node["id"]
    for node in PLAN["nodes"]
    if node["type"].startswith("stream-exec-over")
    and node["overSpec"]["groups"][0]["isRows"]
    and node["overSpec"]["constants"]
]


def bounded(number: int, lower: int, upper: int = 0, kind: str = "INNER") -> Json:
    """The node with such bounds in milliseconds, or of so many rows."""
    (node,) = (copy.deepcopy(node) for node in PLAN["nodes"] if node["id"] == number)
    if "overSpec" in node:
        (constant,) = node["overSpec"]["constants"]
        constant["value"] = type(constant["value"])(-lower)
    else:
        node["intervalJoinSpec"]["joinSpec"]["joinType"] = kind
        node["intervalJoinSpec"]["windowBounds"] |= {"leftLowerBound": lower, "leftUpperBound": upper}
    return with_inputs(PLAN, node)


def writer() -> SavepointWriter:
    return SavepointWriter.from_existing_savepoint(None, str(JOB / "snapshot"))


def uid_of(number: int) -> str:
    return f"{number}_{'interval-join' if number in JOINS else 'over-aggregate'}"


@pytest.mark.parametrize("number", [*JOINS, *FRAMES])
def test_narrower_bounds_keep_the_state(number: int, tmp_path: Path) -> None:
    plans = bounded(number, -3_600_000), bounded(number, -60_000)
    with pytest.raises(InvalidOption, match="was rows of -3600000 to 0 ms and is rows of -60000 to 0 ms, so that") as e:
        writer().evolve(*plans)
    assert "--emitted keep" in str(e.value) and f"--empty {uid_of(number)}" in str(e.value)
    made = writer().evolve(*plans, emitted="keep")
    assert "rows of -3600000 to 0 ms → rows of -60000 to 0 ms (what was emitted of rows beyond stays)" in str(
        made.plan()
    )
    made.write(tmp_path / "new")
    both = [stateproc.open(one).operator(uid_of(number)) for one in (JOB / "snapshot", tmp_path / "new")]
    names = [[state.name for state in one.states] for one in both]
    assert names[0] == names[1] != []
    for name in names[0]:
        old, new = (one.state(name).to_arrow() for one in both)
        assert old.equals(new), name


@pytest.mark.parametrize("number", [*JOINS, *FRAMES])
def test_wider_bounds_are_refused(number: int) -> None:
    with pytest.raises(InvalidOption, match="rows that are in these bounds have left its state") as e:
        writer().evolve(bounded(number, -60_000), bounded(number, -60_001), emitted="keep")
    assert f"--empty {uid_of(number)}" in str(e.value)
    assert "starts empty" in str(
        writer().evolve(bounded(number, -60_000), bounded(number, -60_001), empty=[uid_of(number)]).plan()
    )


@pytest.mark.parametrize(("lower", "upper"), [(-60_000, 1), (-60_001, 0), (0, 60_000)])
def test_bounds_have_to_be_narrower_on_both_sides(lower: int, upper: int) -> None:
    with pytest.raises(InvalidOption, match="have left its state"):
        writer().evolve(bounded(JOINS[0], -60_000), bounded(JOINS[0], lower, upper), emitted="keep")


def test_bounds_without_a_time_between_them_are_none() -> None:
    """Flink has no state for them."""
    with pytest.raises(InvalidOption, match=f"would begin without state: {JOINS[0]}_interval-join"):
        writer().evolve(bounded(JOINS[0], -60_000), bounded(JOINS[0], 5, 4), emitted="keep")


def test_a_row_of_an_outer_join_keeps_its_partner() -> None:
    plans = bounded(JOINS[0], -60_000, kind="LEFT"), bounded(JOINS[0], -1, kind="LEFT")
    plan = str(writer().evolve(*plans, emitted="keep").plan())
    assert "a row that had a partner there is not emitted without one" in plan


@pytest.mark.parametrize("number", ROWS)
def test_a_frame_gets_one_row_more(number: int) -> None:
    """That is what its state has between two rows."""
    for before, after, words in ((3, 1, "loses one row for each that comes"), (1, 3, "have left its state")):
        with pytest.raises(InvalidOption, match=words):
            writer().evolve(bounded(number, -before), bounded(number, -after), emitted="keep")
    with pytest.raises(InvalidOption, match="was the last 1 row before each and is the last 2 rows before each, so"):
        writer().evolve(bounded(number, -1), bounded(number, -2))
    plan = str(writer().evolve(bounded(number, -1), bounded(number, -2), emitted="keep").plan())
    assert "the last 1 row before each → the last 2 rows before each (what was emitted of fewer rows stays)" in plan


@pytest.mark.parametrize("number", FRAMES)
def test_months_are_no_milliseconds(number: int) -> None:
    """A day is less than a month, whose number is 1."""
    days, months = bounded(number, -86_400_000), bounded(number, -1)
    for node in months["nodes"]:
        for constant in node.get("overSpec", {}).get("constants", []):
            constant["type"] = "INTERVAL MONTH(2) NOT NULL"
    with pytest.raises(InvalidOption, match=f"would begin without state: {number}_over-aggregate"):
        writer().evolve(days, months, emitted="keep")
