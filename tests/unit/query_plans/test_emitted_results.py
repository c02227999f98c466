"""Nodes that keep the same rows and emit others: joins of another type, TopN of another number, other rows of each key.

Rows of joins keep, get or lose the numbers of their partners. States of the old type are filled from rows by its plan,
and those of the new one, too: `evolve` makes these of those. Real Flink goes on with what is written in
tests/integration/flink/test_evolved_results.py.
"""

from __future__ import annotations

import copy
import itertools
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter, types
from stateproc.errors import CorruptSnapshot, InvalidOption, SnapshotError, UnsupportedSnapshot
from stateproc.query_plans.join_types import OUTER
from stateproc.query_plans.plan_file import read_plan
from stateproc.query_plans.plan_matching import matched_plans
from tests.helpers.plan_parts import with_inputs
from tests.helpers.planned_states import planned_job

Json = dict[str, Any]
PLAN: Json = json.loads((planned_job("2.3", "plain").path / "plan.json").read_text())
TYPES = ("INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI")
TEXT = "🍵\0"
# Join → the column of its left input by which it joins, that of the right one, and the rows of both. Rows that are
# found by all of their columns have numbers.
JOINS: dict[str, tuple[str, str, pa.Table, pa.Table]] = {
    "61_join": (
        "id",
        "order_id",
        pa.table({"id": [1, 2, 3, -(2**63)], "count": [2, 1, 1, 3]}),
        pa.table({
            "order_id": [1, 1, 3, 8, 9], "payer": ["card", "cash", None, TEXT, ""],
            "paid": [0.5, -0.0, None, 1.0, float("nan")], "count": [1, 2, 7, 1, 1],
        }),
    ),
    "71_join": (
        "customer",
        "customer",
        pa.table({"id": [1, 2, 3, 4, 5], "customer": [7, 7, None, 8, 9], "count": [1, 4, 1, 1, 1]}),
        pa.table({"customer": [7, 9, 2**63 - 1], "name": ["Ada", None, TEXT]}),
    ),
    "47_join": (
        "city",
        "city",
        pa.table({"customer": [1, 2, 3, 4], "name": ["Ada", None, "", TEXT], "city": ["Rome", TEXT, None, "Rome"]}),
        pa.table({"shop": [1, 2, 3, 4], "city": ["Rome", "Rome", None, "Oslo"]}),
    ),
}  # fmt: skip


def plan_of(uid: str, kind: str, *, lives: str = "0 ms", condition: Any = None) -> Json:
    """The join and what it reads, with a type, a time to live of its rows, and a condition beside its keys."""
    (node,) = [copy.deepcopy(node) for node in PLAN["nodes"] if f"{node['id']}_join" == uid]
    node["joinSpec"] |= {"joinType": kind, "nonEquiCondition": condition}
    for state in node["state"]:
        state["ttl"] = lives
    return with_inputs(PLAN, node)


def sides_of(uid: str, kind: str, holds: Callable[[Json, Json], bool] = lambda *_: True) -> dict[str, pa.Table]:
    """The rows of both inputs, with the numbers of their partners where the join's type needs them."""
    left_key, right_key, left, right = JOINS[uid]
    found = {}
    for side, keep, own, others in (
        ("left", OUTER[kind][0], left, right),
        ("right", OUTER[kind][1], right, left),
    ):
        if keep:
            many = [row for row in others.to_pylist() for _ in range(row.get("count", 1))]
            pairs = [[(one, row) if side == "left" else (row, one) for row in many] for one in own.to_pylist()]
            numbers = [
                sum(
                    one[left_key] is not None and one[left_key] == other[right_key] and holds(one, other)
                    for one, other in each
                )
                for each in pairs
            ]
            own = own.append_column("associations", pa.array(numbers, pa.int32()))
        found[f"{side}-records"] = own
    return found


def filled(
    folder: Path, uid: str, kind: str, holds: Callable[[Json, Json], bool] = lambda *_: True, **options: Any
) -> Path:
    """A savepoint of the join, whose states are filled from rows."""
    writer = SavepointWriter.new_savepoint(None).with_flink_version("2.3")
    state = OperatorBootstrap.from_plan(plan_of(uid, kind, **options), uid, sides_of(uid, kind, holds))
    writer.with_operator(uid, state).write(folder)
    return folder


def evolved(source: Path, uid: str, old: str, new: str, **options: Any) -> SavepointWriter:
    writer = SavepointWriter.from_existing_savepoint(None, str(source))
    return writer.evolve(plan_of(uid, old, **options), plan_of(uid, new, **options), emitted="keep")


def rows_of(folder: Path, uid: str) -> list[Any]:
    """The columns and the rows of both states."""
    states = [stateproc.open(folder).operator(uid).state(f"{side}-records") for side in ("left", "right")]
    return [(one.schema(), repr(one.to_arrow(flatten=True).to_pylist())) for one in states]


@pytest.mark.parametrize(("old", "new"), list(itertools.permutations(TYPES, 2)))
@pytest.mark.parametrize("uid", JOINS)
def test_rows_have_the_numbers_that_the_new_type_needs(uid: str, old: str, new: str, tmp_path: Path) -> None:
    source = filled(tmp_path / "old", uid, old)
    evolved(source, uid, old, new).write(tmp_path / "new")
    found = rows_of(tmp_path / "new", uid)
    assert found == rows_of(filled(tmp_path / "wanted", uid, new), uid)
    assert (found == rows_of(source, uid)) is (OUTER[old] == OUTER[new])


