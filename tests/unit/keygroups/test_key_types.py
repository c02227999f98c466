"""Changelogs without a key type: the user specifies it, and it is validated against the log."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc import types
from stateproc.cli import main
from stateproc.compatibility.verdicts import Verdict
from stateproc.errors import CorruptSnapshot, InvalidOption, NotFound, SnapshotError, UnsupportedSnapshot
from stateproc.keygroups.hashes import hash_codes
from stateproc.keygroups.key_hash import KeyHash
from stateproc.keygroups.operator_ids import operator_id
from stateproc.keygroups.ranges import key_group_of_hash
from stateproc.readers.splits import Split
from stateproc.writers.rewrite.merged_header import merged_header
from stateproc.writers.rewrite.raw_copy import carried_splits
from tests.helpers.byte_builders.changelog import LONG, SET, STRING, declared, long, opened, state_info
from tests.helpers.byte_builders.metadata import in_memory_changelog
from tests.helpers.fixtures import FIXTURES, Fixture, arrow_rows, differences, fixtures_in
from tests.helpers.sweeps import exhaustive

RELEASES = ("1.20", "2.3")
STATES = {"text", "items", "entries", "sum", "totals", "late"}


def members(release: str) -> list[Fixture]:
    return fixtures_in(FIXTURES / release / "chain-changelog-untold")


@pytest.mark.parametrize("release", RELEASES)
def test_a_missing_key_type_is_reported_with_advice(release: str) -> None:
    for member in members(release):
        operator = member.open(key_type=None).operator("chain")
        problem = operator.problems[0]
        assert isinstance(problem, UnsupportedSnapshot) and "does not hold the key's serializer" in problem.message
        assert problem.advice is not None
        assert all(word in problem.advice for word in ("key_type='Long'", "keyType", "--key-type"))
        with pytest.raises(UnsupportedSnapshot):
            operator.state("text")


KEY_TYPES: list[Any] = [
    "String", types.STRING, pa.string(), {"chain": "String"}, {operator_id("chain"): types.STRING},
    ' {"chain": "String"}',
]  # fmt: skip


@pytest.mark.parametrize("key_type", KEY_TYPES, ids=repr)
@pytest.mark.parametrize(
    "member",
    [*map(exhaustive, [*members("1.20"), *members("2.3")[:-1]]), members("2.3")[-1]],
    ids=lambda member: member.name,
)
def test_a_key_type_is_specified_for_all_operators_or_for_one(member: Fixture, key_type: Any) -> None:
    snapshot = member.open(key_type=key_type)
    assert differences(member, snapshot) == []
    assert {state.name for state in snapshot.operator("chain").keyed_states} >= STATES - {"late"}


@pytest.mark.parametrize("release", RELEASES)
def test_joined_and_flattened_states_with_a_specified_key_type(release: str) -> None:
    member = members(release)[-1]
    operator = member.open().operator("chain")
    table = operator.wide().to_arrow()
    lines = [line for line in member.expected() if line["uid"] == "chain"]
    assert sorted(table.column("key").to_pylist()) == sorted({line["key"] for line in lines})
    flat = operator.state("items").to_arrow(flatten=True)
    assert len(flat) == sum(len(line["value"]) for line in lines if line["state"] == "items")


@pytest.mark.parametrize("release", RELEASES)
def test_only_the_key_group_of_a_key_is_read(release: str) -> None:
    member = members(release)[-1]
    state = member.open().state("chain", "sum")
    rows = {row["key"]: row for row in arrow_rows(member.open(), state)}
    assert len({row["key_group"] for row in rows.values()}) > 8
    for key, row in rows.items():
        assert state.key_groups_of([key]) == {row["key_group"]}
        found = state.to_arrow(keys=[key]).to_pylist()
        assert row in found and {item["key_group"] for item in found} == {row["key_group"]}


def test_splits_can_be_pickled() -> None:
    member = members("2.3")[-1]
    splits: list[Split] = pickle.loads(pickle.dumps(member.open().state("chain", "text").splits(split_bytes=100)))
    rows = [row for split in splits for batch in split.read() for row in batch.to_pylist()]
    wanted = {line["key"]: line["value"] for line in member.expected() if line["state"] == "text"}
    assert len(splits) > 8 and {row["key"]: row["value"] for row in rows} == wanted


def test_the_key_type_is_an_option_of_the_command_line(capfd: pytest.CaptureFixture[str]) -> None:
    member = members("1.20")[-1]
    arguments = ["read", member.snapshot, "--uid", "chain", "--state", "sum", "--format", "jsonl"]
    assert main([*arguments, "--key-type", "String"]) == 0
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    wanted = {line["key"]: line["value"] for line in member.expected() if line["state"] == "sum"}
    assert {row["key"]: row["value"] for row in rows} == wanted
    assert main(arguments) != 0
    assert "--key-type" in capfd.readouterr().err


WRONG = [
    "Long", "Integer", "Boolean", "byte[]", "Tuple2<String, Integer>", "Row<String>", "Nullable<String>", "List<Long>",
]  # fmt: skip


@pytest.mark.parametrize("key_type", WRONG)
@pytest.mark.parametrize("release", [exhaustive("1.20"), "2.3"])
def test_a_wrong_key_type_is_refused_with_advice(release: str, key_type: str) -> None:
    operator = members(release)[-1].open(key_type=key_type).operator("chain")
    for state in operator.keyed_states:
        with pytest.raises((InvalidOption, CorruptSnapshot)) as caught:
            state.to_arrow()
        assert "keyType" in (caught.value.advice or ""), caught.value
        with pytest.raises((InvalidOption, CorruptSnapshot)):
            for split in carried_splits(operator, state.name, 0):
                list(split.read())


def test_a_wrong_key_type_of_the_same_length_is_detected_by_key_groups(tmp_path: Path) -> None:
    """Eight bytes may be a Long or two Integers; only one of them has the hash that fits the log's key group."""
    numbers = [number * 0x2_0000_0007 for number in range(1, 100)]
    groups = key_group_of_hash(hash_codes(pa.array(numbers), KeyHash("long")), 128).tolist()
    rows = [
        (group, bytes([SET, 0, 0]) + long(number) + b"\0" + long(-number))
        for group, number in zip(groups, numbers, strict=True)
        if group < 64
    ]
    log = in_memory_changelog([declared(0, state_info("v", "VALUE", LONG)), *sorted(rows)])
    opened(tmp_path, [], [log])
    table = stateproc.open(str(tmp_path), key_type="Long").operators[0].state("v").to_arrow()
    assert len(table) == len(rows) > 30
    assert all(row["key"] == -row["value"] for row in table.to_pylist())
    state = stateproc.open(str(tmp_path), key_type="Tuple2<Integer, Integer>").operators[0].state("v")
    with pytest.raises(InvalidOption, match=r"keys are no Tuple2<Int.*>: .* belong to other") as caught:
        state.to_arrow()
    assert caught.value.where.state == "v" and "keyType" in (caught.value.advice or "")


