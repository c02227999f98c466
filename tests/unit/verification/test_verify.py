"""Snapshots of real Flink are intact; of damaged ones every damage is reported, and everything else is read."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

import stateproc
from stateproc.errors import InvalidOption, MissingPackage, NotFound
from stateproc.metadata.stream_handles import KeyGroupsHandle
from stateproc.snapshot.snapshot import Snapshot
from stateproc.verification import database_check
from stateproc.verification.problem import Severity
from stateproc.verification.report import Verification
from tests.helpers.damage.snapshot_copies import SnapshotCopy
from tests.helpers.fixtures import CLASSES, Fixture, fixtures, newest_fixtures, unknown_type_fixtures
from tests.helpers.paths import FIXTURES
from tests.helpers.stores.counting_filesystem import counted, counting
from tests.helpers.sweeps import sampled

DEMO = str(FIXTURES / "1.20/demo/snapshot")
BY_NAME = {fixture.name: fixture for fixture in fixtures()}
CANONICAL, HEAP, ROCKSDB, CHANGELOG = (
    "1.20/kitchen-hashmap-canonical",
    "1.20/kitchen-hashmap-checkpoint",
    "1.20/kitchen-rocksdb-incremental",
    "1.20/chain-changelog",
)
OPERATOR_STATE = "1.20/operators-hashmap-canonical"


def named(name: str) -> Fixture:
    return next(fixture for key, fixture in reversed(BY_NAME.items()) if key == name or key.startswith(name + "/"))


@pytest.fixture
def copy(request: pytest.FixtureRequest, tmp_path: Path) -> SnapshotCopy:
    return SnapshotCopy(named(request.param), tmp_path)


def copied(*fast: str) -> pytest.MarkDecorator:
    """Copy a snapshot of each format; `make test-fast` reads those of `fast`, others with other tests."""
    formats = (CANONICAL, HEAP, ROCKSDB, CHANGELOG, OPERATOR_STATE)
    return pytest.mark.parametrize("copy", [name if name in fast else sampled(name) for name in formats], indirect=True)


def check_intact(snapshot: Snapshot) -> Verification:
    found = snapshot.verify()
    assert found.is_intact, found.problems
    assert not found.problems
    for operator, verified in zip(snapshot.operators, found.operators, strict=True):
        rows = sorted((state.name, state.to_arrow().num_rows) for state in operator.states)
        assert sorted((state.state, state.rows) for state in verified.states) == rows
        assert all(state.is_intact for state in verified.states)
    return found


@pytest.mark.exhaustive
@pytest.mark.parametrize("fixture", newest_fixtures(), ids=lambda fixture: fixture.name)
def test_every_fixture_is_intact_with_the_rows_that_reading_returns(fixture: Fixture) -> None:
    check_intact(fixture.open(classes=CLASSES))


@pytest.mark.parametrize("name", [CANONICAL, HEAP, ROCKSDB, CHANGELOG, OPERATOR_STATE])
def test_snapshots_of_each_format_are_intact_with_the_rows_that_reading_returns(name: str) -> None:
    found = check_intact(named(name).open(classes=CLASSES))
    assert sum(state.rows or 0 for operator in found.operators for state in operator.states) == found.rows > 0


def test_key_groups_are_recomputed_where_the_hash_of_keys_is_known() -> None:
    found = stateproc.open(DEMO).verify()
    (customers,) = (operator for operator in found.operators if len(operator.states) == 4)
    assert {state.state: state.checked_keys == state.rows for state in customers.states}["profile"]


def test_files_are_read_once_for_all_states_in_them() -> None:
    path = Path(DEMO)
    with counting() as count:
        snapshot = stateproc.open(counted(path))
        assert snapshot.verify().is_intact
    files = {name for name, _ in count.requests} - {"_metadata"}
    # The header of each, and all key groups together.
    assert {count.times(name) for name in files} == {2}
    assert count.bytes == sum(path.joinpath(name).stat().st_size for name in files | {"_metadata"})


def test_operators_and_states_can_be_chosen() -> None:
    snapshot = stateproc.open(DEMO)
    found = snapshot.verify(uids=["orders-per-customer"], states=["profile", "event timers"])
    (operator,) = found.operators
    assert operator.uid == "orders-per-customer"
    assert {state.state: state.rows for state in operator.states} == {
        name: snapshot.state("orders-per-customer", name).to_arrow().num_rows for name in ("profile", "event timers")
    }


def test_unknown_operators_and_states_are_refused() -> None:
    snapshot = stateproc.open(DEMO)
    with pytest.raises(NotFound):
        snapshot.verify(uids=["nobody"])
    with pytest.raises(NotFound, match="no state 'profil'") as refused:
        snapshot.verify(states=["profil"])
    assert "'profile'" in (refused.value.advice or "")


@copied(HEAP, CHANGELOG)
def test_a_missing_file_is_reported_and_the_others_are_read(copy: SnapshotCopy) -> None:
    whole = copy.open().verify().rows
    every = copy.files()
    for file in [every[0], every[-1]]:
        with copy.changed(file, None) as snapshot:
            found = snapshot.verify()
        assert not found.is_intact
        assert any(file.name in (problem.file or "") for problem in found.problems), found.problems
        assert all(problem.severity is Severity.DAMAGED and problem.advice for problem in found.problems)
        assert found.rows <= whole


@pytest.mark.exhaustive
@copied()
def test_every_missing_or_truncated_file_is_reported(copy: SnapshotCopy) -> None:
    for number, file in enumerate(copy.files()):
        data = None if number % 2 else file.read_bytes()[:-1]
        with copy.changed(file, data) as snapshot:
            found = snapshot.verify()
        assert not found.is_intact, (file, data is None)
        assert any(file.name in (problem.file or "") for problem in found.problems), (file, found.problems)


@copied(CANONICAL, ROCKSDB, OPERATOR_STATE)
def test_a_truncated_file_is_reported(copy: SnapshotCopy) -> None:
    (file, *_) = copy.files("managed", "rocksdb shared", "changelog")
    with copy.changed(file, file.read_bytes()[:-1]) as snapshot:
        found = snapshot.verify()
    assert any(file.name in (problem.file or "") for problem in found.problems)


@pytest.mark.exhaustive
@copied()
def test_verifying_damaged_files_always_ends_with_a_result(copy: SnapshotCopy) -> None:
    rng = random.Random(5)
    files = copy.files()
    found = 0
    for _ in range(20):
        file = rng.choice(files)
        data = bytearray(file.read_bytes())
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        with copy.changed(file, bytes(data)) as snapshot:
            result = snapshot.verify(threads=2)
        assert all(problem.what and problem.operator for problem in result.problems)
        found += not result.is_intact
    assert found > 6


@pytest.mark.parametrize("copy", [ROCKSDB], indirect=True)
def test_a_flipped_bit_in_a_table_is_reported_once_for_the_states_in_it(copy: SnapshotCopy) -> None:
    file = next(file for file in copy.files("rocksdb shared") if file.stat().st_size < 2000)
    data = bytearray(file.read_bytes())
    data[5] ^= 1
    with copy.changed(file, bytes(data)) as snapshot:
        found = snapshot.verify()
    (problem,) = found.problems
    assert "checksum" in problem.what
    assert (problem.severity, problem.offset, len(problem.states)) == (Severity.DAMAGED, 0, 1)
    assert problem.key_groups
    damaged = [state for operator in found.operators for state in operator.states if not state.is_intact]
    assert [(state.state,) for state in damaged] == [problem.states]
    assert damaged[0].rows is None
    with copy.changed(file, bytes(data)) as snapshot:
        snapshot.options = replace(snapshot.options, verify=False)
        assert not any("checksum" in problem.what for problem in snapshot.verify().problems)


@pytest.mark.parametrize("copy", [CANONICAL], indirect=True)
def test_only_the_key_groups_that_are_damaged_are_lost(copy: SnapshotCopy) -> None:
    whole = copy.open().verify().rows
    snapshot = copy.open()
    handle = next(file.handle for operator in snapshot.operators for file in operator.keyed_files)
    assert isinstance(handle, KeyGroupsHandle)
    group, start = next(
        (handle.first_key_group + index, offset) for index, offset in enumerate(handle.offsets) if offset
    )
    (file, *_) = copy.files("managed keyed")
    data = bytearray(file.read_bytes())
    data[start : start + 2] = b"\x7f\xff"  # the id of the first entry's state
    with copy.changed(file, bytes(data)) as damaged:
        found = damaged.verify()
    (problem,) = found.problems
    assert "a state that the header does not list" in problem.what
    assert (problem.key_groups, problem.offset) == ((group,), start)
    assert 0 < found.rows < whole


def entry_of(data: bytes, key: int, group: int) -> int:
    """Where a key of type Long is in canonical bytes: after its length and its key group; -1 if it is not."""
    entry = (10).to_bytes(4, "big") + bytes([group]) + key.to_bytes(8, "big")
    at = data.find(entry)
    return at + 5 if at >= 0 else -1


def test_a_key_in_another_key_group_is_reported(tmp_path: Path) -> None:
    copy = SnapshotCopy(Fixture(FIXTURES / "1.20/demo", {"snapshot": "snapshot", "kind": ""}), tmp_path)
    number = 299
    groups = copy.open().state("orders-per-customer", "profile").key_groups_of([number])
    assert groups is not None
    (file,) = (path for path in copy.files("managed keyed") if entry_of(path.read_bytes(), number, *groups) >= 0)
    data = file.read_bytes()
    at = entry_of(data, number, *groups)
    changed = data[:at] + (1299).to_bytes(8, "big") + data[at + 8 :]
    with copy.changed(file, changed) as snapshot:
        found = snapshot.verify()
    (problem,) = found.problems
    assert problem.what.startswith("1 key is stored in a key group that Flink does not look in: 1299 is in ")
    assert problem.severity is Severity.DAMAGED
    assert not found.is_intact


def with_handles(snapshot: Snapshot, uid: str, changes: dict[int, KeyGroupsHandle | None]) -> Snapshot:
    """The snapshot with other keyed handles of an operator's subtasks."""
    chosen = snapshot.operator(uid).operator_id
    operators = []
    for operator in snapshot.metadata.operators:
        if operator.operator_id == chosen:
            subtasks = tuple(
                replace(subtask, managed_keyed=changes.get(subtask.index, subtask.managed_keyed))
                for subtask in operator.subtasks
            )
            operator = replace(operator, subtasks=subtasks)
        operators.append(operator)
    metadata = replace(snapshot.metadata, operators=tuple(operators))
    return Snapshot(snapshot.location, metadata, snapshot.options, [uid])


