"""Rewriting snapshots without Spark: contents, formats, key groups, failures."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc import InvalidOption, OperatorBootstrap, SavepointWriter
from stateproc.keygroups.operator_ids import operator_id
from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.metadata.stream_handles import KeyGroupsHandle
from stateproc.snapshot.snapshot import Snapshot
from stateproc.writers.local import engine
from stateproc.writers.sorting.external_sort import sorted_entries
from tests.helpers.fixtures import FIXTURES, Fixture, differences, fixtures_in, unknown_type_fixtures
from tests.helpers.sweeps import exhaustive, sampled

CASES = [
    "1.20/kitchen-hashmap-canonical", "1.20/kitchen-hashmap-checkpoint", "1.20/kitchen-rocksdb-incremental",
    "1.20/windows-rocksdb-canonical", "1.20/operators-hashmap-canonical", "1.20/tiny-rocksdb-changelog",
    "2.3/tiny-hashmap-canonical-1024", "2.3/windows-hashmap-canonical-1024", "1.16/chain-changelog-memory",
]  # fmt: skip
CHANGES: dict[str, Callable[[SavepointWriter], object]] = {
    "copy": lambda writer: writer,
    "canonical": lambda writer: writer.with_format("canonical").with_compression(),
    "native-hashmap": lambda writer: writer.with_format("native-hashmap"),
    "native-rocksdb": lambda writer: writer.with_format("native-rocksdb"),
    "rescale": lambda writer: writer.with_max_parallelism(32768),
    "parallelism": lambda writer: [writer.with_parallelism(uid, 3) for uid in ("kitchen-string", "kitchen-long")],
}


def fixture(name: str) -> Fixture:
    return fixtures_in(FIXTURES / name)[-1]


def opened(item: Fixture, path: Any) -> Snapshot:
    uids = {line["uid"] for line in item.expected() if line["uid"]}
    return stateproc.open(path, uids=uids, key_type=item.manifest.get("key_type"))


def writer_of(item: Fixture) -> SavepointWriter:
    given = item.manifest.get("key_type")
    return SavepointWriter.from_existing_savepoint(None, item.snapshot, {"keyType": given} if given else {})


_FAST = (CASES[0], CASES[2])


def _changes_of_cases() -> list[Any]:
    """Return every change of every case; `make test-fast` makes each change to one of two, in turn."""
    found: list[Any] = []
    for number, change in enumerate(CHANGES):
        for name in CASES:
            mark = exhaustive if name not in _FAST else sampled if name != _FAST[number % 2] else pytest.param
            found.append(mark(name, change))
    return found


@pytest.mark.parametrize(("name", "change"), _changes_of_cases())
def test_a_rewrite_has_the_same_contents(tmp_path: Path, name: str, change: str) -> None:
    item = fixture(name)
    writer = writer_of(item)
    if change == "parallelism" and "kitchen" not in name:
        pytest.skip("the operators have other uids")
    CHANGES[change](writer)
    written = opened(item, writer.write(tmp_path / "s"))
    assert differences(item, written) == []
    keyed = [use.managed_keyed for it in written.operators for use in it.metadata.subtasks if use.managed_keyed]
    assert keyed or name.endswith("operators-hashmap-canonical")
    if change == "native-rocksdb":
        assert {type(handle) for handle in keyed} <= {IncrementalHandle}
    elif change in ("canonical", "native-hashmap"):
        assert {type(handle) for handle in keyed} <= {KeyGroupsHandle}
    if change == "rescale":
        assert {it.max_parallelism for it in written.operators} == {32768}
    assert [name for name in os.listdir(tmp_path / "s") if name.startswith(".")] == []


def test_the_result_is_a_path_with_a_report(tmp_path: Path) -> None:
    item = fixture(CASES[2])
    writer = writer_of(item).drop_state("kitchen-string", "counter").rename_state("kitchen-string", "spent", "cart")
    result = writer.with_checkpoint_id(77).write(tmp_path / "s")
    assert result == result.path == str(tmp_path / "s") and Path(result) == tmp_path / "s"
    copied = pickle.loads(pickle.dumps(result))
    assert copied == result and copied.report == result.report
    written = opened(item, result)
    assert written.metadata.checkpoint_id == 77
    report = result.report
    by_id = {it.operator_id: it for it in report.operators}
    changed, carried = by_id[operator_id("kitchen-string")], by_id[operator_id("kitchen-long")]
    assert (report.engine, report.flink_version, report.checkpoint_id) == ("local", "1.20", 77)
    assert (changed.action, carried.action, carried.entries) == ("changed", "carried over", None)
    states = {state.name: state for state in changed.states}
    operator = written.operator("kitchen-string")
    assert (states["counter"].action, states["counter"].entries) == ("dropped", None)
    rows = operator.state("profile").to_arrow().num_rows
    assert (states["profile"].action, states["profile"].entries) == ("changed", rows)
    assert states["cart"].action == "changed" and states["cart"].entries
    assert changed.entries == sum(state.entries or 0 for state in changed.states) == report.entries
    names = [path for path in (tmp_path / "s").iterdir() if path.name != "_metadata"]
    assert report.bytes >= sum(path.stat().st_size for path in names)
    assert set(report.seconds) == {"copy", "write", "total"}
    plain = json.loads(json.dumps(report.to_dict()))
    assert plain["operators"][0].keys() >= {"operator_id", "uid", "action", "entries", "bytes", "states"}
    assert "  changed be1f35a9e3acb58e9e21e4bfccde6ca7" in repr(report) and "dropped value counter" in repr(report)


def test_operators_have_key_groups_of_their_own(tmp_path: Path) -> None:
    item = fixture(CASES[0])
    writer = writer_of(item).with_max_parallelism(1024, "kitchen-string").with_max_parallelism(64)
    written = opened(item, writer.change_operator_identifier("kitchen-string", "renamed").write(tmp_path / "s"))
    assert written.operator(operator_id("renamed")).max_parallelism == 1024
    assert written.operator("kitchen-long").max_parallelism == 64


@pytest.mark.parametrize("number", [-1, 1 << 63, True, "1"])
def test_impossible_checkpoint_ids_are_refused(number: Any) -> None:
    with pytest.raises(InvalidOption, match="checkpoint id"):
        SavepointWriter.new_savepoint(None).with_checkpoint_id(number)


@pytest.mark.parametrize("item", unknown_type_fixtures(), ids=lambda item: item.name)
def test_a_snapshot_with_unreadable_states_is_copied(tmp_path: Path, item: Fixture) -> None:
    result = SavepointWriter.from_existing_savepoint(None, item.snapshot).write(tmp_path / "s")
    assert {it.action for it in result.report.operators} == {"carried over"}


def test_only_entries_that_are_out_of_order_are_sorted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(batches: Iterable[pa.RecordBatch], *limits: int) -> Iterator[pa.RecordBatch]:
        calls.append(1)
        return sorted_entries(batches, *limits)

    monkeypatch.setattr(engine, "sorted_entries", counted)
    rows = pa.table({"key": range(3000), "value": range(3000)})
    state = OperatorBootstrap().value_state("v", rows)
    source = SavepointWriter.new_savepoint(None).with_operator("op", state).write(tmp_path / "source")
    writer = SavepointWriter.from_existing_savepoint(None, source).update_rows("op", "v", "value = -1", "key < 10")
    written = stateproc.open(writer.write(tmp_path / "updated"), uids=["op"]).operator("op").state("v").to_arrow()
    assert not calls
    expected = [(key, -1 if key < 10 else key) for key in range(3000)]
    assert sorted(zip(*written.select(["key", "value"]).to_pydict().values(), strict=True)) == expected
    # Several states of which none changes are read in the order of the file.
    both = OperatorBootstrap().value_state("v", rows).value_state("w", rows)
    source = SavepointWriter.new_savepoint(None, 2).with_operator("op", both).write(tmp_path / "both")
    writer = SavepointWriter.from_existing_savepoint(None, source).with_format("native-hashmap")
    found = stateproc.open(writer.write(tmp_path / "heap"), uids=["op"]).operator("op")
    assert [found.state(name).to_arrow().num_rows for name in "vw"] == [3000, 3000] and not calls
    # Flink's heap backend stores the entries of a key group in the order of its hash table.
    item = fixture(CASES[0])
    writer = writer_of(item).with_format("canonical").with_compression()
    assert differences(item, opened(item, writer.write(tmp_path / "s"))) == [] and calls
