"""The types of states that a plan says are those that real Flink wrote, for nodes of every kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc.compatibility.declared_job import KEYED, TIMERS, DeclaredState, declared_operators
from stateproc.compatibility.expected_job import stored_serializers
from stateproc.flink_versions import release
from stateproc.keygroups.operator_ids import operator_id
from stateproc.query_plans import CompiledPlan, read_plan
from stateproc.query_plans.accumulator_types import StateTypes
from stateproc.query_plans.node_rules import node_uids
from stateproc.query_plans.state_types import OperatorTypes, operator_types
from stateproc.serializers import Serializer
from stateproc.serializers.compatibility import Answer, Comparison, resolve
from stateproc.serializers.java.collections import MapOf
from stateproc.serializers.runtime.ttl import TtlSerializer
from stateproc.snapshot.snapshot import Snapshot
from tests.helpers.flink.changed_plans import names
from tests.helpers.flink.changed_types import ARCHIVE, recorded
from tests.helpers.planned_states import RELEASES_OF, planned_job

PLANNED = [(one, case) for case, releases in RELEASES_OF.items() for one in releases]


def compared(plan: CompiledPlan, snapshot: Snapshot, line: str) -> dict[str, list[str]]:
    """What differs of each operator with keyed state."""
    comparison = Comparison(snapshot.options.kryo, release(line), snapshot.options.classes)
    operators = {one.operator_id: one for one in declared_operators(snapshot)}
    found = {}
    for node in plan.nodes:
        for uid in node_uids(plan, node).values():
            old = operators.get(operator_id(uid))
            if old is not None and old.keys:
                types = operator_types(plan, uid)
                found[uid] = [*differs("key", old.keys[0], types.key, comparison)]
                for state in old.states:
                    found[uid] += of_state(state, types, comparison)
                found[uid] += [f"{one.name} is not there" for one in types.states if not is_there(one, old.states)]
    return found


def is_there(types: StateTypes, states: tuple[DeclaredState, ...]) -> bool:
    return any(state.name == types.name and state.distribution == KEYED for state in states)


def differs(what: str, old: Serializer, new: Serializer, comparison: Comparison) -> list[str]:
    found = resolve(old, new, comparison)
    return [] if found.answer is Answer.AS_IS else [f"{what}: {', '.join(map(str, found.notes))}"]


def of_state(state: DeclaredState, types: OperatorTypes, comparison: Comparison) -> list[str]:
    if state.distribution == TIMERS:
        namespace = types.timers.get(state.name.removeprefix("processing_").removeprefix("event_"))
        timer: Any = state.serializers["value"]
        if namespace is None:
            return [] if types.others else [f"{state.name} is not known"]
        return differs(state.name, timer.namespace, namespace, comparison)
    if state.distribution != KEYED:
        return []
    known = next((one for one in types.states if one.name == state.name), None)
    if known is None:
        return [] if types.others or state.name in types.may_have else [f"{state.name} is not known"]
    if known.kind != state.kind:
        return [f"{state.name}: {state.kind}, and not {known.kind}"]
    value = state.serializers["value"]
    if known.value is None:
        row: Any = value.value if isinstance(value, TtlSerializer) else value
        pairs = zip(row.types, known.fields, strict=True)
        return [f"{state.name}: {one.sql}" for one, other in pairs if other is not None and one != other]
    lives = isinstance(value.value if isinstance(value, MapOf) else value, TtlSerializer)
    parts = {"value": known.value, "map_key": known.map_key}
    stored = dict(stored_serializers(state.kind, KEYED, parts, lives if known.ttl is None else known.ttl))
    return [
        *differs(state.name, value, stored["value"], comparison),
        *differs(f"namespace of {state.name}", state.serializers["namespace"], known.namespace, comparison),
    ]


@pytest.mark.parametrize(("line", "case"), PLANNED)
def test_types_of_the_plan_are_those_of_its_snapshot(line: str, case: str) -> None:
    job = planned_job(line, case)
    found = compared(job.plan, stateproc.open(job.path / "snapshot"), line)
    assert len(found) > 1 and not {uid: problems for uid, problems in found.items() if problems}


@pytest.mark.parametrize("key", names(ARCHIVE))
def test_types_of_the_plan_are_those_of_what_flink_ran(key: str) -> None:
    (one,) = [one for one in recorded() if f"{one.release}/{one.name}" == key]
    snapshot = stateproc.open(str(one.folder / "savepoint"))
    found = compared(read_plan(one.folder / "old.json"), snapshot, one.release)
    assert found and not {uid: problems for uid, problems in found.items() if problems}


def test_accumulators_of_functions_of_the_user_are_those_of_the_snapshot(tmp_path: Path) -> None:
    """Nothing says which type they have, so that only the number of fields counts."""
    job = planned_job("2.3", "plain")
    plan = json.loads((job.path / "plan.json").read_text())
    call: dict[str, Any] = next(
        call
        for node in plan["nodes"]
        if node["type"].startswith("stream-exec-group-aggregate")
        for call in node["aggCalls"]
        if call["internalName"].startswith("$JSON_ARRAYAGG")
    )
    call |= {"catalogName": "`default_catalog`.`default_database`.`mine`", "internalName": None}
    snapshot = stateproc.open(job.path / "snapshot")
    assert snapshot.check(to_plan=plan).restores
