"""Snapshots of many subtasks, files and elements: plans and tasks contain only what they need."""

from __future__ import annotations

import itertools
import pickle
import random
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from rocksdict import Options, Rdict, SstFileWriter

import stateproc
from stateproc.codec import machine
from stateproc.codec.machine import Columns
from stateproc.errors import CorruptSnapshot, MissingFile, UnsupportedSnapshot
from stateproc.metadata.keyed_handles import ChangelogHandle, IncrementalHandle
from stateproc.metadata.operator_handles import OperatorStreamHandle, StatePartition
from stateproc.metadata.snapshot import SnapshotMetadata
from stateproc.metadata.stream_handles import ByteStreamHandle, FileHandle
from stateproc.model.schema_merging import portions
from stateproc.readers import header_reader as headers
from stateproc.readers.entry_decoder import decode_entries
from stateproc.readers.operator_state import element_chunks, element_ranges
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.read_options import ReadOptions
from stateproc.readers.rocksdb import DatabaseFile
from stateproc.readers.rocksdb import database as rocksdb_database
from stateproc.readers.rocksdb.database import database_files
from stateproc.readers.rocksdb.manifest import ColumnFamily, log_records, read_manifest
from stateproc.readers.rocksdb.splits import RocksDbSplit, rocksdb_splits
from stateproc.readers.rocksdb.statistics import database_statistics
from stateproc.readers.splits import SplitRequest, StateScan
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext
from stateproc.serializers.java.scalars import SCALARS, VOID_NAMESPACE, Scalar
from stateproc.snapshot.snapshot import Snapshot
from stateproc.storage import InlineSource, SnapshotLocation
from stateproc.wire import Cursor
from stateproc.writers.formats.rocksdb.manifest import write_log
from stateproc.writers.formats.rocksdb.options import TableOptions
from tests.helpers.paths import FIXTURES
from tests.helpers.writers.native_rocksdb import write_native

KITCHEN = FIXTURES / "1.20/kitchen-rocksdb-incremental/snapshot"
SCALAR = {row[0]: Scalar(*row) for row in SCALARS}


def with_subtasks(snapshot: Snapshot, subtasks: int) -> Snapshot:
    """Return the snapshot with ``subtasks`` subtasks in each operator, all with the first one's state."""
    operators = tuple(
        replace(
            item,
            parallelism=subtasks,
            subtasks=tuple(replace(item.subtasks[0], index=index) for index in range(subtasks)),
        )
        for item in snapshot.metadata.operators
        if item.subtasks
    )
    metadata = replace(snapshot.metadata, operators=operators)
    assert isinstance(metadata, SnapshotMetadata)
    return Snapshot(snapshot.location, metadata, snapshot.options, ())


