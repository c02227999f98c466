"""What a plan says of an operator's states is what real Flink wrote; rows under its names fill them with the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter
from stateproc.errors import SnapshotError, UnsupportedSnapshot
from stateproc.keygroups.operator_ids import operator_id
from stateproc.model.operator import Operator
from stateproc.query_plans.node_rules import NODE_RULES, node_uids
from stateproc.query_plans.node_states import Always, Column, NodeState, Pair, Part, node_states
from stateproc.serializers import Serializer
from tests.helpers.planned_states import planned_job

JOBS = [(release, case) for release in ("1.20", "2.3") for case in ("plain", "mini-batch")]


def operators(release: str, case: str) -> Iterator[tuple[str, str]]:
    """The kind and the uid of every operator with state."""
    job = planned_job(release, case)
    known = {operator.operator_id for operator in job.snapshot.operators}
    for node in job.plan.nodes:
        rule = NODE_RULES.get(node.kind)
        uid = node_uids(job.plan, node).get(rule.transformation) if rule else None
        if uid is not None and operator_id(uid) in known:
            yield node.kind.removeprefix("stream-exec-"), uid


def known_states(release: str, case: str, uid: str) -> tuple[NodeState, ...]:
    return node_states(planned_job(release, case).plan, uid)


def stored(release: str, case: str) -> Any:
    """The snapshot, opened without the plan: fields are f0, f1 and so on."""
    return stateproc.open(planned_job(release, case).path / "snapshot")


@pytest.mark.parametrize(("release", "case"), JOBS)
def test_states_that_a_plan_declares_are_those_that_flink_wrote(release: str, case: str) -> None:
    snapshot, compared, refused = stored(release, case), dict[str, int](), list[str]()
    for kind, uid in operators(release, case):
        try:
            states = known_states(release, case, uid)
        except UnsupportedSnapshot as error:
            refused.append(error.message)
            continue
        found = declared(snapshot.operator(operator_id(uid)))
        assert {state.name: shown(state) for state in states} == found, uid
        assert all(state.ttl is False for state in states)
        compared[kind] = compared.get(kind, 0) + 1
    wanted = {"global-group-aggregate", "deduplicate", "join"}
    if case == "plain":
        wanted = {"group-aggregate", "deduplicate", "join", "rank", "sort-limit", "limit", "changelog-normalize"}
    assert set(compared) == wanted and sum(compared.values()) > 3, compared
    assert all(": " in text for text in refused)


def shown(state: NodeState) -> tuple[str, ...]:
    value = state.value.serializer.type_name
    if state.map_key is not None:
        value = f"Map<{state.map_key.serializer.type_name}, {value}>"
    return unnamed(state.key.serializer), re.sub(NAMES, "", value)


NAMES = r"(?<=[<, ])(f\d+|id|product|amount|ts) (?=[A-Z])"
"""Names of fields, which Flink does not store."""


def unnamed(serializer: Serializer) -> str:
    return re.sub(NAMES, "", serializer.type_name)


def declared(operator: Operator) -> dict[str, tuple[str, ...]]:
    found = {}
    for state in operator.keyed_states:
        (header,) = {id(file.header): file.header for file in operator.keyed_files if file.header}.values()
        (info,) = [one for one in header.states if one.name == state.name]
        if info.value_serializer is not None and not state.is_timers:
            found[state.name] = (unnamed(header.key), unnamed(info.value_serializer))
    return found


# Rows that Flink wrote, under the columns of the plan, are written again.


def fillable(release: str, case: str) -> list[str]:
    found = []
    for _, uid in operators(release, case):
        try:
            known_states(release, case, uid)
        except SnapshotError:
            continue
        found.append(uid)
    return found


def flat(state: NodeState, row: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    assign(state.key, row["key"], found)
    if state.map_key is None:
        assign(state.value, row["value"], found)
    else:
        assign(state.map_key, row["map_key"], found)
        assign(state.value, row["map_value"] if "map_value" in row else row["value"], found)
    return found


def assign(part: Part, value: Any, found: dict[str, Any]) -> None:
    if isinstance(part, Pair):
        first, second = value.values()
        assign(part.first, first, found)
        assign(part.second, second, found)
    elif isinstance(part, Column):
        found[part.name] = value
    elif not isinstance(part, Always):
        found |= dict(zip(part.columns, value.values(), strict=True))


def rows_of(operator: Any, state: str, maps: bool) -> list[dict[str, Any]]:
    return operator.state(state).to_arrow(flatten=maps).to_pylist()


@pytest.mark.parametrize(("release", "case", "uid"), [(*job, uid) for job in JOBS for uid in fillable(*job)])
def test_rows_under_the_names_of_the_plan_fill_the_same_state(
    release: str, case: str, uid: str, tmp_path: Path
) -> None:
    job, snapshot = planned_job(release, case), stored(release, case)
    operator, names = snapshot.operator(operator_id(uid)), job.snapshot.operator(operator_id(uid))
    frames, expected = {}, {}
    for state in known_states(release, case, uid):
        maps = state.map_key is not None
        expected[state.name] = sorted(map(repr, rows_of(operator, state.name, maps)))
        rows = [flat(state, row) for row in rows_of(names, state.name, maps)]
        assert len(rows) == len(expected[state.name])
        types = {name: pa.array([row[name] for row in rows]).type for name in state.columns if rows}
        frames[state.name] = pa.Table.from_pylist(
            [dict(reversed(row.items())) for row in rows],
            pa.schema([(name, types.get(name, pa.int64())) for name in reversed(state.columns)]),
        )
    given: Any = frames if len(frames) > 1 else next(iter(frames.values()))
    made = OperatorBootstrap.from_plan(job.path / "plan.json", uid, given)
    writer = SavepointWriter.new_savepoint(None).with_operator(uid, made).with_max_parallelism(8)
    writer.with_flink_version(release).write(tmp_path / "filled")
    filled = stateproc.open(tmp_path / "filled").operator(operator_id(uid))
    assert declared(filled) == declared(operator)
    for name, wanted in expected.items():
        assert sorted(map(repr, rows_of(filled, name, "map" in str(filled.state(name).kind)))) == wanted
