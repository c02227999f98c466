"""Requests for RocksDB files: few bytes for a key, each table's end once, several requests concurrently."""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rocksdict import BlockBasedOptions, DBCompressionType, Options, Rdict

import stateproc
from stateproc.keygroups.key_hash import KeyHash
from stateproc.metadata import read_metadata
from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.metadata.stream_handles import FileHandle
from stateproc.metadata.writer import write_metadata
from stateproc.model.state import FilteredScan
from stateproc.readers.rocksdb import database_files, rocksdb_entries
from stateproc.spark.options import source_options
from stateproc.spark.relations import relation
from stateproc.storage import FileSource
from tests.helpers.paths import FIXTURES
from tests.helpers.rocksdb.databases import contents, database
from tests.helpers.stores.counting_filesystem import CountedFileSystem, counted, counting
from tests.helpers.sweeps import exhaustive

KITCHEN = FIXTURES / "1.20/kitchen-rocksdb-incremental/snapshot"
UIDS = ["kitchen-string", "kitchen-long", "kitchen-pojo"]
KEYS = 200_000


def key_groups_of(keys: range) -> list[int]:
    import pyarrow as pa

    from stateproc.keygroups.hashes import hash_codes
    from stateproc.keygroups.ranges import key_group_of_hash

    codes = hash_codes(pa.array(keys, pa.int64()), KeyHash("long"))
    return [int(group) for group in key_group_of_hash(codes, 128)]


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkpoint of Flink whose state "profile" of Long keys is extended by many keys, in five tables."""
    root = tmp_path_factory.mktemp("big")
    snapshot = stateproc.open(str(KITCHEN), uids=UIDS)
    operator = snapshot.operator("kitchen-long")
    handle = operator.keyed_files[0].handle
    assert isinstance(handle, IncrementalHandle)
    files = database_files(handle, snapshot.location)
    (value, *_) = contents(list(files), "profile", handle.key_groups).values()

    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_disable_auto_compactions(True)
    options.set_compression_type(DBCompressionType.none())
    options.set_block_based_table_factory(BlockBasedOptions())
    db = Rdict(str(root / "db"), options)
    profile = db.create_column_family("profile", options)
    for at, group in enumerate(key_groups_of(range(KEYS))):
        profile[bytes([group]) + struct.pack(">q", at) + b"\0"] = value
        if at % (KEYS // 5) == KEYS // 5 - 1:
            profile.flush()
    db.close()

    directory = root / "chk-1"
    directory.mkdir()
    meta = Path(directory / "header")
    meta.write_bytes(operator.keyed_files[0].source.read_all(1 << 20))
    stored = [path for path in (root / "db").iterdir() if path.suffix == ".sst" or path.name.startswith(("M", "CURR"))]
    handles = tuple((path.name, FileHandle(f"file:{path}", path.stat().st_size)) for path in stored)
    made = replace(handle, meta=FileHandle(f"file:{meta}", meta.stat().st_size), shared=handles, private=())
    metadata = read_metadata(Path(snapshot.location.metadata_uri).read_bytes(), file="_metadata")
    (subtask,) = operator.metadata.subtasks
    only = replace(operator.metadata, subtasks=(replace(subtask, managed_keyed=made),))
    (directory / "_metadata").write_bytes(write_metadata(replace(metadata, operators=(only,)), 4))
    return directory


def opened(path: Path) -> Any:
    # Files that _metadata names by file: URIs are searched in the snapshot's own storage.
    mapping = {f"file:{path.parent}": counted(path.parent)}
    return stateproc.open(counted(path), uids=UIDS, path_mapping=mapping).state("kitchen-long", "profile")


def size(path: Path) -> int:
    return sum(file.stat().st_size for file in (path.parent / "db").glob("*.sst"))


@pytest.mark.slow
def test_reading_one_key_fetches_at_most_a_fiftieth_of_the_state(big: Path) -> None:
    with counting() as count:
        table = opened(big).to_arrow(keys=[4242])
    assert table.column("key").to_pylist() == [4242]
    assert count.bytes <= size(big) // 50, (count.bytes, size(big))
    assert len(count.requests) < 25


@pytest.mark.slow
def test_where_options_and_filters_on_one_key_fetch_at_most_a_fiftieth_of_the_state(big: Path) -> None:
    with counting() as count:
        rows = FilteredScan(opened(big), "key = 4242")
        assert [row["key"] for batch in rows.batches(lambda _: None) for row in batch.to_pylist()] == [4242]
    assert count.bytes <= size(big) // 50
    text = {"path": counted(big), "uid": "kitchen-long", "uids": ",".join(UIDS), "state": "profile"}
    mapping = f'{{"file:{big.parent}": "{counted(big.parent)}"}}'
    for more, keys in (({"keys": "[4242]"}, None), ({}, [4242])):
        with counting() as count:
            found = relation(source_options({**text, **more, "pathmapping": mapping}))
            groups = found._state.key_groups_of([4242])  # type: ignore[attr-defined]
            splits = found.splits(lambda _, groups=groups: groups, keys)  # type: ignore[misc]
            assert [key for split in splits for batch in split.read() for key in batch.column("key").to_pylist()] == [
                4242
            ]
        assert count.bytes <= size(big) // 50


@pytest.mark.slow
def test_reading_an_absent_key_fetches_at_most_a_fiftieth_of_the_state(big: Path) -> None:
    with counting() as count:
        assert opened(big).to_arrow(keys=[KEYS + 7]).num_rows == 0
    assert count.bytes <= size(big) // 50


@pytest.mark.slow
def test_scattered_key_groups_open_each_table_once(big: Path) -> None:
    scattered = list(range(0, 128, 8))
    with counting() as count:
        table = opened(big).to_arrow(key_groups=scattered)
    wanted = Counter(group for group in key_groups_of(range(KEYS)) if group % 8 == 0)
    assert Counter(table.column("key_group").to_pylist()) == wanted
    ends = 32 << 10
    tables = {path.name: path.stat().st_size for path in (big.parent / "db").glob("*.sst")}
    assert [sum(name == file and read == ends for file, read in count.requests) for name in tables] == [1] * 5
    # An eighth of the key groups is an eighth of the bytes, plus the index and the blocks at their boundaries.
    assert all(sum(read for file, read in count.requests if file == name) < 0.2 * tables[name] for name in tables)


@pytest.mark.slow
def test_the_whole_state_is_fetched_once(big: Path) -> None:
    with counting() as count:
        assert opened(big).to_arrow(columns=["key"]).num_rows == KEYS
    assert count.bytes <= 1.05 * size(big)
    assert len(count.requests) <= 5 * (3 + size(big) // 5 // (2 << 20))


@pytest.mark.slow
def test_several_requests_run_concurrently(big: Path) -> None:
    with counting(together=4, least=1 << 14) as count:
        assert opened(big).to_arrow(columns=["key"]).num_rows == KEYS
    assert 4 <= count.most_at_once <= 8
    local = [path.name for path in (big.parent / "db").glob("*.sst")]
    assert all(count.times(name) for name in local)


@pytest.mark.slow
def test_an_error_in_a_prefetch_thread_is_raised_as_a_typed_error(big: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: Any, **options: Any) -> bytes:
        raise PermissionError("no")

    state = opened(big)
    splits = state.splits()
    monkeypatch.setattr(CountedFileSystem, "cat_file", refused)
    with pytest.raises(stateproc.errors.AccessDenied, match="access denied"):
        list(splits[0].read())


@pytest.mark.parametrize("uid", ["kitchen-string", *map(exhaustive, ["kitchen-long", "kitchen-tuple", "kitchen-ttl"])])
@pytest.mark.parametrize("release", [exhaustive("1.20"), "2.3"])
def test_every_key_can_be_read_alone(release: str, uid: str) -> None:
    snapshot = stateproc.open(str(FIXTURES / release / "kitchen-rocksdb-incremental/snapshot"), uids=[uid])
    looked_up = 0
    for state in snapshot.operator(uid).keyed_states:
        whole = state.to_arrow().to_pylist()
        keys = {repr(row["key"]): row["key"] for row in whole}
        for text, key in keys.items():
            found = state.to_arrow(keys=[key]).to_pylist()
            same = [row for row in found if repr(row["key"]) == text]
            assert same == [row for row in whole if repr(row["key"]) == text], state.name
            if state.key_type in ("Long", "String"):
                assert len(found) == len(same)
            looked_up += 1
        two = list(keys.values())[:2]
        found = {repr(row["key"]) for row in state.to_arrow(keys=two).to_pylist()}
        assert set(map(repr, two)) <= found
    assert looked_up > 20


def test_keys_given_as_bytes_match_as_prefixes(tmp_path: Path) -> None:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    db = Rdict(str(tmp_path), options)
    family = db.create_column_family("s", options)
    stored = [b"\x01a", b"\x01a\x00", b"\x01ab", b"\x01b", b"\x02a", b"\x02\xff\xff", b"\x03"]
    for key in stored:
        family[key] = b"value of " + key
    family.flush()
    del family[b"\x01ab"]
    family.flush()
    db.close()
    files = database(tmp_path)

    def found(*keys: bytes) -> list[bytes]:
        entries = rocksdb_entries(files, "s", [range(1, 2), range(2, 3)], 1, keys=keys)
        return [
            bytes([group]) + batch.data.tobytes()[start:stop]
            for batch in entries
            for group, start, stop in zip(batch.key_groups.tolist(), *batch.ranges[:2].tolist(), strict=True)
        ]

    assert found(b"\x01a") == [b"\x01a", b"\x01a\x00"]
    assert found(b"\x02\xff", b"\x01b", b"\x01b") == [b"\x01b", b"\x02\xff\xff"]
    assert found(b"\x03") == [] and found() == []
    assert found(b"\x01", b"\x02") == [b"\x01a", b"\x01a\x00", b"\x01b", b"\x02a", b"\x02\xff\xff"]
    assert all(isinstance(file.source, FileSource) for file in files)