@pytest.mark.parametrize("case", ["kitchen-rocksdb-incremental", "kitchen-hashmap-canonical"])
def test_a_header_shared_by_subtasks_is_parsed_once(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = stateproc.open(str(FIXTURES / "1.20" / case / "snapshot"))
    alone = next(item for item in one.operators if item.keyed_files)
    expected = [(state.name, state.schema()) for state in alone.keyed_states]
    read: list[str] = []
    search = headers.read_whole_header

    def counted(data: bytes, file: str, parse: Callable[[Cursor], Any]) -> Any:
        read.append(file)
        return search(data, file, parse)

    monkeypatch.setattr(headers, "read_whole_header", counted)
    operator = with_subtasks(one, 40).operator(alone.operator_id)
    assert [(state.name, state.schema()) for state in operator.keyed_states] == expected
    assert len(operator.keyed_files) == 40
    assert len({id(file.states) for file in operator.keyed_files}) == len(read) == 1


def database(directory: Path, tables: int) -> IncrementalHandle:
    """Write a database with ten keys for each of 128 key groups, in ``tables`` tables of ascending keys."""
    (operator,) = (item for item in stateproc.open(str(KITCHEN)).operators[:1])
    handle = operator.keyed_files[0].handle
    assert isinstance(handle, IncrementalHandle)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    db = Rdict(str(directory / "db"), options)
    families = [db.create_column_family(name, options) for name in ("wanted", "other")]
    keys = [bytes([group]) + key.to_bytes(8, "big") + b"\0" for group in range(128) for key in range(10)]
    for number, family in enumerate(families):
        paths = []
        for table in range(tables):
            paths.append(str(directory / f"{number}-{table}.sst"))
            writer = SstFileWriter(options)
            writer.open(paths[-1])
            for key in keys[table * len(keys) // tables : (table + 1) * len(keys) // tables]:
                writer[key] = key
            writer.finish()
        family.ingest_external_file(paths)
    del families, family
    db.close()
    files = sorted(path for path in (directory / "db").iterdir() if path.name.startswith(("CURRENT", "MANIFEST")))
    files += sorted((directory / "db").glob("*.sst"))
    named = tuple((path.name, FileHandle(f"file:{path}", path.stat().st_size)) for path in files)
    return replace(handle, shared=named, private=(), first_key_group=0, key_group_count=128)


def location() -> SnapshotLocation:
    """The location of a snapshot that may name files anywhere."""
    return stateproc.open(str(KITCHEN), allowed_roots=["/"]).location


def planned(handle: IncrementalHandle, split_bytes: int, groups: set[int] | None = None) -> list[RocksDbSplit]:
    return rocksdb_splits(
        handle,
        location(),
        SplitRequest(
            StateScan("wanted", "op", 128, ReadOptions()), None if groups is None else frozenset(groups), split_bytes
        ),
    )


def keys_of(splits: list[RocksDbSplit]) -> int:
    return sum(len(batch.key_groups) for split in splits for batch in split.raw_entries())


@pytest.mark.slow
def test_a_split_of_a_database_contains_only_its_own_tables(tmp_path: Path) -> None:
    (tmp_path / "few").mkdir()
    (tmp_path / "many").mkdir()
    sizes = []
    for directory, tables in (("few", 8), ("many", 64)):
        handle = database(tmp_path / directory, tables)
        splits = planned(handle, 1)
        assert len(splits) == tables, "one for each table"
        assert keys_of(pickle.loads(pickle.dumps(splits))) == 1280
        assert all(sum(file.name.endswith(".sst") for file in split.files) <= 3 for split in splits)
        sizes.append(max(len(pickle.dumps(split)) for split in splits))
        assert keys_of(planned(handle, 1 << 30)) == 1280
        assert keys_of(planned(handle, 1, {5, 77})) == 20
    assert sizes[1] < 1.2 * sizes[0]


@pytest.fixture
def parsed_manifests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The MANIFESTs that are parsed from now on."""
    read: list[str] = []

    def counted(data: bytes, file: str) -> tuple[ColumnFamily, ...]:
        read.append(file)
        return read_manifest(data, file)

    monkeypatch.setattr(rocksdb_database, "read_manifest", counted)
    return read


def test_the_manifest_of_a_database_is_parsed_once(tmp_path: Path, parsed_manifests: list[str]) -> None:
    handle = database(tmp_path, 4)
    found = database_statistics(database_files(handle, location()))
    assert [(item.state, item.files, item.entries) for item in found] == [("other", 4, 1280), ("wanted", 4, 1280)]
    assert len(parsed_manifests) == 1
    assert keys_of(planned(handle, 1)) == 1280
    assert len(parsed_manifests) == 1, "planning and reading parse the same bytes"


def test_the_manifest_of_a_job_that_has_run_for_long_is_parsed_once(
    tmp_path: Path, parsed_manifests: list[str]
) -> None:
    """Each checkpoint adds changes to it, of files that are soon gone."""
    files = database_files(database(tmp_path, 4), location())
    (data,) = (file.source.read_all(1 << 20) for file in files if file.name.startswith("MANIFEST-"))
    name = "a job that has run for long"
    records = [content for _, content in log_records(data, name)]
    long = write_log([*records, *([b"\x03\x07"] * 20_000)])
    assert len(long) > 160_000
    for _ in range(3):
        found = rocksdb_database.column_families([DatabaseFile("MANIFEST-000004", InlineSource(name, long))])
        assert found == read_manifest(data, name)
    assert parsed_manifests == [name]


def test_a_manifest_of_other_bytes_or_another_name_is_parsed_again(tmp_path: Path) -> None:
    files = database_files(database(tmp_path, 1), location())
    (data,) = (file.source.read_all(1 << 20) for file in files if file.name.startswith("MANIFEST-"))

    def families(name: str, content: bytes) -> tuple[ColumnFamily, ...] | None:
        return rocksdb_database.column_families([DatabaseFile("MANIFEST-000004", InlineSource(name, content))])

    known = families("a", data)
    assert known is not None and families("a", data) is known
    for name in ("a", "b"):
        with pytest.raises(CorruptSnapshot) as caught:
            families(name, data[:-1] + bytes([data[-1] ^ 1]))
        assert caught.value.where.file == name
    assert families("b", data) == known and families("b", data) is not known


def test_a_database_without_the_requested_key_groups_is_not_read(tmp_path: Path) -> None:
    handle = database(tmp_path, 4)
    gone = replace(handle, shared=tuple((name, FileHandle("file:/nowhere/x", 9)) for name, _ in handle.shared))
    with pytest.raises(MissingFile):
        planned(gone, 1 << 30, {5})
    assert planned(replace(gone, first_key_group=64, key_group_count=64), 1 << 30, {5}) == []


@pytest.mark.parametrize("case", ["1.20/sql-sessions-hashmap-canonical", "2.3/windows-rocksdb-canonical"])
def test_window_contents_in_databases_are_joined_with_their_windows(case: str, tmp_path: Path) -> None:
    """A split includes the tables of two states: the window contents and the windows."""
    heap = stateproc.open(str(FIXTURES / case / "snapshot"))
    write_native(heap, tmp_path / "native", "1.20" if case.startswith("1.20") else "2.3", TableOptions())
    native = stateproc.open(str(tmp_path / "native"))
    compared = 0
    for operator in heap.operators:
        for state in operator.keyed_states:
            found, flatten = native.operator(operator.operator_id).state(state.name), state.kind == "map"
            expected = state.to_arrow(flatten=flatten).to_pylist()
            for split_bytes in (1, 1 << 28):
                parts = [
                    part for split in found.splits(flatten=flatten, split_bytes=split_bytes) for part in split.read()
                ]
                rows = [row for part in parts for row in part.to_pylist()]
                assert sorted(map(repr, rows)) == sorted(map(repr, expected))
            compared += state.under_state_windows and len(expected) > 0
    assert compared


def test_key_handles_of_a_changelog_refer_to_no_database_files() -> None:
    checked = 0
    for case in ("chain-changelog", "chain-changelog-by-and-by"):
        for path in sorted((FIXTURES / "1.20" / case).glob("**/_metadata")):
            for operator in stateproc.open(str(path.parent)).operators:
                for file in operator.keyed_files:
                    assert isinstance(file.handle, ChangelogHandle)
                    assert not any(
                        (*item.shared, *item.private)
                        for item in file.key_handles
                        if isinstance(item, IncrementalHandle)
                    )
                    checked += len(file.key_handles)
    assert checked


def map_entries(sizes: list[list[int]]) -> RawEntries:
    """Return map entries of keys 0, 1, … whose user keys are strings of the lengths in ``sizes[key]``."""
    parts = []
    for key, lengths in enumerate(sizes):
        for number, length in enumerate(lengths):
            user_key = bytes([length + 1]) + bytes([65 + number]) * length
            parts += [key.to_bytes(8, "big") + b"\0" + user_key, b"\0" + bytes(8)]
    bounds = np.append(0, np.cumsum([len(part) for part in parts])).astype(np.int64)
    ranges = np.stack([bounds[0:-1:2], bounds[1::2], bounds[1::2], bounds[2::2]])
    data = np.frombuffer(b"".join(parts), dtype=np.uint8)
    return RawEntries(data, np.zeros(len(parts) // 2, np.int32), ranges, "file", 0)


def maps() -> StateDescriptor:
    return StateDescriptor("s", StateKind.MAP, 0, SCALAR["Long"], VOID_NAMESPACE, SCALAR["Long"], SCALAR["String"])


def test_a_map_above_the_value_limit_is_refused_before_it_is_read_completely() -> None:
    """The entries of one key span several batches, each of which is below the limit."""
    consumed = 0

    def chunks() -> Iterator[RawEntries]:
        nonlocal consumed
        for consumed in range(1, 6):  # noqa: B007  (the test checks how many chunks were consumed)
            yield map_entries([[20, 20]])

    (batch,) = decode_entries(chunks(), maps(), LayoutContext(), most=300)
    assert len(batch["value"][0]) == 10
    with pytest.raises(UnsupportedSnapshot, match="a map of 180 bytes") as caught:
        list(decode_entries(chunks(), maps(), LayoutContext(), most=179))
    assert consumed == 3
    assert "flatten=true" in (caught.value.advice or "")
    assert caught.value.where.state == "s"
    flat = decode_entries(chunks(), maps(), LayoutContext(), flatten=True, most=1)
    assert sum(map(len, flat)) == 10


@pytest.mark.parametrize("flatten", [False, True])
def test_a_column_above_arrows_limit_is_reported_as_unsupported_not_corrupt(
    flatten: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is reported as corrupt only if the entry has too few bytes for a value of that length."""
    state = StateDescriptor("s", StateKind.VALUE, 0, SCALAR["Long"], VOID_NAMESPACE, SCALAR["String"])
    data = bytes(9) + b"\x89\x27" + b"x" * 5000
    ranges = np.array([[0], [9], [9], [len(data)]])
    entries = RawEntries(np.frombuffer(data, np.uint8), np.zeros(1, np.int32), ranges, "file", 0)
    (batch,) = decode_entries([entries], state, LayoutContext(), flatten=flatten)
    assert batch["value"].to_pylist() == ["x" * 5000]
    monkeypatch.setattr(Columns, "LIMIT", 4096)
    with pytest.raises(CorruptSnapshot):
        list(decode_entries([entries], state, LayoutContext(), flatten=flatten))
    monkeypatch.setattr(machine, "_MIN_OVERSIZED", 5000)
    with pytest.raises(UnsupportedSnapshot, match="more than 2 GiB") as caught:
        list(decode_entries([entries], state, LayoutContext(), flatten=flatten))
    assert caught.value.where.file == "file"
    assert caught.value.where.state == "s"
    assert caught.value.advice


def test_batches_are_divided_into_portions_for_spark() -> None:
    batch = pa.record_batch({"a": pa.array(range(1000)), "b": pa.array(["x" * 92] * 1000)})
    parts = list(portions(batch, most=batch.nbytes // 10))
    assert pa.Table.from_batches(parts) == pa.Table.from_batches([batch])
    assert [len(part) for part in parts] == [100] * 10
    assert [len(part) for part in portions(batch, most=1)] == [1] * 1000
    assert [part.num_rows for part in portions(batch)] == [1000]
    assert [part.num_rows for part in portions(batch.slice(0, 0))] == [0]


def ranges_one_by_one(handle: OperatorStreamHandle, partition: StatePartition, size: int) -> list[list[int]]:
    """Compute `element_ranges` element by element; the last element at an offset has the offset's bytes."""
    everything = sorted({offset for other in handle.states for offset in other.offsets} | {size})
    next_offset = dict(itertools.pairwise(everything))
    return [[offset, next_offset.pop(offset, offset)] for offset in reversed(partition.offsets)][::-1]


def test_element_ranges_equal_the_reference_implementation() -> None:
    rng = random.Random(5)
    for _ in range(300):
        size = rng.randrange(1, 30)
        states = tuple(
            StatePartition(name, "UNION", tuple(rng.randrange(size + 1) for _ in range(rng.randrange(8))))
            for name in "ab"
        )
        handle = OperatorStreamHandle(4, states, ByteStreamHandle("n", bytes(size)))
        source = InlineSource("n", bytes(range(size)))
        for state in states:
            ranges = element_ranges(handle, state, source)
            assert ranges.tolist() == ranges_one_by_one(handle, state, size)
            elements = [
                data[start:stop].tobytes()
                for data, starts, stops, _ in element_chunks(source, ranges, False)
                for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
            ]
            assert elements == [source.data[start:stop] for start, stop in ranges.tolist()]


def test_element_ranges_need_less_than_100_bytes_per_element() -> None:
    """No Python object is made for an element, because a list state may have tens of millions."""
    elements = 200_000
    state = StatePartition("s", "SPLIT_DISTRIBUTE", tuple(range(0, 8 * elements, 8)))
    source = InlineSource("n", bytes(8 * elements))
    handle = OperatorStreamHandle(4, (state,), ByteStreamHandle("n", source.data))
    tracemalloc.start()
    try:
        ranges = element_ranges(handle, state, source)
        found = sum(len(starts) for _, starts, _, _ in element_chunks(source, ranges, False))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == elements
    assert peak < 100 * elements


def test_different_headers_are_parsed_separately() -> None:
    shared = headers.SharedHeaders(_number)
    assert [shared.whole(data, "file") for data in (b"\1", b"\2", b"\1")] == [(1,), (2,), (1,)]


def _number(cursor: Cursor) -> tuple[int]:
    return (cursor.u8(),)
