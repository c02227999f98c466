"""What becomes of a snapshot in a SQL job whose query changed, as real Flink did it, by its plans."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import stateproc
from stateproc import SavepointWriter
from stateproc.compatibility.verdicts import CompatibilityCheck, StateCheck, Verdict
from stateproc.errors import InvalidOption
from stateproc.snapshot.snapshot import Snapshot
from tests.helpers.flink import changed_types
from tests.helpers.flink.changed_plans import RIGHT, WRONG, Recorded, names, recorded
from tests.helpers.planned_states import planned_job


def check(name: str, changes: Callable[[], Iterable[Recorded]] = recorded) -> tuple[CompatibilityCheck, str]:
    """The verdict, and what came of it in Flink."""
    (found,) = [one for one in changes() if f"{one.release}/{one.name}" == name]
    plans = {f"{version}_plan": found.folder / f"{word}.json" for version, word in (("from", "old"), ("to", "new"))}
    return stateproc.open(str(found.folder / "savepoint")).check(**plans), found.outcome


@pytest.mark.parametrize("name", names())
def test_the_verdict_is_what_came_of_it(name: str) -> None:
    agrees(*check(name))


UNSAID = ("over processed time to live",)
"""Changes of a setting that plans do not contain."""
CAUTIOUS = ("split distinct text", "interval kind")
"""Changes that the check takes for those of another query, though results are right: calls over an expression whose
columns have other types, which may or may not have other results, and a join that emits other rows."""


@pytest.mark.parametrize("name", names(changed_types.ARCHIVE))
def test_types_are_compared_as_flink_compares_them(name: str) -> None:
    result, outcome = check(name, changed_types.recorded)
    if name.partition("/")[2] in UNSAID:
        assert any("a setting of the job" in reason for one in result.operators for reason in one.reasons)
        return
    if name.partition("/")[2] in CAUTIOUS:
        assert result.verdict is Verdict.MISREAD and outcome == RIGHT
        return
    agrees(result, outcome)


def agrees(result: CompatibilityCheck, outcome: str) -> None:
    """Fail unless a verdict is what came of a change in Flink."""
    if outcome in (RIGHT, WRONG):
        assert result.restores is (outcome == RIGHT), result
        assert result.verdict not in (Verdict.REFUSED, Verdict.DROPPED)
        return
    assert not result.restores
    if result.verdict is Verdict.MISREAD:  # The job throws while it runs.
        assert not any(word in outcome for word in ("StateMigrationException", "Failed to rollback"))
        return
    thrown = {state.exception for operator in result.operators for state in (operator, *operator.states)} - {None}
    words = [re.sub(r"(\(| /).*", "", str(one)).strip() for one in thrown]  # Without what is in brackets, and paths.
    assert any(line.startswith(word) for line in outcome.splitlines() for word in words), (outcome, thrown)


REFUSED = (
    "argument", "function", "added", "where", "filter", "groups", "distinct", "most", "direction", "over", "shape",
    "key type", "join kind", "join key", "first to last",
)  # fmt: skip
"""Changes that `evolve` refuses until a user says what begins without state."""


@pytest.mark.parametrize("name", names())
def test_evolve_refuses_or_converts_what_flink_gets_wrong(name: str) -> None:
    """It keeps state byte for byte only where Flink, too, goes on with the right results."""
    (found,) = [one for one in recorded() if f"{one.release}/{one.name}" == name]
    writer = SavepointWriter.from_existing_savepoint(None, str(found.folder / "savepoint"))
    plans = str(found.folder / "old.json"), str(found.folder / "new.json")
    if found.name in REFUSED:
        assert found.outcome != RIGHT
        words = (
            "would begin without state|did not compute|would have emitted other|has no rows of rank|could not be taken"
        )
        with pytest.raises(InvalidOption, match=words):
            writer.evolve(*plans)
        return
    plan = str(writer.evolve(*plans).plan())
    assert found.outcome == RIGHT or "note: converted: " in plan, plan


def state(result: CompatibilityCheck, name: str) -> StateCheck:
    return next(one for _, one in result.states if one.name == name)


def edited(name: str, version: str, before: str, after: str) -> tuple[Snapshot, Path, str]:
    """The snapshot and the old plan of a change, and one of its plans with another text."""
    (found,) = [one for one in recorded() if f"{one.release}/{one.name}" == name]
    text = (found.folder / f"{version}.json").read_text()
    assert before in text
    return stateproc.open(str(found.folder / "savepoint")), found.folder / "old.json", text.replace(before, after)


def test_reasons_and_advice_name_what_changed() -> None:
    result, _ = check("2.3/argument")
    found = state(result, "accState")
    assert found.verdict is Verdict.MISREAD
    (reason,) = found.reasons
    assert "SUM(id)" in reason and "SUM(customer)" in reason and found.fix is not None
    assert found.fix.startswith("stateproc evolve ") and result.job == "the job of the plan"
    assert result.flink_version == "2.3"


def test_what_an_operator_reads_may_have_changed() -> None:
    result, _ = check("2.3/where")
    assert state(result, "accState").reasons == (
        "it is the state of another query: GroupAggregate[4] is the same, and what it reads is not",
    )


def test_a_new_operator_begins_and_says_what_is_lost() -> None:
    result, _ = check("2.3/shape")
    new = result.operators[-1]
    assert new.verdict is Verdict.STARTS_EMPTY and not new.is_right
    assert new.states[0].losses == ("what it computes of the rows before the restore",)
    assert new.states[0].fix is not None and "docs/howto/fill-a-query.md" in new.states[0].fix


def test_what_no_plan_can_change_keeps_its_own_advice() -> None:
    """Flink 1.20 does not read the files of a job that ran on Flink 2.3, whatever its plan is."""
    (found,) = [one for one in recorded() if f"{one.release}/{one.name}" == "2.3/same"]
    plans = {"from_plan": found.folder / "old.json", "to_plan": found.folder / "new.json"}
    result = stateproc.open(str(found.folder / "savepoint")).check(flink_version="1.20", **plans)
    assert result.verdict is Verdict.REFUSED and result.fix is not None and "stateproc upgrade" in result.fix
    assert all(one.fix is None for one in result.operators)


def test_without_the_old_plan_types_are_compared_and_the_answer_says_so() -> None:
    (found,) = [one for one in recorded() if f"{one.release}/{one.name}" == "2.3/argument"]
    result = stateproc.open(str(found.folder / "savepoint")).check(to_plan=found.folder / "new.json")
    assert result.restores
    (reason,) = [reason for one in result.operators for reason in one.reasons]
    assert "only the old plan says" in reason
    plan = json.loads((found.folder / "new.json").read_text())
    for node in plan["nodes"]:
        if node["type"].startswith("stream-exec-group-aggregate"):
            node["configuration"] = {"table.exec.async-state.enabled": "true"}
    result = stateproc.open(str(found.folder / "savepoint")).check(to_plan=plan)
    assert any("are not compared" in reason for one in result.operators for reason in one.reasons)


def test_a_source_of_another_table_does_not_go_on() -> None:
    snapshot, old, new = edited("2.3/same", "new", "`orders`", "`offers`")
    result = snapshot.check(from_plan=old, to_plan=new)
    assert not result.restores
    assert state(result, "accState").verdict is Verdict.MISREAD


def test_operators_that_moved_name_their_new_uid() -> None:
    snapshot, old, text = edited("2.3/same", "new", "stream-exec-group-aggregate", "stream-exec-group-aggregate")
    plan = json.loads(text)
    for node in plan["nodes"]:
        node["id"] += 10
    for edge in plan["edges"]:
        edge["source"], edge["target"] = edge["source"] + 10, edge["target"] + 10
    result = snapshot.check(from_plan=old, to_plan=plan)
    (moved,) = [one for one in result.operators if one.verdict is Verdict.DROPPED]
    assert moved.reasons[0].endswith("In the new plan 13_group-aggregate takes its place")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"from_plan": "old"}, "there is a plan of the old query only"),
        ({"to_plan": "new", "job": "job.json"}, "given twice"),
        ({}, "nothing says what the job is"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(given: dict[str, str], message: str, tmp_path: Path) -> None:
    (found,) = [one for one in recorded() if f"{one.release}/{one.name}" == "2.3/same"]
    job = tmp_path / "job.json"
    job.write_text('{"nodes": [{"id": 1, "type": "a", "parallelism": 1}]}')
    files = {name: job if name == "job" else found.folder / f"{value}.json" for name, value in given.items()}
    with pytest.raises(InvalidOption, match=message):
        stateproc.open(str(found.folder / "savepoint")).check(**files)


def test_the_plan_of_another_job_is_refused() -> None:
    snapshot, _, other = edited("2.3/same", "old", '"id": ', '"id": 4')
    plan = json.loads(other)
    for edge in plan["edges"]:
        edge["source"], edge["target"] = int(f"4{edge['source']}"), int(f"4{edge['target']}")
    with pytest.raises(InvalidOption, match="none of the snapshot's"):
        snapshot.check(from_plan=plan, to_plan=plan)


@pytest.mark.parametrize("change", ["offset", "decimal"])
def test_windows_that_cannot_be_filled_are_not_compared(change: str) -> None:
    """An accumulator that is not known here, and windows that begin before the hour, are no fault of the plan."""
    plan = json.loads((planned_job("1.20", "plain").path / "plan.json").read_text())
    for node in plan["nodes"]:
        if "window-aggregate" in node["type"] and "windowing" in node and change == "offset":
            node["windowing"]["window"]["offset"] = "PT-8H"
        elif "window-aggregate" in node["type"] and node.get("aggCalls"):
            node["aggCalls"][0] |= {"internalName": "$AVG$1", "type": "DECIMAL(38, 6)"}
    snapshot = stateproc.open(str(planned_job("1.20", "plain").path / "snapshot"))
    assert snapshot.check(to_plan=plan).operators
