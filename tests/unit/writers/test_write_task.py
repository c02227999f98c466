"""Write tasks and the commit without Spark: repeated attempts, duplicate rows, no rows, and several sorted runs."""

from __future__ import annotations

import datetime
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle
from pyspark.sql.pandas.types import from_arrow_schema

import stateproc
from stateproc.errors import DuplicateKey, InvalidOption, InvalidRows, NotFound, WriteFailed
from stateproc.flink_versions import release
from stateproc.metadata import MasterState
from stateproc.storage.layout import run_of_file
from stateproc.writers.formats.entry_batches import FILE, FILE_ENTRIES
from stateproc.writers.spark.data_source_writer import PlainWriter, writer_of
from stateproc.writers.write_snapshot import finish
from stateproc.writers.write_task import WrittenFile, write_state_files
from tests.helpers.sweeps import exhaustive, sampled

ROWS = 6000
FORMATS = ("canonical", "native-hashmap", "native-rocksdb")
NO_ROWS = pa.table({"key": pa.array([], pa.int64()), "value": pa.array([], pa.string())})


def people(n: int = ROWS, start: int = 0) -> pa.Table:
    """Return ``n`` rows in an order that differs from the order in files."""
    keys = pc.add(pc.bit_wise_xor(pa.array(range(n), pa.int64()), 21), start)
    return pa.table({"key": keys, "value": pc.binary_join_element_wise("a name like", keys.cast(pa.string()), " ")})


def begun(target: Path, rows: pa.Table, overwrite: bool = False, run_bytes: int | None = None, **more: Any) -> Any:
    """Return the writer of a savepoint in three files, as tasks receive it."""
    options = {"path": str(target), "uid": "op", "state": "name", "parallelism": "3", **more}
    options = {name: text for name, text in options.items() if text is not None}
    writer = writer_of(options, from_arrow_schema(rows.schema), overwrite)
    if run_bytes is not None:
        writer._run_bytes = run_bytes
    return pickle.loads(cloudpickle.dumps(writer))


def batches(rows: pa.Table) -> Any:
    return iter(rows.to_batches(max_chunksize=500))


def parts(rows: pa.Table, n: int = 3) -> list[pa.Table]:
    return [rows.slice(len(rows) * k // n, len(rows) * (k + 1) // n - len(rows) * k // n) for k in range(n)]


def write(target: Path, rows: pa.Table, run_bytes: int | None = None, **options: Any) -> None:
    writer = begun(target, rows, run_bytes=run_bytes, **options)
    writer.commit([writer.write(batches(part)) for part in parts(rows)])


def found(target: Path) -> dict[Any, Any]:
    """Return the state's entries by key, after a check that keys are unique."""
    table = stateproc.open(target).operator("op").state("name").to_arrow()
    keys = table.column("key").to_pylist()
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, table.column("value").to_pylist(), strict=True))


def expected(rows: pa.Table) -> dict[Any, Any]:
    return dict(zip(rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True))


def names(target: Path) -> list[str]:
    return sorted(path.name for path in target.iterdir())


def task(rows: pa.Table, plain: PlainWriter, number: int) -> WrittenFile:
    """Return the message that the task of one file sends to the driver."""
    every = pa.Table.from_batches(plain._encoding(batches(rows)), FILE_ENTRIES)
    mine = every.filter(pc.equal(every.column(FILE), number))
    order = [(name, "ascending") for name in FILE_ENTRIES.names[:4]]
    entries = mine.take(pc.sort_indices(mine, sort_keys=order))
    (written,) = write_state_files(plain._spec, entries.to_batches(max_chunksize=300))
    return written


def test_one_of_two_attempts_of_a_task_is_committed(tmp_path: Path) -> None:
    """The snapshot refers to one file, and the commit removes the other attempt's file."""
    rows = people()
    plain = begun(tmp_path / "s", rows)
    first = [task(rows, plain, number) for number in range(3)]
    second = [task(rows, plain, number) for number in range(3)]
    assert sum(run_of_file(name) is not None for name in names(tmp_path / "s")) == 6
    finish(plain._spec, plain._commit, [first[0], second[1], first[2]])
    assert found(tmp_path / "s") == expected(rows)
    kept = [attempt.keyed.stream.path for attempt in (first[0], second[1], first[2])]
    assert names(tmp_path / "s") == sorted(["_metadata", *kept])


def test_both_attempts_of_a_task_in_one_commit_are_refused(tmp_path: Path) -> None:
    rows = people()
    plain = begun(tmp_path / "s", rows)
    twice = [task(rows, plain, 0) for _ in range(2)]
    with pytest.raises(WriteFailed, match="two tasks have written state file 0"):
        finish(plain._spec, plain._commit, twice)
    plain.abort([])
    assert not (tmp_path / "s").exists()


def test_an_attempt_that_ends_after_the_commit_leaves_no_files(tmp_path: Path) -> None:
    rows = people()
    plain = begun(tmp_path / "s", rows)
    finish(plain._spec, plain._commit, [task(rows, plain, number) for number in range(3)])
    before = names(tmp_path / "s")
    with pytest.raises(WriteFailed, match="is over"):
        task(rows, plain, 1)
    with pytest.raises(WriteFailed, match="is over"):
        plain.write(batches(rows))
    assert names(tmp_path / "s") == before
    assert found(tmp_path / "s") == expected(rows)


