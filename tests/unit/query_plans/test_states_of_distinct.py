"""What several calls with DISTINCT of one column have seen: a bit for each, or how often each of them has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stateproc.errors import InvalidRows, NotFound, UnsupportedSnapshot
from stateproc.query_plans.node_states import node_states
from stateproc.query_plans.plan_file import read_plan
from tests.unit.query_plans.test_node_states import CHANGING, HOP, call, calling, edited, filled, values

ADDED = "40_group-aggregate"
"""GROUP BY customer, of rows that are only added."""


def counting(filters: list[int], names: list[str] | None = None) -> list[dict[str, Any]]:
    """Calls of COUNT(DISTINCT …) of the second column, with filters by these columns; -1 for none."""
    given = names or [None] * len(filters)
    return [
        call("COUNT", 1, distinct=True) | {"filterArg": one, "name": name}
        for one, name in zip(filters, given, strict=True)
    ]


def of_added(filters: list[int], names: list[str] | None = None) -> Any:
    return edited(lambda node: node.update(aggCalls=counting(filters, names)), ADDED)


def of_changes(filters: list[int], names: list[str] | None = None) -> Any:
    return calling(*counting(filters, names))


def accumulators(plan: Any, uid: str) -> pa.Table:
    key, *rest = node_states(read_plan(plan), uid)[0].columns
    group = ["Rome"] if uid == CHANGING else [1]
    return pa.table({key: group, **{name: [1] for name in rest}})


SEEN = {"dear": [1, 0, 0, 2], "all": [3, 1, 0, 0]}
"""How often two calls have seen the values of a column."""


def test_calls_with_other_filters_have_a_bit_each(tmp_path: Path) -> None:
    plan = of_added([0, -1], ["dear", "all"])
    _, seen, nulls = node_states(read_plan(plan), ADDED)
    assert seen.columns == ("customer", "amount", "dear", "all") and {*seen.columns} == {*nulls.columns}
    rows = pa.table({seen.columns[0]: [1] * 4, seen.columns[1]: [1.5, 2.5, 3.5, None]} | SEEN)
    made = filled(ADDED, {"accState": accumulators(plan, ADDED), "distinctAcc_0": rows}, tmp_path, plan)
    (row,) = made.state("distinctAcc_0").to_arrow().to_pylist()
    assert sorted(row["value"]) == [(1.5, 0b11), (2.5, 0b10)]
    assert values(made, "distinctAcc_0_null_state") == [0b01]


def test_calls_over_changes_have_a_number_each(tmp_path: Path) -> None:
    plan = of_changes([0, -1], ["dear", "all"])
    rows = pa.table({"city": ["Rome"] * 4, "name": ["a", "b", "c", None]} | SEEN)
    made = filled(CHANGING, {"accState": accumulators(plan, CHANGING), "distinctAcc_0": rows}, tmp_path, plan)
    (row,) = made.state("distinctAcc_0").to_arrow().to_pylist()
    assert sorted(row["value"]) == [("a", [1, 3]), ("b", [0, 1])]
    assert values(made, "distinctAcc_0_null_state") == [[2, 0]]


@pytest.mark.parametrize("filters", [[-1, -1], [0, 0]])
def test_calls_with_one_filter_have_one_number(filters: list[int], tmp_path: Path) -> None:
    plan = of_changes(filters)
    rows = pa.table({"city": ["Rome"] * 2, "name": ["a", None], "count": [2, 1]})
    made = filled(CHANGING, {"accState": accumulators(plan, CHANGING), "distinctAcc_0": rows}, tmp_path, plan)
    assert values(made, "distinctAcc_0") == [[2, 2]] and values(made, "distinctAcc_0_null_state") == [[1, 1]]


def test_calls_in_hop_have_seen_each_value_once(tmp_path: Path) -> None:
    plan = edited(lambda node: node.update(aggCalls=counting([-1, -1], ["n", "m"])), HOP)
    window, seen, _ = node_states(read_plan(plan), HOP)
    given: dict[str, Any] = {"product": ["tea"], "slice_end": pa.array([1704067260000], pa.timestamp("ms"))}
    rows = {"watermark": pa.table({"watermark": pa.array([], pa.int64())})}
    for state in (window, seen):
        rows[state.name] = pa.table({name: given.get(name, [1]) for name in state.columns})
    assert values(filled(HOP, rows, tmp_path, plan), "distinctAcc_0") == [[1, 1]]


@pytest.mark.parametrize(
    ("numbers", "error", "text"),
    [
        ({"dear": [1, None]}, InvalidRows, "column 'dear' cannot be null or below 0, and is None in row 1"),
        ({"dear": [1, -1]}, InvalidRows, "'dear' cannot be null or below 0"),
        ({"dear": [0.5, 1]}, InvalidRows, "'dear' has to be whole numbers"),
        ({}, NotFound, "no column 'dear'"),
    ],
)
def test_numbers_that_no_call_has(numbers: dict[str, Any], error: type[Exception], text: str, tmp_path: Path) -> None:
    plan = of_changes([0, -1], ["dear", "all"])
    rows = pa.table({"city": ["Rome"] * 2, "name": ["a", "b"], "all": [1, 1]} | numbers)
    with pytest.raises(error, match=text):
        filled(CHANGING, {"accState": accumulators(plan, CHANGING), "distinctAcc_0": rows}, tmp_path, plan)


def test_more_calls_than_a_number_has_bits_are_refused() -> None:
    with pytest.raises(UnsupportedSnapshot, match="more than 63 calls with DISTINCT of one column"):
        node_states(read_plan(of_added([-1] * 64)), ADDED)
    assert len(node_states(read_plan(of_changes([-1] * 64)), CHANGING)) == 3


def test_calls_are_called_as_in_the_query_or_numbered() -> None:
    _, seen, _ = node_states(read_plan(of_changes([0, -1])), CHANGING)
    assert seen.columns == ("city", "name", "count_name", "count_name_1")