@pytest.mark.parametrize("uid", JOINS)
def test_rows_with_a_time_to_live_and_in_other_key_groups_are_counted(uid: str, tmp_path: Path) -> None:
    source = filled(tmp_path / "old", uid, "LEFT", lives="1 d")
    writer = evolved(source, uid, "LEFT", "FULL", lives="1 d")
    writer.with_max_parallelism(300).with_parallelism(uid, 7).write(tmp_path / "new")
    wanted = filled(tmp_path / "wanted", uid, "FULL")
    both = [stateproc.open(folder).operator(uid) for folder in (tmp_path / "new", wanted)]
    for state in ("left-records", "right-records"):
        assert both[0].state(state).ttl and not both[1].state(state).ttl
        rows = [one.state(state).to_arrow(flatten=True).to_pylist() for one in both]
        for row in (one for many in rows for one in many):
            row.pop("last_access", None), row.pop("key_group")
        assert sorted(map(repr, rows[0])) == sorted(map(repr, rows[1]))


def test_a_time_to_live_comes_with_another_type(tmp_path: Path) -> None:
    source = filled(tmp_path / "old", "47_join", "INNER")
    writer = SavepointWriter.from_existing_savepoint(None, str(source))
    new = plan_of("47_join", "FULL", lives="1 d")
    writer.evolve(plan_of("47_join", "INNER"), new, emitted="keep").write(tmp_path / "new")
    rows = stateproc.open(tmp_path / "new").operator("47_join").state("left-records").to_arrow(flatten=True)
    assert sorted(one["map_value"]["f1"] for one in rows.to_pylist()) == [0, 0, 2, 2]
    assert stateproc.open(tmp_path / "new").operator("47_join").state("left-records").ttl


def test_rows_that_have_expired_and_are_dropped_are_no_partners(tmp_path: Path) -> None:
    def lives(right: str, kind: str) -> Json:
        plan = plan_of("47_join", kind)
        next(node for node in plan["nodes"] if node["id"] == 47)["state"][1]["ttl"] = right
        return plan

    old = lives("1 ms", "INNER")
    state = OperatorBootstrap.from_plan(old, "47_join", sides_of("47_join", "INNER"))
    SavepointWriter.new_savepoint(None).with_operator("47_join", state).write(tmp_path / "old")
    time.sleep(0.01)
    writer = SavepointWriter.from_existing_savepoint(None, str(tmp_path / "old"))
    writer.evolve(old, lives("0 ms", "LEFT"), emitted="keep").write(tmp_path / "new")
    found = stateproc.open(tmp_path / "new").operator("47_join")
    assert found.state("right-records").to_arrow(flatten=True).num_rows == 0
    left = found.state("left-records").to_arrow(flatten=True).to_pylist()
    assert [row["map_value"]["f1"] for row in left] == [0, 0, 0, 0]


def test_the_plan_says_what_stays_emitted(tmp_path: Path) -> None:
    source = filled(tmp_path / "old", "71_join", "LEFT")
    plan = str(evolved(source, "71_join", "LEFT", "RIGHT").plan())
    lost, gained = "rows of the left input without a partner stay emitted", "rows of the right input without a partner"
    assert f"LEFT → RIGHT ({lost}, {gained} were not emitted)" in plan
    assert "numbers of partners removed" in plan and "numbers of partners added" in plan
    with pytest.raises(InvalidOption) as e:
        writer = SavepointWriter.from_existing_savepoint(None, str(source))
        writer.evolve(plan_of("71_join", "LEFT"), plan_of("71_join", "RIGHT"))
    assert "71_join) was LEFT and is RIGHT, so that it would have emitted other results before" in e.value.message
    assert "left-records of the old snapshot, right-records of the new snapshot" in str(e.value)
    assert "--emitted keep" in str(e.value) and "--empty 71_join" in str(e.value)


def ref(at: int, type_: str) -> Json:
    return {"kind": "INPUT_REF", "inputIndex": at, "type": type_}


def literal(value: Any, type_: str) -> Json:
    return {"kind": "LITERAL", "value": value, "type": f"{type_} NOT NULL"}


def call(name: str, *operands: Json, type_: str = "BOOLEAN") -> Json:
    return {"kind": "CALL", "internalName": f"${name}$1", "operands": list(operands), "type": type_}


def bound(value: Any, kind: str = "CLOSED") -> Json:
    return {"value": value, "boundType": kind}


def search(value: Json, type_: str, *ranges: Json, null_as: str = "UNKNOWN") -> Json:
    """What Flink writes for IN, BETWEEN and several comparisons of one value."""
    found = {"kind": "LITERAL", "sarg": {"ranges": list(ranges), "nullAs": null_as}, "type": f"{type_} NOT NULL"}
    return call("SEARCH", value, found)


