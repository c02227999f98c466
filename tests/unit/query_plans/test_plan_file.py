"""Plans that are not plans, or not of the snapshot."""

from __future__ import annotations

import copy
import json
import pickle
import re
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc.keygroups.operator_ids import operator_id
from stateproc.operator_names.uid_hashes import TRANSFORMATIONS
from stateproc.query_plans import PlanNode, query_names, read_plan
from stateproc.query_plans.node_rules import NODE_RULES, NodeRule
from stateproc.query_plans.plan_file import row_type_names, unique_names
from stateproc.readers.state_names import ColumnName
from tests.helpers.paths import DEMO, FIXTURES
from tests.helpers.planned_states import planned_job

PLAN = FIXTURES / "1.20" / "plan-plain" / "plan.json"
NODE = {"id": 1, "type": "stream-exec-join_1", "outputType": "ROW<`a` INT>"}


@pytest.mark.parametrize(
    "written, names",
    [
        ("ROW<`a` BIGINT NOT NULL, `b c` VARCHAR(2147483647)>", ("a", "b c")),
        ("ROW<`a` ROW<`x` INT, `y` MAP<INT, INT>> NOT NULL, `b` DECIMAL(10, 2) NOT NULL> NOT NULL", ("a", "b")),
        ("ROW<`a``b` INT, `<,>` CHAR(1), `c` RAW('x.Y<Z>', 'ab,>')>", ("a`b", "<,>", "c")),
        ("ROW<>", ()),
        ({"type": "ROW", "fields": [{"name": "a", "fieldType": "INT"}, {"name": "a", "fieldType": {}}]}, ("a", "a_1")),
    ],
)
def test_names_of_row_types(written: Any, names: tuple[str, ...]) -> None:
    assert row_type_names(written) == names


@pytest.mark.parametrize(
    "written",
    [
        *(None, 7, "INT", "ROW<`a", "ROW<`a` INT", "ROW<`a` INT,", "ROW<a INT>", "ROW<`a` '>", {"type": "ROW"}),
        *({"type": "ROW", "fields": fields} for fields in ([{"fieldType": "INT"}], ["a"], 7)),
        "ROW<" + "`a` ROW<" * 9999,
    ],
)
def test_types_that_are_no_rows(written: Any) -> None:
    with pytest.raises(stateproc.InvalidOption, match="the query plan cannot be used"):
        row_type_names(written)


