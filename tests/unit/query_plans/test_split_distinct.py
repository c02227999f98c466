"""DISTINCT is split, or split no more: the state is what Flink keeps of the same rows under the other setting."""

from __future__ import annotations

import copy
import json
import pickle
import random
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc import SavepointWriter
from stateproc.errors import InvalidOption, UnsupportedSnapshot
from stateproc.query_plans.node_states import node_states
from stateproc.query_plans.plan_file import read_plan
from stateproc.query_plans.plan_matching import main_uid
from stateproc.query_plans.split_distinct import without_split
from tests.helpers.flink.split_distinct import ARCHIVE, MODES, QUERIES, QUERIES_OF

READS_EVERY_MODE = False
Json = dict[str, Any]
States = dict[str, list[str]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    with tarfile.open(ARCHIVE) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    return folder / "split-distinct"


def plan_of(case: Path) -> Json:
    made: Json = json.loads((case / "plan.json").read_text())
    return made


def states_of(path: Path, plan: Json) -> dict[str, States]:
    """The rows of the keyed states of each operator, apart from timers, as text in the order of texts."""
    found: dict[str, States] = {}
    for operator in stateproc.open(str(path), plan=plan, temporal="exact").operators:
        names = [state.name for state in operator.states if "timers" not in state.name]
        states = {name: operator.state(name).to_reader().read_all().to_pylist() for name in names}
        rows = {name: sorted(map(str, many)) for name, many in states.items() if many and "key" in many[0]}
        if rows:
            found[operator.display] = rows
    return found


def evolved(case: Path, old: Json, new: Json, target: Path, **options: Any) -> dict[str, States]:
    writer = SavepointWriter.from_existing_savepoint(None, str(case / "savepoint")).evolve(old, new, **options)
    writer.write(str(target))
    return states_of(target, new)


def kept(states: dict[str, States], is_kept: Callable[[str], bool]) -> dict[str, States]:
    found = {uid: {name: rows for name, rows in one.items() if is_kept(name)} for uid, one in states.items()}
    return {uid: one for uid, one in found.items() if one}


@pytest.mark.parametrize("mode", MODES)
def test_buckets_are_put_together(recorded: Path, mode: str, tmp_path: Path) -> None:
    split, one = recorded / mode / "split", recorded / mode / "one"
    made = evolved(split, plan_of(split), plan_of(one), tmp_path / "made")
    assert made == states_of(one / "savepoint", plan_of(one))
    others = sum(not uid.endswith("aggregate") for uid in made)  # They keep rows of changes by their key.
    assert len(made) - others == len(QUERIES_OF[mode]) + 1  # One query has two aggregates.


@pytest.mark.parametrize("mode", MODES)
def test_values_get_the_buckets_of_their_hash_codes(recorded: Path, mode: str, tmp_path: Path) -> None:
    split, one = recorded / mode / "split", recorded / mode / "one"
    made = evolved(one, plan_of(one), plan_of(split), tmp_path / "made")
    flink = states_of(split / "savepoint", plan_of(split))
    seen = kept(flink, lambda name: name.startswith("distinctAcc"))
    assert kept(made, lambda name: name.startswith("distinctAcc")) == seen
    assert len(seen) == len(QUERIES_OF[mode])
    if mode == "mini-batch":
        # An incremental aggregate keeps nothing else, and the one after it has added up what it returned.
        assert made == flink


def test_accumulators_are_those_of_the_buckets_that_are_null(recorded: Path, tmp_path: Path) -> None:
    """The final aggregate has one row of each group, and what is counted of it; the partial one all of the group."""
    split, one = recorded / "plain/split", recorded / "plain/one"
    evolved(one, plan_of(one), plan_of(split), tmp_path / "made")
    snapshot = stateproc.open(str(tmp_path / "made"), plan=plan_of(split))

    def rows(uid: str) -> list[tuple[object, ...]]:
        found = snapshot.operator(uid).state("accState").to_reader().read_all().to_pylist()
        return sorted(((*row["key"].values(), *row["value"].values()) for row in found), key=str)

    _, found = without_split(read_plan(plan_of(split)))
    totals = min(found)
    assert rows(f"{totals}_group-aggregate") == [
        (1, 4, 16.5, 1, 3, 1), (2, 2, 27.0, 1, 1, 1), (5, 1, -0.0, 1, 1, 1), (None, 1, -1.0, 1, 0, 1),
    ]  # fmt: skip
    assert rows(f"{found[totals].partial.id}_group-aggregate") == [
        (1, None, 4, 16.5, 3, None), (2, None, 2, 27.0, 1, None), (5, None, 1, -0.0, 1, None),
        (None, None, 1, -1.0, 0, None),
    ]  # fmt: skip
    assert {one.max_parallelism for one in snapshot.operators if one.states and one.display.endswith("aggregate")} == {
        1, 128
    }  # fmt: skip


def test_a_plan_says_what_becomes_of_it(recorded: Path) -> None:
    split, one = recorded / "plain/split", recorded / "plain/one"

    def lines(old: Path, new: Path) -> str:
        writer = SavepointWriter.from_existing_savepoint(None, str(old / "savepoint"))
        return str(writer.evolve(plan_of(old), plan_of(new)).plan())

    text = lines(one, split)
    assert text.count("DISTINCT split: what it has seen in buckets of ") == len(QUERIES)
    assert text.count("changed map distinctAcc_0 (key with buckets") == len(QUERIES) - 1
    bits = "map_value = ((map_value >> 0) & 1) * 1 + ((map_value >> 1) & 1) * 6 + ((map_value >> 2) & 1) * 8, key with"
    assert text.count(bits) == 1
    text = lines(split, one)
    assert text.count("DISTINCT not split any more") == len(QUERIES)
    assert text.count("changed map distinctAcc_0 (key without buckets") == len(QUERIES) - 1
    bits = "map_value = ((map_value >> 0) & 1) * 1 + ((map_value >> 1) & 1) * 2 + ((map_value >> 3) & 1) * 4, key with"
    assert text.count(bits) == 1


def test_splits_of_entries_go_to_other_processes(recorded: Path) -> None:
    split, one = recorded / "plain/split", recorded / "plain/one"
    writer = SavepointWriter.from_existing_savepoint(None, str(one / "savepoint")).evolve(plan_of(one), plan_of(split))
    edits = [item.edits.key for item in writer._operators.values()]  # type: ignore[union-attr]
    changes = [change for change in edits if change is not None]
    assert len(changes) == len(QUERIES)
    assert pickle.loads(pickle.dumps(changes)) == changes


def nodes_of(plan: Json, kind: str) -> list[Json]:
    return [node for node in plan["nodes"] if node["type"].startswith(f"stream-exec-{kind}_")]


def retract(node: Json) -> None:
    node.update(needRetraction=True, aggCallNeedRetractions=[True] * len(node["aggCalls"]))


def test_rows_that_may_be_taken_back_are_refused(recorded: Path) -> None:
    case = recorded / "plain/one"
    old, new = plan_of(case), plan_of(recorded / "plain/split")
    for plan, of in ((old, lambda node: True), (new, lambda node: node["aggCallNeedRetractions"][0] is False)):
        for node in nodes_of(plan, "group-aggregate"):
            if of(node) and any(one["distinct"] for one in node["aggCalls"]):
                retract(node)
    writer = SavepointWriter.from_existing_savepoint(None, str(case / "savepoint"))
    with pytest.raises(InvalidOption, match=r"splits its DISTINCT, over rows that may be taken back"):
        writer.evolve(old, new)


def test_means_of_distinct_values_that_may_be_taken_back_are_refused(recorded: Path) -> None:
    """Of two calls how often a value is there is kept in an array, and of one in a number."""
    case = recorded / "mini-batch/one"
    old, new = plan_of(case), plan_of(recorded / "mini-batch/split")
    for plan in (old, new):
        for kind in ("local-group-aggregate", "global-group-aggregate"):
            for node in nodes_of(plan, kind):
                retract(node)
    writer = SavepointWriter.from_existing_savepoint(None, str(case / "savepoint"))
    with pytest.raises(InvalidOption, match="keeps otherwise what both calls that AVG becomes have seen"):
        writer.evolve(old, new)


def test_another_aggregate_is_changed_in_a_write_of_its_own(recorded: Path) -> None:
    case = recorded / "plain/one"
    old, new = plan_of(case), plan_of(recorded / "plain/split")
    node = nodes_of(old, "group-aggregate")[0]
    node["aggCalls"].insert(0, {**copy.deepcopy(node["aggCalls"][0]), "argList": [1]})
    node["aggCallNeedRetractions"].append(False)
    writer = SavepointWriter.from_existing_savepoint(None, str(case / "savepoint"))
    with pytest.raises(InvalidOption, match="and is another aggregate, too") as caught:
        writer.evolve(old, new)
    assert "in a write of its own" in caught.value.advice


def _of_another_column(plan: Json) -> None:
    for node in nodes_of(plan, "calc"):
        for one in node["projection"]:
            if one.get("internalName") == "$MOD$1":
                one["operands"][0]["operands"][0] = {"kind": "INPUT_REF", "inputIndex": 0, "type": "BIGINT"}


def _of_another_function(plan: Json) -> None:
    for node in nodes_of(plan, "calc"):
        for one in node["projection"]:
            if one.get("internalName") == "$MOD$1":
                one["operands"][0]["internalName"] = "$ABS$1"


def _without_buckets(plan: Json) -> None:
    for node in nodes_of(plan, "calc"):
        for one in node["projection"]:
            if one.get("internalName") == "$MOD$1":
                one["operands"][1]["value"] = None


def _with_other_finals(plan: Json) -> None:
    for node in nodes_of(plan, "group-aggregate"):
        for one in node["aggCalls"]:
            if "SUM0" in one["internalName"]:
                one["internalName"] = "$MAX$1"


@pytest.mark.parametrize("edit", [_of_another_column, _of_another_function, _without_buckets, _with_other_finals])
def test_other_plans_begin(recorded: Path, edit: Callable[[Json], None]) -> None:
    """What is not known to be the same aggregate is not taken for it."""
    case = recorded / "plain/one"
    new = plan_of(recorded / "plain/split")
    edit(new)
    assert without_split(read_plan(new))[1] == {}
    writer = SavepointWriter.from_existing_savepoint(None, str(case / "savepoint"))
    with pytest.raises(InvalidOption, match="would begin without state"):
        writer.evolve(plan_of(case), new)


def test_a_sum_that_does_not_fit_is_refused(recorded: Path, tmp_path: Path) -> None:
    """AVG adds up INT as BIGINT, and split as INT."""
    case = recorded / "plain/one"
    uid = f"{nodes_of(plan_of(case), 'group-aggregate')[1]['id']}_group-aggregate"
    large = tmp_path / "large"
    writer = SavepointWriter.from_existing_savepoint(None, str(case / "savepoint"))
    writer.update_rows(uid, "accState", "value.f2 = 2147483648", "value.f3 = 2").write(str(large))
    again = SavepointWriter.from_existing_savepoint(None, str(large))
    again.evolve(plan_of(case), plan_of(recorded / "plain/split"))
    with pytest.raises(InvalidOption, match="2147483648"):
        again.write(str(tmp_path / "made"))


def without_seen(case: Path, target: Path, state: str = "", where: str = "") -> tuple[str, SavepointWriter]:
    """A snapshot without the partial aggregate of a split one, or a state of it, of whose final one rows may go."""
    plan = plan_of(case)
    _, found = without_split(read_plan(plan))
    partial, final = (main_uid(read_plan(plan), node) for node in (found[min(found)].partial, found[min(found)].final))
    writer = SavepointWriter.from_existing_savepoint(None, str(case / "savepoint"))
    if state:
        writer.drop_state(partial, state)
    else:
        writer.remove_operator(partial)
    if where:
        writer.delete_rows(final, "accState", where)
    writer.write(str(target))
    return partial, SavepointWriter.from_existing_savepoint(None, str(target))


@pytest.mark.parametrize("state", ["", "distinctAcc_0"])
@pytest.mark.parametrize("mode", MODES)
def test_what_distinct_has_seen_has_to_be_there(recorded: Path, mode: str, state: str, tmp_path: Path) -> None:
    split, one = recorded / mode / "split", recorded / mode / "one"
    partial, writer = without_seen(split, tmp_path / "source", state)
    with pytest.raises(InvalidOption, match=f"what DISTINCT has seen is kept by {partial}, which") as caught:
        writer.evolve(plan_of(split), plan_of(one))
    assert "give the plan that the job ran" in caught.value.advice


@pytest.mark.parametrize("mode", MODES)
def test_distinct_has_seen_nothing_before_a_row_comes(recorded: Path, mode: str, tmp_path: Path) -> None:
    split, one = recorded / mode / "split", recorded / mode / "one"
    _, writer = without_seen(split, tmp_path / "source", where="TRUE")
    writer.evolve(plan_of(split), plan_of(one)).write(str(tmp_path / "made"))
    states = states_of(one / "savepoint", plan_of(one))
    first = min(states, key=lambda uid: int(uid.partition("_")[0]))
    assert states_of(tmp_path / "made", plan_of(one)) == {uid: rows for uid, rows in states.items() if uid != first}


@pytest.mark.parametrize("mode", MODES)
def test_states_without_entries(recorded: Path, mode: str, tmp_path: Path) -> None:
    split, one = recorded / mode / "split", recorded / mode / "one"
    states = states_of(one / "savepoint", plan_of(one))
    writer = SavepointWriter.from_existing_savepoint(None, str(one / "savepoint"))
    for uid, names in states.items():
        for name in names:
            writer.delete_rows(uid, name, "TRUE")
    writer.write(str(tmp_path / "empty"))
    again = SavepointWriter.from_existing_savepoint(None, str(tmp_path / "empty"))
    again.evolve(plan_of(one), plan_of(split)).write(str(tmp_path / "made"))
    kinds = {uid: set(names) for uid, names in states_of(split / "savepoint", plan_of(split)).items()}
    made = stateproc.open(str(tmp_path / "made"), plan=plan_of(split))
    for uid, names in kinds.items():
        assert names <= {state.name for state in made.operator(uid).states}, uid
        assert not any(made.operator(uid).state(name).to_reader().read_all() for name in names)


WRONG = (None, -1, 99_999, "", [], {}, [None], [{}], 1.5)


@pytest.mark.parametrize("mode", MODES)
def test_a_plan_of_another_form_is_one_without_split_aggregates(recorded: Path, mode: str) -> None:
    """Whatever part of it is something else: nothing fails but `read_plan`, with its own errors."""
    plan = plan_of(recorded / mode / "split")
    nodes = [one for one in plan["nodes"] if {"aggCalls", "projects", "projection"} & one.keys()]
    places = [(holder, at) for node in nodes for holder, at in _places(node)]
    chosen, found = random.Random(7).sample(places, 40), set()
    for holder, at in chosen:
        was = holder[at]
        for wrong in WRONG:
            holder[at] = wrong
            try:
                found.add(len(without_split(read_plan(copy.deepcopy(plan)))[1]))
            except InvalidOption:
                continue
        holder[at] = was
    assert len(found) > 1


def _places(part: Any) -> Iterator[tuple[Any, Any]]:
    items = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for at, one in list(items):
        yield part, at
        yield from _places(one)


def test_the_state_of_the_partial_aggregate_is_not_filled(recorded: Path) -> None:
    """Rows do not give the buckets of hash codes; `evolve` makes them of the state of a plan without split."""
    for mode in MODES:
        plan = read_plan(plan_of(recorded / mode / "split"))
        splits = without_split(plan)[1].values()
        assert splits
        for split in splits:
            with pytest.raises(UnsupportedSnapshot, match="divided by hash codes") as raised:
                node_states(plan, main_uid(plan, split.partial))
            assert "stateproc evolve" in str(raised.value)
