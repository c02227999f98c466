"""RocksDB snapshots of Flink 1.8 to 2.3: the rows equal those that the job recorded."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stateproc.errors import CorruptSnapshot, MissingFile
from stateproc.keygroups.operator_ids import operator_id
from stateproc.metadata import read_metadata
from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.readers.read_options import ReadOptions
from stateproc.readers.rocksdb import key_group_sizes, open_database, open_table, rocksdb_splits
from stateproc.readers.splits import SplitRequest, StateScan
from stateproc.storage import SnapshotLocation, locate
from tests.helpers.paths import FIXTURES
from tests.helpers.sweeps import exhaustive
from tests.helpers.value_comparison import plain, same

MODES = ("incremental", "native", "full", "full-heaptimers", "filemerging")
CASES = sorted(path.parent for mode in MODES for path in FIXTURES.glob(f"*/*-rocksdb-{mode}/manifest.json"))
RELEASES = [f"1.{minor}" for minor in range(8, 21)] + ["2.0", "2.1", "2.2", "2.3"]
KEYED = ("value", "list", "map", "reducing", "aggregating")
FULL = FIXTURES / "1.20" / "tiny-rocksdb-full"


def opened(case: Path) -> tuple[SnapshotLocation, list[tuple[str, int, IncrementalHandle]]]:
    """Return the snapshot, and (operator id, max parallelism, handle) of each subtask with a database."""
    location = locate(str(case / json.loads((case / "manifest.json").read_text())["snapshot"]))
    metadata = read_metadata(Path(location.metadata_uri).read_bytes(), file=location.metadata_uri)
    return location, [
        (operator.operator_id, operator.max_parallelism, subtask.managed_keyed)
        for operator in metadata.operators
        for subtask in operator.subtasks
        if isinstance(subtask.managed_keyed, IncrementalHandle)
    ]


def rows(case: Path, uid: str, state: str, split_bytes: int = 1 << 28, **filters: Any) -> list[dict[str, Any]]:
    location, handles = opened(case)
    kryo = 5 if case.parent.name.startswith("2.") else 2
    return [
        row
        for operator, max_parallelism, handle in handles
        if operator == operator_id(uid)
        for split in rocksdb_splits(
            handle,
            location,
            SplitRequest(
                StateScan(state, uid, max_parallelism, ReadOptions(kryo=kryo, opaque="bytes")),
                split_bytes=split_bytes,
                **filters,
            ),
        )
        for batch in split.read()
        for row in batch.to_pylist()
    ]


def expected(case: Path) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return the lines that the job recorded by (uid, state)."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in (case / "expected.jsonl").read_text("utf-8").splitlines():
        item = json.loads(line)
        if item["kind"] in KEYED and item["uid"]:
            found[item["uid"], item["state"]].append(item)
    return found


def _marked(case: Path) -> Any:
    """Return the case; those between the oldest and the newest release run in `make test` only."""
    return case if case.parent.name in ("1.8", "2.3") else exhaustive(case)


def index(key: Any, namespace: Any) -> str:
    return json.dumps([key, namespace], sort_keys=True)


def test_fixtures_cover_every_release() -> None:
    assert {case.parent.name for case in CASES} >= set(RELEASES)


@pytest.mark.parametrize(
    "case",
    [case if case.parent.name in ("1.8", "2.3") else exhaustive(case) for case in CASES],
    ids=lambda case: f"{case.parent.name}-{case.name}",
)
def test_rows_equal_those_that_the_job_recorded(case: Path) -> None:
    checked = 0
    for (uid, state), lines in expected(case).items():
        ours = {index(row["key"], row.get("namespace")): row for row in map(plain, rows(case, uid, state))}
        assert len(ours) == len(lines), (uid, state)
        for line in lines:
            row = ours[index(line["key"], line["namespace"])]
            assert same(row["value"], line["value"]), (uid, state, line["key"])
            checked += 1
    assert checked > 0


def test_small_splits_return_the_same_rows() -> None:
    whole = rows(FULL, "kitchen-string", "addresses")
    assert whole and rows(FULL, "kitchen-string", "addresses", split_bytes=1) == whole
    group = whole[0]["key_group"]
    part = [row for row in whole if row["key_group"] in (group, 127)]
    assert rows(FULL, "kitchen-string", "addresses", key_groups=frozenset({127, group})) == part


def test_tables_of_old_releases_have_format_version_0() -> None:
    versions = {}
    for release in ("1.8", "1.13", "1.14", "2.3"):
        case = next(case for case in CASES if case.parent.name == release)
        location, handles = opened(case)
        tables = [
            open_table(file.source)
            for _, _, handle in handles
            for file in open_database(handle, location).files
            if file.name.endswith(".sst")
        ]
        assert {table.properties.merge_operator for table in tables} == {"StringAppendTESTOperator"}
        versions[release] = {table.reader.footer.version for table in tables}
    assert versions == {"1.8": {0}, "1.13": {0}, "1.14": {5}, "2.3": {5}}


def test_a_missing_shared_file_is_named() -> None:
    location, handles = opened(FULL)
    handle = handles[0][2]
    first = next(index for index, (name, _) in enumerate(handle.private) if name.endswith(".sst"))
    files = (*handle.private[:first], *handle.private[first + 1 :])
    broken = replace(handle, private=files)
    database = open_database(broken, location)
    with pytest.raises(MissingFile, match=handle.private[first][0]):
        for info in database.header.states:
            rocksdb_splits(broken, location, SplitRequest(StateScan(info.name, "x", 128, ReadOptions())))


def test_two_files_with_the_same_name_are_refused_with_their_offset() -> None:
    location, handles = opened(FULL)
    handle = handles[0][2]
    assert handle.offset is not None and handle.offset > 0
    # The type byte is at this offset, and the checkpoint's id follows it.
    raw = Path(location.metadata_uri).read_bytes()
    assert raw[handle.offset] == handle.type_byte
    assert int.from_bytes(raw[handle.offset + 1 : handle.offset + 9], "big") == handle.checkpoint_id
    (name, first), (_, second), *_ = handle.private
    broken = replace(handle, private=((name, first), (name, second)))
    with pytest.raises(CorruptSnapshot, match="two files") as caught:
        open_database(broken, location)
    assert (caught.value.where.file, caught.value.where.offset) == (location.metadata_uri, handle.offset)


def test_sizes_of_a_state_that_flink_wrote() -> None:
    location, handles = opened(FULL)
    database = open_database(handles[0][2], location)
    sizes = key_group_sizes(database.files, "profile", database.key_groups, 1)
    assert len(sizes) == len(database.key_groups) and sizes.sum() > 0