def test_keys_of_an_unknown_hash_are_read_without_validation(tmp_path: Path) -> None:
    """The hashCode of a POJO is user code."""
    rows = [(group, bytes([SET, 0, 0]) + b"\x02\0" + long(group) + b"\0" + long(7)) for group in (3, 9)]
    opened(tmp_path, [], [in_memory_changelog([declared(0, state_info("v", "VALUE", LONG)), *rows])])
    snapshot = stateproc.open(str(tmp_path), key_type=types.Pojo("com.acme.Id", {"id": types.LONG}))
    assert [row["key"] for row in arrow_rows(snapshot, snapshot.operators[0].state("v"))] == [{"id": 3}, {"id": 9}]


def test_the_key_type_in_the_snapshot_overrides_the_specified_one(tmp_path: Path) -> None:
    (member, *_) = fixtures_in(FIXTURES / "1.20" / "chain-changelog-never")
    assert differences(member, member.open(key_type="Long")) == []
    (demo,) = fixtures_in(FIXTURES / "1.20" / "demo")
    assert differences(demo, demo.open(key_type="byte[]")) == []


@pytest.mark.parametrize(
    ("key_type", "error", "match"),
    [
        ("Strin", InvalidOption, "Strin"),
        ("{not json", InvalidOption, "not a JSON object"),
        ({"chain": 7}, InvalidOption, "no type"),
        (7, InvalidOption, "no type"),
        ({"chian": "String"}, NotFound, "chian"),
    ],
)
def test_an_invalid_key_type_is_refused(key_type: Any, error: type[SnapshotError], match: str) -> None:
    with pytest.raises(error, match=match):
        members("1.20")[0].open(key_type=key_type)


