"""Rows of list, union and broadcast states deleted and updated as DuckDB does; all else as bytes and in its subtask."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import stateproc
from stateproc import SavepointWriter
from stateproc.errors import InvalidOption, InvalidRows, NotFound
from stateproc.model.operator import Operator
from stateproc.writers.rewrite.operator_state_copy import raw_elements
from tests.helpers.fixtures import CLASSES, FIXTURES, Fixture, fixtures_in
from tests.helpers.writers.row_edits import DATABASE, chosen_by_duckdb

READS_EVERY_MODE = False
FORMATS = ["operators-hashmap-canonical", "operators-hashmap-canonical-snappy", "operators-hashmap-checkpoint"]


def fixture(case: str) -> Fixture:
    return fixtures_in(FIXTURES / "1.20" / case)[-1]


def written(one: Fixture, folder: Path, uid: str, state: str, where: str, parallelism: int | None = None) -> Operator:
    writer = SavepointWriter.from_snapshot(None, one.open(classes=CLASSES)).delete_rows(uid, state, where)
    if parallelism is not None:
        writer.with_parallelism(uid, parallelism)
    writer.write(folder)
    return stateproc.open(folder, uids=[uid], classes=CLASSES).operator(uid)


def elements_of(operator: Operator, state: str) -> list[tuple[int, bytes]]:
    """Subtask and bytes of each element, of broadcast states of their only one."""
    return [
        (part.subtask, value)
        for part in raw_elements(operator, state)
        for pieces in part.read()
        for value in pieces.to_arrow().to_pylist()
    ]


@pytest.mark.parametrize(
    ("case", "uid", "state", "where"),
    [
        *((case, "buffers", "split", "value.customer % 2 = 0") for case in FORMATS),
        ("operators-hashmap-canonical", "buffers", "union", "value LIKE 'tea%' OR subtask = 1"),
        ("operators-hashmap-canonical", "buffers", "split", "true"),
        ("operators-hashmap-canonical", "buffers", "split", "subtask = 1"),
        ("kafka-rocksdb-canonical", "orders-from-kafka", "SourceReaderState", "partition = 1"),
        ("sinks-hashmap-canonical", "orders-sink", "writer_raw_states", "subtask = 0"),
    ],
)
def test_elements_that_stay_are_the_bytes_that_they_were(
    tmp_path: Path, case: str, uid: str, state: str, where: str
) -> None:
    one = fixture(case)
    before = one.open(classes=CLASSES).operator(uid)
    chosen = chosen_by_duckdb(before.state(state).to_arrow(), where)
    after = written(one, tmp_path / "t", uid, state, where)
    assert np.count_nonzero(chosen) > 0
    stored = elements_of(before, state)
    assert elements_of(after, state) == [item for item, gone in zip(stored, chosen.tolist(), strict=True) if not gone]
    for other in before.operator_states:
        if other.name != state:
            assert elements_of(after, other.name) == elements_of(before, other.name)


@pytest.mark.parametrize("case", FORMATS)
@pytest.mark.parametrize(
    ("state", "where"), [("rules", "map_value.customer > 4"), ("names", "map_key % 2 = 0"), ("names", "true")]
)
def test_entries_of_broadcast_states_are_gone_in_every_subtask(
    tmp_path: Path, case: str, state: str, where: str
) -> None:
    one = fixture(case)
    rows = one.open(classes=CLASSES).operator("broadcast-rules").state(state).to_arrow()
    chosen = chosen_by_duckdb(rows, where)
    after = written(one, tmp_path / "t", "broadcast-rules", state, where)
    kept = [row for row, gone in zip(rows.to_pylist(), chosen.tolist(), strict=True) if not gone]
    assert after.state(state).to_arrow().to_pylist() == kept
    copies = [file for file in after.operator_files for part in file.handle.states if part.name == state]
    assert len(copies) == after.parallelism > 1


def test_elements_that_stay_are_distributed_over_other_subtasks(tmp_path: Path) -> None:
    one = fixture("operators-hashmap-canonical")
    stored = [value for _, value in elements_of(one.open(classes=CLASSES).operator("buffers"), "split")]
    rows = one.open(classes=CLASSES).operator("buffers").state("split").to_arrow()
    chosen = chosen_by_duckdb(rows, "value.number % 3 = 0").tolist()
    after = written(one, tmp_path / "t", "buffers", "split", "value.number % 3 = 0", parallelism=5)
    found = elements_of(after, "split")
    assert [value for _, value in found] == [value for value, gone in zip(stored, chosen, strict=True) if not gone]
    assert {subtask for subtask, _ in found} == set(range(5))


def test_a_plan_counts_conditions_one_after_another() -> None:
    writer = SavepointWriter.from_snapshot(None, fixture("operators-hashmap-canonical").open(classes=CLASSES))
    writer.delete_rows("buffers", "split", "value.customer = 2").delete_rows("buffers", "split", "value.customer < 4")
    writer.delete_rows("broadcast-rules", "names", "map_key = 1")
    plans = {state.name: state for operator in writer.plan().operators for state in operator.states}
    first, second = plans["split"].reasons[:2]
    rows = fixture("operators-hashmap-canonical").open(classes=CLASSES).operator("buffers").state("split").to_arrow()
    twos, less = (int(np.count_nonzero(chosen_by_duckdb(rows, f"value.customer {it}"))) for it in ("= 2", "< 4"))
    assert first == f"{twos} elements deleted where value.customer = 2"
    assert second == f"{less - twos} elements deleted where value.customer < 4"
    assert plans["split"].elements == rows.num_rows - less
    assert plans["names"].reasons == ("1 entry deleted where map_key = 1",)


@pytest.mark.parametrize(
    ("state", "where", "flatten", "message"),
    [
        ("split", "valu = 1", False, "valu"),
        ("split", "value.customer", False, "is not a boolean"),
        ("split", "value.customer = 1", True, "elements and entries already"),
    ],
)
def test_what_does_not_fit_is_refused(state: str, where: str, flatten: bool, message: str) -> None:
    writer = SavepointWriter.from_snapshot(None, fixture("operators-hashmap-canonical").open(classes=CLASSES))
    with pytest.raises(InvalidOption, match=message):
        writer.delete_rows("buffers", state, where, flatten=flatten).plan()


@pytest.mark.parametrize("case", FORMATS)
@pytest.mark.parametrize(
    ("uid", "state", "assignments", "where", "replaced"),
    [
        (
            "buffers",
            "split",
            ["value.amount = value.amount * 2", "value.product = NULL"],
            "value.customer % 2 = 0",
            {"value": "struct_update(value, amount := value.amount * 2, product := NULL)"},
        ),
        ("buffers", "union", ["value = upper(value)"], "subtask = 1", {"value": "upper(value)"}),
        (
            "broadcast-rules",
            "names",
            ["map_value = map_value || '!'"],
            "map_key > 2",
            {"map_value": "map_value || '!'"},
        ),
        (
            "broadcast-rules",
            "rules",
            ["map_value.number = 0"],
            "map_key <> 'tea'",
            {"map_value": "struct_update(map_value, number := 0)"},
        ),
    ],
)
def test_rows_are_set_as_duckdb_does(
    tmp_path: Path, case: str, uid: str, state: str, assignments: list[str], where: str, replaced: dict[str, str]
) -> None:
    one = fixture(case)
    before = one.open(classes=CLASSES).operator(uid)
    rows = before.state(state).to_arrow()
    chosen = chosen_by_duckdb(rows, where).tolist()
    assert 0 < sum(chosen) < len(chosen)
    writer = SavepointWriter.from_snapshot(None, one.open(classes=CLASSES))
    writer.update_rows(uid, state, assignments, where).write(tmp_path / "t")
    after = stateproc.open(tmp_path / "t", uids=[uid], classes=CLASSES).operator(uid)
    ((column, expression),) = replaced.items()
    DATABASE.register("numbered", rows)
    query = f"SELECT * REPLACE (CASE WHEN {where} THEN {expression} ELSE {column} END AS {column}) FROM numbered"
    assert after.state(state).to_arrow().to_pylist() == DATABASE.sql(query).to_arrow_table().to_pylist()
    if uid == "buffers":
        pairs = zip(elements_of(before, state), elements_of(after, state), chosen, strict=True)
        assert all(is_chosen or old == new for old, new, is_chosen in pairs)


def test_edits_are_made_in_their_order(tmp_path: Path) -> None:
    writer = SavepointWriter.from_snapshot(None, fixture("operators-hashmap-canonical").open(classes=CLASSES))
    writer.update_rows("broadcast-rules", "names", "map_value = 'x'", "map_key < 3")
    writer.delete_rows("broadcast-rules", "names", "map_value = 'x' AND map_key > 0")
    writer.update_rows("broadcast-rules", "names", "map_value = map_value || map_key", "map_value = 'x'")
    writer.write(tmp_path / "t")
    after = (
        stateproc.open(tmp_path / "t", uids=["broadcast-rules"]).operator("broadcast-rules").state("names").to_arrow()
    )
    found = dict(zip(after.column("map_key").to_pylist(), after.column("map_value").to_pylist(), strict=True))
    assert found == {0: "x0", 3: "mate", 4: "🍵 matcha", 5: "tea", 6: "café"}


@pytest.mark.parametrize(
    ("uid", "state", "assignment", "error", "message"),
    [
        ("buffers", "split", "subtask = 0", InvalidOption, "'subtask' of split state cannot be set"),
        ("broadcast-rules", "names", "map_key = 0", InvalidOption, "'map_key' of broadcast state cannot be set"),
        ("broadcast-rules", "names", "map_value = 1", InvalidOption, "map_value is string, and the expression int32"),
        ("buffers", "split", "value.number = 0.5", InvalidRows, "does not fit int32"),
        ("orders-from-kafka", "SourceReaderState", "starting_offset = 1", InvalidOption, "a connector's state"),
    ],
)
def test_what_cannot_be_set_is_refused(
    uid: str, state: str, assignment: str, error: type[Exception], message: str
) -> None:
    case = "kafka-rocksdb-canonical" if state == "SourceReaderState" else "operators-hashmap-canonical"
    writer = SavepointWriter.from_snapshot(None, fixture(case).open(classes=CLASSES))
    with pytest.raises(error, match=message):
        writer.update_rows(uid, state, assignment, "true").plan()


def test_states_that_are_emptied_or_unknown() -> None:
    writer = SavepointWriter.from_snapshot(None, fixture("kafka-rocksdb-canonical").open())
    with pytest.raises(NotFound, match="nothing"):
        writer.delete_rows("orders-from-kafka", "nothing", "true")
    writer.set_kafka_offsets("orders-from-kafka", {"shop.orders:0": 17})
    writer.delete_rows("orders-from-kafka", "SourceReaderState", "partition = 1")
    with pytest.raises(InvalidOption, match="set or dropped as well"):
        writer.plan()
