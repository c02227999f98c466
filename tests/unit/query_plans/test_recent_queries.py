"""Rows of operators since Flink 2.1: joins of several inputs, OVER by columns that are no times, table functions."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc import SavepointWriter
from stateproc.errors import InvalidOption
from tests.helpers.planned_states import customers, in_order, only, orders, payments, planned_job, shops

Row = dict[str, Any]


def ordered(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=in_order)


# --- joins of several inputs -----------------------------------------------------------------------------


def test_inputs_without_a_unique_key_are_kept_by_their_rows() -> None:
    job = planned_job("2.3", "multi-join")
    ids = [{"key": only(row, "id"), "map_key": only(row, "id"), "map_value": 1} for row in orders()]
    assert job.rows("multi_join", "multi-join-input-0") == ordered(ids)
    paid = [
        {
            "key": {"id": row["order_id"]},
            "map_key": {
                "join_key": {"order_id_key": row["order_id"]},
                "record": only(row, "order_id", "payer"),
            },
            "map_value": 1,
        }
        for row in payments()
    ]
    assert job.rows("multi_join", "multi-join-input-1") == ordered(paid)


def test_a_unique_key_within_the_joined_columns_is_left_out() -> None:
    job = planned_job("2.3", "multi-join")
    named = [
        {"key": {"id": row["customer"]}, "map_key": only(row, "customer"), "map_value": only(row, "customer", "name")}
        for row in customers()
    ]
    assert job.rows("multi_join", "multi-join-input-2") == ordered(named)
    people: dict[str, int] = defaultdict(int)
    for row in customers():
        people[row["city"]] += 1
    counted = [
        {"key": {"city": city}, "map_key": {"city": city}, "map_value": {"city": city, "people": count}}
        for city, count in people.items()
    ]
    assert job.rows("multi_join_keys", "multi-join-input-2") == ordered(counted)


def test_inputs_with_a_unique_key_are_kept_by_it() -> None:
    job = planned_job("2.3", "multi-join")
    first = [{"key": only(row, "city"), "map_key": only(row, "customer"), "map_value": row} for row in customers()]
    assert job.rows("multi_join_keys", "multi-join-input-0") == ordered(first)
    second = [
        {
            "key": only(row, "city"),
            "map_key": {"join_key": {"city_key": row["city"]}, "unique_key": only(row, "shop")},
            "map_value": only(row, "shop", "city"),
        }
        for row in shops()
    ]
    assert job.rows("multi_join_keys", "multi-join-input-1") == ordered(second)


# --- OVER (… ORDER BY a column that is no time) ----------------------------------------------------------


def grouped(column: str) -> dict[Any, list[Row]]:
    """The orders by a column."""
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in orders():
        groups[row[column]].append(row)
    return groups


FIRST_ID = -(2**63)


def test_over_a_range_of_values() -> None:
    job = planned_job("2.3", "recent")
    accumulators, lists = [], []
    for product, rows in grouped("product").items():
        for quantity in sorted({row["quantity"] for row in rows}):
            until = [row for row in rows if row["quantity"] <= quantity]
            sums = {
                "count_amount": len(until),
                "sum_amount": sum(row["amount"] for row in until),
                "count_quantity": len(until),
                "sum_quantity": sum(row["quantity"] for row in until),
            }
            accumulators.append({"key": {"product": product}, "map_key": {"quantity": quantity}, "map_value": sums})
        ids = {quantity: [] for quantity in sorted(row["quantity"] for row in rows)}  # type: dict[int, list[int]]
        for number, row in enumerate(rows):
            ids[row["quantity"]].append(FIRST_ID + number)
        entries = [{"sort_key": {"quantity": quantity}, "ids": found} for quantity, found in ids.items()]
        lists.append({"key": {"product": product}, "value": entries})
    assert job.rows("over_amounts", "accMapState") == ordered(accumulators)
    assert job.rows("over_amounts", "sortedListState") == ordered(lists)


def test_over_rows_in_the_order_of_values() -> None:
    job = planned_job("2.3", "recent")
    accumulators, kept = [], []
    for customer, rows in grouped("customer").items():
        numbered = [(FIRST_ID + number, row) for number, row in enumerate(rows)]
        total = 0.0
        for count, (number, row) in enumerate(sorted(numbered, key=lambda item: item[1]["amount"]), 1):
            total += row["amount"]
            sums = {"count_amount": count, "sum_amount": total}
            accumulators.append({"key": {"customer": customer}, "map_key": {"id": number}, "map_value": sums})
        for number, row in numbered:
            value = only(row, "id", "customer", "amount")
            kept.append({"key": {"customer": customer}, "map_key": number, "map_value": value})
    assert job.rows("over_amounts_rows", "accMapState") == ordered(accumulators)
    assert job.rows("over_amounts_rows", "valueMapState") == ordered(kept)


# --- process table functions -----------------------------------------------------------------------------


def test_rows_that_wait_for_a_table_function() -> None:
    """The function has the uid that its call gives it; its own state has the fields that only its class knows."""
    job = planned_job("2.3", "recent")
    operator = job.snapshot.operator("orders-in-order")
    newest = max(orders(), key=itemgetter("ts"))
    (entry,) = operator.state("input-sort-buffer-data-0").to_arrow(flatten=True).to_pylist()
    assert entry["key"] == {"product": newest["product"]}
    (row,) = entry["map_value"]
    assert row == newest | {"proc": None}
    counts = {row["key"]["product"]: row["value"] for row in operator.state("count").to_arrow().to_pylist()}
    assert counts == {"tea": {"f0": 4}, "mate": {"f0": 2}}
    (timer,) = operator.timers("event").to_arrow().to_pylist()
    assert timer["key"] == {"product": newest["product"]}


def _edited(plan: str, *texts: tuple[str, str], of_tables: bool = False) -> str:
    """The plan with other texts in the types of what nodes return."""
    made = json.loads(plan)
    for node in made["nodes"]:
        if of_tables or "scanTableSource" not in node:
            for before, after in texts:
                node["outputType"] = json.loads(json.dumps(node["outputType"]).replace(before, after))
    return json.dumps(made)


def _keys(path: Path, state: str) -> list[tuple[str, Any]]:
    """The types of a state's keys of maps, and their values with numbers or rows."""
    found = stateproc.open(path).operator("15_multi-join").state(state)
    rows = found.to_arrow(flatten=True)
    return [(str(rows.schema.field("map_key").type), row["map_value"]) for row in rows.to_pylist()]