def test_one_of_two_attempts_with_sorted_runs_is_committed(tmp_path: Path) -> None:
    rows = people()
    plain = begun(tmp_path / "s", rows, run_bytes=20_000)
    messages = [[plain.write(batches(part)) for part in parts(rows)] for _ in range(2)]
    assert len(messages[0][0].runs) > 2
    plain.commit([messages[0][0], messages[1][1], messages[0][2]])
    assert found(tmp_path / "s") == expected(rows)
    assert sum(run_of_file(name) is not None for name in names(tmp_path / "s")) == 3


@pytest.mark.parametrize("kind", ["name", sampled("list"), "map", "timers", sampled("union")])
def test_files_do_not_depend_on_the_number_of_sorted_runs(tmp_path: Path, kind: str) -> None:
    rows = people()
    options: dict[str, Any] = {}
    if kind == "list":
        rows = rows.set_column(1, "value", pa.array([[k, k + 1] for k in range(ROWS)], pa.list_(pa.int32())))
        options = {"stateKind": "list"}
    elif kind == "map":
        rows = pa.table({"key": pc.divide(rows["key"], 7), "map_key": rows["key"], "map_value": rows["value"]})
        options = {"stateKind": "map"}
    elif kind == "timers":
        rows = pa.table({"key": rows["key"], "timestamp": pc.multiply(rows["key"], 1000)})
        options = {"stateKind": "event-timers", "state": None}
    elif kind == "union":
        rows, options = rows.select(["value"]), {"stateKind": "union"}
    contents = []
    for target, run_bytes in ((tmp_path / "one", 1 << 30), (tmp_path / "many", 10_000)):
        writer = begun(target, rows, run_bytes=run_bytes, **options)
        written = [writer.write(batches(rows))]
        assert (len(written[0].runs) > 5) == (run_bytes < 1 << 30)
        writer.commit(written)
        contents.append(sorted((target / name).read_bytes() for name in names(target) if name != "_metadata"))
    assert contents[0] == contents[1] and contents[0]


@pytest.mark.parametrize("format_", FORMATS)
def test_a_write_without_rows_registers_the_state(tmp_path: Path, format_: str) -> None:
    """A Flink job with empty state registers it, too."""
    writer = begun(tmp_path / "s", NO_ROWS, snapshotFormat=format_)
    writer.commit([writer.write(iter(())), writer.write(batches(NO_ROWS))])
    assert found(tmp_path / "s") == {}
    operator = stateproc.open(tmp_path / "s").operator("op")
    assert [state.name for state in operator.keyed_states] == ["name"]
    assert len(operator.metadata.subtasks) == 3
    assert all(subtask.managed_keyed is not None for subtask in operator.metadata.subtasks)
    assert names(tmp_path / "s") == ["_metadata"]


@pytest.mark.parametrize("format_", FORMATS)
def test_subtasks_without_rows_register_the_state(tmp_path: Path, format_: str) -> None:
    rows = people(1)
    write(tmp_path / "s", rows, snapshotFormat=format_, compression="true")
    assert found(tmp_path / "s") == expected(rows)
    (operator,) = stateproc.open(tmp_path / "s").operators
    assert all(subtask.managed_keyed is not None for subtask in operator.metadata.subtasks)


@pytest.mark.parametrize("kind", ["operator-list", "union", "broadcast"])
def test_operator_state_without_elements_is_written(tmp_path: Path, kind: str) -> None:
    rows = pa.table({"map_key": pa.array([], pa.int32()), "map_value": pa.array([], pa.string())})
    rows = rows if kind == "broadcast" else NO_ROWS.select(["value"])
    write(tmp_path / "s", rows, stateKind=kind)
    operator = stateproc.open(tmp_path / "s").operator("op")
    assert operator.state("name").to_arrow().num_rows == 0
    for subtask in operator.metadata.subtasks:
        (state,) = subtask.managed_operator.states
        # Flink seeks to the first offset of a broadcast state without a check that there is one.
        assert len(state.offsets) == (kind == "broadcast")


@pytest.mark.parametrize("format_", FORMATS)
def test_a_key_in_two_partitions_is_refused_and_shown(tmp_path: Path, format_: str) -> None:
    rows = people(50)
    writer = begun(tmp_path / "s", rows, snapshotFormat=format_)
    messages = [writer.write(batches(rows)), writer.write(batches(people(1, start=16)))]
    with pytest.raises(DuplicateKey) as caught:
        writer.commit(messages)
    text = str(caught.value)
    assert "two entries with the same key" in text and "key=37, value='a name like 37'" in text
    assert "operator op, state 'name'" in text and "aggregate the rows" in text
    writer.abort(messages)
    assert not (tmp_path / "s").exists()