# Join, its condition beside the keys, and whether a row of the left input and one of the right are partners by it.
BESIDE: tuple[tuple[str, Json, Callable[[Json, Json], bool]], ...] = (
    ("61_join", call(">", ref(3, "DOUBLE"), literal(0, "INT")), lambda left, right: (right["paid"] or 0) > 0),
    ("61_join", call("NOT", call("<>", ref(2, "STRING"), literal("cash", "CHAR(4)"))),
     lambda left, right: right["payer"] == "cash"),
    ("71_join", call("<", ref(0, "BIGINT"), literal(2, "INT")), lambda left, right: left["id"] < 2),
    ("47_join", call("OR", call("IS NULL", ref(1, "STRING")), call("=", ref(1, "STRING"), literal("Ada", "CHAR(3)")),
                     call("<=", ref(0, "BIGINT"), ref(3, "BIGINT"))),
     lambda left, right: left["name"] in (None, "Ada") or left["customer"] <= right["shop"]),
    ("47_join", literal(True, "BOOLEAN"), lambda left, right: True),
    ("61_join", search(ref(0, "BIGINT"), "INT", {"lower": bound(1), "upper": bound(1)}, {"lower": bound(3, "OPEN")}),
     lambda left, right: left["id"] == 1 or left["id"] > 3),
    ("61_join", search(ref(2, "STRING"), "CHAR(4)", {"upper": bound("card", "OPEN")}, {"lower": bound("card", "OPEN")},
                       null_as="TRUE"),
     lambda left, right: right["payer"] != "card"),
    ("47_join", search(ref(1, "STRING"), "VARCHAR(9)", {"lower": bound("A"), "upper": bound("a")}, null_as="FALSE"),
     lambda left, right: left["name"] == "Ada"),
)  # fmt: skip


@pytest.mark.parametrize(("old", "new"), [("INNER", "FULL"), ("LEFT", "RIGHT"), ("INNER", "SEMI"), ("SEMI", "FULL")])
@pytest.mark.parametrize("number", range(len(BESIDE)))
def test_partners_are_counted_by_the_condition_beside_the_keys(number: int, old: str, new: str, tmp_path: Path) -> None:
    uid, condition, holds = BESIDE[number]
    source = filled(tmp_path / "old", uid, old, holds, condition=condition)
    evolved(source, uid, old, new, condition=condition).write(tmp_path / "new")
    found = rows_of(tmp_path / "new", uid)
    assert found == rows_of(filled(tmp_path / "wanted", uid, new, holds, condition=condition), uid)
    assert found != rows_of(filled(tmp_path / "all", uid, new), uid) or condition == literal(True, "BOOLEAN")


# What DuckDB may compute otherwise than Flink, and what is said of it.
ONLY_FLINK: tuple[tuple[Json, str], ...] = (
    (call(">", call("+", ref(0, "BIGINT"), ref(1, "BIGINT"), type_="BIGINT"), ref(1, "BIGINT")), "a call of +"),
    (call("LIKE", ref(2, "STRING"), literal("a%", "CHAR(2)")), "a call of LIKE"),
    (call(">", ref(3, "DOUBLE"), ref(0, "BIGINT")), "a comparison of DOUBLE and BIGINT"),
    (call(">", ref(3, "FLOAT"), literal(1, "INT")), "a comparison of FLOAT and INT NOT NULL"),
    (call(">", ref(3, "DOUBLE"), literal(1.5, "DECIMAL(2, 1)")), r"a comparison of DOUBLE and DECIMAL\(2, 1\)"),
    (call(">", ref(3, "DECIMAL(38, 0)"), ref(3, "DECIMAL(38, 2)")), "a comparison of DECIMAL"),
    (call("<", ref(3, "BOOLEAN"), ref(3, "BOOLEAN")), "a comparison of BOOLEAN and BOOLEAN"),
    (call("<", ref(3, "TIMESTAMP(9)"), ref(3, "TIMESTAMP(9)")), "a time with nanoseconds"),
    (call("<", ref(3, "BYTES"), ref(3, "BYTES")), "a value of the type BYTES"),
    (call("IS NULL", ref(3, "ARRAY<INT>")), "a value of the type ARRAY<INT>"),
    (
        call("<", ref(3, "TIMESTAMP(3)"), literal("+12026-01-01 00:00:00", "TIMESTAMP(3)")),
        "a literal of the type TIMES",
    ),
    (call("=", ref(2, "STRING"), literal("a", "CHAR(2)")), "a literal of the type CHAR"),
    (
        search(ref(3, "DOUBLE"), "DOUBLE", {"lower": bound("1.5"), "upper": bound("1.5")}),
        "a search of DOUBLE in ranges",
    ),
    (search(ref(3, "INT"), "INT"), "a search of INT in ranges"),
    (search(ref(3, "INT"), "INT", {"lower": bound(1, "HALF")}), "a search of INT in ranges"),
    (search(ref(3, "INT"), "INT", {}), "a search of INT in ranges"),
    (search(ref(3, "INT"), "INT", {"lower": bound(1)}, null_as="?"), "a search of INT in ranges"),
    (call("=", ref(2, "STRING"), literal(None, "STRING")), "a literal of the type STRING"),
    (call("=", ref(2, "STRING"), literal("\0", "CHAR(1)")), "a literal of the type CHAR"),
    (call("=", ref(3, "DECIMAL(20, 2)"), literal(1.25, "DECIMAL(20, 2)")), "a literal of the type DECIMAL"),
    (call(">", call("CAST", ref(2, "STRING"), type_="INT"), literal(1, "INT")), "a cast from STRING to INT"),
    (call(">", call("CAST", ref(3, "DOUBLE"), type_="INT"), literal(1, "INT")), "a cast from DOUBLE to INT"),
    (ref(0, "BIGINT"), "a value of the type BIGINT"),
    (call("AND", ref(0, "BIGINT"), ref(0, "BIGINT")), "a value of the type BIGINT"),
    ({"kind": "FIELD_ACCESS", "name": "a", "type": "INT"}, "an expression of the kind FIELD_ACCESS"),
    ({"kind": "CALL", "class": "my.Function", "operands": [], "type": "BOOLEAN"}, "a call of my.Function"),
)


