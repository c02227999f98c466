"""Joined table of all keyed states of an operator: one row per key with the values of all states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc.cli.app import main
from stateproc.model.joined_table import by_key_group
from stateproc.readers import splits
from stateproc.spark.source import reader_of, schema_of
from tests.helpers.byte_builders.metadata import i32, inline, key_groups, metadata, operator, subtask, utf
from tests.helpers.byte_builders.serializers import scalar, versioned
from tests.helpers.fixtures import fixtures
from tests.helpers.sweeps import exhaustive
from tests.helpers.value_comparison import plain

CASES = ("1.20/kitchen-hashmap-checkpoint", "1.20/kitchen-rocksdb-incremental", "2.3/kitchen-hashmap-canonical")
SIMILAR = ("1.20/kitchen-hashmap-canonical", "1.20/kitchen-hashmap-canonical-snappy")


def _by_key(table: pa.Table) -> dict[str, dict[str, Any]]:
    rows = table.to_pylist()
    found = {str(plain(row["key"])): row for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("case", [*CASES, *map(exhaustive, SIMILAR)])
@pytest.mark.parametrize("uid", ["kitchen-long", "kitchen-string", "kitchen-tuple", "kitchen-ttl"])
def test_every_state_is_a_column(case: str, uid: str) -> None:
    fixture = next(item for item in fixtures() if item.name == case)
    operator = fixture.open().operator(uid)
    rows = _by_key(operator.wide().to_arrow())
    keys: set[str] = set()
    for state in operator.keyed_states:
        own = _by_key(state.to_arrow())
        keys |= own.keys()
        for key, row in rows.items():
            assert row[state.name] == own.get(key, {"value": None})["value"]
            if state.ttl:
                assert row[f"{state.name}_last_access"] == own.get(key, {}).get("last_access")
    assert rows.keys() == keys


def test_window_states_are_joined_by_key_and_window() -> None:
    fixture = next(item for item in fixtures() if item.name == "1.20/windows-hashmap-canonical")
    operator = fixture.open().operator("tumbling-reduce")
    table = operator.wide().to_arrow()
    assert table.column_names == ["key_group", "key", "namespace", "count", "window-contents"]
    assert table.num_rows == operator.state("count").to_arrow().num_rows
    assert table.column("count").null_count == table.column("window-contents").null_count == 0


def test_flattening_and_unknown_namespaces_are_refused() -> None:
    fixture = next(item for item in fixtures() if item.name == "1.20/windows-hashmap-canonical")
    operator = fixture.open().operator("tumbling-reduce")
    with pytest.raises(stateproc.InvalidOption, match="cannot be flattened"):
        operator.wide().schema(flatten=True)
    with pytest.raises(stateproc.InvalidOption, match="TimeWindow"):
        operator.wide("GlobalWindow")


@pytest.mark.parametrize("case", [*CASES, *map(exhaustive, SIMILAR)])
@pytest.mark.parametrize("uid", ["kitchen-long", *map(exhaustive, ("kitchen-string", "kitchen-tuple")), "kitchen-ttl"])
def test_selected_columns_have_the_same_rows_as_all_columns(case: str, uid: str) -> None:
    wide = next(item for item in fixtures() if item.name == case).open().operator(uid).wide()
    whole = wide.to_arrow()
    names = wide.schema().names
    for columns in (["key"], ["key", names[2]], ["key", names[-1]], names[::-1]):
        found = wide.to_arrow(columns=columns)
        assert found.schema.names == columns
        assert _by_key(found) == _by_key(whole.select(columns))


@pytest.mark.parametrize("case", [case for case in CASES + SIMILAR if "checkpoint" not in case])
def test_only_selected_states_are_decoded(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = next(item for item in fixtures() if item.name == case).open().operator("kitchen-long").wide()
    name = wide.schema().names[-1]
    expected = _by_key(wide.to_arrow().select(["key", name]))
    decode = splits.decode_entries

    def fail(entries: Any, state: Any, *arguments: Any, **options: Any) -> Any:
        if state.name != name:
            raise stateproc.UnsupportedSnapshot(f"the values of {state.name} cannot be decoded")
        return decode(entries, state, *arguments, **options)

    monkeypatch.setattr(splits, "decode_entries", fail)
    assert _by_key(wide.to_arrow(columns=["key", name])) == expected
    with pytest.raises(stateproc.UnsupportedSnapshot):
        wide.to_arrow()


def test_a_damaged_value_of_an_unselected_column_is_not_decoded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = _snapshot_of(tmp_path, ["good", "bad"], damaged="bad")
    (operator,) = snapshot.operators
    with pytest.raises(stateproc.CorruptSnapshot):
        operator.wide().to_arrow()
    assert operator.wide().to_arrow(columns=["key", "good"]).to_pylist() == [{"key": 7, "good": 0}]
    options = {"path": str(tmp_path), "uidHash": operator.operator_id, "columns": "key,good"}
    reader = reader_of(options, schema_of(options))
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    assert [batch.to_pylist() for batch in batches] == [[{"key": 7, "good": 0}]]
    assert main(["read", str(tmp_path), "--columns", "key,good"]) == 0
    assert json.loads(capsys.readouterr().out) == {"key": 7, "good": 0}
    assert main(["read", str(tmp_path), "--columns", "key", "--where", "good = 0"]) == 0
    assert json.loads(capsys.readouterr().out) == {"key": 7}


def test_splits_end_at_key_group_boundaries() -> None:
    batches = [pa.RecordBatch.from_pydict({"key_group": part}) for part in ([1, 1, 2], [2, 2], [], [5])]
    found = [(group, sum(len(part) for part in parts)) for group, parts in by_key_group(batches)]
    assert found == [(1, 2), (2, 3), (5, 1)]


def _snapshot_of(directory: Path, names: list[str], damaged: str | None = None) -> stateproc.Snapshot:
    """Write a canonical savepoint of one key group; the value of key 7 in each Long state is the state's index.

    The value of ``damaged`` has three bytes instead of eight.
    """
    void = versioned("org.apache.flink.runtime.state.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot", 3)
    header = i32(6) + b"\0" + i32(2) + scalar("Long") + len(names).to_bytes(2, "big")
    for name in names:
        header += utf(name) + i32(0, 1) + utf("KEYED_STATE_TYPE") + utf("VALUE") + i32(2)
        header += utf("NAMESPACE_SERIALIZER") + i32(2) + void + utf("VALUE_SERIALIZER") + i32(2) + scalar("Long")
    group = b"\0\0"
    for index in range(len(names)):
        key = bytes([0x85]) + (7).to_bytes(8, "big") + b"\0"
        size = 3 if names[index] == damaged else 8
        group += i32(len(key)) + key + i32(size) + index.to_bytes(size, "big")
        group += (index + 1).to_bytes(2, "big") if index + 1 < len(names) else b"\xff\xff"
    offsets = [0] * 5 + [len(header)] + [0] * 122
    keyed = key_groups(7, 0, offsets, inline("keyed", header + group))
    body = metadata(4, [operator(4, [subtask(4, 0, managed_keyed=keyed)], parallelism=1)])
    (directory / "_metadata").write_bytes(body)
    return stateproc.open(str(directory))


def test_states_with_the_names_of_other_columns(tmp_path: Path) -> None:
    names = ["key", "Key_Group", "namespace", "key_state", "value", "", "a b"]
    (found,) = _snapshot_of(tmp_path, names).operators
    assert [found.state(name).to_arrow()["value"].to_pylist() for name in names] == [[n] for n in range(7)]
    assert found.wide().to_arrow().to_pylist() == [
        {
            "key_group": 5,
            "key": 7,
            "key_state_state": 0,
            "Key_Group_state": 1,
            "namespace_state": 2,
            "key_state": 3,
            "value": 4,
            "": 5,
            "a b": 6,
        }
    ]


def test_a_state_without_a_name_is_read_by_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _snapshot_of(tmp_path, ["a", ""])
    assert main(["read", str(tmp_path), "--state", "", "--columns", "key,value"]) == 0
    assert json.loads(capsys.readouterr().out) == {"key": 7, "value": 1}
