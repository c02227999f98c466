"""Accumulators of an aggregate become those of other calls: kept, dropped, in another order, or begun."""

from __future__ import annotations

import copy
import json
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc import SavepointWriter
from stateproc.errors import InvalidOption
from stateproc.query_plans.aggregate_conversion import ViewTypes, aggregate_conversion, call_words, wider_views
from stateproc.query_plans.aggregate_views import distinct_views, is_view, kept_views
from stateproc.query_plans.node_definitions import AGGREGATES
from stateproc.query_plans.node_rules import node_uids
from stateproc.query_plans.plan_lineage import is_stateless, stateful_before
from stateproc.query_plans.plan_matching import Pair
from stateproc.query_plans.plan_tables import SINK
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.serializers import RowData
from stateproc.serializers.table.type_text import external
from tests.helpers.paths import ROOT
from tests.helpers.planned_states import PlannedJob, planned_job

READS_EVERY_MODE = False
UID = "4_group-aggregate"
Json = dict[str, Any]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A savepoint of COUNT(*), SUM(amount) of customers, and its plan."""
    folder = tmp_path_factory.mktemp("job")
    with tarfile.open(ROOT / "tests/vectors/changed-query.tar.xz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    return folder / "changed-query"


def call(function: str, type_: Any, *columns: int, **more: Any) -> Json:
    return {
        "name": "x", "internalName": f"${function}$1", "argList": list(columns), "filterArg": -1, "distinct": False,
        "approximate": False, "ignoreNulls": False, "type": type_, **more,
    }  # fmt: skip


COUNT = call("COUNT", "BIGINT NOT NULL", syntax="FUNCTION_STAR")
SUM = call("SUM", "DOUBLE", 1)
COUNTED, SUMMED = [2, 2, 1], [260.0, 79.5, 120.0]


def changed(job: Path, *calls: Json, **more: Any) -> tuple[Json, Json]:
    """The plan, and the same with other calls of the first aggregate."""
    plan = json.loads((job / "old.json").read_text())
    made = copy.deepcopy(plan)
    (node,) = [node for node in made["nodes"] if node["id"] == 4]
    assert [one["internalName"] for one in node["aggCalls"]] == ["$COUNT$1", "$SUM$1"]
    node.update(aggCalls=list(calls), aggCallNeedRetractions=[False] * len(calls), **more)
    return plan, made


def taking_back(plan: Json) -> Json:
    """The plan if rows that the first aggregate is over may be taken back."""
    (node,) = [node for node in plan["nodes"] if node["id"] == 4]
    node.update(needRetraction=True, aggCallNeedRetractions=[True] * len(node["aggCalls"]))
    return plan


@pytest.mark.parametrize(
    ("new", "is_refused"),
    [
        (call("SUM", "BIGINT", 0), True),
        (call("COUNT", "BIGINT NOT NULL", 0), True),
        (call("COUNT", "BIGINT NOT NULL", 1), False),
        (call("AVG", "DOUBLE", 1), False),
    ],
)
def test_a_call_over_rows_that_are_taken_back_does_not_begin(job: Path, new: Json, is_refused: bool) -> None:
    """It would take back what it has never seen; SUM of the same column knows how many rows there are."""
    old, changed_plan = (taking_back(plan) for plan in changed(job, COUNT, SUM, new))
    with pytest.raises(InvalidOption) as e:
        SavepointWriter.from_existing_savepoint(None, str(job / "savepoint")).evolve(
            old, changed_plan, new_aggregates="empty"
        )
    found = str(e.value)
    if is_refused:
        assert "is new, and cannot begin with the restore" in found and f"--empty {UID}" in found
    else:
        assert "has accumulators of 3 fields by its plan, and of 2 in the snapshot" in found


@pytest.mark.parametrize(
    ("calls", "expected", "note"),
    [
        ([SUM, COUNT], [SUMMED, COUNTED], "SUM(amount) kept, COUNT(*) kept"),
        ([SUM], [SUMMED], "SUM(amount) kept, COUNT(*) dropped"),
        (
            [call("MIN", "BIGINT", 0), COUNT, call("AVG", "DOUBLE", 1), SUM],
            [[None] * 3, COUNTED, [0.0] * 3, [0] * 3, SUMMED],
            "COUNT(*) kept, SUM(amount) kept, MIN(customer) from now on, AVG(amount) from now on",
        ),
        (
            [SUM, call("COUNT", "BIGINT NOT NULL", 1), call("AVG", "BIGINT", 0), call("SUM0", "DOUBLE NOT NULL", 1)],
            [SUMMED, [0] * 3, [0] * 3, [0] * 3, [0.0] * 3],
            "SUM(amount) kept, COUNT(amount) from now on, AVG(customer) from now on, SUM0(amount) from now on, "
            "COUNT(*) dropped",
        ),
        (
            [COUNT, call("SUM", "DOUBLE", 1, filterArg=0)],
            [COUNTED, [None] * 3],
            "COUNT(*) kept, SUM(amount) FILTER (customer) from now on, SUM(amount) dropped",
        ),
    ],
)
def test_buffers_of_each_call(job: Path, tmp_path: Path, calls: list[Json], expected: list[Any], note: str) -> None:
    writer = SavepointWriter.from_existing_savepoint(None, str(job / "savepoint"))
    writer.evolve(*changed(job, *calls), new_aggregates="empty")
    assert f"converted: GroupAggregate[4] as GroupAggregate[4]: {note}" in str(writer.plan())
    found = stateproc.open(writer.write(tmp_path / "target")).state(UID, "accState").to_arrow().sort_by("key")
    values = found.column("value").combine_chunks()
    assert [values.field(index).to_pylist() for index in range(values.type.num_fields)] == expected
    assert found.column("key").to_pylist() == [{"f0": 7}, {"f0": 8}, {"f0": 9}]


@pytest.mark.parametrize(
    ("calls", "more", "message"),
    [
        ([COUNT, SUM, call("MAX", "DOUBLE", 1)], {}, r"MAX\(amount\) of 4_group-aggregate.*--new-aggregates empty"),
        ([call("MAX", "DOUBLE", 1)], {}, "would begin without state: 4_group-aggregate"),
        ([COUNT, call("SUM", "DOUBLE", 1, distinct=True)], {}, r"SUM\(DISTINCT amount\) of 4_group-aggregate"),
        ([COUNT, call("LAST_VALUE", "DOUBLE", 1)], {}, "would begin without state: 4_group-aggregate"),
        ([SUM], {"needRetraction": True}, "would begin without state: 4_group-aggregate"),
        ([SUM], {"grouping": []}, "would begin without state: 4_group-aggregate"),
        ([], {}, "would begin without state: 4_group-aggregate"),
    ],
)
def test_what_is_not_said_or_has_no_known_buffers(job: Path, calls: list[Json], more: Json, message: str) -> None:
    writer = SavepointWriter.from_existing_savepoint(None, str(job / "savepoint"))
    with pytest.raises(InvalidOption, match=f"(?s){message}"):
        writer.evolve(*changed(job, *calls, **more))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            [[COUNT, SUM]], [[COUNT], [SUM]],
            r"would begin without state: 104_group-aggregate \(GroupAggregate\[104\]\); GroupAggregate\[104\] has the "
            r"groups of GroupAggregate\[4\], whose state goes on in GroupAggregate\[4\], and .* not divided",
        ),
        (
            [[COUNT], [SUM]], [[COUNT, SUM]],
            r"would begin without state: 4_group-aggregate \(GroupAggregate\[4\]\); GroupAggregate\[4\] has the groups "
            r"of GroupAggregate\[4\] and GroupAggregate\[104\], whose states do not become one",
        ),
    ],
)  # fmt: skip
def test_calls_that_are_divided_between_nodes_are_refused(
    job: Path, old: list[list[Json]], new: list[list[Json]], message: str
) -> None:
    plans = [_of_nodes(job, *calls) for calls in (old, new)]
    with pytest.raises(InvalidOption, match=message) as caught:
        SavepointWriter.from_existing_savepoint(None, str(job / "savepoint")).evolve(*plans)
    assert "--empty" in str(caught.value)


def _of_nodes(job: Path, first: list[Json], *others: list[Json]) -> Json:
    """The plan with an aggregate over the same rows and groups for each list of calls."""
    plan = changed(job, *first)[1]
    (node,) = [node for node in plan["nodes"] if node["id"] == 4]
    (edge,) = [edge for edge in plan["edges"] if edge["target"] == 4]
    for number, calls in enumerate(others, 104):
        own = {"id": number, "aggCalls": calls, "aggCallNeedRetractions": [False] * len(calls)}
        plan["nodes"].append({**copy.deepcopy(node), **own})
        plan["edges"].append({**edge, "target": number})
    return plan


def test_a_result_of_new_calls_and_of_old_ones_is_refused(job: Path) -> None:
    """STDDEV is made of SUM(x * x), SUM(x) and COUNT(x); the first would be of the rows since the restore."""
    old, new = changed(job, COUNT, SUM, call("SUM", "DOUBLE", 0))
    number = max(node["id"] for node in new["nodes"]) + 1
    parts = [{"kind": "INPUT_REF", "inputIndex": at, "type": "DOUBLE"} for at in (2, 3)]
    calc = {"id": number, "type": "stream-exec-calc_1", "condition": None, "outputType": "ROW<`a` DOUBLE>"}
    for projection, is_refused in ([parts, False], [[{"kind": "CALL", "operands": parts}], True]):
        made = copy.deepcopy(new)
        made["nodes"].append({**calc, "projection": projection})
        made["edges"].append({"source": 4, "target": number})
        writer = SavepointWriter.from_existing_savepoint(None, str(job / "savepoint"))
        if not is_refused:
            writer.evolve(old, made, new_aggregates="empty")
            continue
        with pytest.raises(InvalidOption, match=r"new ones \(SUM\(customer\)\)(?s:.*)--empty 4_group-aggregate"):
            writer.evolve(old, made, new_aggregates="empty")


COUNT_AMOUNT = call("COUNT", "BIGINT NOT NULL", 1)
AVG = call("AVG", "DOUBLE", 1)


@pytest.mark.parametrize(
    ("old", "new", "expected", "words"),
    [
        ([COUNT_AMOUNT, SUM], [AVG], [SUMMED, COUNTED], "AVG(amount) from COUNT and SUM"),
        (
            [COUNT_AMOUNT, SUM],
            [SUM, AVG],
            [SUMMED, SUMMED, COUNTED],
            "SUM(amount) kept, AVG(amount) from COUNT and SUM",
        ),
        ([AVG], [COUNT_AMOUNT, SUM], [SUMMED, COUNTED], "COUNT(amount) from AVG, SUM(amount) from AVG"),
    ],
)
def test_calls_that_follow_from_others_need_no_word(
    job: Path, tmp_path: Path, old: list[Json], new: list[Json], expected: list[Any], words: str
) -> None:
    """The accumulators of the savepoint are a count and a sum, or as those of AVG a sum and a count."""
    source = str(job / "savepoint")
    if old == [AVG]:
        swapped = SavepointWriter.from_existing_savepoint(None, source)
        source = swapped.evolve(*changed(job, SUM, COUNT)).write(tmp_path / "swapped")
        expected = expected[::-1]
    writer = SavepointWriter.from_existing_savepoint(None, source)
    writer.evolve(changed(job, *old)[1], changed(job, *new)[1])
    assert f"note: converted: GroupAggregate[4] as GroupAggregate[4]: {words}" in str(writer.plan())
    found = stateproc.open(writer.write(tmp_path / "target")).state(UID, "accState").to_arrow().sort_by("key")
    values = found.column("value").combine_chunks()
    assert [values.field(index).to_pylist() for index in range(values.type.num_fields)] == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Another column, another filter, the count of all rows, a sum that overflows earlier.
        ([call("COUNT", "BIGINT NOT NULL", 0), SUM], [AVG]),
        ([COUNT_AMOUNT, SUM], [call("AVG", "DOUBLE", 1, filterArg=0)]),
        ([COUNT, SUM], [AVG]),
        ([COUNT_AMOUNT, call("SUM", "INT", 1)], [call("AVG", "INT", 1)]),
        ([call("AVG", "INT", 1)], [call("SUM", "INT", 1)]),
    ],
)
def test_calls_that_do_not_follow_are_refused(job: Path, old: list[Json], new: list[Json]) -> None:
    writer = SavepointWriter.from_existing_savepoint(None, str(job / "savepoint"))
    with pytest.raises(InvalidOption, match=r"would begin without state|did not compute"):
        writer.evolve(changed(job, *old)[1], changed(job, *new)[1])


def test_a_type_without_known_buffers_is_refused(job: Path) -> None:
    for type_ in ("DECIMAL(10, 2)", {"type": "DECIMAL"}):
        writer = SavepointWriter.from_existing_savepoint(None, str(job / "savepoint"))
        with pytest.raises(InvalidOption, match=r"the accumulator of AVG\(amount\) .* is not known"):
            writer.evolve(*changed(job, COUNT, call("AVG", type_, 1)), new_aggregates="empty")


def test_the_whole_operator_begins_if_that_is_said(job: Path, tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(None, str(job / "savepoint"))
    writer.evolve(*changed(job, SUM, call("MAX", "DOUBLE", 1)), empty=[UID])
    assert UID not in [one.uid for one in stateproc.open(writer.write(tmp_path / "target"), uids=[UID]).operators]


def test_accumulators_of_another_number_are_not_those_of_the_plan(job: Path) -> None:
    """The plan of another job, whose aggregate has a call more."""
    _, old = changed(job, COUNT, SUM, call("MAX", "DOUBLE", 1))
    writer = SavepointWriter.from_existing_savepoint(None, str(job / "savepoint"))
    with pytest.raises(InvalidOption, match="accumulators of 3 fields by its plan, and of 2 in the snapshot"):
        writer.evolve(old, changed(job, SUM)[1])


# What DISTINCT has seen of a column, of COUNT(*), SUM(amount), MAX(amount), AVG(quantity), COUNT(DISTINCT id).


def seen(column: int, **more: Any) -> Json:
    return call("COUNT", "BIGINT NOT NULL", column, distinct=True, **more)


def with_calls(release: str, edit: Callable[[list[Json]], list[Json]]) -> tuple[PlannedJob, str, Json, Json]:
    """A job, the uid of its first aggregate, its plan, and the same with other calls."""
    job = planned_job(release, "plain")
    plan = json.loads((job.path / "plan.json").read_text())
    made = copy.deepcopy(plan)
    node = next(one for one in made["nodes"] if one["type"].startswith("stream-exec-group-aggregate_"))
    node["aggCalls"] = edit(node["aggCalls"])
    node["aggCallNeedRetractions"] = [False] * len(node["aggCalls"])
    return job, f"{node['id']}_group-aggregate", plan, made


def rows(snapshot: str, uid: str, state: str) -> list[Any]:
    return sorted(map(str, stateproc.open(snapshot).state(uid, state).to_arrow().to_pylist()))


@pytest.mark.parametrize("release", ["1.20", "2.3"])
def test_what_distinct_has_seen_follows_its_calls(release: str, tmp_path: Path) -> None:
    job, uid, old, new = with_calls(release, lambda calls: [seen(0), calls[4], calls[0]])
    writer = SavepointWriter.from_existing_savepoint(None, str(job.path / "snapshot")).evolve(
        old, new, new_aggregates="empty"
    )
    note = "COUNT(DISTINCT id) kept, COUNT(*) kept, COUNT(DISTINCT customer) from now on"
    assert note in str(writer.plan())
    target, source = writer.write(tmp_path / "target"), str(job.path / "snapshot")
    assert rows(target, uid, "distinctAcc_1") == rows(source, uid, "distinctAcc_0") != []
    assert rows(target, uid, "distinctAcc_1_null_state") == rows(source, uid, "distinctAcc_0_null_state")
    states = stateproc.open(target).operator(uid).states
    assert not [state.name for state in states if state.name.startswith("distinctAcc_0")]
    accumulators = [state for state in states if state.name == "accState"]
    assert accumulators[0].value_type.count("RAW(org.apache.flink.table.api.dataview.MapView)") == 2


def test_what_distinct_has_seen_gets_a_time_to_live_or_goes(tmp_path: Path) -> None:
    job, uid, old, new = with_calls("2.3", lambda calls: [seen(0), calls[4], calls[0]])
    dropped = with_calls("2.3", lambda calls: calls[:4])[3]
    for plan in (new, dropped):
        node = next(one for one in plan["nodes"] if one["type"].startswith("stream-exec-group-aggregate_"))
        node["state"][0]["ttl"] = "3600000 ms"
    found = {}
    for name, plan in {"new": new, "dropped": dropped}.items():
        writer = SavepointWriter.from_existing_savepoint(None, str(job.path / "snapshot"))
        target = writer.evolve(old, plan, new_aggregates="empty").write(tmp_path / name)
        states = stateproc.open(target).operator(uid).states
        found[name] = {state.name: state.ttl for state in states if state.name.startswith(("acc", "dist"))}
    assert found["new"] == {"accState": True, "distinctAcc_1": True, "distinctAcc_1_null_state": True}
    assert found["dropped"] == {"accState": True}


def test_what_distinct_has_seen_is_dropped_with_its_calls(tmp_path: Path) -> None:
    job, uid, old, new = with_calls("2.3", lambda calls: calls[:4])
    writer = SavepointWriter.from_existing_savepoint(None, str(job.path / "snapshot")).evolve(old, new)
    names = [state.name for state in stateproc.open(writer.write(tmp_path / "target")).operator(uid).states]
    assert "accState" in names and not [name for name in names if name.startswith("distinctAcc")]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda calls: [*calls, seen(4, filterArg=0)], "are others, and what it has seen"),
        (lambda calls: [{**calls[4], "filterArg": 0}, calls[4]], "are others, and what it has seen"),
    ],
)
def test_calls_that_share_what_they_have_seen_stay_together(
    edit: Callable[[list[Json]], list[Json]], message: str
) -> None:
    job, _, old, new = with_calls("2.3", edit)
    writer = SavepointWriter.from_existing_savepoint(None, str(job.path / "snapshot"))
    with pytest.raises(InvalidOption, match=message) as e:
        writer.evolve(old, new, new_aggregates="empty")
    assert "--empty" in str(e.value)


def test_what_distinct_has_seen_has_the_type_of_its_column() -> None:
    plan = planned_job("2.3", "plain").plan
    node = next(one for one in plan.nodes if one.kind == "stream-exec-group-aggregate")
    calls = tuple(range(len(node.at("aggCalls"))))
    assert kept_views(Pair(node, node, kept=calls)) == [0]
    (source,) = node.sources

    def over(type_: str) -> Pair:
        text = source.attributes["outputType"].replace("`id` BIGINT NOT NULL", f"`id` {type_}")
        other = replace(node, sources=(replace(source, attributes={**source.attributes, "outputType": text}),))
        return Pair(node, other, kept=calls)

    nullable = over("BIGINT")
    assert kept_views(nullable) == [0]
    assert wider_views(nullable, [0]) == {"distinctAcc_0": ViewTypes(external(LogicalType("BIGINT")), as_keys=True)}
    for type_ in ("INT", "STRING", "DECIMAL(30, 0)", "DOUBLE"):
        with pytest.raises(InvalidOption, match="have columns of other types"):
            kept_views(over(type_))


# Calls with lists and maps: COUNT(*), MIN(name), MAX(customer), LISTAGG(name) of rows that may be taken back.


def of_changes(edit: Callable[[list[Json]], list[Json]]) -> tuple[PlannedJob, str, Json, Json]:
    job = planned_job("2.3", "plain")
    plan = json.loads((job.path / "plan.json").read_text())
    made, uid = copy.deepcopy(plan), str(job.operator("group_of_changes").uid)
    (node,) = [one for one in made["nodes"] if f"{one['id']}_group-aggregate" == uid]
    node["aggCalls"] = edit(node["aggCalls"])
    node["aggCallNeedRetractions"] = [True] * len(node["aggCalls"])
    return job, uid, plan, made


def test_lists_and_maps_follow_their_calls(tmp_path: Path) -> None:
    job, uid, old, new = of_changes(lambda calls: [calls[3], calls[0], calls[1]])
    source = str(job.path / "snapshot")
    writer = SavepointWriter.from_existing_savepoint(None, source).evolve(old, new)
    assert "LISTAGG(name) kept, COUNT(*) kept, MIN(name) kept, MAX(customer) dropped" in str(writer.plan())
    target = writer.write(tmp_path / "target")
    moved = {"agg3$list": "agg0$list", "agg3$retractList": "agg0$retractList", "agg1$map": "agg2$map"}
    for before, after in moved.items():
        assert rows(target, uid, after) == rows(source, uid, before)
    names = {state.name for state in stateproc.open(target).operator(uid).states}
    assert {name for name in names if name.startswith("agg")} == set(moved.values())
    found = stateproc.open(target).state(uid, "accState").to_arrow().to_pylist()
    assert sorted((row["value"]["f1"], row["value"]["f2"]["min"]) for row in found) == sorted(
        (row["value"]["n"], row["value"]["lowest"]["min"]) for row in job.rows("group_of_changes", "accState")
    )


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        # MIN of rows that are taken back keeps all of them, but no number that COUNT is.
        (lambda calls: [*calls, call("COUNT", "BIGINT NOT NULL", 1)], "cannot begin with the restore"),
        (lambda calls: [*calls, call("LISTAGG", "VARCHAR(2147483647)", 0)], "would begin without state"),
        (lambda calls: [calls[0], calls[1], calls[1]], "has a call twice"),
    ],
)
def test_calls_with_lists_and_maps_that_do_not_follow(edit: Callable[[list[Json]], list[Json]], message: str) -> None:
    job, _, old, new = of_changes(edit)
    writer = SavepointWriter.from_existing_savepoint(None, str(job.path / "snapshot"))
    with pytest.raises(InvalidOption, match=message):
        writer.evolve(old, new, new_aggregates="empty")


def test_accumulators_of_another_plan_are_refused() -> None:
    job, uid, old, new = of_changes(lambda calls: calls[:2])
    for plan in (old, new):
        (node,) = [one for one in plan["nodes"] if f"{one['id']}_group-aggregate" == uid]
        node["aggCalls"].insert(0, node["aggCalls"].pop(1))
    writer = SavepointWriter.from_existing_savepoint(None, str(job.path / "snapshot"))
    with pytest.raises(InvalidOption, match=r"by its plan, which is STRUCTURED.* in the snapshot"):
        writer.evolve(old, new)


def reversed_calls(job: PlannedJob) -> tuple[Json, Json, list[str]]:
    """A plan, the same with the calls of each aggregate that no other state follows reversed, and these operators."""
    plan = json.loads((job.path / "plan.json").read_text())
    made, uids = copy.deepcopy(plan), []
    before = stateful_before(job.plan)
    read = {
        one.id for node in job.plan.nodes if node.kind != SINK and not is_stateless(node) for one in before[node.id]
    }
    for node in job.plan.nodes:
        if node.kind not in AGGREGATES or node.id in read:
            continue
        (own,) = [one for one in made["nodes"] if one["id"] == node.id]
        order = list(reversed(range(len(own["aggCalls"]))))
        for shared in distinct_views(node):
            for place, number in zip(sorted(map(order.index, shared)), shared, strict=True):
                order[place] = number
        for name in {"aggCalls", "aggCallNeedRetractions"} & own.keys():
            own[name] = [own[name][at] for at in order]
        uids.append(next(iter(node_uids(job.plan, node).values())))
    return plan, made, uids


@pytest.mark.parametrize("release", ["1.20", "2.3"])
def test_calls_of_every_function_go_to_another_place_and_back(release: str, tmp_path: Path) -> None:
    job = planned_job(release, "plain")
    old, new, uids = reversed_calls(job)
    source = str(job.path / "snapshot")
    there = SavepointWriter.from_existing_savepoint(None, source).evolve(old, new).write(tmp_path / "there")
    back = SavepointWriter.from_existing_savepoint(None, there).evolve(new, old).write(tmp_path / "back")
    moved = 0
    for uid in uids:
        states = stateproc.open(source).operator(uid).states
        assert {state.name for state in states} == {state.name for state in stateproc.open(back).operator(uid).states}
        for state in states:
            assert rows(back, uid, state.name) == rows(source, uid, state.name), (uid, state.name)
        moved += "agg" in " ".join(state.name for state in stateproc.open(there).operator(uid).states)
    assert len(uids) > 8 and moved > 1


@pytest.mark.parametrize("number", [241, 247])
def test_calls_of_over_that_are_the_same_leave_accumulators_as_they_are(number: int) -> None:
    """COUNT(amount) and SUM0(amount) of some rows, which are counted, and of all with COUNT(*)."""
    job = planned_job("2.3", "plain")
    (node,) = [one for one in job.plan.nodes if one.id == number]
    state = job.snapshot.operator(f"{number}_over-aggregate").state("accState")
    value = state.keyed.value
    assert isinstance(value, RowData)
    same = Pair(node, node, kept=(0, 1, 2))
    assert call_words(same) == [] and not aggregate_conversion(same, value, ()).changes(value)
    attributes = copy.deepcopy(dict(node.attributes))
    calls = attributes["overSpec"]["groups"][0]["aggCalls"]
    calls[0], calls[1] = calls[1], calls[0]
    made = aggregate_conversion(Pair(node, replace(node, attributes=attributes), kept=(1, 0, 2)), value, ())
    first, second, third = value.names
    assert made.changes(value) and list(made.renames.items()) == [(second, "f0"), (first, "f1"), (third, "f2")]


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("distinctAcc_0", True), ("distinctAcc_12_null_state", True), ("agg10$map", True), ("agg0$list", True),
     ("distinctAcc_00", False), ("agg01$map", False), ("agg1", False), ("aggregate$map", False), ("accState", False),
     ("distinctAcc_", False), ("distinctAcc_12345678901", False), ("distinctAcc_\u0661", False), ("", False)],
)  # fmt: skip
def test_names_of_views(name: str, is_one: bool) -> None:
    """No two names are one view."""
    assert is_view(name) is is_one
