"""Savepoints in which a source continues elsewhere: readers, enumerators, all that stays as it is, and the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter
from stateproc.connectors.connector_format import FormatRole, Versioned, coordinator_of
from stateproc.connectors.operator_states import SOURCE_STATE
from stateproc.errors import InvalidOption, NotFound, UnsupportedSnapshot
from stateproc.keygroups.operator_ids import operator_id
from tests.helpers.command_runs import CommandRun, command_runner
from tests.helpers.connector_vectors import accepted, connector_vectors
from tests.helpers.writers.source_savepoints import OTHER, UID, old_postgres_split, source_savepoint, vector_item


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., CommandRun]:
    return command_runner(capfd, monkeypatch)


def changed(path: Path, positions: dict[str, str], target: Path) -> Path:
    SavepointWriter.from_existing_savepoint(None, path).set_positions(UID, positions).write(target)
    return target


def positions(path: Path) -> dict[str, tuple[str | None, int | None]]:
    rows = stateproc.open(path).offsets().to_pylist()
    return {row["split"]: (row["position"], row["subtask"]) for row in rows}


def stored(path: Path) -> list[tuple[int, bytes]]:
    """The elements of the readers' state, by subtask."""
    table = stateproc.open(path).operator(UID).operator_state(SOURCE_STATE).to_arrow()
    return list(zip(table.column("subtask").to_pylist(), table.column("value").to_pylist(), strict=True))


def shard(name: str, **changes: Any) -> Versioned:
    """A split of Kinesis of another shard."""
    found = next(it for it in connector_vectors() if it.name == "kinesis-split-sequence-number")
    known, row = accepted(found)
    return known.write(found.item.version, {**row, "shard_id": name, **changes})


def kinesis_enumerator(**changes: Any) -> Versioned:
    found = next(it for it in connector_vectors() if it.name == "kinesis-enumerator" and it.item.version == 1)
    known, row = accepted(found)
    (_, like), *_ = [(None, split) for split in row["splits"]]
    splits = [{**like, "shard_id": name, "assigned": name != "shard-9", **changes} for name in ("shard-0", "shard-9")]
    return known.write(1, {**row, "splits": splits})


@pytest.fixture
def kinesis(tmp_path: Path) -> Path:
    enumerator = kinesis_enumerator()
    coordinator = coordinator_of(1, enumerator.version, enumerator.payload)
    splits = [(0, shard("shard-0")), (0, shard("shard-1")), (1, shard("shard-2"))]
    return source_savepoint(tmp_path / "kinesis", splits, coordinator)


def test_readers_and_the_enumerator_move_together(kinesis: Path, tmp_path: Path) -> None:
    before, elements = positions(kinesis), stored(kinesis)
    names = {name.rpartition("/")[2]: name for name in before}
    target = changed(kinesis, {names["shard-0"]: "latest", names["shard-9"]: "trim_horizon"}, tmp_path / "moved")
    assert positions(target) == {
        **before, names["shard-0"]: ("LATEST", 0), names["shard-9"]: ("TRIM_HORIZON", None),
    }  # fmt: skip
    # Splits that are not named keep their bytes; the enumerator's copy of an assigned one moves as well.
    assert stored(target)[1:] == elements[1:]
    coordinator: Any = stateproc.open(target).operator(UID).coordinator
    kept = {row["shard_id"]: row["position_type"] for row in coordinator["decoded"]["splits"]}
    assert kept == {"shard-0": "LATEST", "shard-9": "TRIM_HORIZON"}
    assert not stateproc.open(target).verify().problems


def test_patterns_name_several_splits_and_a_name_has_precedence(kinesis: Path, tmp_path: Path) -> None:
    names = sorted(positions(kinesis))
    target = changed(kinesis, {"*": "latest", names[1]: "after 7"}, tmp_path / "all")
    assert {name: at for name, (at, _) in positions(target).items()} == {
        **dict.fromkeys(names, "LATEST"), names[1]: "after 7",
    }  # fmt: skip
    with pytest.raises(InvalidOption, match="several patterns give"):
        changed(kinesis, {"*": "latest", "*-1": "after 7"}, tmp_path / "twice")
    same = changed(kinesis, {"*": "latest", "*-1": "latest"}, tmp_path / "same")
    assert {at for at, _ in positions(same).values()} == {"LATEST"}
    assert not (tmp_path / "twice").exists()


