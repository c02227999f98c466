"""State of temporal joins that is filled from rows: which rows and versions are kept, and what follows from them.

That Flink goes on with it is shown in tests/integration/flink/test_filled_queries.py.
"""

from __future__ import annotations

import copy
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter
from stateproc.errors import DuplicateKey, InvalidOption, InvalidRows, NotFound, SnapshotError, UnsupportedSnapshot
from tests.helpers.planned_states import planned_job

READS_EVERY_MODE = False
AS_OF = "113_temporal-join"
"""Orders with the rates of their products at their time."""
Json = dict[str, Any]
PLAN = planned_job("1.20", "plain").path / "plan.json"
STAMP = pa.timestamp("ms")


def at(time: int | None) -> datetime | None:
    return None if time is None else datetime(1970, 1, 1) + timedelta(milliseconds=time)


def orders(*rows: tuple[str | None, int | None, int | None]) -> pa.Table:
    """Products, times and numbers of orders."""
    products, times, numbers = ([row[part] for row in rows] for part in range(3))
    columns = pa.array([7] * len(rows), pa.int64()), pa.array(products, pa.string())
    stamps = pa.array([at(time) for time in times], STAMP)
    return pa.table([*columns, stamps, pa.array(numbers, pa.int64())], ["id", "product", "ts", "index"])


def rates(*rows: tuple[str, int], **more: list[str | None]) -> pa.Table:
    """Products and times of versions, whose rates are their numbers."""
    found = {
        "since": pa.array([at(time) for _, time in rows], STAMP),
        "product": pa.array([product for product, _ in rows], pa.string()),
        "rate": pa.array(range(len(rows)), pa.float64()),
    }
    return pa.table(found | more)


def given(left: pa.Table, right: pa.Table, watermark: int | None) -> Json:
    return {"left": left, "right": right, "watermark": pa.table({"watermark": pa.array([watermark], pa.int64())})}


def filled(rows: Json, folder: Path, plan: Any = PLAN) -> Any:
    writer = SavepointWriter.new_savepoint(None).with_operator(AS_OF, OperatorBootstrap.from_plan(plan, AS_OF, rows))
    writer.write(folder / "filled")
    return stateproc.open(folder / "filled", plan=plan, row_kind=True).operator(AS_OF)


def kept(operator: Any, side: str) -> list[tuple[str | None, int]]:
    rows = operator.state(side).to_arrow(flatten=True).to_pylist()
    return sorted(((row["key"]["product"], row["map_key"]) for row in rows), key=repr)


def values(operator: Any, state: str) -> Json:
    column = "timestamp" if "timers" in state else "value"
    return {row["key"]["product"]: row[column] for row in operator.state(state).to_arrow().to_pylist()}


TIMES = [("tea", 10), ("tea", 30), ("tea", -5), ("tea", 20), ("mate", 40)]


@pytest.mark.parametrize(
    ("now", "left", "right", "timers"),
    [
        (None, [0, 1, 2], [-5, 10, 20, 30], -5),
        (-6, [0, 1, 2], [-5, 10, 20, 30], -5),
        (-5, [0, 1, 2], [-5, 10, 20, 30], 10),
        (10, [1, 2], [10, 20, 30], 15),
        (14, [1, 2], [10, 20, 30], 15),
        (15, [1], [10, 20, 30], 20),
        (20, [1], [20, 30], 25),
        (25, [], [20, 30], 30),
        (30, [], [30], None),
        (2**63 - 1, [], [30], None),
    ],
)
def test_rows_wait_for_the_watermark_and_of_versions_one_is_valid(
    now: int | None, left: list[int], right: list[int], timers: int | None, tmp_path: Path
) -> None:
    rows = given(orders(("tea", 10, 0), ("tea", 25, 1), ("tea", 15, 2)), rates(*TIMES), now)
    made = filled(rows, tmp_path)
    assert kept(made, "left") == [("tea", number) for number in left]
    assert kept(made, "right") == [("mate", 40), *(("tea", time) for time in sorted(right))]
    waits = {} if now is not None and now >= 40 else {"mate": 40}
    due = waits | ({} if timers is None else {"tea": timers})
    assert values(made, "timer") == values(made, "event timers") == due
    assert values(made, "next-index") == ({"tea": max(left) + 1} if left else {})


