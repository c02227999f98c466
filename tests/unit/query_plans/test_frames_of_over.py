"""New calls of OVER: computed of the rows in the frame where rows leave it, from the restore on where none does.

Real Flink goes on with what is written in tests/integration/flink/test_evolved_waiting_rows.py.
"""

from __future__ import annotations

import copy
import json
import warnings
from datetime import datetime
from math import nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter, types
from stateproc.errors import InvalidOption, SnapshotError, UnsupportedSnapshot
from stateproc.query_plans import read_plan
from stateproc.query_plans.state_types import operator_types
from tests.helpers.plan_parts import with_inputs
from tests.helpers.planned_states import planned_job

Json = dict[str, Any]
READS_EVERY_MODE = False
ROWS, RANGE, UNBOUNDED, PROC_ROWS, PROC_RANGE = 241, 244, 247, 261, 264
"""The nodes of OVER: rows and a range by their times, all rows before, and by processing time."""
COLUMNS = {"id": 0, "key": 1, "amount": 2, "ts": 3}
COUNT = {"internalName": "$COUNT$1", "type": "BIGINT NOT NULL"}
SUM = {"internalName": "$$SUM0$1", "type": "BIGINT NOT NULL"}
AVERAGE = {"internalName": "$AVG$1", "type": "BIGINT NOT NULL"}
LEAST = {"internalName": "$MIN$1", "type": "BIGINT NOT NULL"}


def call(function: Json, column: str | None, **others: Any) -> Json:
    over = [] if column is None else [COLUMNS[column]]
    return {"argList": over, "filterArg": -1, "distinct": False, "approximate": False, "ignoreNulls": False,
            "syntax": "FUNCTION_STAR", **function, **others}  # fmt: skip


def plan_of(release: str, number: int, *added: Json, first: bool = False, only: bool = False) -> Json:
    """The aggregate and what it reads, with more calls after its own, or before them; ``only``: without its own."""
    plan = json.loads((planned_job(release, "plain").path / "plan.json").read_text())
    (node,) = [copy.deepcopy(one) for one in plan["nodes"] if one["id"] == number]
    (group,) = node["overSpec"]["groups"]
    own = [] if only else group["aggCalls"]
    group["aggCalls"] = [*added, *own] if first else [*own, *added]
    fields = node["outputType"]["fields"][:4]
    fields += [{"name": f"c{at}", "fieldType": one["type"]} for at, one in enumerate(group["aggCalls"])]
    node["outputType"]["fields"] = fields
    return with_inputs(plan, node)


def writer_of(release: str) -> SavepointWriter:
    return SavepointWriter.from_existing_savepoint(None, str(planned_job(release, "plain").path / "snapshot"))


def accumulators(folder: Path, number: int) -> dict[Any, tuple[Any, ...]]:
    """The buffers of each group."""
    rows = stateproc.open(folder).state(f"{number}_over-aggregate", "accState").to_arrow().to_pylist()
    return {tuple(row["key"].values()): tuple(row["value"].values()) for row in rows}


WANTED = {
    # By their times tea has the orders 1, 3, 4, 6, and mate 2, 5, while 7 waits; the customer 10 has 4, 7 last.
    ROWS: {("tea",): (3, 13, 4, 3, 6.5), ("mate",): (2, 7, 3, 2, 12.0)},
    RANGE: {("tea",): (4, 14, 3, 4, 9.0), ("mate",): (2, 7, 3, 2, 12.0)},
    PROC_ROWS: {(12,): (1, 6, 6, 1, 2.0), (11,): (2, 8, 4, 2, 11.0), (10,): (2, 11, 5, 2, 7.5)},
}
"""COUNT(id), SUM(id), AVG(id), and what there was: COUNT(amount), SUM(amount)."""


