"""TopN of other ranks and strategies: which state is made of which, and what is in it.

Real Flink goes on with what is written in tests/integration/flink/test_evolved_ranks.py.
"""

from __future__ import annotations

import copy
import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter, types
from stateproc.errors import InvalidOption, UnsupportedSnapshot
from stateproc.query_plans.plan_file import PlanNode, read_plan
from stateproc.query_plans.rank_order import (
    ADDED_ROWS,
    ALL_ROWS,
    FIRST_ROW,
    NUMBER_OF_ROWS,
    NUMBERS_OF_ALL_ROWS,
    REPLACED_ROWS,
    missing_ranks,
    rows_state,
)
from stateproc.serializers import Serializer
from tests.helpers.plan_parts import with_inputs
from tests.helpers.planned_states import planned_job

Json = dict[str, Any]
PLAN: Json = json.loads((planned_job("2.3", "plain").path / "plan.json").read_text())
NUMBER, UID = 158, "158_rank"
"""TopN by the numbers of a product's customers, the largest first."""
ADDED, REPLACED, RETRACTED = {"type": "AppendFast"}, {"type": "UpdateFast", "primaryKeys": [0, 1]}, {"type": "Retract"}
STRATEGIES: dict[str, Json] = {ALL_ROWS: RETRACTED, ADDED_ROWS: ADDED, REPLACED_ROWS: REPLACED, FIRST_ROW: ADDED}
MADE = {(ALL_ROWS, name) for name in STRATEGIES} | {(name, FIRST_ROW) for name in STRATEGIES}
MADE |= {(ADDED_ROWS, ADDED_ROWS), (REPLACED_ROWS, REPLACED_ROWS)}
"""State → the states that are made of it."""
# Product → the customers and their numbers by their ranks: those of one number as they came.
RANKS: dict[str, list[tuple[int, int]]] = {
    "tea": [(4, 9), (-5, 7), (1, 7), (3, 7), (2, -(2**63))],
    "\0🍵": [(2**63 - 1, 1)],
    "": [(2, 0), (1, 0)],
}


def ranked(strategy: Json, last: int, first: int = 1, **changed: Any) -> Json:
    (node,) = (copy.deepcopy(node) for node in PLAN["nodes"] if node["id"] == NUMBER)
    node |= {"rankStrategy": strategy, "outputRowNumber": False, **changed}
    node["rankRange"] |= {"start": first, "end": last}
    return with_inputs(PLAN, node)


def rank_of(plan: Json) -> PlanNode:
    return next(node for node in read_plan(plan).nodes if node.id == NUMBER)


def plans_of(was: str, now: str) -> tuple[Json, Json]:
    """TopN with the one state, of three rows where it has more than one, and with the other one, of two."""
    lasts = [1 if state == FIRST_ROW else last for state, last in ((was, 3), (now, 2))]
    old, new = (ranked(STRATEGIES[state], last) for state, last in zip((was, now), lasts, strict=True))
    return old, new


def written(folder: Path, state: str, ranks: dict[str, list[tuple[int, int]]] = RANKS) -> Path:
    """A savepoint of TopN in which such rows are, in another order than that of their ranks."""
    names = [field.name for field in types_of(rank_of(ranked(REPLACED, 2)))]
    row = types.RowData(dict(zip(names, ("STRING", "BIGINT", "BIGINT NOT NULL"), strict=True)))
    fields = [pa.field(name, type_) for name, type_ in zip(names, (pa.string(), pa.int64(), pa.int64()), strict=True)]
    key = pa.struct([("product", pa.string())])
    made = OperatorBootstrap(key_type=types.RowData({"product": "STRING"}))
    entries: list[Json] = []
    for product, sorted_rows in ranks.items():
        many = itertools.groupby(sorted_rows, lambda one: one[1])
        for number, of_one in ((number, list(rows)) for number, rows in many):
            rows = [dict(zip(names, (product, customer, number), strict=True)) for customer, _ in of_one]
            if state == REPLACED_ROWS:
                entries += [
                    {"key": {"product": product}, "map_key": {"p": product, "c": one[names[1]]}, "map_value": (one, at)}
                    for at, one in enumerate(rows, 1)
                ]
            else:
                entries.append({"key": {"product": product}, "map_key": {"n": number}, "map_value": rows})
    keys: Serializer
    if state == REPLACED_ROWS:
        entries = [{**one, "map_value": dict(zip(("f0", "f1"), one["map_value"], strict=True))} for one in entries]
        stored: Any = types.Tuple(row, types.INT)
        value: Any = pa.struct([("f0", pa.struct(fields)), ("f1", pa.int32())])
        keys, map_key = (
            types.RowData({"p": "STRING", "c": "BIGINT"}),
            pa.struct([("p", pa.string()), ("c", pa.int64())]),
        )
    else:
        stored, value = types.List(row), pa.list_(pa.struct(fields))
        keys, map_key = types.RowData({"n": "BIGINT NOT NULL"}), pa.struct([("n", pa.int64())])
    schema = pa.schema({"key": key, "map_key": map_key, "map_value": value})
    table = pa.Table.from_pylist(entries[::-1], schema)
    made.map_state(
        state, table, map_key="map_key", map_value="map_value", map_key_type=keys, map_value_type=stored
    )  # fmt: skip
    if state == ALL_ROWS:
        made.value_state(NUMBERS_OF_ALL_ROWS, pa.table({"key": pa.array([], key), "value": pa.array([], pa.int64())}),
                         type=types.LONG)  # fmt: skip
    SavepointWriter.new_savepoint(None).with_flink_version("2.3").with_operator(UID, made).write(folder)
    return folder


