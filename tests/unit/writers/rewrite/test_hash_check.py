"""Hash codes are confirmed by the key groups that keys are in at the source, before a savepoint is written by them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import stateproc
from stateproc import SavepointWriter
from stateproc.cli.app import main
from stateproc.errors import InvalidOption
from stateproc.keygroups.ranges import key_group_of_hash
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext
from stateproc.serializers.java.scalars import LONG
from stateproc.writers.rewrite.rekey import HashCheck, Rekey, rekey
from tests.helpers.cases import CaseSnapshot, case_snapshots
from tests.helpers.writers.raw_copies import as_batch

READS_EVERY_MODE = False
HASHED = ("scala", "record", "kotlin", "lombok")
STATE = StateDescriptor("s", StateKind.VALUE, 0, LONG, LONG, LONG)
SNAPSHOTS = [one for one in case_snapshots() if one.case == "hash-keys"]


def checked() -> Rekey:
    check = HashCheck(128, "orders", "the hashCode of Long")
    return replace(rekey(STATE, 256, LayoutContext()), check=check)


def moment(millis: int) -> bytes:
    return millis.to_bytes(8, "big", signed=True)


def batch_of(keys: list[int], groups: list[int]) -> pa.RecordBatch:
    return as_batch({(group, moment(key) + moment(0)): b"" for key, group in zip(keys, groups, strict=True)})


def groups_of(keys: list[int], max_parallelism: int) -> list[int]:
    found: list[int] = key_group_of_hash(np.array(keys, np.int32), max_parallelism).tolist()
    return found


def test_keys_in_their_key_groups_are_assigned_to_new_ones() -> None:
    keys = [*range(50)]
    (found,) = checked().batches([batch_of(keys, groups_of(keys, 128))])
    assert found.column("key_group").to_pylist() == groups_of(keys, 256)


def test_one_key_in_another_key_group_is_an_error_with_counts() -> None:
    keys = [*range(50)]
    groups = groups_of(keys, 128)
    wrong = [*groups[:-1], (groups[-1] + 1) % 128]
    batches = [batch_of(keys, wrong), batch_of(keys, groups)]
    with pytest.raises(
        InvalidOption, match=r"99 of 100 entries fit: the hashCode of Long gives 1 of them another"
    ) as e:
        list(checked().batches(batches))
    assert "operator orders" in str(e.value) and "keep the max parallelism" in str(e.value)


@pytest.mark.parametrize("one", SNAPSHOTS, ids=str)
@pytest.mark.parametrize("uid", HASHED)
def test_a_wrong_function_is_refused_and_nothing_is_left(one: CaseSnapshot, uid: str, tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(None, one.path, {"uids": ",".join(one.uids)})
    for name in HASHED:
        if name != uid:
            writer.remove_operator(name)
    writer.with_max_parallelism(256)
    writer.with_hash_function(uid, lambda keys: pa.array(np.arange(len(keys)), pa.int32()))
    with pytest.raises(InvalidOption, match=r"\d of \d+ entries fit: the hash function gives"):
        writer.write(tmp_path / "out")
    assert not list(tmp_path.iterdir())


NAMED = {"record": "record:name,n,l", "kotlin": "kotlin", "lombok": "lombok:b,a,c"}


def writer_of(one: CaseSnapshot, **functions: str) -> SavepointWriter:
    writer = SavepointWriter.from_existing_savepoint(None, one.path, {"uids": ",".join(one.uids)})
    for name in HASHED:
        if name not in functions and name != "scala":
            writer.remove_operator(name)
    for uid, function in functions.items():
        writer.with_hash_function(uid, function)
    return writer.with_max_parallelism(256)


def rows(path: str | Path, one: CaseSnapshot, uid: str, state: str) -> list[dict[str, object]]:
    table = stateproc.open(path, uids=",".join(one.uids)).operator(uid).state(state).to_arrow()
    kept = [name for name in table.column_names if name != "key_group"]
    return sorted(table.select(kept).to_pylist(), key=repr)


@pytest.mark.parametrize("one", SNAPSHOTS, ids=str)
def test_named_formulas_place_all_keys(one: CaseSnapshot, tmp_path: Path) -> None:
    writer = writer_of(one, **NAMED)
    notes = "\n".join(writer.plan().notes)
    assert "scala: keys are hashed by scala-2.12, which the key groups of all 90 entries looked at confirm" in notes
    assert "lombok: keys are hashed by lombok, which" in notes
    written = writer.write(tmp_path / "out")
    assert stateproc.open(written.path, uids=",".join(one.uids)).verify().is_intact
    # From other key groups, by the same formulas.
    again = SavepointWriter.from_existing_savepoint(None, written.path, {"uids": ",".join(one.uids)})
    for uid, function in NAMED.items():
        again.with_hash_function(uid, function)
    again.with_max_parallelism(128).write(tmp_path / "again")
    for uid in HASHED:
        for state in ("count", "byName"):
            before, after = (rows(path, one, uid, state) for path in (one.path, tmp_path / "again"))
            assert before == after and len(before) == 30


@pytest.mark.parametrize("one", SNAPSHOTS, ids=str)
@pytest.mark.parametrize(
    ("uid", "named"),
    [
        ("scala", "Objects.hash"),
        ("scala", "scala-2.13"),
        ("record", "record"),
        ("record", "Objects.hash:name,n,l"),
        ("kotlin", "Objects.hash"),
        ("lombok", "lombok:a,b,c"),
    ],
)
def test_a_named_formula_that_does_not_fit_is_refused(one: CaseSnapshot, uid: str, named: str, tmp_path: Path) -> None:
    writer = writer_of(one, **{uid: named})
    for refused in (writer.plan, lambda: writer.write(tmp_path / "out")):
        with pytest.raises(InvalidOption, match=rf"\d of 90 entries fit: {named} gives the others another") as e:
            refused()
        assert "record, kotlin, lombok, scala" in str(e.value) and f"operator {uid}" in str(e.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("one", SNAPSHOTS, ids=str)
def test_verify_checks_key_groups_by_a_named_formula(one: CaseSnapshot) -> None:
    snapshot = stateproc.open(one.path, uids=",".join(one.uids))
    found = snapshot.verify(hash_function={**NAMED, "scala": "scala"})
    assert found.is_intact
    checked = {op.uid: [state.checked_keys for state in op.states if state.rows] for op in found.operators}
    assert {uid: sum(checked[uid]) for uid in HASHED} == dict.fromkeys(HASHED, 90)
    wrong = snapshot.verify(uids=["record"], states=["count"], hash_function={"record": "Objects.hash"})
    assert wrong.problems and not wrong.is_intact
    for problem in wrong.problems:
        assert re.match(r"Flink will not find \d+ of \d+ keys if their class hashes as Objects.hash does", problem.what)
        assert problem.states == ("count",) and "another one" in problem.advice
    with pytest.raises(InvalidOption, match="no field 'x'"):
        snapshot.verify(hash_function={"record": "record:x"})


def test_verify_takes_the_formula_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    one = SNAPSHOTS[0]
    arguments = ["verify", str(one.path), "--uids", ",".join(one.uids), "--uid", "lombok", "--hash-function"]
    assert main([*arguments, "lombok=lombok:b,a,c"]) == 0
    assert main([*arguments, "lombok=kotlin"]) == 1
    assert "Flink will not find" in capsys.readouterr().out


def test_one_key_group_confirms_nothing(tmp_path: Path) -> None:
    one = SNAPSHOTS[0]
    narrow = writer_of(one).with_max_parallelism(1, "scala").with_parallelism("scala", 1).write(tmp_path / "narrow")
    writer = SavepointWriter.from_existing_savepoint(None, narrow.path, {"uids": ",".join(one.uids)})
    writer.with_max_parallelism(128, "scala")
    with pytest.raises(InvalidOption, match="2 formulas of scala fit all 90 entries") as e:
        writer.plan()
    assert e.value.advice == "name the one of the job: scala-2.12 or scala-2.13"
    writer.with_hash_function("scala", "scala-2.12")
    assert any("scala-2.12; one key group confirms nothing" in note for note in writer.plan().notes)
    found = writer.write(tmp_path / "wide")
    assert stateproc.open(found.path, uids=",".join(one.uids)).verify(hash_function={"scala": "scala-2.12"}).is_intact


@pytest.mark.parametrize("wrong", ["record", lambda keys: pa.array(np.arange(len(keys)), pa.int32())])
def test_rows_are_not_placed_by_a_function_that_does_not_fit_the_source(wrong: object, tmp_path: Path) -> None:
    one = SNAPSHOTS[0]
    writer = SavepointWriter.from_existing_savepoint(None, one.path, {"uids": ",".join(one.uids)})
    writer.with_hash_function("record", wrong).transform_state("record", "count", lambda rows: rows)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="entries fit"):
        writer.write(tmp_path / "out")
    assert not list(tmp_path.iterdir())