def test_names_that_come_again_are_numbered() -> None:
    assert unique_names(["a", "b", "a", "a_1", "a"]) == ("a", "b", "a_1", "a_1_1", "a_2")


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{}",
        "[" * 100_000,
        '{"nodes": ' + "[" * 100_000,
        json.dumps({"nodes": [], "edges": []}),
        json.dumps({"nodes": [7], "edges": []}),
        json.dumps({"nodes": [NODE, NODE], "edges": []}),
        json.dumps({"nodes": [NODE | {"type": "join"}], "edges": []}),
        json.dumps({"nodes": [NODE | {"id": "1"}], "edges": []}),
        json.dumps({"nodes": [NODE], "edges": [{"source": 1, "target": 2}]}),
        json.dumps({"nodes": [NODE], "edges": [{"source": 1, "target": 1}]}),
        json.dumps({"nodes": [NODE], "edges": [[]]}),
    ],
)
def test_what_is_no_plan(text: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    with pytest.raises(stateproc.InvalidOption, match="the query plan cannot be used"):
        read_plan(file)


def test_plans_as_path_text_and_object(tmp_path: Path) -> None:
    text = PLAN.read_text()
    ids = [node.id for node in read_plan(str(PLAN)).nodes]
    assert ids == [node.id for node in read_plan(text).nodes] == [node.id for node in read_plan(json.loads(text)).nodes]
    assert ids == [node.id for node in read_plan(PLAN.as_uri()).nodes]
    with pytest.raises(stateproc.InvalidOption, match="cannot be read"):
        read_plan(str(tmp_path / "none.json"))


def test_a_plan_of_another_job() -> None:
    with pytest.raises(stateproc.InvalidOption, match="none of the snapshot's") as error:
        stateproc.open(str(DEMO), plan=PLAN)
    assert error.value.advice is not None and "EXECUTE PLAN" in error.value.advice


def test_a_plan_without_nodes_that_have_state() -> None:
    plan = json.loads(PLAN.read_text())
    plan["nodes"] = [node for node in plan["nodes"] if node["type"] == "stream-exec-calc_1"]
    plan["edges"] = []
    ids = [operator.operator_id for operator in stateproc.open(str(PLAN.parent / "snapshot"), plan=plan).operators]
    found = query_names(read_plan(plan), ids)
    assert sorted(found.uids.values()) == sorted(f"{node['id']}_calc" for node in plan["nodes"])
    assert not found.operators


def test_operators_without_state_have_the_uids_of_the_plan() -> None:
    plan = json.loads(PLAN.read_text())
    sink = next(node for node in plan["nodes"] if node["type"] == "stream-exec-sink_1")
    sink["configuration"] = {"table.exec.uid.format": "shop-<type>-<version>-<id>-<transformation>"}
    uid = f"shop-stream-exec-sink-1-{sink['id']}-sink"
    committer = f"Sink Committer: {uid}"
    found = query_names(read_plan(plan), [operator_id(uid), operator_id(committer)])
    assert sorted(found.uids.values()) == [committer, uid]


@pytest.mark.parametrize("kind, rule", NODE_RULES.items(), ids=list(NODE_RULES))
def test_transformations_with_state_are_those_of_the_planner(kind: str, rule: NodeRule) -> None:
    assert rule.transformation in TRANSFORMATIONS[kind.removeprefix("stream-exec-")]


def test_columns_of_metadata_come_after_the_others_in_a_sink() -> None:
    """As in the snapshots that Flink's own suite restores; version 1 of the node stores rows without them."""
    node = next(node for node in read_plan(PLAN).nodes if node.kind == "stream-exec-sink")
    columns = [
        {"name": "name", "dataType": "STRING NOT NULL"},
        {"name": "scored", "kind": "METADATA", "dataType": "BIGINT", "isVirtual": False},
        {"name": "score", "dataType": "BIGINT"},
        {"name": "twice", "dataType": "BIGINT", "expression": "score * 2"},
        {"name": "named", "kind": "METADATA", "dataType": "STRING", "isVirtual": False},
    ]
    schema = {"columns": columns, "primaryKey": {"columns": ["name"]}}
    read = PlanNode(1, "stream-exec-calc", 1, {"outputType": "ROW<`n` STRING, `s` BIGINT, `a` STRING, `b` BIGINT>"}, ())
    sink = {"dynamicTableSink": {"table": {"resolvedTable": {"schema": schema}}}}
    names = NODE_RULES[node.kind].names(replace(node, attributes=sink, sources=(read,))).of("values")
    assert names.key == (("name",),)
    assert names.value == (("name", "score", "a", "b"), ("name", "score"))


_ORDERS = PlanNode(1, "stream-exec-calc", 1, {"outputType": "ROW<`id` BIGINT, `currency` STRING>"}, ())
_RATES = PlanNode(2, "stream-exec-calc", 1, {"outputType": "ROW<`code` STRING, `rate` DOUBLE, `at` TIMESTAMP(3)>"}, ())
LATERAL_SNAPSHOT = PlanNode(
    3,
    "stream-exec-lateral-snapshot-join",
    1,
    {"joinSpec": {"joinType": "INNER", "leftKeys": [1], "rightKeys": [0]}, "rightTimeAttributeIndex": 2},
    (_ORDERS, _RATES),
)
"""A node of Flink 2.4, of its sources: no release has run it."""


def test_states_of_a_lateral_snapshot_join() -> None:
    names = NODE_RULES[LATERAL_SNAPSHOT.kind].names(LATERAL_SNAPSHOT)
    rates = ("code", "rate", "at")
    assert names.of("build-table").user_key == (rates,)
    assert names.of("build-change-buffer").value == (rates,)
    assert names.of("probe-buffer").value == (("id", "currency"),)
    assert {names.of(name).key for name in ("build-table", "probe-buffer", "ttl-expiry")} == {(("currency",),)}


def places(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield from places(inner, *path, name)


def damaged(value: Any, path: tuple[Any, ...], junk: Any) -> Any:
    if not path:
        return junk
    copied = copy.copy(value)
    copied[path[0]] = damaged(value[path[0]], path[1:], junk)
    return copied


@pytest.mark.parametrize("kind", sorted(NODE_RULES))
def test_damaged_nodes_are_refused(kind: str) -> None:
    """Return names or one typed error, whatever an attribute of a node is."""
    plans = [planned_job("2.3", case).plan for case in ("plain", "mini-batch", "multi-join", "recent")]
    nodes = [*(node for plan in plans for node in plan.nodes), LATERAL_SNAPSHOT]
    node = next((node for node in nodes if node.kind == kind), None)
    if node is None:
        pytest.skip("no query has one")
    for path in places(node.attributes):
        if path and path[0] not in ("description", "projection", "condition"):
            for junk in (None, -1, 1 << 70, 0.5, "x", [], [[]], [7000], {}, {"fields": [{}]}, [None], True):
                other = replace(node, attributes=damaged(node.attributes, path, junk))
                try:
                    NODE_RULES[kind].names(other)
                except stateproc.InvalidOption as error:
                    assert "the query plan cannot be used" in str(error)


def test_rows_of_other_sizes_keep_their_names(tmp_path: Path) -> None:
    plan = json.loads(PLAN.read_text())
    for node in plan["nodes"]:
        if node["id"] == 6:
            node["grouping"] = [0]
            node["aggCalls"] = node["aggCalls"][:2]
    shutil.copytree(PLAN.parent / "snapshot", tmp_path / "s")
    state = stateproc.open(str(tmp_path / "s"), plan=plan).operator("6_group-aggregate")
    with pytest.warns(stateproc.QueryPlanWarning, match="keep the names f0, f1"):
        schema = state.state("accState").schema()
    assert [field.name for field in schema.field("key").type] == ["f0", "f1"]
    assert [field.name for field in schema.field("value").type][:2] == ["f0", "f1"]


def _changed(old: str, new: str) -> Any:
    """Return the plan with another text for a column, its name or its type."""
    return json.loads(re.sub(old, new, json.dumps(json.loads(PLAN.read_text()))))


def _fields(plan: Any) -> tuple[set[str], list[str]]:
    """Return the names of all fields of keys and values, and what was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", stateproc.QueryPlanWarning)
        found = set()
        for operator in stateproc.open(str(PLAN.parent / "snapshot"), plan=plan).operators:
            for state in operator.keyed_states:
                rows = [field.type for field in state.schema() if pa.types.is_struct(field.type)]
                found |= {field.name for row in rows for field in row}
    return found, [str(item.message) for item in caught if item.category is stateproc.QueryPlanWarning]


def test_columns_of_other_types_are_noticed() -> None:
    """The plan of another version of the query, whose rows have as many columns."""
    names, problems = _fields(_changed("(`amount`) DOUBLE", r"\1 VARCHAR(2147483647)"))
    found = [problem for problem in problems if "has DOUBLE as field" in problem]
    assert found and all("where the plan has 'amount' of type STRING" in problem for problem in found)
    assert all("is this the plan that the job ran?" in problem for problem in found)
    assert "f0" in names
    assert _fields(json.loads(PLAN.read_text()))[1] == []


def test_columns_of_other_names_and_equal_types_are_not_noticed() -> None:
    """The snapshot has no names, as docs/sql-jobs.md says."""
    names, problems = _fields(_changed("`amount`", "`price`"))
    assert "price" in names and problems == []


@pytest.mark.parametrize(
    ("written", "family"),
    [
        ("BIGINT NOT NULL", "BIGINT"),
        ("INT", "INT"),
        ("VARCHAR(2147483647)", "STRING"),
        ("CHAR(3) NOT NULL", "STRING"),
        ("TIMESTAMP(3) *ROWTIME*", "TIMESTAMP"),
        ("TIMESTAMP_LTZ(3) *PROCTIME* NOT NULL", "TIMESTAMP"),
        ({"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 3}, "TIMESTAMP"),
        ({"type": "ROW", "fields": []}, "ROW"),
        ("ROW<`a` INT>", "ROW"),
        ("RAW('x', '…')", None),
        ("INTERVAL DAY(2) TO SECOND(6)", None),
        ({"type": 3}, None),
        (None, None),
    ],
)
def test_families_of_types(written: Any, family: str | None) -> None:
    name = ColumnName.of("a", written)
    assert (name, name.family, pickle.loads(pickle.dumps(name)).family) == ("a", family, family)


@pytest.mark.slow
def test_without_a_plan_nothing_changes() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = stateproc.open(str(PLAN.parent / "snapshot"))
        named = planned_job("1.20", "plain").snapshot
        for one, other in zip(plain.operators, named.operators, strict=True):
            for state, twin in zip(one.keyed_states, other.keyed_states, strict=True):
                assert state.to_arrow().num_rows == twin.to_arrow().num_rows
                assert twin.problem is None


def test_keys_of_joins_in_plans_of_flink_1_15() -> None:
    """The attribute had another name, and uids contained the type and version of the node."""
    plan = json.loads(PLAN.read_text())
    plan["nodes"] = json.loads(json.dumps(plan["nodes"]).replace("UpsertKeys", "UniqueKeys"))
    renamed = {node.id: node for node in read_plan(plan).nodes}
    joins = [node for node in read_plan(PLAN).nodes if node.kind == "stream-exec-join"]
    assert any("leftUpsertKeys" in node.attributes for node in joins)
    for node in joins:
        assert NODE_RULES[node.kind].names(renamed[node.id]) == NODE_RULES[node.kind].names(node)
    uid = f"{joins[0].id}_stream-exec-join_1_join"
    found = query_names(read_plan(plan), [operator_id(uid)])
    assert list(found.uids.values()) == [uid]