def types_of(node: PlanNode) -> list[pa.Field]:
    return [pa.field(name, pa.null()) for name in node.input()]


def evolved(source: Path, target: Path, plans: tuple[Json, Json]) -> stateproc.Snapshot:
    writer = SavepointWriter.from_existing_savepoint(None, str(source))
    writer.evolve(*plans, emitted="keep").with_max_parallelism(300)
    states = [rows_state(rank_of(plan)) for plan in plans]
    assert (f"{states[0]} as {states[1]}" in str(writer.plan())) is (states[0] != states[1])
    writer.write(target)
    return stateproc.open(target)


@pytest.mark.parametrize(("was", "now"), [*itertools.product(STRATEGIES, STRATEGIES)])
def test_a_state_is_made_of_those_that_have_all_of_it(was: str, now: str, tmp_path: Path) -> None:
    plans = plans_of(was, now)
    assert tuple(rows_state(rank_of(plan)) for plan in plans) == (was, now)
    missing = missing_ranks(rank_of(plans[0]), rank_of(plans[1]), (0, 1, 2))
    assert (missing is None) is ((was, now) in MADE), missing
    if missing is not None or was == FIRST_ROW:
        return
    last = 1 if now == FIRST_ROW else 10 if was == now == ALL_ROWS else 2
    found = evolved(written(tmp_path / "old", was), tmp_path / "new", plans).operator(UID)
    assert NUMBERS_OF_ALL_ROWS not in [state.name for state in found.states] or now == ALL_ROWS
    rows = found.state(now).to_arrow(flatten=now != FIRST_ROW).to_pylist()
    shown: dict[str, list[tuple[Any, ...]]] = {}
    for one in rows:
        values = (
            [one["value"]]
            if now == FIRST_ROW
            else [one["map_value"]["f0"]]
            if now == REPLACED_ROWS
            else one["map_value"]
        )
        for value in values:
            product, customer, number = value.values()
            assert product == one["key"]["f0"]
            extra: tuple[Any, ...] = ()
            if now == REPLACED_ROWS:
                assert [*one["map_key"].values()] == [product, customer]
                extra = (one["map_value"]["f1"],)
            shown.setdefault(product, []).append((customer, number, *extra))
    wanted = {product: [*of_one[:last]] for product, of_one in RANKS.items()}
    if now == REPLACED_ROWS:
        wanted = {
            product: [(*row, 1 + sum(other[1] == row[1] for other in of_one[:at])) for at, row in enumerate(of_one)]
            for product, of_one in wanted.items()
        }  # type: ignore[misc]
    assert {product: sorted(of_one) for product, of_one in shown.items()} == {
        product: sorted(of_one) for product, of_one in wanted.items()
    }


@pytest.mark.parametrize(("was", "now"), [(ADDED_ROWS, ALL_ROWS), (REPLACED_ROWS, ADDED_ROWS), (FIRST_ROW, ADDED_ROWS)])
def test_what_a_state_does_not_have_is_refused(was: str, now: str, tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(None, str(written(tmp_path / "old", ADDED_ROWS)))
    words = "has no rows of rank 2" if was == FIRST_ROW else f"needs more than those of its ranks.*all that {was} has"
    with pytest.raises(InvalidOption, match=words) as error:
        writer.evolve(*plans_of(was, now), emitted="keep")
    assert f"--empty {UID}" in str(error.value)
    # The numbers go on, and change: with TopN they begin as well.
    writer.evolve(*plans_of(was, now), emitted="keep", empty=["156_group-aggregate", UID])


def test_other_ranks_of_rows_that_are_replaced_have_to_be_found_by_the_same_key(tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(None, str(written(tmp_path / "old", REPLACED_ROWS)))
    other = ranked({**REPLACED, "primaryKeys": [1, 0]}, 2)
    with pytest.raises(InvalidOption, match="its rows have another unique key"):
        writer.evolve(ranked(REPLACED, 3), other, emitted="keep")


def test_by_processing_time_only_the_number_of_rows_is_kept() -> None:
    """AppendOnlyFirstNFunction. Fewer go on, as no more than these were counted."""
    plans = [ranked(ADDED, last, orderBy={"fields": [{"index": 1, "isAscending": True}]}) for last in (3, 2, 4, 1)]
    for plan in plans:
        plan["nodes"][-2]["outputType"] = {
            "type": "ROW",
            "fields": [{"name": name, "fieldType": "BIGINT"} for name in ("product", "customer", "n")],
        }
        plan["nodes"][-2]["outputType"]["fields"][1]["fieldType"] = {
            "type": "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "precision": 3, "kind": "PROCTIME",
        }  # fmt: skip
    old, fewer, more, one = map(rank_of, plans)
    assert {rows_state(node) for node in (old, fewer, more, one)} == {NUMBER_OF_ROWS}
    assert missing_ranks(old, fewer, (0, 1, 2)) is None
    assert "has no rows of rank 4" in str(missing_ranks(old, more, (0, 1, 2)))
    by_rows = rank_of(ranked(RETRACTED, 3))
    assert "only their number" in str(missing_ranks(old, by_rows, (0, 1, 2)))
    assert missing_ranks(by_rows, old, (0, 1, 2)) is not None


def test_a_number_twice_has_no_order(tmp_path: Path) -> None:
    """0.0 and -0.0 have one place, and rows with each their own numbers; so have two rows that a damaged state has."""
    source = written(tmp_path / "old", REPLACED_ROWS, {"a": [(1, 5), (2, 6), (3, 5)]})
    with pytest.raises(UnsupportedSnapshot, match="which Flink does not distinguish"):
        evolved(source, tmp_path / "new", (ranked(REPLACED, 3), ranked(REPLACED, 2)))