@pytest.mark.parametrize("release", ["1.20", "2.3"])
@pytest.mark.parametrize("number", WANTED)
def test_new_calls_are_of_the_rows_in_the_frame(number: int, release: str, tmp_path: Path) -> None:
    calls = [call(COUNT, "id"), call(SUM, "id"), call(AVERAGE, "id")]
    old, new = plan_of(release, number), plan_of(release, number, *calls, first=True)
    writer = writer_of(release).evolve(old, new)
    plan = str(writer.plan())
    assert "COUNT(id) from the rows in its frame, SUM0(id) from the rows in its frame, AVG(id) from the rows" in plan
    assert "new calls computed of the rows in their frames" in plan
    writer.write(tmp_path / "new")
    found = accumulators(tmp_path / "new", number)
    # AVG keeps the sum and the number; the number of all rows comes last.
    assert {key: (one[0], one[1], one[2] // one[3], *one[4:6]) for key, one in found.items()} == WANTED[number]
    assert all(one[-1] == one[0] == one[3] for one in found.values())


UID = f"{ROWS}_over-aggregate"
LEAST_LONG, MOST_LONG = -(2**63), 2**63 - 1
# Key → its last time, and its rows: time, id, amount. What comes after the last time is in no frame yet.
ROWS_OF: dict[str | None, tuple[int, list[tuple[int, int, float | None]]]] = {
    "wraps": (9, [(1, MOST_LONG, None), (2, 1, None), (9, 5, None), (10, 7, 1.0)]),
    "least": (5, [(5, LEAST_LONG, -0.0), (5, -1, None)]),
    "null": (3, [(3, 0, None)]),
    None: (8, [(1, 130, float("nan")), (8, 32768, 1.5)]),
    "": (8, [(7, 2**31, float("inf")), (8, -1, float("-inf"))]),
    "\0🍵": (8, [(8, 7, 0.1), (8, 8, 0.2)]),
}


def made(folder: Path, *, rows: int = 0, last: bool = True, ttl: bool = False) -> Path:
    """A savepoint of an aggregate that keeps such rows; ``rows``: so many more than it has it says that it has."""
    groups = [(key, until, [one for one in many if one[0] <= until], many) for key, (until, many) in ROWS_OF.items()]
    key = pa.array([{"product": one[0]} for one in groups], pa.struct({"product": pa.string()}))
    buffers = [{"f0": sum(one[2] is not None for one in inside), "f1": 0.5, "f2": len(inside) + rows}
               for _, _, inside, _ in groups]  # fmt: skip
    accumulator = pa.struct({"f0": pa.int64(), "f1": pa.float64(), "f2": pa.int64()})
    kept: list[dict[str, Any]] = []
    for text, _, _, many in groups:
        for time in sorted({one[0] for one in many}):
            of_time = [
                {"id": number, "product": text, "amount": amount, "ts": datetime(1970, 1, 1, microsecond=1000 * time)}
                for at, number, amount in many
                if at == time
            ]
            kept.append({"key": {"product": text}, "map_key": time, "map_value": of_time})
    row = {"id": "BIGINT NOT NULL", "product": "STRING", "amount": "DOUBLE", "ts": "TIMESTAMP(3)"}
    arrow = pa.struct({"id": pa.int64(), "product": pa.string(), "amount": pa.float64(), "ts": pa.timestamp("us")})
    rows_table = pa.Table.from_pylist(
        kept, pa.schema({"key": key.type, "map_key": pa.int64(), "map_value": pa.list_(arrow)})
    )
    state = OperatorBootstrap(key_type=types.RowData({"product": "STRING"}))
    state.value_state(
        "accState", pa.table({"key": key, "value": pa.array(buffers, accumulator)}), ttl=ttl,
        type=types.RowData({"f0": "BIGINT", "f1": "DOUBLE", "f2": "BIGINT"}),
    )  # fmt: skip
    state.map_state(
        "inputState", rows_table, map_key="map_key", map_value="map_value", map_key_type=types.LONG,
        map_value_type=types.List(types.RowData(row)),
    )  # fmt: skip
    if last:
        times = pa.table({"key": key, "value": pa.array([one[1] for one in groups], pa.int64())})
        state.value_state("lastTriggeringTsState", times, type=types.LONG)
    SavepointWriter.new_savepoint(None).with_flink_version("2.3").with_operator(UID, state).write(folder)
    return folder


def test_sums_overflow_as_they_do_in_flink(tmp_path: Path) -> None:
    widths = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
    calls = [call(SUM, "id", type=f"{name} NOT NULL") for name in widths] + [call(AVERAGE, "id")]
    calls += [call(COUNT, "ts"), call(COUNT, "key")]
    source = made(tmp_path / "old")
    writer = SavepointWriter.from_existing_savepoint(None, str(source))
    writer.evolve(plan_of("2.3", ROWS), plan_of("2.3", ROWS, *calls)).write(tmp_path / "new")
    found = {key[0]: one for key, one in accumulators(tmp_path / "new", ROWS).items()}
    assert found.keys() == ROWS_OF.keys()
    for key, (until, many) in ROWS_OF.items():
        inside = [one for one in many if one[0] <= until]
        total = sum(one[1] for one in inside)
        wrapped = [(total + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) for bits in widths.values()]
        counts = [len(inside), 0 if key is None else len(inside)]
        # Of COUNT(amount) and SUM(amount), which stay; the sum and the number of AVG; the number of all rows.
        first = [sum(one[2] is not None for one in inside), 0.5]
        assert list(found[key]) == [*first, *wrapped, wrapped[-1], len(inside), *counts, len(inside)], key


def test_sums_of_doubles(tmp_path: Path) -> None:
    """SUM(amount) where COUNT(*) is all that there was."""
    old = plan_of("2.3", ROWS, call(COUNT, "amount"), call(SUM, "id", type="DOUBLE NOT NULL"), only=True)
    new = plan_of("2.3", ROWS, call(SUM, "amount", type="DOUBLE NOT NULL"), call(COUNT, "amount"), only=True)
    source = made(tmp_path / "old")
    SavepointWriter.from_existing_savepoint(None, str(source)).evolve(old, new).write(tmp_path / "new")
    found = {key[0]: one[0] for key, one in accumulators(tmp_path / "new", ROWS).items()}
    wanted: dict[str | None, float] = dict.fromkeys(("wraps", "least", "null"), 0.0)
    assert repr({**wanted, None: nan, "": nan, "\0🍵": 0.1 + 0.2}) == repr(
        {key: found[key] for key in [*wanted, None, "", "\0🍵"]}
    )


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"rows": 1}, UnsupportedSnapshot, "of another number of rows than the frame has"),
        ({"last": False}, UnsupportedSnapshot, "states without a time to live that have its rows"),
        ({"ttl": True}, UnsupportedSnapshot, "states without a time to live that have its rows"),
    ],
)
def test_states_that_do_not_say_what_is_in_the_frame_are_refused(
    options: Json, error: type[SnapshotError], words: str, tmp_path: Path
) -> None:
    writer = SavepointWriter.from_existing_savepoint(None, str(made(tmp_path / "old", **options)))
    writer.evolve(plan_of("2.3", ROWS), plan_of("2.3", ROWS, call(SUM, "id")))
    with pytest.raises(error, match=words):
        writer.write(tmp_path / "new")
    assert not (tmp_path / "new" / "_metadata").exists()