def test_several_changes_are_made_one_after_another(kinesis: Path, tmp_path: Path) -> None:
    name = min(positions(kinesis))
    writer = SavepointWriter.from_existing_savepoint(None, kinesis)
    writer.set_positions(UID, {name: "latest"}).set_positions(UID, {name: "at 5"})
    writer.with_parallelism(UID, 3).write(tmp_path / "moved")
    found = positions(tmp_path / "moved")
    assert found[name][0] == "at 5"
    assert len(found) == 4


def test_a_position_that_is_there_changes_nothing(kinesis: Path, tmp_path: Path) -> None:
    name, (at, _) = min(positions(kinesis).items())
    target = changed(kinesis, {name: str(at)}, tmp_path / "same")
    assert stored(target) == stored(kinesis)
    before, after = (stateproc.open(path).operator(UID).metadata.coordinator for path in (kinesis, target))
    assert before == after


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"nowhere": "latest"}, NotFound, "nowhere"),
        ({"*x": "latest"}, NotFound, r"\*x"),
        ({"*": "elsewhere"}, InvalidOption, "'elsewhere' is no position of a Kinesis shard"),
        ({}, InvalidOption, "no new positions"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(
    kinesis: Path, given: dict[str, str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        SavepointWriter.from_existing_savepoint(None, kinesis).set_positions(UID, given)
    assert getattr(caught.value, "advice", None)


def test_sources_that_have_no_positions_are_refused(kinesis: Path, tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(None, kinesis)
    with pytest.raises(InvalidOption, match="no state of a source with splits"):
        writer.set_positions(OTHER, {"*": "latest"})
    unknown = source_savepoint(tmp_path / "unknown", [(0, Versioned(3, b"what?"))], None)
    with pytest.raises(InvalidOption, match="splits of a connector that is not known"):
        SavepointWriter.from_existing_savepoint(None, unknown).set_positions(UID, {"*": "latest"})
    files = next(it for it in connector_vectors() if it.family == "filesource" and it.role is FormatRole.SPLIT)
    source = source_savepoint(tmp_path / "files", [(0, files.item)], None)
    with pytest.raises(InvalidOption, match="splits of file, whose positions cannot be set"):
        SavepointWriter.from_existing_savepoint(None, source).set_positions(UID, {"*": "latest"})


def test_splits_that_only_the_coordinator_has_assigned_are_refused(tmp_path: Path) -> None:
    """Flink 1.13 and earlier: they would continue where they were."""
    enumerator = kinesis_enumerator()
    coordinator = coordinator_of(0, enumerator.version, enumerator.payload, (1).to_bytes(4, "big") + bytes(8))
    path = source_savepoint(tmp_path / "old", [(0, shard("shard-0"))], coordinator)
    with pytest.raises(UnsupportedSnapshot, match="has assigned splits that its readers had not received"):
        SavepointWriter.from_existing_savepoint(None, path).set_positions(UID, {"*": "latest"})


def test_a_source_that_reads_its_snapshot_has_no_stream_yet(tmp_path: Path) -> None:
    chunk = vector_item("mysql-snapshot-first-chunk")
    path = source_savepoint(tmp_path / "chunks", [(0, chunk)], None)
    with pytest.raises(InvalidOption, match="is a chunk of the snapshot") as caught:
        changed(path, {"*": "latest"}, tmp_path / "moved")
    assert (caught.value.where.operator, caught.value.where.state) == (operator_id(UID), SOURCE_STATE)


@pytest.mark.parametrize("name", ["mysql-binlog-gtid", "postgres-stream", "mongodb-cdc-stream"])
def test_a_stream_of_changes_moves_and_its_coordinator_stays(name: str, tmp_path: Path) -> None:
    family = name.partition("-")[0]
    enumerator = vector_item(f"{'mongodb-cdc' if family == 'mongodb' else family}-enumerator-hybrid-streaming"
                      if family != "mongodb" else "mongodb-cdc-enumerator-stream-only")  # fmt: skip
    coordinator = coordinator_of(1, enumerator.version, enumerator.payload)
    path = source_savepoint(tmp_path / "cdc", [(1, vector_item(name))], coordinator)
    text = {"mysql": "mysql-bin.000044:12", "postgres": "16/B374D848", "mongodb": "1767225600.7"}[family]
    (split, *_) = (name for name, (_, subtask) in positions(path).items() if subtask is not None)
    target = changed(path, {split: text}, tmp_path / "moved")
    assert positions(target)[split] == (text, 1)
    before, after = (stateproc.open(it).operator(UID).metadata.coordinator for it in (path, target))
    assert before == after


@pytest.mark.parametrize("how", ["option", "flink 2", "with a position", "neither"])
def test_classes_of_flink_cdc_are_renamed_when_asked_or_for_flink_2(how: str, tmp_path: Path) -> None:
    path = source_savepoint(tmp_path / "old", [(0, old_postgres_split())], None)
    writer = SavepointWriter.from_existing_savepoint(None, path)
    if how in ("option", "with a position"):
        writer.with_flink_cdc_classes()
    if how == "flink 2":
        writer.with_flink_version("2.3")
    if how == "with a position":
        writer.set_positions(UID, {"*": "0/5"})
    notes = str(writer.plan())
    assert ("classes of Flink CDC 3.1" in notes) is (how != "neither")
    writer.write(tmp_path / "new")
    ((_, value),) = stored(tmp_path / "new")
    assert (b"com.ververica".hex().encode() in value) is (how == "neither")
    assert (b"org.apache.flink.cdc".hex().encode() in value) is (how != "neither")
    (row,) = stateproc.open(tmp_path / "new").offsets().to_pylist()
    assert row["position"] == ("0/5" if how == "with a position" else "0/16E9058")


def test_a_state_of_ones_own_with_the_name_of_a_sources_is_left_alone(tmp_path: Path) -> None:
    """An upgrade looks for classes of Flink CDC in states of sources only."""
    rows = pa.table({"value": ["com.ververica.cdc.connectors.", ""]})
    for number, add in enumerate((OperatorBootstrap.operator_list_state, OperatorBootstrap.union_list_state)):
        path, target = tmp_path / f"own-{number}", tmp_path / f"new-{number}"
        writer = SavepointWriter.new_savepoint(None).with_flink_version("1.20")
        writer.with_operator(UID, add(OperatorBootstrap(), SOURCE_STATE, rows)).write(path)
        changed = SavepointWriter.from_existing_savepoint(None, path).with_flink_version("2.3")
        changed.with_flink_cdc_classes().write(target)
        for state in (stateproc.open(it).operator(UID).operator_state(SOURCE_STATE) for it in (path, target)):
            assert sorted(state.to_arrow().column("value").to_pylist()) == ["", "com.ververica.cdc.connectors."]
        with pytest.raises(InvalidOption, match="no state of a source with splits"):
            SavepointWriter.from_existing_savepoint(None, path).set_positions(UID, {"*": "latest"})


def test_a_hybrid_source_moves_what_it_wraps(tmp_path: Path) -> None:
    path = source_savepoint(tmp_path / "hybrid", [(0, vector_item("hybrid-split-kafka"))], None)
    ((split, _),) = positions(path).items()
    target = changed(path, {split: "77"}, tmp_path / "moved")
    assert positions(target)[split] == ("77", 0)


def test_the_command_shows_and_writes_them(kinesis: Path, tmp_path: Path, run: Callable[..., CommandRun]) -> None:
    name = min(positions(kinesis))
    arguments = ("set-offsets", str(kinesis), str(tmp_path / "moved"), "--uids", f"{UID},{OTHER}", "--uid", UID)
    plan = json.loads(run(*arguments, "--position", f"{name}=at 5", "--plan", "--json").out)
    assert any(f"new positions {name}" in note and note.endswith("→ at 5") for note in plan["notes"])
    assert not (tmp_path / "moved").exists()
    run(*arguments, "--position", f"{name}=at 5")
    assert positions(tmp_path / "moved")[name][0] == "at 5"


def test_offsets_and_positions_of_one_source_are_two_writes(tmp_path: Path) -> None:
    path = stateproc.bundled_snapshot("shop")
    uid = "orders-from-kafka"
    writer = SavepointWriter.from_existing_savepoint(None, path, {"uids": [uid]})
    writer.set_kafka_offsets(uid, {"shop.orders:0": 5}).set_positions(uid, {"shop.orders-1": "6"})
    with pytest.raises(InvalidOption, match="offsets and positions in one write"):
        writer.write(tmp_path / "both")
    # A source of Kafka has positions, too, by the names of its splits.
    writer = SavepointWriter.from_existing_savepoint(None, path, {"uids": [uid]})
    writer.set_positions(uid, {"shop.orders-1": "6"}).write(tmp_path / "moved")
    found = {row["split"]: row["offset"] for row in stateproc.open(tmp_path / "moved").offsets().to_pylist()}
    assert found["shop.orders-1"] == 6