def keyed_handles(snapshot: Snapshot) -> tuple[str, dict[int, KeyGroupsHandle]]:
    operator = next(operator for operator in snapshot.operators if len(operator.keyed_files) > 1)
    handles = {file.subtask: file.handle for file in operator.keyed_files}
    assert all(isinstance(handle, KeyGroupsHandle) for handle in handles.values())
    return operator.display, handles  # type: ignore[return-value]


def test_overlapping_and_misplaced_key_groups_are_reported() -> None:
    snapshot = named("1.20/kitchen-hashmap-canonical").open(classes=CLASSES)
    uid, handles = keyed_handles(snapshot)
    found = with_handles(snapshot, uid, {1: handles[0]}).verify()
    texts = [problem.what for problem in found.problems]
    assert any("that subtask 0 has, too" in text for text in texts)
    assert any("where Flink assigns" in text for text in texts)
    assert not found.is_intact


def test_a_subtask_without_keyed_state_is_a_note() -> None:
    snapshot = named("1.20/kitchen-hashmap-canonical").open(classes=CLASSES)
    uid, _ = keyed_handles(snapshot)
    found = with_handles(snapshot, uid, {1: None}).verify()
    (note,) = found.problems
    assert note.severity is Severity.NOTE
    assert "subtask 1 has no keyed state" in note.what
    assert found.is_intact


