"""Nodes of two plans hold the same state only if they compute the same of the same tables."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc import SavepointWriter
from stateproc.errors import InvalidOption, SnapshotError
from stateproc.keygroups.operator_ids import operator_id
from stateproc.query_plans.aggregate_conversion import call_words
from stateproc.query_plans.node_definitions import WAITING_JOINS, WAITING_ROWS, definition
from stateproc.query_plans.node_rules import counts_rows, node_uids
from stateproc.query_plans.plan_file import CompiledPlan, PlanNode, read_plan, row_type_types
from stateproc.query_plans.plan_lineage import definitions
from stateproc.query_plans.plan_matching import main_uid, matched_plans
from tests.helpers.fixtures import FIXTURES
from tests.helpers.flink.changed_plans import recorded
from tests.helpers.plan_parts import with_inputs
from tests.helpers.planned_states import planned_job

READS_EVERY_MODE = False
PLANS = [("1.20", "plain"), ("1.20", "mini-batch"), ("2.3", "plain"), ("2.3", "mini-batch")]
PLANS += [("2.3", "multi-join"), ("2.3", "recent")]
Json = dict[str, Any]


def written(release: str, case: str) -> Json:
    found: Json = json.loads((FIXTURES / release / f"plan-{case}" / "plan.json").read_text())
    return found


def renumbered(plan: Json) -> Json:
    """As another query around it would number the nodes, with other names of columns and times to live."""
    made = copy.deepcopy(plan)
    for node in made["nodes"]:
        node["id"] += 1000
        node["description"] = "another"
        node.pop("inputProperties", None)
        if isinstance(node.get("outputType"), str) and "scanTableSource" not in node:
            node["outputType"] = node["outputType"].replace("ROW<`", "ROW<`x_", 1)
        for call in node.get("aggCalls", []):
            call["name"] = "renamed"
        for state in node.get("state", []):
            if state["ttl"] != "0 ms":
                state["ttl"] = "77 ms"
        node.setdefault("configuration", {})["table.exec.uid.format"] = "<id>_<transformation>"
    for edge in made["edges"]:
        edge["source"] += 1000
        edge["target"] += 1000
    return made


@pytest.mark.parametrize(("release", "case"), PLANS)
def test_numbers_and_names_are_no_part_of_what_a_node_computes(release: str, case: str) -> None:
    plan = written(release, case)
    old, new = read_plan(plan), read_plan(renumbered(plan))
    match = matched_plans(old, new, {})
    assert {(pair.old.id + 1000, pair.by_table) for pair in match.pairs} == {
        (pair.new.id, False) for pair in match.pairs
    }
    assert not match.ended and not match.empty and not match.new_sources


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return [value, "another"]


KEPT = {"id", "type", "description", "inputProperties", "uid", "state", "configuration", "outputType"}


# Attributes that decide about the changes that a node emits and when, not about its state or its rows, and the types of
# what a local aggregate reads, beside its inputs.
OF_CHANGES = {
    ("stream-exec-group-aggregate_1", "generateUpdateBefore"),
    ("stream-exec-global-group-aggregate_1", "generateUpdateBefore"),
    ("stream-exec-global-group-aggregate_1", "localAggInputRowType"),
    ("stream-exec-global-window-aggregate_1", "localAggInputRowType"),
    ("stream-exec-mini-batch-assigner_1", "miniBatchInterval"),
    ("stream-exec-over-aggregate_1 by other frames", "unboundedOverVersion"),
    *((f"stream-exec-{name}_1", "generateUpdateBefore") for name in ("rank", "sort-limit", "limit")),
    ("stream-exec-changelog-normalize_1", "generateUpdateBefore"),
    ("stream-exec-deduplicate_1 by processing time", "outputInsertOnly"),
    ("stream-exec-deduplicate_1 by processing time", "generateUpdateBefore"),
}


@pytest.mark.parametrize(("release", "case"), PLANS)
def test_every_attribute_is_part_of_what_a_node_computes(release: str, case: str) -> None:
    plan = written(release, case)
    before = definitions(read_plan(plan))
    tried: set[tuple[str, str]] = set()
    for index, node in enumerate(plan["nodes"]):
        kind = node["type"] + " by processing time" * (node.get("isRowtime") is False)
        kind += " by other frames" * _has_other_frames(node)
        for name in node.keys() - KEPT:
            if (kind, name) in tried:
                continue
            tried.add((kind, name))
            made = copy.deepcopy(plan)
            made["nodes"][index][name] = _other(node[name])
            try:
                changed = read_plan(made)
                after = definitions(changed)
            except InvalidOption:
                continue  # Positions of columns that there are not.
            differing = {number for number in after if after[number] != before[number]}
            assert (node["id"] in differing) != ((kind, name) in OF_CHANGES), (kind, name)
            assert differing <= _consumers(changed, node["id"])
    assert len(tried) > 10


def _has_other_frames(node: Json) -> bool:
    """Whether an aggregate of OVER is of some rows, or in the order of a column that is no time of rows."""
    for group in node.get("overSpec", {}).get("groups", []):
        type_ = row_type_types(node["outputType"])[group["orderBy"]["fields"][0]["index"]]
        return "BOUNDED_WINDOW" in json.dumps(group) or not (isinstance(type_, dict) and type_["kind"] == "ROWTIME")
    return False


NESTED = [*WAITING_ROWS, *WAITING_JOINS, "stream-exec-window-table-function"]
_COUNT_ROWS = {"internalName": "$COUNT$1", "argList": [], "filterArg": -1}
OF_COLUMNS = {("overSpec", "originalInputFields"), ("overSpec", "name"), ("overSpec", "constants")}
"""How many columns there are, what a query calls some, and constants that are not used, are no part of its state."""


@pytest.mark.parametrize("release", ["1.20", "2.3"])
@pytest.mark.parametrize("kind", NESTED)
def test_every_part_of_an_attribute_is_part_of_what_a_node_computes(release: str, kind: str) -> None:
    """So that no position is taken for a number, and no number for a position."""
    plan = read_plan(written(release, "plain"))
    known = definitions(plan)
    nodes = [node for node in plan.nodes if node.kind == kind]
    assert nodes
    for node in nodes:
        inputs, before = [known[one.id] for one in node.sources], known[node.id].state
        own = {name: value for name, value in node.attributes.items() if name not in KEPT}
        for path, value in _leaves(own):
            made: Any = copy.deepcopy(dict(node.attributes))
            place = made
            for part in path[:-1]:
                place = place[part]
            is_free = path[-1] == "type" and place.get("kind") == "INPUT_REF"
            is_free |= path[-1] == "unboundedOverVersion" and _has_other_frames(made)
            place[path[-1]] = _other(value)
            # All ways to write COUNT(*) are one.
            is_free |= "aggCalls" in path and counts_rows(place) and value == _COUNT_ROWS.get(path[-1], value)
            try:
                after = definition(replace(node, attributes=made), inputs).state
            except InvalidOption:
                continue  # Positions of columns that there are not.
            assert (after == before) is (is_free or path[:1] + path[-1:] in OF_COLUMNS), path


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict | list) and value:
        for name, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(one, (*path, name))
    else:
        yield path, value


def _consumers(plan: CompiledPlan, number: int) -> set[int]:
    found = {number}
    while True:
        more = {node.id for node in plan.nodes if found & {source.id for source in node.sources}} | found
        if more == found:
            return found
        found = more


def test_columns_are_followed_wherever_they_stand() -> None:
    """Another column that the source reads, and one more of a projection, in front of all others."""

    def edit(plan: Json) -> None:
        scan, calc = _node(plan, "table-source-scan"), _node(plan, "calc")
        scan["outputType"] = scan["outputType"].replace("ROW<", "ROW<`new` BIGINT, ")
        readers = [edge["target"] for edge in plan["edges"] if edge["source"] == scan["id"]]
        for node in plan["nodes"]:
            if node["id"] in readers:
                _shift(node)
        calc["projection"].insert(0, {"kind": "INPUT_REF", "inputIndex": 0, "type": "BIGINT"})
        calc["outputType"] = calc["outputType"].replace("ROW<", "ROW<`new` BIGINT, ")

    old, new = read_plan(written("2.3", "plain")), read_plan(change(edit))
    one, two = definitions(old), definitions(new)
    scan, calc = (_node(written("2.3", "plain"), kind)["id"] for kind in ("table-source-scan", "calc"))
    assert two[scan].rows == one[scan].rows and two[scan].columns[1:] == one[scan].columns
    assert two[calc].rows == one[calc].rows and two[calc].columns[1:] == one[calc].columns


def _shift(value: Any) -> None:
    if isinstance(value, dict):
        if value.get("kind") == "INPUT_REF":
            value["inputIndex"] += 1
        for item in value.values():
            _shift(item)
    elif isinstance(value, list):
        for item in value:
            _shift(item)


def _projected(plan: Json) -> None:
    scan = _node(plan, "table-source-scan")
    scan["scanTableSource"]["abilities"] = [{"type": "ProjectPushDown", "projectedFields": [[0], [1]]}]


def _nested(plan: Json) -> None:
    scan = _node(plan, "table-source-scan")
    scan["scanTableSource"]["abilities"] = [{"type": "ProjectPushDown", "projectedFields": [[0, 1]]}]


def _filtered(plan: Json) -> None:
    scan = _node(plan, "table-source-scan")
    scan["scanTableSource"]["abilities"] = [{"type": "FilterPushDown", "predicates": []}]


@pytest.mark.parametrize(("edit", "is_same"), [(_projected, True), (_nested, False), (_filtered, False)])
def test_abilities_of_a_source(edit: Callable[[Json], object], is_same: bool) -> None:
    one, two = (definitions(read_plan(plan)) for plan in (written("2.3", "plain"), change(edit)))
    assert (one[1].rows == two[1].rows) is is_same


@pytest.mark.parametrize(("kind", "name"), [("calc", "condition"), ("join", "joinSpec")])
def test_too_deep_an_expression_is_an_error(kind: str, name: str) -> None:
    def edit(plan: Json) -> None:
        deep: Any = {"kind": "LITERAL"}
        for _ in range(100_000):
            deep = {"operands": [deep]}
        _node(plan, kind)[name] = deep

    with pytest.raises(InvalidOption, match="an expression is too deep"):
        definitions(read_plan(change(edit)))


JUNK = (None, 5, -1, True, "", " ", "ROW<", [], [None], [5], ["x"], {}, {"a": 5}, [{}], [{"kind": "INPUT_REF"}])


def test_a_plan_that_flink_does_not_write_is_matched_or_a_typed_error() -> None:
    """Every attribute of every type of node, and what is in its objects, is replaced by junk."""
    tried: set[tuple[str, ...]] = set()
    for release, case in PLANS:
        plan = written(release, case)
        for node in plan["nodes"]:
            places = [(name,) for name in node if name not in ("id", "type")]
            places += [(name, inner) for name in node if isinstance(node[name], dict) for inner in node[name]]
            for place in places:
                if (node["type"], *place) in tried:
                    continue
                tried.add((node["type"], *place))
                for junk in JUNK:
                    _match_or_refuse(with_inputs(plan, _replaced(node, place, junk)))
    assert len({kind for kind, *_ in tried}) > 10


def _match_or_refuse(plan: Json) -> None:
    try:
        made = read_plan(plan)
        match = matched_plans(made, made, {})
        assert match.operator_ids.keys() >= set() and not list(match.contradictions)
    except InvalidOption:
        pass


def _replaced(node: Json, place: tuple[str, ...], junk: Any) -> Json:
    name, *rest = place
    return {**node, name: _replaced(node[name], tuple(rest), junk) if rest else junk}


def _node(plan: Json, kind: str) -> Json:
    return next(node for node in plan["nodes"] if node["type"].startswith(f"stream-exec-{kind}_"))


def change(edit: Callable[[Json], object]) -> Json:
    plan = written("2.3", "plain")
    edit(plan)
    return plan


def _ttl(plan: Json) -> None:
    _node(plan, "group-aggregate")["state"][0]["ttl"] = "3600000 ms"


def _option(plan: Json) -> None:
    _node(plan, "group-aggregate")["configuration"]["table.exec.async-state.enabled"] = "true"


def _batches(plan: Json) -> None:
    _node(plan, "group-aggregate")["configuration"]["table.exec.mini-batch.enabled"] = "true"


def _function(plan: Json) -> None:
    _node(plan, "group-aggregate")["aggCalls"][1]["internalName"] = "$LAST_VALUE$1"


@pytest.mark.parametrize("edit", [_option, _function])
def test_settings_and_functions_that_decide_about_state(edit: Callable[[Json], object]) -> None:
    old, new = read_plan(written("2.3", "plain")), read_plan(change(edit))
    number = _node(written("2.3", "plain"), "group-aggregate")["id"]
    match = matched_plans(old, new, {})
    assert f"{number}_group-aggregate" in match.empty
    assert number in [node.id for node in match.ended]


@pytest.mark.parametrize("edit", [_ttl, _batches])
def test_a_time_to_live_and_batches_are_no_part_of_what_a_node_computes(edit: Callable[[Json], object]) -> None:
    old, new = read_plan(written("2.3", "plain")), read_plan(change(edit))
    number = _node(written("2.3", "plain"), "group-aggregate")["id"]
    match = matched_plans(old, new, {})
    assert [pair.is_converted for pair in match.pairs if pair.old.id == number == pair.new.id] == [False]
    assert not match.empty and number not in [node.id for node in match.ended]


def _sink_of_rows(plan: Json) -> Json:
    return next(node for node in plan["nodes"] if node.get("requireUpsertMaterialize"))


def _key(plan: Json) -> None:
    _sink_of_rows(plan)["dynamicTableSink"]["table"]["resolvedTable"]["schema"]["primaryKey"]["columns"] = ["another"]


def _other_key(plan: Json) -> None:
    _sink_of_rows(plan)["dynamicTableSink"]["table"]["resolvedTable"]["schema"]["primaryKey"]["columns"] = ["city"]


def _upsert_key(plan: Json) -> None:
    _sink_of_rows(plan)["inputUpsertKey"] = [2]


def _conflicts(plan: Json) -> None:
    _sink_of_rows(plan)["conflictStrategy"] = {"behavior": "ERROR"}


def _unasked(plan: Json) -> None:
    del _sink_of_rows(plan)["conflictStrategy"]


def _other_types(plan: Json) -> None:
    columns = _sink_of_rows(plan)["dynamicTableSink"]["table"]["resolvedTable"]["schema"]["columns"]
    columns[2]["dataType"] = "VARCHAR(9)"


@pytest.mark.parametrize(
    ("edit", "is_kept"),
    [
        (_unasked, True),
        (_other_types, True),
        (_upsert_key, True),
        (_conflicts, False),
        (_key, False),
        (_other_key, False),
    ],
)
def test_rows_before_a_sink_are_kept_by_its_primary_key(edit: Callable[[Json], object], is_kept: bool) -> None:
    old, new = read_plan(written("2.3", "plain")), read_plan(change(edit))
    number = _sink_of_rows(written("2.3", "plain"))["id"]
    (pair,) = [pair for pair in matched_plans(old, new, {}).pairs if pair.new.id == number]
    assert pair.by_table is not is_kept
    assert pair.is_converted is (edit is _other_types)


def test_accumulators_of_other_types_are_refused() -> None:
    """MIN of rows that leave the frame keeps all of them, by their values."""
    plan = written("2.3", "plain")
    number = next(node["id"] for node in plan["nodes"] if node["type"].startswith("stream-exec-over-aggregate"))

    def lowest(type_: str) -> CompiledPlan:
        made = copy.deepcopy(plan)
        node = next(node for node in made["nodes"] if node["id"] == number)
        node["overSpec"]["groups"][0]["aggCalls"][0] |= {"internalName": "$MIN$1", "type": type_}
        return read_plan(made)

    (pair,) = [pair for pair in matched_plans(lowest("INT"), lowest("BIGINT"), {}).pairs if pair.new.id == number]
    assert pair.is_converted
    with pytest.raises(InvalidOption, match=r"MIN\(amount\).* has columns of other types(?s:.*)--empty"):
        call_words(pair)


def test_sources_and_sinks_are_those_of_their_tables() -> None:
    """A source that filters goes on where it was; a materializer of other rows does not."""
    plan = written("2.3", "plain")
    old, new = read_plan(plan), read_plan(change(_filtered))
    match = matched_plans(old, new, {})
    tables = {(pair.old.kind, pair.by_table) for pair in match.pairs}
    assert ("stream-exec-table-source-scan", True) in tables and ("stream-exec-sink", True) in tables
    materializers = [uid for uid in match.empty if uid.endswith("_upsert-materialize")]
    wanted = [node for node in new.nodes if node.kind == "stream-exec-sink" and node.at("requireUpsertMaterialize")]
    assert len(materializers) >= len(wanted) - len([pair for pair in match.pairs if not pair.by_table])
    assert not set(match.operator_ids.values()) & set(materializers)

    def another(plan: Json) -> None:
        _node(plan, "table-source-scan")["scanTableSource"]["table"]["identifier"] = "`another`"

    (source,) = matched_plans(old, read_plan(change(another)), {}).new_sources
    assert source.kind == "stream-exec-table-source-scan"


def _unknown_key(plan: Json) -> None:
    for one in plan["nodes"]:
        if one.get("requireUpsertMaterialize"):
            del one["dynamicTableSink"]["table"]["resolvedTable"]


@pytest.mark.parametrize("edit", [_key, _unknown_key])
def test_a_materializer_keeps_rows_by_the_primary_key(edit: Callable[[Json], object]) -> None:
    plan = written("2.3", "plain")
    sinks = {one["id"] for one in plan["nodes"] if one.get("requireUpsertMaterialize")}
    for old, new in ((plan, change(edit)), (change(edit), change(edit))):
        match = matched_plans(read_plan(old), read_plan(new), {})
        same = old is not plan and edit is _key
        assert bool({uid for uid in match.empty if uid.endswith("_upsert-materialize")}) is not same
        assert {pair.new.id for pair in match.pairs if pair.by_table} <= sinks


def _table(plan: Json) -> Json:
    found: Json = _node(plan, "table-source-scan")["scanTableSource"]["table"]["resolvedTable"]
    return found


def _topic(plan: Json) -> None:
    _table(plan)["options"]["topic"] = "another"


def _servers(plan: Json) -> None:
    _table(plan)["options"]["properties.bootstrap.servers"] = "another:9092"


def _metadata(plan: Json) -> None:
    column = _table(plan)["schema"]["columns"][1]
    column.update(kind="METADATA", metadataKey="another", isVirtual=True)


@pytest.mark.parametrize(("edit", "is_same"), [(_topic, False), (_metadata, False), (_servers, True)])
def test_a_table_of_one_name_with_other_rows_is_another(edit: Callable[[Json], object], is_same: bool) -> None:
    old, new = read_plan(written("2.3", "plain")), read_plan(change(edit))
    ended = [node.id for node in matched_plans(old, new, {}).ended]
    assert (_node(written("2.3", "plain"), "group-aggregate")["id"] not in ended) is is_same


def test_what_counts_on_an_operator_that_begins_begins_too() -> None:
    plan = read_plan(written("2.3", "plain"))
    match = matched_plans(plan, plan, {})
    several = 0
    for uid, node in match.stateful.items():
        begun = match.without([uid]).empty
        consumers = _consumers(plan, node.id)
        assert {one.id for one in begun.values()} == {one.id for one in match.stateful.values() if one.id in consumers}
        several += len(begun) > 1
    assert several > 2


def test_what_begins_after_one_that_goes_on_contradicts_it() -> None:
    """Aggregates, joins and ranks take rows back; windows do not."""
    plan = read_plan(written("2.3", "plain"))
    match = matched_plans(plan, plan, {})
    kinds: dict[str, bool] = {}
    for uid, node in match.stateful.items():
        found = {other.kind for one, _, other in match.without([uid]).contradictions if one == uid}
        for other in _nearest(node):
            kinds[other] = kinds.get(other, False) or other in found
    assert kinds["stream-exec-group-aggregate"]
    assert not any(found for kind, found in kinds.items() if "window" in kind)
    assert all(found for kind, found in kinds.items() if kind in TAKING_BACK)


TAKING_BACK = {"stream-exec-group-aggregate", "stream-exec-join", "stream-exec-rank", "stream-exec-changelog-normalize"}
"""Nodes that return updates, whatever is before them."""


def _nearest(node: PlanNode) -> set[str]:
    found = set()
    for source in node.sources:
        traced = source.kind.rpartition("-")[2] in ("calc", "exchange", "assigner", "before")
        found |= _nearest(source) if traced else {source.kind}
    return found


def twice(plan: Json) -> Json:
    """The plan with all nodes twice."""
    more = renumbered(plan)
    for node in more["nodes"]:
        node["configuration"].pop("table.exec.uid.format")
    return {**plan, "nodes": [*plan["nodes"], *more["nodes"]], "edges": [*plan["edges"], *more["edges"]]}


def test_several_nodes_of_one_definition_are_asked_for() -> None:
    plan = written("1.20", "plain")
    for old, new in ((plan, twice(plan)), (twice(plan), plan), (twice(plan), twice(plan))):
        with pytest.raises(
            InvalidOption, match=r"(?s)several operators compute the same.*: \d+_group-aggregate.*--map OLD-UID=NEW-UID"
        ):
            matched_plans(read_plan(old), read_plan(new), {})


def together(*names: str) -> Json:
    """The plans of changes of Flink 2.3 as one job, in which each query reads its table by a source of its own."""
    nodes: list[Json] = []
    edges: list[Json] = []
    for name, _, version in (name.partition("/") for name in names):
        (found,) = [one for one in recorded() if f"{one.release}/{one.name}" == f"2.3/{name}"]
        plan, shift = json.loads((found.folder / f"{version or 'old'}.json").read_text()), len(nodes)
        nodes += [{**node, "id": node["id"] + shift} for node in plan["nodes"]]
        edges += [
            {**edge, "source": edge["source"] + shift, "target": edge["target"] + shift} for edge in plan["edges"]
        ]
    return {"flinkVersion": "2.3", "nodes": nodes, "edges": edges}


def test_sources_and_sinks_of_one_table_are_matched_by_what_is_beside_them() -> None:
    # Flink 1.16 has a source for each query. The order is another one, and one query is gone.
    old, new = read_plan(together("same", "groups", "argument")), read_plan(together("argument", "same"))
    match = matched_plans(old, new, {})
    before, after = ({operator_id(uid): uid for node in plan.nodes for uid in node_uids(plan, node).values()}
                     for plan in (old, new))  # fmt: skip
    numbers = [node.id for node in old.nodes if node.kind == "stream-exec-table-source-scan"]
    assert len(numbers) == 3
    moved = {before[one]: uid for one, uid in match.operator_ids.items()}
    shift = len(together("argument")["nodes"])
    assert moved[f"{numbers[0]}_source"] == f"{shift + numbers[0]}_source"
    assert moved[f"{numbers[2]}_source"] == "1_source" and f"{numbers[1]}_source" not in moved
    sinks = [node.id for node in old.nodes if node.kind == "stream-exec-sink"]
    assert moved[f"{sinks[0]}_sink"] == f"{shift + sinks[0]}_sink" and f"{sinks[1]}_sink" not in moved
    assert set(after) >= {operator_id(uid) for uid in moved.values()}


def test_sources_that_become_one_are_asked_for() -> None:
    """Two positions are not those of one source."""
    plan = together("filter/old", "filter/new")
    first, second = [node["id"] for node in plan["nodes"] if node["type"].startswith("stream-exec-table-source-scan")]
    one = json.loads(json.dumps(plan))
    one["nodes"] = [node for node in one["nodes"] if node["id"] != second]
    for edge in one["edges"]:
        edge["source"] = first if edge["source"] == second else edge["source"]
    with pytest.raises(InvalidOption, match="become one, 1_source: 1_source, ") as caught:
        matched_plans(read_plan(plan), read_plan(one), {})
    assert "--map 1_source=1_source" in str(caught.value)
    # The others are left out then.
    uid = f"{second}_source"
    match = matched_plans(read_plan(plan), read_plan(one), {uid: "1_source"})
    assert match.operator_ids[operator_id(uid)] == "1_source" and operator_id("1_source") not in match.operator_ids
    with pytest.raises(InvalidOption, match="or read or write one table"):
        matched_plans(read_plan(one), read_plan(plan), {})


def test_a_user_says_which_is_which_if_it_does_the_same() -> None:
    def edit(plan: Json) -> None:
        number = _node(plan, "group-aggregate")["id"]
        (exchange,) = [edge["source"] for edge in plan["edges"] if edge["target"] == number]
        (calc,) = [edge["source"] for edge in plan["edges"] if edge["target"] == exchange]
        next(node for node in plan["nodes"] if node["id"] == calc)["condition"] = "another"

    plan = written("2.3", "plain")
    old, new = read_plan(plan), read_plan(change(edit))
    uid = f"{_node(plan, 'group-aggregate')['id']}_group-aggregate"
    assert uid in matched_plans(old, new, {}).empty
    assert uid not in matched_plans(old, new, {uid: uid}).empty
    join = next(main_uid(new, node) for node in new.nodes if node.kind == "stream-exec-join")
    with pytest.raises(InvalidOption, match="compute something else"):
        matched_plans(old, new, {uid: join})
    with pytest.raises(SnapshotError, match="operator in the plan with uid '1_nothing'"):
        matched_plans(old, new, {"1_nothing": uid})


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("ROW<`a` BIGINT, `b` ROW<`c` INT> NOT NULL>", ["BIGINT", "ROW<`c` INT> NOT NULL", ">"]),
        ("ROW<`a``, ` DECIMAL(3, 2)> NOT NULL", ["DECIMAL(3, 2)", "> NOT NULL"]),
        ({"type": "ROW", "fields": [{"name": "a", "fieldType": "INT"}]}, ["INT"]),
        ("BIGINT", "BIGINT"),
        (None, None),
    ],
)
def test_types_of_a_row_without_their_names(text: Any, types: Any) -> None:
    assert row_type_types(text) == types


def test_state_is_carried_over_byte_for_byte_under_the_new_uids(tmp_path: Path) -> None:
    job = planned_job("2.3", "plain")
    source = str(job.path / "snapshot")
    new = read_plan(renumbered(written("2.3", "plain")))
    writer = SavepointWriter.from_existing_savepoint(None, source)
    target = writer.evolve(job.plan, new).write(tmp_path / "target")
    before, after = job.snapshot, stateproc.open(str(target))
    moved = matched_plans(job.plan, new, {}).operator_ids
    stateful = [one for one in before.operators if one.keyed_states or one.operator_states]
    assert len(stateful) > 20
    for operator in stateful:
        other = after.operator(moved[operator.operator_id])
        assert [file.handle for file in other.keyed_files] == [file.handle for file in operator.keyed_files] or all(
            one.to_arrow().equals(two.to_arrow())
            for one, two in zip(operator.keyed_states, other.keyed_states, strict=True)
            if "timer" not in one.name
        )


def test_a_plan_of_another_job_is_refused(tmp_path: Path) -> None:
    job = planned_job("2.3", "plain")
    other = renumbered(written("2.3", "plain"))
    writer = SavepointWriter.from_existing_savepoint(None, str(job.path / "snapshot"))
    with pytest.raises(InvalidOption, match="none of the snapshot's"):
        writer.evolve(other, job.plan)
    with pytest.raises(InvalidOption, match="has no operator 1_nothing that holds state"):
        writer.evolve(job.plan, job.plan, empty=["1_nothing"])


def _as_older_releases_write_it(plan: Json) -> None:
    """Write numbers of frames as text, nothing of rows that windows take back, and keys of joins by their old name."""
    for node in plan["nodes"]:
        for constant in node.get("overSpec", {}).get("constants", []):
            constant["value"] = str(constant["value"])
        if "window-aggregate" in node["type"] and node.get("needRetraction") is False:
            del node["needRetraction"]
        if node["type"].startswith("stream-exec-join_"):
            node["leftUniqueKeys"] = node.pop("leftUpsertKeys", [])
            node["rightUniqueKeys"] = node.pop("rightUpsertKeys", [])


def test_plans_of_older_releases_say_the_same_in_other_words() -> None:
    old, new = read_plan(change(_as_older_releases_write_it)), read_plan(written("2.3", "plain"))
    assert {pair.new.id for pair in matched_plans(old, new, {}).pairs if not pair.is_converted} == {
        pair.new.id for pair in matched_plans(new, new, {}).pairs
    }
    before, after = definitions(old), definitions(new)
    assert [before[number].state for number in before] == [after[number].state for number in after]


def test_another_number_of_rows_is_another_frame() -> None:
    """A number that is written as text is compared with its value."""

    def wider(plan: Json) -> None:
        for node in plan["nodes"]:
            for constant in node.get("overSpec", {}).get("constants", []):
                constant["value"] = str(int(constant["value"]) + 1)

    edited = [node for node in written("2.3", "plain")["nodes"] if node.get("overSpec", {}).get("constants")]
    before, after = (definitions(read_plan(plan)) for plan in (change(wider), written("2.3", "plain")))
    assert edited and all(before[node["id"]].state != after[node["id"]].state for node in edited)