def test_rows_have_their_kind_and_their_values(tmp_path: Path) -> None:
    """A key without a version, or whose version ends, has one of the kind -D."""
    kinds = [None, "+U", "-D"]
    made = filled(given(orders((None, 3, 9)), rates(("tea", 1), ("é", 1), ("tea", 5), row_kind=kinds), 1), tmp_path)
    rows = made.state("right").to_arrow(flatten=True).to_pylist()
    found = [(row["map_value"]["product"], row["map_value"]["rate"], row["map_value"]["row_kind"]) for row in rows]
    assert sorted(found) == [("tea", 0.0, "+I"), ("tea", 2.0, "-D"), ("é", 1.0, "+U")]
    (row,) = made.state("left").to_arrow(flatten=True).to_pylist()
    assert row["map_key"] == 9
    assert row["map_value"] == {"id": 7, "product": None, "ts": at(3), "row_kind": "+I"}
    assert values(made, "timer") == {None: 3, "tea": 5} and values(made, "next-index") == {None: 10}


@pytest.mark.parametrize("form", ["table", "stream"])
def test_rows_come_in_many_batches(form: str, tmp_path: Path) -> None:
    """Versions of 50 products in batches that have parts of them each."""
    many = rates(*((f"p{number % 50}", number) for number in range(1000)))
    own = orders(*((f"p{number % 50}", number + 995, number) for number in range(10)))
    rows = given(own, many, 997)
    for name in ("left", "right"):
        batches = rows[name].to_batches(max_chunksize=3)
        rows[name] = pa.Table.from_batches(batches)
        if form == "stream":
            rows[name] = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    made = filled(rows, tmp_path)
    assert [time for _, time in sorted(kept(made, "right"), key=lambda one: one[1])] == list(range(948, 1000))
    assert {number for _, number in kept(made, "left")} == set(range(3, 10))
    assert values(made, "timer") == {f"p{number}": number + 995 for number in range(3, 10)} | {"p48": 998, "p49": 999}


def test_an_operator_without_rows(tmp_path: Path) -> None:
    made = filled(given(orders(), rates(), None), tmp_path)
    assert kept(made, "left") == kept(made, "right") == [] and values(made, "timer") == {}


@pytest.mark.parametrize(
    ("rows", "error", "text"),
    [
        ({"left": orders(("tea", None, 0))}, InvalidRows, "column 'ts' cannot be null"),
        ({"left": orders(("tea", 5, None))}, InvalidRows, "column 'index' cannot be null or below 0"),
        ({"left": orders(("tea", 5, -1))}, InvalidRows, "column 'index' cannot be null or below 0, and is -1"),
        ({"left": orders(("tea", 5, 0)).drop_columns(["index"])}, NotFound, "no column 'index'"),
        ({"left": orders(("tea", 5, 0), ("tea", 6, 0))}, DuplicateKey, "two entries with the same key"),
        ({"right": rates(("tea", 5), ("tea", 5))}, DuplicateKey, "two entries with the same key"),
        ({"right": rates(("tea", 5), row_kind=["x"])}, SnapshotError, "a row's kind is x"),
        ({"right": rates(("tea", 5)).set_column(0, "since", pa.array(["1"]))}, InvalidOption, "the time of rows is a"),
        ({"watermark": pa.table({"watermark": [1, 2]})}, InvalidOption, "there are 2 rows with a watermark"),
    ],
)
def test_rows_that_a_temporal_join_cannot_have(rows: Json, error: type[Exception], text: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=text):
        filled(given(orders(("tea", 5, 0)), rates(("tea", 5)), 1) | rows, tmp_path)


def edited(**changes: Any) -> Json:
    """The plan with other attributes of the join."""
    made: Json = copy.deepcopy(json.loads(PLAN.read_text()))
    (node,) = [one for one in made["nodes"] if one["id"] == int(AS_OF.split("_")[0])]
    node.update(changes)
    return made


def test_a_join_by_processing_time_is_refused() -> None:
    with pytest.raises(UnsupportedSnapshot, match="a temporal join by processing time"):
        OperatorBootstrap.from_plan(edited(leftTimeAttributeIndex=-1), AS_OF, {})