@pytest.mark.parametrize(
    "fixture",
    [
        pytest.param(item, marks=() if "2.3" in item.name else pytest.mark.exhaustive)
        for item in unknown_type_fixtures()
    ],
    ids=lambda fixture: fixture.name,
)
def test_undecodable_states_are_reported_once_and_the_others_read(fixture: Fixture) -> None:
    found = fixture.open().verify()
    assert not found.is_intact
    assert {problem.severity for problem in found.problems} == {Severity.UNREADABLE}
    # The types; in native heap files also states that are stored after their values.
    assert 1 <= len(found.problems) <= 2
    first = found.problems[0]
    assert set(first.states) == {"account", "ledger"}
    assert "register" in first.advice
    unread = [state.state for operator in found.operators for state in operator.states if state.rows is None]
    assert {"account", "ledger"} <= set(unread)
    assert found.rows > 0


def test_classes_that_need_a_description_are_in_the_skeleton() -> None:
    fixture = named("1.20/edges-hashmap-canonical")
    found = fixture.open().verify()
    assert found.skeleton == {
        "fixtures.Edges$Dog": {"fieldName": "type"},
        "fixtures.Edges$Generic": {"fieldName": "type", "this$0": "fixtures.Edges"},
    }
    assert {problem.severity for problem in found.problems} == {Severity.UNREADABLE}
    assert all(problem.file and not problem.file.startswith("<") for problem in found.problems)
    with pytest.raises(InvalidOption, match="unknown type 'type'"):
        fixture.open(classes=found.skeleton)
    described = fixture.open(classes=CLASSES).verify()
    assert described.is_intact
    assert not described.skeleton