def test_a_duplicate_map_key_is_refused_and_shown(tmp_path: Path) -> None:
    rows = pa.table({"key": ["a", "a", "b"], "map_key": [7, 7, 1], "map_value": [1.5, None, 2.5]})
    writer = begun(tmp_path / "s", rows, stateKind="map")
    with pytest.raises(DuplicateKey, match=r"key='a', map_key=7, map_value=None"):
        writer.commit([writer.write(batches(rows))])


@pytest.mark.parametrize(
    ("rows", "options", "error", "texts"),
    [
        ({"id": [1], "value": [1]}, {}, NotFound, ["'key'", "there are: 'id', 'value'"]),
        ({"key": [1], "val": [1]}, {}, NotFound, ["'value'", "val"]),
        ({"key": [1], "value": [1]}, {"stateKind": "list"}, InvalidOption, ["array", "collect_list"]),
        ({"key": [1], "value": [1]}, {"stateKind": "map"}, InvalidOption, ["map"]),
        ({"key": [1], "value": [1]}, {"stateKind": "vlaue"}, InvalidOption, ["vlaue", "reducing"]),
        ({"key": [1], "value": [1]}, {"keyTyp": "Long"}, InvalidOption, ["keyTyp", "did you mean keyType?"]),
        ({"key": [1], "value": [1]}, {"uid": None}, InvalidOption, ["no uid given"]),
        ({"key": [1], "value": [1]}, {"state": None}, InvalidOption, ["no state given"]),
        ({"key": [1], "value": [1]}, {"parallelism": "200"}, InvalidOption, ["parallelism 200", "from 1 to 128"]),
        ({"key": [1], "value": [1]}, {"maxParallelism": "0"}, InvalidOption, ["max parallelism 0"]),
        ({"key": [1], "value": [1]}, {"snapshotFormat": "native"}, InvalidOption, ["'native'", "native-rocksdb"]),
        ({"key": [1], "value": [1]}, {"parallelism": "0"}, InvalidOption, ["parallelism 0", "from 1 to 128"]),
        ({}, {}, NotFound, ["no column", "there are none"]),
        ({}, {"stateKind": "union"}, NotFound, ["'value'"]),
    ],
)  # fmt: skip
def test_invalid_states_are_refused_before_anything_is_written(
    tmp_path: Path, rows: Any, options: Any, error: Any, texts: list[str]
) -> None:
    with pytest.raises(error) as caught:
        begun(tmp_path / "s", pa.table(rows), **options)
    for text in texts:
        assert text in str(caught.value)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("rows", "options", "texts"),
    [
        ({"key": [1, 2, None], "value": [1, 2, 3]}, {}, ["a null", "row: key=None, value=3"]),
        (
            {"key": ["a", "b"], "value": [1, 2]},
            {"keyType": "Long"},
            ["string does not fit int64", "row: key='a', value=1"],
        ),
        ({"key": [1], "value": ["x"]}, {"valueType": "Int"}, ["column 'value'", "row: key=1, value='x'"]),
        ({"key": [1], "value": [1 << 40]}, {"valueType": "Int"}, ["column 'value'", "1099511627776"]),
    ],
)
def test_rows_that_do_not_fit_the_type_are_shown(tmp_path: Path, rows: Any, options: Any, texts: list[str]) -> None:
    writer = begun(tmp_path / "s", pa.table(rows), **options)
    with pytest.raises(InvalidRows) as caught:
        writer.write(batches(pa.table(rows)))
    for text in texts:
        assert text in str(caught.value)
    assert "operator op, state 'name'" in str(caught.value)
    writer.abort([])
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("version", ["1.20", "2.3"])
def test_kryo_values_in_native_heap_files_of_both_kryo_versions(tmp_path: Path, version: str) -> None:
    """Kryo 2 and 5 encode the same value differently; the end of each value has to be known in heap files."""
    days = [[], [datetime.date(1, 1, 1)], [datetime.date(2020, 2, 29), datetime.date(9999, 12, 31)]]
    rows = pa.table({"key": pa.array(range(3), pa.int64()), "value": days})
    write(
        tmp_path / "s", rows, stateKind="list", snapshotFormat="native-hashmap", flinkVersion=version,
        valueType="Kryo java.time.LocalDate",
    )  # fmt: skip
    assert found(tmp_path / "s") == {key: value for key, value in expected(rows).items() if value}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("version", ["1.13", exhaustive("1.15"), exhaustive("1.20"), exhaustive("2.0"), "2.3"])
def test_master_states_are_kept_in_every_format_and_release(tmp_path: Path, format: str, version: str) -> None:
    states = (
        MasterState("hook é", 7, b"\0\xff\x80"),
        MasterState("empty", -1, b""),
        MasterState("hook", 0, b"x" * 70_000),
    )
    rows = people(50)
    plain = begun(tmp_path / "s", rows, snapshotFormat=format, flinkVersion=version)
    spec = replace(plain._spec, master_states=states)
    finish(spec, plain._commit, [])
    assert stateproc.open(tmp_path / "s").metadata.master_states == states
    assert stateproc.open(tmp_path / "s").metadata.version == release(version).metadata_version
