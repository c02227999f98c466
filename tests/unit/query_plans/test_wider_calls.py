"""Calls that keep values of a column go on as it becomes wider: in rows of accumulators, in maps and in lists.

Real Flink goes on with what is written in tests/integration/flink/test_evolved_types.py.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter
from stateproc.errors import InvalidOption
from tests.helpers.planned_states import planned_job

READS_EVERY_MODE = False
UID = str(planned_job("2.3", "plain").operator("group_of_changes").uid)
FUNCTIONS = ("MIN", "MAX", "FIRST_VALUE", "LAST_VALUE", "COLLECT", "ARRAY_AGG")


def plan_over(type_: str, *functions: str, taken_back: bool = True) -> dict[str, Any]:
    """The plan of calls over a column of a type, by city."""
    plan: dict[str, Any] = json.loads((planned_job("2.3", "plain").path / "plan.json").read_text())
    (node,) = [one for one in plan["nodes"] if f"{one['id']}_group-aggregate" == UID]
    calls = [
        {"name": None, "internalName": f"${one}$1", "argList": [1], "filterArg": -1, "distinct": False,
         "approximate": False, "ignoreNulls": False, "type": type_}
        for one in functions
    ]  # fmt: skip
    node.update(aggCalls=calls, aggCallNeedRetractions=[taken_back] * len(calls), indexOfCountStar=-1)
    node["needRetraction"] = taken_back
    (edge,) = (edge for edge in plan["edges"] if edge["target"] == node["id"])
    (source,) = (node for node in plan["nodes"] if node["id"] == edge["source"])
    source["outputType"] = re.sub(r"(`name` )VARCHAR\(2147483647\)", rf"\1{type_}", source["outputType"])
    return plan


def rows(values: list[Any], *, taken_back: bool) -> dict[str, pa.Table]:
    """What fills the state: the values, each once, of Rome; of Bern only null."""
    city, null = ["Rome", "Bern"], [values[0], None]
    lists = pa.table({"city": city, "name": [values, None]})
    counts = pa.table({"city": ["Rome"] * len(values), "name": values, "count": [1] * len(values)})
    ends = {f"{one.lower()}_name": null for one in ("MIN", "MAX", "FIRST_VALUE", "LAST_VALUE")}
    ends["array_agg_name"] = [[*values, None], [None]]
    found = {"agg4$map": counts}
    if taken_back:
        ends |= {f"{one}_name_mapSize": [len(values), 0] for one in ("min", "max")} | {"row_count": [9, 1]}
        found |= {"agg0$map": counts, "agg1$map": counts}
        found |= {f"agg{at}$valueToOrderMap": counts for at in (2, 3)}
        found |= {f"agg{at}$orderToValueMap": lists for at in (2, 3)}
    return {"accState": pa.table({"city": city} | ends), **found}


def filled(folder: Path, plan: dict[str, Any], values: list[Any], release: str, *, taken_back: bool) -> str:
    writer = SavepointWriter.new_savepoint(None).with_flink_version(release)
    state = OperatorBootstrap.from_plan(plan, UID, rows(values, taken_back=taken_back))
    return writer.with_operator(UID, state).write(folder)


def contents(snapshot: str) -> dict[str, tuple[str, list[str]]]:
    """The states with their types and rows; entries of maps have no order."""
    found = {}
    for state in stateproc.open(snapshot).operator(UID).states:
        table = state.to_arrow(flatten=True)
        found[state.name] = (f"{state.value_type} {table.schema}", sorted(map(str, table.to_pylist())))
    return found


WIDER = {
    "SMALLINT": ("BIGINT", [-32768, 32767, 0]),
    "DECIMAL(10, 2)": ("DECIMAL(30, 4)", [Decimal("99999999.99"), Decimal("-0.01")]),
    "VARCHAR(4)": ("VARCHAR(2147483647)", ["", "\0", "🍵"]),
    "TIMESTAMP(3)": ("TIMESTAMP(6)", [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999000)]),
}


@pytest.mark.parametrize("taken_back", [True, False])
@pytest.mark.parametrize("release", ["1.20", "2.3"])
@pytest.mark.parametrize("before", WIDER)
def test_state_is_that_of_the_wider_column(before: str, release: str, taken_back: bool, tmp_path: Path) -> None:
    after, values = WIDER[before]
    old, new = (plan_over(one, *FUNCTIONS, taken_back=taken_back) for one in (before, after))
    source = filled(tmp_path / "old", old, values, release, taken_back=taken_back)
    writer = SavepointWriter.from_existing_savepoint(None, source).evolve(old, new)
    assert "LAST_VALUE(name) kept over" in str(writer.plan()) and "ARRAY_AGG(name) kept over" in str(writer.plan())
    wanted = contents(filled(tmp_path / "new", new, values, release, taken_back=taken_back))
    assert contents(writer.write(tmp_path / "evolved")) == wanted
    assert len(wanted) == (8 if taken_back else 2)


@pytest.mark.parametrize(
    ("before", "after"), [("FLOAT", "DOUBLE"), ("INT", "SMALLINT"), ("INT", "INT NOT NULL"), ("DATE", "TIMESTAMP(3)")]
)
def test_values_that_would_not_be_found_again_are_refused(before: str, after: str, tmp_path: Path) -> None:
    old, new = (plan_over(one, "MIN") for one in (before, after))
    none = {
        "accState": pa.table({"city": ["Rome"], "min_name": pa.nulls(1), "min_name_mapSize": [0], "row_count": [1]})
    }
    none["agg0$map"] = pa.table(
        {"city": pa.nulls(0, pa.string()), "name": pa.nulls(0), "count": pa.nulls(0, pa.int64())}
    )
    writer = SavepointWriter.new_savepoint(None).with_flink_version("2.3")
    source = writer.with_operator(UID, OperatorBootstrap.from_plan(old, UID, none)).write(tmp_path / "old")
    with pytest.raises(InvalidOption, match=r"MIN\(name\)|would begin without state"):
        SavepointWriter.from_existing_savepoint(None, source).evolve(old, new)