def test_rows_in_keys_have_the_names_that_the_new_plan_gives(tmp_path: Path) -> None:
    """Flink does not read rows in keys by another name of their columns."""
    job = planned_job("2.3", "multi-join")
    plan = (job.path / "plan.json").read_text()
    writer = SavepointWriter.from_existing_savepoint(None, str(job.path / "snapshot"))
    new = _edited(plan, ("`order_id`", "`of`"), ("`payer`", "`who`"))
    writer.evolve(plan, new).write(tmp_path / "new")
    before, after = (_keys(path, "multi-join-input-1") for path in (job.path / "snapshot", tmp_path / "new"))
    assert "order_id_key" in before[0][0] and len(before) > 1
    assert [(one.replace("order_id", "of").replace("payer", "who"), many) for one, many in before] == after
    (name,) = {one for one, _ in after}
    assert name == "struct<f0: struct<of_key: int64>, f1: struct<of: int64, who: string>>"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("`order_id` BIGINT", "`order_id` INT", "finds its state by order_id, which was BIGINT and is INT"),
        ("`customer` BIGINT", "`customer` INT", "finds its state by customer, which was BIGINT NOT NULL and is INT"),
        ("`payer` VARCHAR(2147483647)", "`payer` VARCHAR(3)", "payer was STRING and is VARCHAR"),
    ],
)
def test_types_by_which_a_multi_join_finds_and_holds_rows(before: str, after: str, words: str) -> None:
    job = planned_job("2.3", "multi-join")
    plan = (job.path / "plan.json").read_text()
    writer = SavepointWriter.from_existing_savepoint(None, str(job.path / "snapshot"))
    with pytest.raises(InvalidOption, match=words):
        writer.evolve(plan, _edited(plan, (before, after), of_tables=True))