def test_a_description_that_does_not_fit_is_a_problem() -> None:
    classes = CLASSES | {"fixtures.Edges$Generic": {"text": "String"}}
    found = named("1.20/edges-hashmap-canonical").open(classes=classes).verify()
    (problem,) = found.problems
    assert problem.severity is Severity.UNREADABLE
    assert "'fixtures.Edges$Generic'" in problem.what


@pytest.mark.slow
def test_deep_verification_compares_the_entries_that_rocksdb_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = named(ROCKSDB).open()
    found = snapshot.verify(deep=True)
    assert found.is_intact and found.deep
    monkeypatch.setattr(database_check, "rocksdb_entries", lambda *_, **__: iter(()))
    found = snapshot.verify(deep=True)
    assert not found.is_intact
    assert all("where stateproc reads 0" in problem.what for problem in found.problems)


@pytest.mark.parametrize("copy", [ROCKSDB], indirect=True)
def test_deep_verification_reports_a_database_that_rocksdb_does_not_open(copy: SnapshotCopy) -> None:
    file = next(file for file in copy.files("rocksdb private MANIFEST"))
    data = file.read_bytes()
    with copy.changed(file, data[:60] + bytes([data[60] ^ 1]) + data[61:]) as snapshot:
        found = snapshot.verify(deep=True)
    assert not found.is_intact
    assert any(
        "MANIFEST" in (problem.what + (problem.file or "")) or "checksum" in problem.what for problem in found.problems
    )


def test_deep_verification_needs_rocksdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_check, "has_library", lambda: False)
    with pytest.raises(MissingPackage, match="needs rocksdict") as refused:
        stateproc.open(DEMO).verify(deep=True)
    assert "stateproc[rocksdb]" in (refused.value.advice or "")
