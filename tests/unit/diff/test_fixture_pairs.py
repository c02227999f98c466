"""Runs of one job in other formats and max parallelisms; states that cannot be read, or are in one snapshot only."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc.diff.common_schema import NotComparable, common_rows
from stateproc.diff.snapshot_diff import SnapshotComparison
from stateproc.diff.state_changes import StateComparison
from stateproc.errors import InvalidOption, NotFound
from stateproc.snapshot.snapshot import Snapshot
from tests.helpers.fixtures import CLASSES, FIXTURES, fixtures_in

EQUAL = [
    ("1.20", "tiny-rocksdb-canonical-1024", "tiny-rocksdb-canonical-32768"),
    ("1.20", "windows-hashmap-canonical-1024", "windows-hashmap-canonical"),
    ("1.20", "tiny-hashmap-checkpoint-snappy", "tiny-rocksdb-full"),
    ("1.20", "corners-hashmap-native", "corners-rocksdb-canonical"),
    ("1.20", "edges-hashmap-checkpoint", "edges-rocksdb-canonical"),
    ("1.20", "operators-rocksdb-canonical", "operators-hashmap-canonical-inline"),
    ("1.20", "kafka-hashmap-checkpoint", "kafka-rocksdb-canonical"),
    ("1.20", "sql-hashmap-checkpoint", "sql-rocksdb-canonical"),
    ("1.20", "sql-sessions-hashmap-canonical", "sql-sessions-hashmap-checkpoint"),
]
"""Runs of one job that had the same contents: the format, the backend or the max parallelism differs."""


def opened(release: str, name: str, **options: Any) -> Snapshot:
    return fixtures_in(FIXTURES / release / name)[-1].open(**({"classes": CLASSES} | options))


def problems(found: SnapshotComparison) -> list[str]:
    return [str(state.problem) for operator in found.operators for state in operator.states if state.problem]


@pytest.mark.parametrize(("release", "left", "right"), EQUAL)
def test_equal_contents_are_equal_in_all_formats(release: str, left: str, right: str) -> None:
    found = opened(release, left).diff(opened(release, right))
    assert problems(found) == []
    assert found.equal
    assert found.counts.left == found.counts.right > 0


def test_other_max_parallelisms_are_shown_and_make_no_difference() -> None:
    found = opened("1.20", "tiny-rocksdb-canonical-1024").diff(opened("1.20", "tiny-rocksdb-canonical-32768"))
    changes = {change.name: (change.left, change.right) for item in found.operators for change in item.properties}
    assert changes["max parallelism"] == (1024, 32768)


def test_releases_are_compared_by_values() -> None:
    """Flink 1.x and 2.x have other versions of Kryo, so that bytes differ where rows do not."""
    found = opened("1.20", "edges-hashmap-canonical").diff(opened("2.3", "edges-hashmap-canonical"))
    assert found.is_readable, problems(found)
    assert found.counts.equal > 80


def test_operators_and_states_of_one_snapshot_only_are_added_or_removed() -> None:
    tiny, kitchen = opened("1.20", "tiny-hashmap-canonical-1024"), opened("1.20", "kitchen-hashmap-canonical")
    found = tiny.diff(kitchen)
    assert found["kitchen-long"].status == "added"
    state = found["kitchen-long"]["profile"]
    assert state.status == "added" and state.counts is not None
    assert state.counts.inserted == state.counts.right == len(state.to_arrow()) > 0
    assert set(state.to_arrow().column("_change_type").to_pylist()) == {"insert"}
    back = kitchen.diff(tiny)
    assert back["kitchen-long"].status == "removed"
    assert back["kitchen-long"]["profile"].counts is not None
    assert back["kitchen-long"]["profile"].counts.deleted == state.counts.inserted


def test_a_selection_limits_what_is_compared() -> None:
    left = opened("1.20", "kitchen-hashmap-canonical")
    found = left.diff(left, uids=["kitchen-long"], states=["profile"])
    assert [(item.display, [state.name for state in item.states]) for item in found.operators] == [
        ("kitchen-long", ["profile"])
    ]
    with pytest.raises(NotFound):
        left.diff(left, uids=["nobody"])
    with pytest.raises(NotFound):
        left.diff(left, states=["nothing"])
    with pytest.raises(NotFound):
        found["kitchen-tuple"]


def test_states_of_unknown_types_are_compared_by_bytes_where_entries_have_lengths() -> None:
    canonical = opened("1.20", "many-states-hashmap-canonical")
    found = canonical.diff(canonical)
    assert found.equal, problems(found)
    rocksdb = opened("1.20", "many-states-rocksdb-incremental")
    found = rocksdb.diff(rocksdb)
    assert found.equal, problems(found)


def test_states_without_known_ends_are_unreadable() -> None:
    heap = opened("1.20", "many-states-hashmap-checkpoint")
    found = heap.diff(heap)
    assert not found.equal and not found.is_readable
    assert {state.status for operator in found.operators for state in operator.states} >= {"unreadable"}
    assert any("known end" in problem for problem in problems(found))


def test_a_missing_file_is_unreadable_and_other_states_are_compared(tmp_path: Path) -> None:
    fixture = fixtures_in(FIXTURES / "1.20/kitchen-hashmap-canonical")[-1]
    shutil.copytree(fixture.snapshot, tmp_path / "copy")
    largest = max((file for file in (tmp_path / "copy").iterdir() if file.name != "_metadata"), key=_size)
    largest.unlink()
    found = fixture.open().diff(opened_at(tmp_path / "copy"))
    assert not found.is_readable


def _size(file: Path) -> int:
    return file.stat().st_size


def opened_at(path: Path) -> Snapshot:
    return stateproc.open(str(path))


def test_kafka_offsets_are_changes_of_partitions() -> None:
    left = opened("1.20", "kafka-hashmap-checkpoint")
    state = left.diff(opened("1.20", "operators-hashmap-canonical"))["orders-from-kafka"]["SourceReaderState"]
    assert state.status == "removed"
    assert {"topic", "partition", "starting_offset"} <= set(state.to_arrow().schema.names)


def test_rows_of_sql_have_the_names_of_the_plan() -> None:
    (fixture,) = fixtures_in(FIXTURES / "1.20/plan-plain")
    named, again = (stateproc.open(fixture.snapshot, plan=str(fixture.path / "plan.json")) for _ in range(2))
    assert named.diff(again).equal
    with pytest.raises(InvalidOption, match="plan"):
        stateproc.open(fixture.snapshot).diff(named)
    operator = next(item for item in named.operators for state in item.keyed_states if state.name == "accState")
    rows = operator.state("accState").with_temporal("exact").to_arrow()
    comparison = StateComparison(operator.state("accState"), None)
    changes = pa.Table.from_batches(
        [found.rows for found in comparison.changes(comparison.units()) if found.rows is not None]
    )
    assert sorted(map(repr, changes.select(rows.schema.names).to_pylist())) == sorted(map(repr, rows.to_pylist()))


def test_fields_that_the_common_columns_lack_are_never_lost() -> None:
    rows = pa.RecordBatch.from_pylist([{"key": 1, "value": {"f0": 1}}])
    named = pa.schema([("key", pa.int64()), ("value", pa.struct([("amount", pa.int64())]))])
    with pytest.raises(NotComparable):
        common_rows(rows, named)
    wider = pa.schema([("key", pa.int64()), ("value", pa.struct([("f0", pa.int64()), ("f1", pa.string())]))])
    assert common_rows(rows, wider).to_pylist() == [{"key": 1, "value": {"f0": 1, "f1": None}}]


def test_kinds_of_rows_are_shown_on_request() -> None:
    for row_kind in (False, True):
        snapshot = opened("1.20", "sql-hashmap-canonical", row_kind=row_kind)
        state = next(item for item in snapshot.states if item.name == "accState")
        comparison = StateComparison(state, None)
        (rows,) = (unit.rows for unit in comparison.changes(comparison.units()) if unit.rows is not None)
        fields = rows.schema.field("value").type
        assert (fields.get_field_index("row_kind") >= 0) == row_kind
        assert rows.schema.names[1:] == comparison.schema.names