def test_key_groups_and_row_edits_in_the_same_write(tmp_path: Path) -> None:
    old, new = plan_of("2.3", ROWS), plan_of("2.3", ROWS, call(SUM, "id"))
    writer = writer_of("2.3").evolve(old, new).with_max_parallelism(300).with_parallelism(UID, 7)
    writer.write(tmp_path / "new")
    assert {key: one[2] for key, one in accumulators(tmp_path / "new", ROWS).items()} == {("tea",): 13, ("mate",): 7}
    writer = writer_of("2.3").delete_rows(UID, "inputState", "map_key < 0", flatten=True).evolve(old, new)
    with pytest.raises(InvalidOption, match="changed in the write that computes new calls"):
        writer.write(tmp_path / "both")


@pytest.mark.parametrize(
    ("number", "added", "words"),
    [
        # Nothing says which rows wait.
        (PROC_RANGE, call(COUNT, "id"), r"COUNT\(id\) .* cannot begin .*: rows from before leave the frame later"),
        (ROWS, call(SUM, "id", type="DECIMAL(38, 0) NOT NULL"), "rows from before leave the frame later"),
        (ROWS, call(COUNT, "id", distinct=True), "rows from before leave the frame later"),
        # All values in the frame are kept for these.
        (ROWS, call(LEAST, "id"), rf"would begin without state: {ROWS}_over-aggregate"),
        # Of all rows there are, it would be of some.
        (UNBOUNDED, call(SUM, "id"), r"have calls that the old query did not compute: SUM0\(id\)"),
    ],
)
def test_calls_of_rows_that_are_not_there_are_refused(number: int, added: Json, words: str) -> None:
    options: Json = {} if number == UNBOUNDED else {"new_aggregates": "empty"}
    with pytest.raises(InvalidOption, match=words):
        writer_of("2.3").evolve(plan_of("2.3", number), plan_of("2.3", number, added), **options)


def test_calls_begin_where_no_row_leaves_the_frame(tmp_path: Path) -> None:
    old, new = plan_of("2.3", UNBOUNDED), plan_of("2.3", UNBOUNDED, call(SUM, "id"), call(LEAST, "id"))
    writer = writer_of("2.3").evolve(old, new, new_aggregates="empty")
    assert "SUM0(id) from now on, MIN(id) from now on" in str(writer.plan())
    writer.write(tmp_path / "new")
    wanted = {("tea",): (4, 9.0, 4, 0, None), ("mate",): (2, 12.0, 2, 0, None)}
    assert accumulators(tmp_path / "new", UNBOUNDED) == wanted


@pytest.mark.parametrize("release", ["1.20", "2.3"])
def test_ranks_have_buffers_of_their_own(release: str, tmp_path: Path) -> None:
    """RANK has the number of rows beside the rank, which DENSE_RANK does not need (RankLikeAggFunctionBase)."""
    functions = ("DENSE_RANK", "RANK", "ROW_NUMBER")
    added = [call({"internalName": f"${one}$1", "type": "BIGINT NOT NULL"}, None) for one in functions]
    plan, uid = plan_of(release, UNBOUNDED, *added, only=True), f"{UNBOUNDED}_over-aggregate"
    names = {f"f{at}": "BIGINT" for at in range(4)}
    rows = pa.table({"key": [{"product": "tea"}], "value": [{"f0": 2, "f1": 4, "f2": 5, "f3": 6}]})
    state = OperatorBootstrap(key_type=types.RowData({"product": "STRING"}))
    state.value_state("accState", rows, type=types.RowData(names))
    SavepointWriter.new_savepoint(None).with_flink_version(release).with_operator(uid, state).write(tmp_path / "one")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (row,) = stateproc.open(tmp_path / "one", plan=plan).state(uid, "accState").to_arrow().to_pylist()
    assert row["value"] == {"dense_rank": 2, "rank": 4, "rank_order": 5, "row_number": 6}
    (types_of,) = [one for one in operator_types(read_plan(plan), uid).states if one.name == "accState"]
    assert types_of.value == types.RowData(names)