@pytest.mark.parametrize("number", range(len(ONLY_FLINK)))
def test_a_condition_that_only_flink_computes(number: int, tmp_path: Path) -> None:
    condition, words = ONLY_FLINK[number]
    source = filled(tmp_path / "old", "61_join", "LEFT", condition=condition)
    what = "was LEFT and is FULL: its condition beside its keys has "
    with pytest.raises(InvalidOption, match=f"{what}{words}.*, and only Flink knows") as e:
        evolved(source, "61_join", "LEFT", "FULL", condition=condition)
    assert "--empty 61_join" in str(e.value)


def test_numbers_that_are_left_out_need_no_condition(tmp_path: Path) -> None:
    condition = ONLY_FLINK[0][0]
    source = filled(tmp_path / "old", "61_join", "FULL", condition=condition)
    evolved(source, "61_join", "FULL", "INNER", condition=condition).write(tmp_path / "new")
    assert rows_of(tmp_path / "new", "61_join") == rows_of(filled(tmp_path / "wanted", "61_join", "INNER"), "61_join")


# Types of a join → what the user has to know of the results from before.
WITH, WITHOUT = "rows of the left input with a partner", "rows of the left input without a partner"
LEFT_OF = {at: f"left-records of the {at} snapshot" for at in ("old", "new")}
SAID = {
    ("INNER", "SEMI"): ((f"{WITH} stay emitted with each of these",), "new"),
    ("INNER", "ANTI"): ((f"{WITHOUT} were not emitted", f"{WITH} stay emitted"), "new"),
    ("LEFT", "SEMI"): ((f"{WITHOUT} stay emitted", f"{WITH} stay emitted with each of these"), "new"),
    ("LEFT", "ANTI"): ((f"{WITH} stay emitted",), "new"),
    ("SEMI", "INNER"): ((f"{WITH} were emitted once, and not with each of these",), "old"),
    ("SEMI", "ANTI"): ((f"{WITHOUT} were not emitted", f"{WITH} stay emitted"), "new"),
    ("ANTI", "SEMI"): ((f"{WITHOUT} stay emitted", f"{WITH} were not emitted"), "new"),
    ("ANTI", "LEFT"): ((f"{WITH} were not emitted",), "new"),
    ("ANTI", "RIGHT"): (
        (f"{WITHOUT} stay emitted", "rows of the right input without a partner were not emitted",
         f"{WITH} were not emitted"), "old",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new"), SAID)
def test_what_the_results_from_before_are(old: str, new: str, tmp_path: Path) -> None:
    """Also where the state stays as it is, byte for byte."""
    (words, at), source = SAID[old, new], filled(tmp_path / "old", "61_join", old)
    plan = str(evolved(source, "61_join", old, new).plan())
    assert f"{old} → {new} ({', '.join(words)})" in plan, plan
    with pytest.raises(InvalidOption, match=f"was {old} and is {new}, so that") as e:
        SavepointWriter.from_existing_savepoint(None, str(source)).evolve(
            plan_of("61_join", old), plan_of("61_join", new)
        )
    assert f"their number of associations says which ({LEFT_OF[at]}" in str(e.value)


def test_rows_are_deleted_in_a_write_of_their_own(tmp_path: Path) -> None:
    source = filled(tmp_path / "old", "61_join", "INNER")
    writer = evolved(source, "61_join", "INNER", "LEFT").delete_rows("61_join", "right-records", "key.f0 = 1")
    with pytest.raises(InvalidOption, match="rows of a join are changed in the write that counts their partners"):
        writer.write(tmp_path / "new")
    assert not (tmp_path / "new").exists()


KEY, NUMBER = (
    pa.struct([("f0", pa.int64())]),
    pa.array([[({"f0": 1}, 1)]], pa.map_(pa.struct([("f0", pa.int64())]), pa.int32())),
)
PAYMENT = pa.struct([("f0", pa.int64()), ("f1", pa.string()), ("f2", pa.float64())])
MANY = 2**31 - 1


def written(folder: Path, right: Any = None, value: Any = types.INT) -> Path:
    """A savepoint with a row of the left input, and these numbers of rows of the right one."""
    key, long = pa.array([{"f0": 1}], KEY), types.RowData({"f0": "BIGINT"})
    state = OperatorBootstrap(key_type=long)
    left = pa.table({"key": key, "value": NUMBER})
    state.map_state("left-records", left, "value", map_key_type=long, map_value_type=types.INT)
    if right is not None:
        rows = [({"f0": 1, "f1": str(at), "f2": None}, number) for at, number in enumerate(right)]
        table = pa.table({"key": key, "value": pa.array([rows], pa.map_(PAYMENT, pa.int64()))})
        payment = types.RowData({"f0": "BIGINT", "f1": "STRING", "f2": "DOUBLE"})
        state.map_state("right-records", table, "value", map_key_type=payment, map_value_type=value)
    SavepointWriter.new_savepoint(None).with_operator("61_join", state).write(folder)
    return folder


@pytest.mark.parametrize(
    ("numbers", "value", "error", "text"),
    [
        ([-1], types.INT, CorruptSnapshot, "a row occurs a negative number of times"),
        ([MANY, 1], types.INT, UnsupportedSnapshot, f"a row has more than {MANY} partners"),
        ([1], types.LONG, UnsupportedSnapshot, "values of the type Long are not those of the join in its plan"),
        ([None], types.INT, CorruptSnapshot, "a row's number of occurrences is cut off"),
    ],
)
def test_states_that_no_join_wrote_are_refused(
    numbers: list[int], value: Any, error: type[SnapshotError], text: str, tmp_path: Path
) -> None:
    source = written(tmp_path / "old", numbers, value)
    with pytest.raises(error, match=text) as e:
        evolved(source, "61_join", "INNER", "LEFT").write(tmp_path / "new")
    assert "-records" in str(e.value)
    assert not (tmp_path / "new").exists()


def test_rows_that_are_null_are_damage(tmp_path: Path) -> None:
    source = written(tmp_path / "old", [None])
    with pytest.raises(CorruptSnapshot, match="a value without a row"):
        evolved(source, "61_join", "INNER", "RIGHT").write(tmp_path / "new")


def test_a_plan_with_other_keys_is_not_that_of_the_job(tmp_path: Path) -> None:
    source = written(tmp_path / "old", [1])
    plans = [plan_of("61_join", kind) for kind in ("INNER", "LEFT")]
    for plan in plans:
        next(node for node in plan["nodes"] if node["id"] == 61)["joinSpec"]["filterNulls"] = [False, True]
    writer = SavepointWriter.from_existing_savepoint(None, str(source)).evolve(*plans, emitted="keep")
    with pytest.raises(UnsupportedSnapshot, match=r"a key of the type .* is not that of the join in its plan"):
        writer.write(tmp_path / "new")


def test_without_a_row_of_the_other_input_there_are_no_partners(tmp_path: Path) -> None:
    """A changelog has no state that nothing was written to."""
    evolved(written(tmp_path / "old"), "61_join", "INNER", "FULL").write(tmp_path / "new")
    (row,) = (
        stateproc.open(tmp_path / "new").operator("61_join").state("left-records").to_arrow(flatten=True).to_pylist()
    )
    assert row["map_value"] == {"f0": 1, "f1": 0}


def test_a_join_goes_on_as_one_of_its_own_type_where_there_is_one() -> None:
    """The plan has joins of the same rows, INNER and LEFT: with other columns, each is still that of its type."""
    old, new = copy.deepcopy(PLAN), copy.deepcopy(PLAN)
    joins = {node["id"]: node for node in new["nodes"] if node["id"] in (47, 50)}
    joins[47]["joinSpec"]["joinType"], joins[50]["joinSpec"]["joinType"] = "LEFT", "FULL"
    pairs = {pair.old.id: pair.new.id for pair in matched_plans(read_plan(old), read_plan(new), {}).pairs}
    assert (pairs[50], pairs[47]) == (47, 50)


def ranks(strategy: str) -> list[int]:
    """The nodes of TopN of this strategy."""
    return [node["id"] for node in PLAN["nodes"] if node.get("rankStrategy", {}).get("type") == strategy]


def with_last_rank(number: int, last: int) -> Json:
    (node,) = [copy.deepcopy(node) for node in PLAN["nodes"] if node["id"] == number]
    node["rankRange"]["end"] = last
    return with_inputs(PLAN, node)


@pytest.mark.parametrize("number", ranks("Retract"))
def test_top_n_over_rows_that_are_taken_back_has_all_of_them(number: int, tmp_path: Path) -> None:
    source, uid = planned_job("2.3", "plain").path / "snapshot", f"{number}_rank"
    old, whole = with_last_rank(number, 2), with_last_rank(number, 2)
    for last, words in (
        (1, "of rank 2 stay emitted"),
        (3, "of rank 3 were not emitted"),
        (9, "of the ranks 3 to 9 were"),
    ):
        new = with_last_rank(number, last)
        writer = SavepointWriter.from_existing_savepoint(None, str(source))
        with pytest.raises(InvalidOption, match=rf"was the first 2 and is the first {last}, so that .*: rows {words}"):
            writer.evolve(whole, new)
        writer = SavepointWriter.from_existing_savepoint(None, str(source)).evolve(old, new, emitted="keep")
        assert f"the first 2 → the first {last} (rows {words}" in str(writer.plan())
        writer.write(tmp_path / str(last))
        for state in ("data-state", "sorted-map"):
            both = [stateproc.open(folder).operator(uid).state(state) for folder in (source, tmp_path / str(last))]
            assert both[0].to_arrow().equals(both[1].to_arrow()) and both[0].to_arrow().num_rows


def changed_rank(number: int, last: int, **changed: Any) -> Json:
    plan = with_last_rank(number, last)
    plan["nodes"][-1] |= changed
    return plan


@pytest.mark.parametrize("number", ranks("AppendFast"))
def test_top_n_over_rows_that_are_only_added_has_no_others(number: int, tmp_path: Path) -> None:
    (last,) = [node["rankRange"]["end"] for node in PLAN["nodes"] if node["id"] == number]
    source = planned_job("2.3", "plain").path / "snapshot"
    words = rf"the first {last + 1}, and its state has no rows of rank {last + 1}: .*\n.*--empty {number}_rank"
    plans = with_last_rank(number, last), with_last_rank(number, last + 1)
    with pytest.raises(InvalidOption, match=words):
        SavepointWriter.from_existing_savepoint(None, str(source)).evolve(*plans, emitted="keep")
    writer = SavepointWriter.from_existing_savepoint(None, str(source)).evolve(*plans, empty=[f"{number}_rank"])
    assert "starts empty" in str(writer.plan())


NAN, MOST = float("nan"), 2**63 - 1
RANKED = types.RowData({"id": "BIGINT", "product": "STRING", "amount": "DOUBLE"})
# Product → its rows by the amount, the largest first and null last, then by id, which may be null and is first then.
PLACES: dict[str | None, list[tuple[float | None, int | None, int]]] = {
    "tea": [(2.5, 1, 1), (2.0, None, 1), (2.0, -MOST, 1), (2.0, MOST, 1), (None, 3, 2)],
    "two": [(1.0, 1, 1), (0.0, 2, 1)],
    "one": [(None, None, 7)],
    None: [(float("inf"), 5, 4), (float("-inf"), 5, 1)],
    "": [(1.5, 2, 1), (1.5, 3, 5), (1.0, 1, 1)],
    "\0🍵": [(-0.0, 2, 1), (-1.0, 1, 3)],
}
"""With how many rows there are of each; the rows of one sort key differ in their product, as they came."""


def ranked(folder: Path, places: Any = PLACES, *, ttl: bool = False) -> Path:
    """A savepoint of TopN whose state has such rows, which come in another order."""
    sort_key = pa.struct({"amount": pa.float64(), "id": pa.int64()})
    row = pa.struct({"id": pa.int64(), "product": pa.string(), "amount": pa.float64()})
    columns = {"key": pa.struct({"product": pa.string()}), "map_key": sort_key, "map_value": pa.list_(row)}
    rows = [
        {
            "key": {"product": key}, "map_key": {"amount": amount, "id": number},
            "map_value": [{"id": at, "product": "x" * at, "amount": amount} for at in range(many)],
        }
        for key, sorted_rows in places.items()
        for amount, number, many in sorted_rows[::-1]
    ]  # fmt: skip
    state = OperatorBootstrap(key_type=types.RowData({"product": "STRING"})).map_state(
        "data-state-with-append", pa.Table.from_pylist(rows, pa.schema(columns)), map_key="map_key",
        map_value="map_value", map_key_type=types.RowData({"amount": "DOUBLE", "id": "BIGINT"}),
        map_value_type=types.List(RANKED), ttl=ttl,
    )  # fmt: skip
    SavepointWriter.new_savepoint(None).with_flink_version("2.3").with_operator("138_rank", state).write(folder)
    return folder


def plans_of(was: int, now: int, *, shown: tuple[bool, bool] = (False, False)) -> tuple[Json, Json]:
    """TopN by the amount, the largest first, then by id with nulls first; whether the rank is a column."""
    order = {"fields": [{"index": 2, "isAscending": False, "nullIsLast": True},
                        {"index": 0, "isAscending": True, "nullIsLast": False}]}  # fmt: skip
    old, new = (
        changed_rank(138, last, orderBy=order, outputRowNumber=one) for last, one in zip((was, now), shown, strict=True)
    )
    return old, new


def ranked_rows(folder: Path, number: int = 138, state: str = "data-state-with-append") -> list[Json]:
    return list(stateproc.open(folder).state(f"{number}_rank", state).to_arrow(flatten=True).to_pylist())


def test_rows_beyond_the_last_rank_are_dropped(tmp_path: Path) -> None:
    source = ranked(tmp_path / "old")
    for last, shown in ((2, (False, False)), (3, (True, True)), (6, (True, False)), (9, (False, False))):
        writer = SavepointWriter.from_existing_savepoint(None, str(source))
        old, new = plans_of(9, last, shown=shown)
        new["nodes"][-1]["orderBy"] = old["nodes"][-1]["orderBy"]
        writer.evolve(old, new, emitted="keep")
        wanted, dropped = [], 0
        for key, places in PLACES.items():
            rank = 0
            for amount, number, many in places:
                kept = max(0, min(many, last - rank))
                rank, dropped = rank + many, dropped + many - kept
                if kept:
                    rows = [{"id": at, "product": "x" * at, "amount": amount} for at in range(kept)]
                    wanted.append(repr((key, amount, number, rows)))
        plan = str(writer.plan())
        assert (f"{dropped} rows dropped beyond rank {last}" in plan) is bool(dropped), plan
        writer.write(tmp_path / f"new-{last}")
        found = [
            repr(
                (
                    one["key"]["f0"],
                    *one["map_key"].values(),
                    [dict(zip(("id", "product", "amount"), row.values(), strict=True)) for row in one["map_value"]],
                )
            )
            for one in ranked_rows(tmp_path / f"new-{last}")
        ]
        assert sorted(found) == sorted(wanted), last


def test_rows_go_on_in_another_order_of_key_groups(tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(None, str(ranked(tmp_path / "old")))
    writer.evolve(*plans_of(9, 1 + 1), emitted="keep").with_max_parallelism(300).write(tmp_path / "new")
    found = ranked_rows(tmp_path / "new")
    assert sum(len(one["map_value"]) for one in found) == 2 * len(PLACES)


@pytest.mark.parametrize(
    ("places", "ttl", "words"),
    [
        ({"a": [(NAN, 1, 1), (1.0, 1, 1)]}, False, "in the order of NaN"),
        ({"a": [(0.0, 1, 1), (-0.0, 1, 1)]}, False, "in the order of 0.0 and -0.0"),
        (PLACES, True, "rows of TopN with a time to live"),
    ],
)
def test_rows_without_an_order_are_refused(places: Any, ttl: bool, words: str, tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(None, str(ranked(tmp_path / "old", places, ttl=ttl)))
    plans = plans_of(9, 2)
    for plan in plans:
        plan["nodes"][-1]["state"][0]["ttl"] = "1 d" if ttl else "0 ms"
    writer.evolve(*plans, emitted="keep")
    with pytest.raises(UnsupportedSnapshot, match=words):
        writer.write(tmp_path / "new")
    # Zeros of both signs that are of different keys have their order.
    if "a" in places:
        own = {key: [one] for key, one in zip("ab", ((0.0, 1, 3), (-0.0, 1, 3)), strict=True)}
        writer = SavepointWriter.from_existing_savepoint(None, str(ranked(tmp_path / "own", own)))
        writer.evolve(*plans_of(9, 2), emitted="keep").write(tmp_path / "fine")


def test_the_rank_goes_as_a_column(tmp_path: Path) -> None:
    """With it Flink keeps a row of mate that is beyond the last rank, where it would be taken for one of the last."""
    for number in (*ranks("Retract"), 138):
        source = planned_job("2.3", "plain").path / "snapshot"
        old, new = changed_rank(number, 2), changed_rank(number, 2, outputRowNumber=False)
        writer = SavepointWriter.from_existing_savepoint(None, str(source))
        with pytest.raises(InvalidOption, match=r"first 2 with their ranks and is the first 2, so that .* their ranks"):
            writer.evolve(old, new)
        writer = SavepointWriter.from_existing_savepoint(None, str(source)).evolve(old, new, emitted="keep")
        assert "the first 2 with their ranks → the first 2 (rows were emitted with their ranks)" in str(writer.plan())
        writer.write(tmp_path / str(number))
        for state in stateproc.open(source).operator(f"{number}_rank").states:
            if state.name in ("data-state", "data-state-with-append"):
                both = (ranked_rows(folder, number, state.name) for folder in (source, tmp_path / str(number)))
                first, second = ({repr(row): row for row in rows} for rows in both)
                gone = [list(first[row]["map_key"].values()) for row in first if row not in second]
                assert second and second.keys() <= first.keys() and gone == ([[4.0, 2]] if number == 138 else [])


def kept_by(number: int, *, widened: bool = False, **attributes: Any) -> Json:
    """A deduplication and what it reads, with other attributes, or with a column of a wider type as its key."""
    (node,) = [copy.deepcopy(node) for node in PLAN["nodes"] if node["id"] == number]
    node |= attributes
    plan = with_inputs(PLAN, node)
    if widened:
        text = json.dumps(plan)
        assert "INT" in text
        plan = json.loads(re.sub(r"\bINT\b", "BIGINT", text))
    return plan


FIRST_ROW = {"keepLastRow": False, "outputInsertOnly": True, "generateUpdateBefore": False}
LAST_ROW = {"keepLastRow": True, "outputInsertOnly": False, "generateUpdateBefore": True}
EMITTED = "of each key the row that was emitted counts as the only one before"


@pytest.mark.parametrize("lives", ["0 ms", "1 d"])
def test_of_last_rows_only_their_keys_are_kept_for_the_first_ones(lives: str, tmp_path: Path) -> None:
    source, uid = planned_job("2.3", "plain").path / "snapshot", "133_deduplicate"
    first = kept_by(133, **FIRST_ROW)
    node = next(node for node in first["nodes"] if node["id"] == 133)
    node["state"][0]["ttl"] = lives
    writer = SavepointWriter.from_existing_savepoint(None, str(source))
    with pytest.raises(InvalidOption, match=f"was the last row and is the first row, so that .*: {EMITTED}") as e:
        writer.evolve(kept_by(133), first)
    assert "--emitted keep" in str(e.value) and "--empty 133_deduplicate" in str(e.value)
    writer = SavepointWriter.from_existing_savepoint(None, str(source)).evolve(kept_by(133), first, emitted="keep")
    assert f"the last row → the first row ({EMITTED})" in str(writer.plan())
    writer.with_max_parallelism(300).write(tmp_path / "new")
    before, after = (stateproc.open(one).operator(uid) for one in (source, tmp_path / "new"))
    old, new = (one.state("deduplicate-state").to_arrow().to_pylist() for one in (before, after))
    assert len(new) > 2 and sorted(repr(row["key"]) for row in new) == sorted(repr(row["key"]) for row in old)
    assert {row["value"] for row in new} == {True}
    assert after.state("deduplicate-state").ttl == (lives != "0 ms")


def test_first_rows_by_processing_time_are_not_there_to_be_taken_back() -> None:
    source = planned_job("2.3", "plain").path / "snapshot"
    writer = SavepointWriter.from_existing_savepoint(None, str(source))
    with pytest.raises(InvalidOption, match="only the keys of first rows are kept") as e:
        writer.evolve(kept_by(128), kept_by(128, **LAST_ROW), emitted="keep")
    assert "--empty 128_deduplicate" in str(e.value)


def test_keys_of_first_rows_get_a_wider_type_as_those_of_last_rows_do(tmp_path: Path) -> None:
    """Of rows that nobody keeps it does not matter which columns they have."""
    source, uid = planned_job("2.3", "plain").path / "snapshot", "128_deduplicate"
    writer = SavepointWriter.from_existing_savepoint(None, str(source))
    writer.evolve(kept_by(128), kept_by(128, widened=True)).write(tmp_path / "new")
    before, after = (stateproc.open(one).operator(uid).state("deduplicate-state") for one in (source, tmp_path / "new"))
    assert pa.types.is_int64(after.schema().field("key").type[0].type)
    assert pa.types.is_int32(before.schema().field("key").type[0].type)
    rows = [sorted((repr(row["key"]), row["value"]) for row in one.to_arrow().to_pylist()) for one in (before, after)]
    assert rows[0] == rows[1] and len(rows[0]) > 1


def test_the_other_row_by_the_time_of_rows(tmp_path: Path) -> None:
    """As Flink before 2.1 has them; later ones have another operator for the first row."""
    source, uid = planned_job("2.3", "plain").path / "snapshot", "123_deduplicate"
    first = kept_by(123, keepLastRow=False, generateUpdateBefore=True)
    for number, (old, new) in enumerate(((kept_by(123), first), (first, kept_by(123)))):
        writer = SavepointWriter.from_existing_savepoint(None, str(source)).evolve(old, new, emitted="keep")
        assert EMITTED in str(writer.plan())
        writer.write(tmp_path / str(number))
        both = [
            stateproc.open(folder).operator(uid).state("deduplicate-state").to_arrow()
            for folder in (source, tmp_path / str(number))
        ]
        assert both[0].equals(both[1]) and both[0].num_rows


WHEN_ITS_TIME_HAS_COME = "the first row at once → the first row when its time has come"


@pytest.mark.parametrize(
    ("number", "words"),
    [(123, "the last row → the first row"), (123, WHEN_ITS_TIME_HAS_COME)],
    ids=["last", "first"],
)
def test_first_rows_that_wait_for_their_time_have_emitted_those_before(number: int, words: str, tmp_path: Path) -> None:
    """RowTimeDeduplicateKeepFirstRowFunction of Flink 2.1: what was emitted is the first row of its key."""
    source, uid = planned_job("2.3", "plain").path / "snapshot", f"{number}_deduplicate"
    old = kept_by(number) if "last" in words else kept_by(number, keepLastRow=False, generateUpdateBefore=True)
    writer = SavepointWriter.from_existing_savepoint(None, str(source))
    with pytest.raises(InvalidOption, match="--emitted keep"):
        writer.evolve(old, kept_by(number, **FIRST_ROW))
    writer = SavepointWriter.from_existing_savepoint(None, str(source))
    writer.evolve(old, kept_by(number, **FIRST_ROW), emitted="keep")
    assert words in str(writer.plan())
    writer.write(tmp_path / "new")
    before, after = (stateproc.open(one).operator(uid) for one in (source, tmp_path / "new"))
    rows = [before.state("deduplicate-state"), after.state("already-emitted-state-boolean")]
    kept, made = (one.to_arrow().to_pylist() for one in rows)
    assert len(made) > 2 and sorted(repr(row["key"]) for row in made) == sorted(repr(row["key"]) for row in kept)
    assert {row["value"] for row in made} == {True} and "deduplicate-state" not in [one.name for one in after.states]


@pytest.mark.parametrize("other", [LAST_ROW, {"outputInsertOnly": False}])
def test_first_rows_that_waited_are_not_there_to_be_taken_back(other: Json) -> None:
    source = planned_job("2.3", "plain").path / "snapshot"
    writer = SavepointWriter.from_existing_savepoint(None, str(source))
    with pytest.raises(InvalidOption, match="only the keys of first rows that were emitted are kept") as e:
        writer.evolve(kept_by(118), kept_by(118, **other), emitted="keep")
    assert "--empty 118_deduplicate" in str(e.value)


def test_last_rows_that_nobody_keeps_have_no_keys() -> None:
    """ProcTimeDeduplicateKeepLastRowFunction writes no state where neither INSERT nor what is replaced is asked for."""
    option = {"table.exec.deduplicate.insert-update-after-sensitive-enabled": "false"}
    source = planned_job("2.3", "plain").path / "snapshot"
    plans = [kept_by(133, configuration=option), kept_by(133, configuration=option, **FIRST_ROW)]
    writer = SavepointWriter.from_existing_savepoint(None, str(source))
    with pytest.raises(InvalidOption, match="would begin without state: 133_deduplicate"):
        writer.evolve(*plans, emitted="keep")
