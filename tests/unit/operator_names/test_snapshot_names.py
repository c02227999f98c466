"""Operators of snapshots without uids have names: of the table planner, given ones, and labels by their states."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc.errors import CorruptSnapshot, InvalidOption, MissingFile, NotFound, UnmatchedUidWarning
from stateproc.keygroups.operator_ids import operator_id
from stateproc.operator_names import uid_hashes as numbered_uids
from tests.helpers.paths import FIXTURES
from tests.helpers.sql_job import AGGREGATE, DEDUPLICATE, JOIN, RANK, SQL, WINDOW, renamed

KITCHEN = FIXTURES / "1.20/kitchen-hashmap-canonical/snapshot"
PLANNED = {AGGREGATE: "6_group-aggregate", JOIN: "9999_join", RANK: "17_stream-exec-rank_1_rank"}


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(renamed(tmp_path_factory.mktemp("planned"), PLANNED))


@pytest.fixture()
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(*_: object) -> dict[str, str]:
        raise AssertionError("uids of the planner were searched")

    monkeypatch.setattr(numbered_uids, "find_numbered_uids", search)


# --- uids of the table planner -------------------------------------------------------------------------------


def test_uids_of_the_planner_are_found(planned: str) -> None:
    snapshot = stateproc.open(planned)
    named = {operator.uid for operator in snapshot.operators if operator.uid}
    assert named == set(PLANNED.values())
    operator = snapshot.operator("6_group-aggregate")
    assert (operator.display, operator.uid, operator.label) == ("6_group-aggregate", "6_group-aggregate", None)
    assert snapshot.operator(operator_id("9999_join")).display == "9999_join"


def test_states_know_the_uid_of_their_operator(planned: str) -> None:
    joined = operator_id("9999_join")
    states = [state for state in stateproc.open(planned).states if state.operator.operator_id == joined]
    assert {state.operator.display for state in states} == {"9999_join"}
    assert {repr(state).split(" of ")[1] for state in states} == {"operator '9999_join'>"}


def test_errors_name_the_uid(planned: str, tmp_path: Path) -> None:
    by_hash = operator_id("9999_join")
    with pytest.raises(NotFound, match="operator '9999_join'"):
        stateproc.open(planned).operator(by_hash).state("lefd-records")
    path = renamed(tmp_path, {operator_id("kitchen-string"): "9999_join"}, KITCHEN)
    for file in set(path.iterdir()) - {path / "_metadata"}:
        data = file.read_bytes()
        file.write_bytes(data[:-200] + b"\xff" * 200)
    with pytest.raises(CorruptSnapshot) as caught:
        for state in stateproc.open(str(path)).operator(by_hash).keyed_states:
            state.to_arrow()
    assert caught.value.where.operator == "9999_join"
    for file in set(path.iterdir()) - {path / "_metadata"}:
        file.unlink()
    with pytest.raises(MissingFile) as lost:
        stateproc.open(str(path)).operator(by_hash).state("profile")
    assert lost.value.where.operator == "9999_join"


def test_opening_and_reading_search_no_uids(planned: str, no_search: None) -> None:
    snapshot = stateproc.open(planned)
    for name in (operator_id("9999_join"), operator_id("9999_join")[:8], "9999_join"):
        assert snapshot.operator(name).state("left-records").to_arrow().num_rows == 9
        assert snapshot.operator(name).wide().schema().names


# --- given names -----------------------------------------------------------------------------------------------


def test_uids_are_read_from_a_file_with_one_per_line(tmp_path: Path) -> None:
    path = renamed(tmp_path, {JOIN: "orders, joined", RANK: "top"})
    names = tmp_path / "uids.txt"
    names.write_text("orders, joined\r\n\n  top  \n")
    operators = stateproc.open(str(path), uids=f"@{names}").operators
    assert {"orders, joined", "top"} == {operator.known_uid for operator in operators if operator.known_uid}


def test_a_compiled_plan_names_nodes_with_any_id_and_format(tmp_path: Path) -> None:
    uids = {
        JOIN: "70123_join",
        RANK: "70124_stream-exec-rank_1_rank",
        AGGREGATE: "mine-7-group-aggregate-1",
        WINDOW: "70125_sink",
        DEDUPLICATE: "Sink Committer: 70125_sink",
    }
    path = renamed(tmp_path, uids)
    form = {"table.exec.uid.format": "mine-<id>-<transformation>-<version>"}
    nodes = [
        {"id": 70123, "type": "stream-exec-join_1", "inputProperties": [{"type": "ANY"}]},
        {"id": 70124, "type": "stream-exec-rank_1", "configuration": {"table.exec.rank.topn-cache-size": "10000"}},
        {"id": 7, "type": "stream-exec-group-aggregate_1", "configuration": form},
        {"id": 70125, "type": "stream-exec-sink_2", "configuration": None},
    ]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"flinkVersion": "1.20", "nodes": nodes, "edges": [{"source": 70123, "target": 7}]}))
    operators = stateproc.open(str(path), uids=[f"@{plan}"]).operators
    assert {operator.known_uid for operator in operators if operator.known_uid} == set(uids.values())


def test_a_plan_of_the_rest_api_gives_labels(tmp_path: Path) -> None:
    nodes = [
        {"id": JOIN, "parallelism": 2, "operator": "", "description": "[20]:Join(a = b)<br/>+- [21]:Calc<br/>"},
        {"id": RANK, "name": "Rank[30] -&gt; Sink", "inputs": [{"id": JOIN, "exchange": "pipelined_bounded"}]},
    ]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"plan": {"jid": "0" * 32, "name": "job", "nodes": nodes}}))
    snapshot = stateproc.open(str(SQL), uids=f"@{plan}")
    labels = {item: snapshot.operator(item).label for item in (JOIN, RANK, AGGREGATE)}
    assert labels == {JOIN: "[20]:Join(a = b)", RANK: "Rank[30]", AGGREGATE: "GroupAggregate"}
    assert snapshot.operator(JOIN).uid is None


def test_every_string_of_other_json_that_may_be_a_uid_is_tried(tmp_path: Path) -> None:
    path = renamed(tmp_path, {JOIN: "joined", RANK: "top", AGGREGATE: "counts"})
    plan = tmp_path / "job.json"
    plan.write_text(json.dumps({"operators": [{"operatorUid": "joined"}, {"name": "top"}], "uids": ["counts"]}))
    found = {operator.known_uid for operator in stateproc.open(str(path), uids=f"@{plan}").operators}
    assert found == {None, "joined", "top", "counts"}


def test_a_given_sink_names_its_committer() -> None:
    snapshot = stateproc.open(str(FIXTURES / "1.20/sinks-hashmap-canonical/snapshot"), uids="orders-sink")
    named = {operator.uid for operator in snapshot.operators if operator.uid and operator.states}
    assert named == {"orders-sink", "Sink Committer: orders-sink"}


def test_one_warning_lists_what_matches_nothing(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"name": "nothing"}')
    with pytest.warns(UnmatchedUidWarning) as caught:
        stateproc.open(str(FIXTURES / "1.20/demo/snapshot"), uids=["orders-per-customer", "order", f"@{plan}"])
    assert len(caught) == 1
    assert f"'order', '@{plan}'" in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stateproc.open(str(FIXTURES / "1.20/demo/snapshot"), uids=["orders-per-customer"])
        # Flink 2.x: the uids in _metadata, and names.
        stateproc.open(str(FIXTURES / "2.3/sql-hashmap-canonical/snapshot"), uids=["feed", "Calc[14]"])


@pytest.mark.parametrize(("content", "reason"), [(b"{broken", "not JSON"), (b"\xff\xfe", "UTF-8"), (None, "No such")])
def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path, content: bytes | None, reason: str) -> None:
    file = tmp_path / "plan.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidOption, match=reason):
        stateproc.open(str(SQL), uids=f"@{file}")


def test_deep_json_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text("[" * 200_000)
    with pytest.raises(InvalidOption, match="not JSON"):
        stateproc.open(str(SQL), uids=f"@{file}")


# --- labels ----------------------------------------------------------------------------------------------------


def test_operators_of_a_sql_job_have_labels() -> None:
    snapshot = stateproc.open(str(SQL))
    wanted = {
        AGGREGATE: "GroupAggregate",
        JOIN: "Join",
        RANK: "Rank",
        WINDOW: "WindowAggregate",
        DEDUPLICATE: "Deduplicate or ChangelogNormalize",
    }
    assert {item.operator_id: item.label for item in snapshot.operators if item.label} == wanted
    assert all(item.uid is None for item in snapshot.operators)


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("1.20/sinks-hashmap-canonical", {"Sink writer", "Sink committer"}),
        ("1.20/kafka-hashmap-checkpoint", {"Source", "Window"}),
        ("1.20/sql-sessions-hashmap-canonical", {"WindowAggregate"}),
    ],
)
def test_operators_of_stream_jobs_have_labels(name: str, labels: set[str]) -> None:
    snapshot = stateproc.open(str(FIXTURES / name / "snapshot"))
    assert {item.label for item in snapshot.operators} - {None} == labels


def test_operators_with_a_name_need_no_label() -> None:
    snapshot = stateproc.open(str(FIXTURES / "2.3/sql-hashmap-canonical/snapshot"))
    assert {item.label for item in snapshot.operators} == {None}


# --- the beginning of a hash -------------------------------------------------------------------------------------


def test_the_beginning_of_a_hash_selects_an_operator() -> None:
    snapshot = stateproc.open(str(SQL))
    assert snapshot.operator(JOIN[:4].upper()).operator_id == JOIN
    with pytest.raises(NotFound):
        snapshot.operator(JOIN[:3])


def test_an_ambiguous_beginning_lists_the_operators(tmp_path: Path) -> None:
    numbers = {operator_id(str(number)): str(number) for number in range(2000)}
    first = min(numbers)
    uids: Any = {AGGREGATE: numbers[first]}
    other = next(item for item in sorted(numbers) if item != first and item[:2] == first[:2])
    path = renamed(tmp_path, uids)
    metadata = (path / "_metadata").read_bytes()
    twin = bytes.fromhex(first[:10] + other[10:])
    (path / "_metadata").write_bytes(metadata.replace(bytes.fromhex(JOIN), twin))
    snapshot = stateproc.open(str(path))
    with pytest.raises(InvalidOption, match="2 uid hashes begin with") as caught:
        snapshot.operator(first[:10])
    assert first in str(caught.value) and twin.hex() in str(caught.value)
    assert snapshot.operator(first).operator_id == first


def test_key_types_accept_the_beginning_of_a_hash() -> None:
    snapshot = stateproc.open(str(SQL), key_type={JOIN[:6]: "Long"})
    assert set(snapshot.options.key_types) == {JOIN}
