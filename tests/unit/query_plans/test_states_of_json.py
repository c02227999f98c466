"""What JSON_ARRAYAGG and JSON_OBJECTAGG keep: JSON texts in a list, or by name in a map."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stateproc.errors import InvalidRows
from stateproc.query_plans.node_states import node_states
from stateproc.query_plans.plan_file import read_plan
from tests.unit.query_plans.test_node_states import CHANGING, call, calling, filled


def written(function: str, rows: dict[str, Any], folder: Path) -> list[Any]:
    """What the state of the only call has of Rome; the second column has the names."""
    plan = calling(call(function, 1, 0) | {"name": "all"})
    _, state = node_states(read_plan(plan), CHANGING)
    groups = pa.table({"city": ["Rome"], "row_count": [2]})
    made = filled(CHANGING, {"accState": groups, state.name: pa.table(rows)}, folder, plan)
    return [one for row in made.state(state.name).to_arrow().to_pylist() for one in row["value"]]


@pytest.mark.parametrize("nulls", ["NULL", "ABSENT"])
def test_arrays_are_lists_of_texts(nulls: str, tmp_path: Path) -> None:
    rows = {"city": ["Rome"], "all": [["1", "null", '"a"']]}
    assert written(f"JSON_ARRAYAGG_{nulls}_ON_NULL", rows, tmp_path) == ["1", "null", '"a"']


@pytest.mark.parametrize(("nulls", "kept"), [("NULL", [("a", "1"), ("b", "")]), ("ABSENT", [("a", "1")])])
def test_objects_are_maps_of_texts(nulls: str, kept: list[Any], tmp_path: Path) -> None:
    rows = {"city": ["Rome"] * 2, "name": ["a", "b"], "all": ["1", None]}
    assert sorted(written(f"JSON_OBJECTAGG_{nulls}_ON_NULL", rows, tmp_path)) == kept


def test_names_of_objects_are_not_null(tmp_path: Path) -> None:
    with pytest.raises(InvalidRows, match="column 'name' cannot be null"):
        written(
            "JSON_OBJECTAGG_NULL_ON_NULL", {"city": ["Rome"], "name": pa.nulls(1, pa.string()), "all": ["1"]}, tmp_path
        )
