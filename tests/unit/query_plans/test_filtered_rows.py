"""A normalization of changes that leaves rows out by a filter, as Flink 2 plans it, goes on from one that keeps all.

Real Flink goes on with what is written in tests/integration/flink/test_evolved_queries.py.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter
from stateproc.errors import InvalidOption
from tests.helpers.plan_parts import with_inputs
from tests.helpers.planned_states import planned_job

Json = dict[str, Any]
PLAN: Json = json.loads((planned_job("2.3", "plain").path / "plan.json").read_text())
UID = "269_changelog-normalize"
TEXT = "🍵\0"
ROWS = pa.table({
    "product": ["tea", "mate", "", TEXT, "a", "b", "c", "d"],
    "rate": [1.5, 0.0, -0.0, None, -1.0, float("nan"), 1e308, 5e-324],
})  # fmt: skip
PRODUCT: Json = {"kind": "INPUT_REF", "inputIndex": 0, "type": "VARCHAR(2147483647) NOT NULL"}
RATE: Json = {"kind": "INPUT_REF", "inputIndex": 1, "type": "DOUBLE"}


def literal(value: Any, type_: str) -> Json:
    return {"kind": "LITERAL", "value": value, "type": f"{type_} NOT NULL"}


def call(name: str, *operands: Json, type_: str = "BOOLEAN") -> Json:
    return {"kind": "CALL", "internalName": f"${name}$1", "operands": list(operands), "type": type_}


IS_RATED = call(">", RATE, literal(0, "INT"))
IS_TEA = call("=", PRODUCT, literal("tea", "CHAR(3)"))
# The filter, and what it says of a row.
FILTERS: tuple[tuple[Json, Callable[[str, float | None], bool]], ...] = (
    (IS_RATED, lambda product, rate: rate is not None and rate > 0),
    (call("NOT", IS_RATED), lambda product, rate: rate is not None and not rate > 0),
    (call("IS NULL", RATE), lambda product, rate: rate is None),
    (call("OR", IS_TEA, call("IS NOT TRUE", IS_RATED)), lambda product, rate: product == "tea" or not (rate or 0) > 0),
    (call("=", PRODUCT, literal("💥", "CHAR(1)")), lambda product, rate: False),
    (literal(True, "BOOLEAN"), lambda product, rate: True),
)


def plan(condition: Json | None, lives: str = "0 ms") -> Json:
    """The normalization and what it reads, with a filter and a time to live."""
    (node,) = [copy.deepcopy(node) for node in PLAN["nodes"] if node["id"] == int(UID.partition("_")[0])]
    node["filterCondition"] = condition
    for state in node["state"]:
        state["ttl"] = lives
    return with_inputs(PLAN, {name: value for name, value in node.items() if value is not None})


def filled(folder: Path, lives: str = "0 ms") -> Path:
    writer = SavepointWriter.new_savepoint(None).with_flink_version("2.3")
    writer.with_operator(UID, OperatorBootstrap.from_plan(plan(None, lives), UID, ROWS)).write(folder)
    return folder


def rows_of(folder: Path) -> list[str]:
    state = stateproc.open(folder, plan=plan(None)).operator(UID).state("deduplicate-state")
    return sorted(map(repr, (row["value"] for row in state.to_arrow().to_pylist())))


@pytest.mark.parametrize("lives", ["0 ms", "1 d"])
@pytest.mark.parametrize("number", range(len(FILTERS)))
def test_rows_that_pass_the_filter_stay(number: int, lives: str, tmp_path: Path) -> None:
    condition, passes = FILTERS[number]
    source = filled(tmp_path / "old", lives)
    writer = SavepointWriter.from_existing_savepoint(None, str(source))
    writer.evolve(plan(None, lives), plan(condition, lives))
    assert "rows that do not pass its filter dropped" in str(writer.plan())
    writer.write(tmp_path / "new")
    kept = [row for row in ROWS.to_pylist() if passes(row["product"], row["rate"])]
    assert rows_of(tmp_path / "new") == sorted(map(repr, kept))


def test_a_filter_that_stays_leaves_the_state_as_it_is(tmp_path: Path) -> None:
    source = filled(tmp_path / "old")
    writer = SavepointWriter.from_existing_savepoint(None, str(source))
    writer.evolve(plan(IS_RATED), plan(IS_RATED)).write(tmp_path / "new")
    assert rows_of(tmp_path / "new") == rows_of(source)


@pytest.mark.parametrize("condition", [None, IS_TEA], ids=["none", "another"])
def test_rows_that_were_left_out_do_not_come_back(condition: Json | None, tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(None, str(filled(tmp_path / "old")))
    with pytest.raises(InvalidOption, match="would begin without state: 269_changelog-normalize"):
        writer.evolve(plan(IS_RATED), plan(condition))


def test_a_filter_that_only_flink_computes(tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(None, str(filled(tmp_path / "old")))
    condition = call("LIKE", PRODUCT, literal("t%", "CHAR(2)"))
    message = r"keeps fewer rows than before: its filter has a call of LIKE, and only Flink knows which rows it keeps"
    with pytest.raises(InvalidOption, match=message) as e:
        writer.evolve(plan(None), plan(condition))
    assert f"--empty {UID}" in str(e.value)


def test_which_changes_are_emitted_does_not_decide_what_is_kept(tmp_path: Path) -> None:
    source = filled(tmp_path / "old")
    others = plan(None)
    others["nodes"][-1]["generateUpdateBefore"] = not others["nodes"][-1]["generateUpdateBefore"]
    writer = SavepointWriter.from_existing_savepoint(None, str(source))
    writer.evolve(plan(None), others).write(tmp_path / "new")
    assert rows_of(tmp_path / "new") == rows_of(source)