@pytest.mark.parametrize("release", RELEASES)
def test_the_rewritten_header_has_the_key_serializer_snapshot_that_flink_writes(release: str) -> None:
    """An equal job has materialized state, whose header Flink wrote."""
    oracle = merged_header(fixtures_in(FIXTURES / release / "chain-changelog-by-and-by")[-1].open().operator("chain"))
    ours = merged_header(members(release)[-1].open().operator("chain"))
    assert ours.key_snapshot == oracle.key_snapshot
    assert set(ours.names) == STATES <= set(oracle.names)
    operator = members(release)[-1].open().operator("chain")
    for state in operator.keyed_states:
        carried = [batch for split in carried_splits(operator, state.name, 0) for batch in split.read()]
        assert sum(len(batch) for batch in carried) == len(state.to_arrow(flatten=state.name == "entries")) > 0
    assert STRING in ours.key_snapshot


@pytest.mark.parametrize("release", RELEASES)
def test_a_job_restores_a_log_that_does_not_contain_the_type_of_its_keys(release: str) -> None:
    """Flink has it from the job. Of another Kryo nobody knows whether the keys are written with it."""
    member = members(release)[-1]
    same = member.open(key_type=None).check(flink_version=release)
    (operator,) = [one for one in same.operators if one.states]
    assert same.restores and {state.name for state in operator.states} == STATES
    assert operator.reasons == (
        "key: its type is not known, because nothing of this changelog is materialized and the log does not contain "
        "it; Flink does not compare it",
    )
    assert operator.fix == "name their type (--key-type, as in docs/naming-types.md) and check again"
    other = {"1.20": "2.3", "2.3": "1.20"}[release]
    moved = member.open(key_type=None).check(flink_version=other)
    (operator,) = [one for one in moved.operators if one.states]
    assert not moved.restores
    if release == "1.20":
        assert {state.verdict for state in operator.states} == {Verdict.MISREAD}
        assert operator.reasons[0].endswith("keys of Kryo Flink 2.3 misreads")
        declared = [{"uid": "chain", "key": "String", "states": [{"name": "text", "kind": "value", "value": "String"}]}]
        checked = member.open(key_type=None).check(flink_version="2.3", expect={"operators": declared})
        (operator,) = [one for one in checked.operators if one.states]
        assert {state.name: state.verdict for state in operator.states}["text"] == Verdict.AS_IS
        assert operator.reasons[0].endswith("Flink does not compare it")
    named = member.open(key_type="String")
    assert named.check(flink_version=release).restores
    assert named.check(flink_version="2.3").restores
    assert named.check(like=member.open(key_type=None)).restores


@pytest.mark.parametrize("release", RELEASES)
def test_what_a_job_declares_is_compared_where_the_type_of_keys_is_not_known(release: str) -> None:
    expected = [
        {"uid": "chain", "key": "Long", "states": [
            {"name": "text", "kind": "value", "value": "String"},
            {"name": "items", "kind": "list", "element": "Long"},
        ]}
    ]  # fmt: skip
    check = members(release)[-1].open(key_type=None).check(expect={"operators": expected})
    (operator,) = [one for one in check.operators if one.states]
    found = {state.name: state.verdict for state in operator.states}
    assert found == {
        **dict.fromkeys(STATES, Verdict.DROPPED), "text": Verdict.AS_IS, "items": Verdict.REFUSED
    }  # fmt: skip
