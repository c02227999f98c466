"""What becomes of a snapshot in a job: operators, keys, kinds, files, and states decided by their values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter, types
from stateproc.compatibility.value_comparison import rows_differ
from stateproc.compatibility.verdicts import RESTORED, CompatibilityCheck, StateCheck, Verdict
from stateproc.snapshot.snapshot import Snapshot
from tests.helpers.cases import CaseSnapshot, case_snapshots
from tests.helpers.damage.snapshot_copies import SnapshotCopy
from tests.helpers.fixtures import Fixture, fixtures
from tests.helpers.paths import FIXTURES

DEMO = FIXTURES / "1.20/demo/snapshot"
UID = "orders-per-customer"
NAMES = pa.table({"key": [1, 2], "value": ["a", "b"]})
NUMBERS = pa.table({"key": [1, 2], "value": [3, 4]})
Define = Callable[[Any], object]


def written(
    target: Path, define: Define, *, uid: str = "op", key_type: str = "Long", max_parallelism: int = 128
) -> Snapshot:
    """Write a savepoint of one operator, as Flink 1.20 does."""
    state = OperatorBootstrap(key_type=key_type)
    define(state)
    writer = SavepointWriter.new_savepoint(None, max_parallelism).with_operator(uid, state)
    return stateproc.open(writer.write(target), uids=[uid])


def verdicts(check: CompatibilityCheck) -> dict[str, Verdict]:
    return {state.name: state.verdict for _, state in check.states}


def state(check: CompatibilityCheck, name: str) -> StateCheck:
    return next(state for _, state in check.states if state.name == name)


def value(name: str, rows: pa.Table, type_: Any) -> Define:
    return lambda operator: operator.value_state(name, rows, type=type_)


@pytest.mark.parametrize("release", ["1.13", "1.16", "1.20", "2.0", "2.3"])
def test_a_job_without_kryo_restores_on_every_release(release: str) -> None:
    check = stateproc.open(str(DEMO)).check(flink_version=release)
    # Flink before 1.16 does not read this version of _metadata.
    assert check.restores is (release != "1.13")
    assert set(verdicts(check).values()) == {Verdict.AS_IS}


@pytest.mark.parametrize("case", [one for one in case_snapshots() if one.case == "sql-accumulators"], ids=str)
def test_lists_in_accumulators_are_the_same_objects_in_flink_2(case: CaseSnapshot) -> None:
    """Those of ARRAY_AGG and LAG are RAW: their serializer is a Java object, which holds no ExecutionConfig."""
    check = stateproc.open(case.path).check(flink_version="2.3")
    assert check.verdict is Verdict.AS_IS, check.reasons
    found = {operator.uid for operator in check.operators if "accState" in {state.name for state in operator.states}}
    assert {"69_group-aggregate", "101_over-aggregate", "106_over-aggregate"} <= found


def test_every_fixture_restores_on_its_own_release() -> None:
    for fixture in fixtures():
        snapshot = fixture.open()
        check = snapshot.check(like=snapshot)
        assert [f"{operator.display} {state.name}" for operator, state in check.states if not state.is_right] == [], (
            fixture
        )


def test_metadata_of_a_later_release_is_refused() -> None:
    fixture = next(item for item in fixtures() if item.name.startswith("2.3/"))
    check = fixture.open().check(flink_version="1.20")
    assert check.verdict is Verdict.REFUSED
    assert check.exception == "java.lang.IllegalArgumentException: Unrecognized checkpoint version number: 6"
    assert check.fix is not None
    assert check.fix.startswith("stateproc upgrade --flink-version 1.20 ")


def test_kinds_have_to_be_the_same(tmp_path: Path) -> None:
    old = written(tmp_path / "old", value("x", NUMBERS, types.LONG))
    new = written(
        tmp_path / "new",
        lambda operator: operator.list_state("x", pa.table({"key": [1], "value": [[1]]}), element_type=types.LONG),
    )
    found = state(old.check(like=new), "x")
    assert found.verdict is Verdict.REFUSED
    assert found.exception == (
        "java.lang.IllegalStateException: Incompatible key/value state types. Was [VALUE], registered with [LIST]."
    )


def test_keys_are_as_is_only(tmp_path: Path) -> None:
    old = written(tmp_path / "old", value("x", NUMBERS, types.LONG))
    new = written(tmp_path / "new", value("x", NUMBERS, types.LONG), key_type="Integer")
    check = old.check(like=new)
    assert verdicts(check) == {"x": Verdict.REFUSED}
    assert check.operators[0].exception == (
        "org.apache.flink.util.StateMigrationException: The new key serializer (IntSerializer) must be compatible with "
        "the previous key serializer (LongSerializer)."
    )


def test_an_operator_that_the_job_does_not_have(tmp_path: Path) -> None:
    old = written(tmp_path / "old", value("x", NUMBERS, types.LONG))
    new = written(tmp_path / "new", value("y", NUMBERS, types.LONG), uid="other")
    check = old.check(like=new)
    assert [(operator.verdict, operator.is_right) for operator in check.operators] == [
        (Verdict.DROPPED, False),
        (Verdict.STARTS_EMPTY, True),
    ]
    assert "--allowNonRestoredState" in check.operators[0].reasons[0]


def test_max_parallelism_that_the_job_sets(tmp_path: Path) -> None:
    old = written(tmp_path / "old", value("x", NUMBERS, types.LONG))
    new = written(tmp_path / "new", value("x", NUMBERS, types.LONG), max_parallelism=64)
    check = old.check(like=new)
    assert check.verdict is Verdict.REFUSED
    assert "with max parallelism 128 to new program with max parallelism 64" in (check.operators[0].exception or "")
    assert old.check(like=old).restores


@pytest.mark.parametrize(("release", "verdict"), [("1.20", Verdict.REFUSED), ("2.0", Verdict.AFTER_MIGRATION)])
def test_a_time_to_live_is_enabled_since_flink_2(release: str, verdict: Verdict, tmp_path: Path) -> None:
    old = written(tmp_path / "old", value("x", NUMBERS, types.LONG))
    aged = NUMBERS.append_column("last_access", pa.array([1, 2], pa.timestamp("ms", "UTC")))
    new = written(
        tmp_path / "new",
        lambda operator: operator.value_state("x", aged, type=types.LONG, ttl=True),
    )
    assert verdicts(old.check(like=new, flink_version=release)) == {"x": verdict}
    assert verdicts(new.check(like=old, flink_version=release)) == {"x": verdict}


def test_fields_of_a_pojo_that_a_migration_loses(tmp_path: Path) -> None:
    rows = pa.table({"key": [1], "value": [{"a": "x", "b": 1}]})
    renamed = pa.table({"key": [1], "value": [{"a": "x", "bb": 1}]})
    old = written(tmp_path / "old", value("x", rows, "Pojo com.acme.P {a: String, b: Integer}"))
    new = written(tmp_path / "new", value("x", renamed, "Pojo com.acme.P {a: String, bb: Integer}"))
    check = old.check(like=new)
    found = state(check, "x")
    assert found.verdict is Verdict.AFTER_MIGRATION
    assert found.losses == ("b: is dropped; if bb is its new name, its values are lost",)
    assert not check.restores
    assert old.check(flink_version="2.3").restores


LINE = "com.acme.lab.Case31$Cart$Line"


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"sku": "String", "count": "int"}, Verdict.AS_IS),
        ({"sku": "String", "count": "double"}, Verdict.MISREAD),
        ({"sku": "String", "count": "List<String>"}, Verdict.MISREAD),
        ({"sku": "String", "count": "Object"}, Verdict.MISREAD),
        (None, Verdict.MISREAD),
    ],
)
def test_kryo_is_decided_by_the_fields_of_described_classes(fields: dict[str, str] | None, verdict: Verdict) -> None:
    case = next(item for item in case_snapshots() if str(item).endswith("bare/rocksdb-canonical"))
    classes = {} if fields is None else {LINE: fields}
    found = state(case.open(classes=classes).check(flink_version="2.3"), "line")
    assert found.verdict is verdict
    if fields is None:
        assert "describe the class" in (found.fix or "")


def test_rows_are_compared_as_both_versions_of_kryo_read_them(tmp_path: Path) -> None:
    case = next(item for item in case_snapshots() if str(item).endswith("bare/rocksdb-canonical"))
    operator = case.open(classes={LINE: {"sku": "String", "count": "int"}}).operator("inner")
    assert rows_differ(operator, operator.state("line"), 5) is None
    ids = pa.table({"key": [1, 2], "value": [f"00000000-0000-000{n}-0000-000000000002" for n in (1, 2)]})
    other = written(tmp_path / "ids", value("x", ids, "Kryo java.util.UUID")).operator("op")
    assert rows_differ(other, other.state("x"), 2) is None
    assert (rows_differ(other, other.state("x"), 5) or "").startswith(("after 0 rows: ", "among rows 1 to "))


def test_damaged_headers_are_refused(tmp_path: Path) -> None:
    copy = SnapshotCopy(Fixture(FIXTURES / "1.20/demo", {"snapshot": "snapshot"}), tmp_path)
    copy.files("managed keyed")[0].unlink()
    check = stateproc.open(copy.path).check(flink_version="2.3")
    assert check.verdict is Verdict.REFUSED
    assert any("missing" in reason for operator in check.operators for reason in operator.reasons)


def test_restored_verdicts_are_the_best() -> None:
    assert tuple(Verdict)[: len(RESTORED)] == RESTORED
