"""Chains of snapshots of one job: each has the features for which it was recorded (rows: test_fixtures.py)."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

import stateproc
from stateproc.errors import MissingFile
from stateproc.metadata.backend import KEY_VALUE, KEY_VALUE_V2, PRIORITY_QUEUE
from stateproc.metadata.keyed_handles import (
    ChangelogHandle,
    FileChangelogHandle,
    IncrementalHandle,
    InMemoryChangelogHandle,
    KeyedHandle,
)
from stateproc.metadata.stream_handles import ByteStreamHandle, FileHandle, SegmentHandle, StreamHandle
from stateproc.model.state import State
from stateproc.readers.changelog.log_metadata import read_declaration
from stateproc.readers.changelog.log_segments import METADATA_GROUP, log_blocks
from stateproc.readers.changelog.records import Operation
from stateproc.readers.rocksdb.database import column_families, database_files, open_database
from stateproc.readers.rocksdb.meta_blocks import TWO_LEVEL, TableProperties
from stateproc.readers.rocksdb.table import open_table
from stateproc.snapshot.snapshot import Snapshot
from tests.helpers.fixtures import FIXTURES, Fixture, differences, fixtures_in

NEWEST = ("1.20", "2.3")
CHANGELOGS = ("1.15", "1.16", "1.17", *NEWEST)
"""The releases with changelogs in files: never or sometimes materialized, rescaled, enabled and disabled."""
CHAINS = sorted(path.parent for path in FIXTURES.glob("*/chain-*/manifest.json"))


@dataclass(frozen=True)
class Table:
    """A live SST file; ``outside``: one of its key bounds is in no key group of the handle."""

    name: str
    level: int
    outside: bool
    properties: TableProperties


def chain(release: str, mode: str) -> list[Fixture]:
    return fixtures_in(FIXTURES / release / f"chain-{mode}")


def checkpoints(release: str, mode: str) -> list[Fixture]:
    return [member for member in chain(release, mode) if member.manifest["kind"] == "checkpoint"]


def keyed_handles(snapshot: Snapshot) -> Iterator[KeyedHandle]:
    for operator in snapshot.metadata.operators:
        for subtask in operator.subtasks:
            if subtask.managed_keyed is not None:
                yield subtask.managed_keyed


def tables(fixture: Fixture) -> list[Table]:
    """Return the live files of all databases of a snapshot."""
    snapshot = fixture.open()
    width = 1 if fixture.manifest["max_parallelism"] <= 128 else 2
    found = []
    for handle in keyed_handles(snapshot):
        assert isinstance(handle, IncrementalHandle)
        files = database_files(handle, snapshot.location)
        sources = {file.name: file.source for file in files}
        for family in column_families(files) or ():
            for live in family.files:
                bounds = [int.from_bytes(bound.key[:width], "big") for bound in (live.smallest, live.largest)]
                outside = not set(bounds) <= set(handle.key_groups)
                source = sources[live.name]
                found.append(Table(source.name, live.level, outside, open_table(source).properties))
    return found


def changelogs(fixture: Fixture) -> list[ChangelogHandle]:
    return [handle for handle in keyed_handles(fixture.open()) if isinstance(handle, ChangelogHandle)]


def materialized_and_logged(fixture: Fixture) -> tuple[bool, bool]:
    """Return whether there is materialized state, and whether there is a log."""
    handles = changelogs(fixture)
    return any(handle.materialized for handle in handles), any(handle.non_materialized for handle in handles)


def rows(state: State) -> pa.Table:
    """Return a state's rows, sorted, so that they do not depend on the order of the files."""
    table = state.to_arrow()
    return table.take(pa.array(sorted(range(len(table)), key=lambda row: repr(table.slice(row, 1).to_pylist()))))


@pytest.mark.parametrize("path", CHAINS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_chain_has_at_least_five_checkpoints_and_each_differs_from_the_next(path: Path) -> None:
    members = [item for item in fixtures_in(path) if item.manifest["kind"] == "checkpoint"]
    assert len(members) >= 5
    texts = [sorted(str(line) for line in member.expected()) for member in members]
    assert len({tuple(text) for text in texts}) >= 4


@pytest.mark.parametrize("release", NEWEST)
def test_a_chain_shares_files_in_many_levels(release: str) -> None:
    members = checkpoints(release, "rocksdb")
    found = [tables(member) for member in members]
    names = [{table.name for table in member} for member in found]
    assert all(earlier & later for earlier, later in pairwise(names))
    assert all(later - earlier for earlier, later in pairwise(names))
    assert {table.level for member in found for table in member} >= {0, 1, 2}
    assert all(sum(table.properties.deletions for table in member) for member in found)
    assert sum(table.properties.merge_operands for member in found for table in member) > 0
    assert max(table.properties.data_blocks for member in found for table in member) > 1


@pytest.mark.parametrize(
    ("release", "mode"),
    [("1.20", "rescaled"), ("1.20", "rescaled-delete-files"), ("2.3", "rescaled-ingest")],
)
def test_rescaled_databases_contain_range_deletions_and_foreign_key_groups(release: str, mode: str) -> None:
    found = [tables(member) for member in checkpoints(release, mode) if member.manifest["parallelism"] == 3]
    assert any(table.properties.range_deletions for member in found for table in member)
    assert any(table.outside for member in found for table in member)


@pytest.mark.parametrize(("release", "mode"), [("1.20", "rescaled"), ("2.3", "rescaled-ingest"), ("2.3", "forst")])
def test_rescaled_databases_are_restricted_to_their_key_groups(release: str, mode: str) -> None:
    member = next(item for item in checkpoints(release, mode) if item.manifest["parallelism"] == 3)
    for state in member.open().operators[-1].keyed_states:
        splits = state.splits(split_bytes=64)
        assert len(splits) > 3
        cut = [row for split in splits for batch in split.read() for row in batch.to_pylist()]
        assert sorted(map(repr, cut)) == sorted(map(repr, state.to_arrow().to_pylist()))


@pytest.mark.parametrize(
    ("release", "mode"),
    [(release, mode) for release in NEWEST for mode in ("rescaled", "rescaled-delete-files")]
    + [(release, "changelog-rescaled") for release in CHANGELOGS],
)
def test_chains_are_rescaled_up_and_down(release: str, mode: str) -> None:
    degrees = [member.manifest["parallelism"] for member in chain(release, mode)]
    assert list(dict.fromkeys(degrees)) == [2, 3, 1]


@pytest.mark.parametrize("release", NEWEST)
def test_managed_memory_partitions_index_and_filters(release: str) -> None:
    found = [table for member in checkpoints(release, "partitioned") for table in tables(member)]
    assert {table.properties.index_type for table in found} == {TWO_LEVEL}
    assert all(table.properties.filter_size for table in found)


@pytest.mark.parametrize("release", NEWEST)
def test_each_level_has_its_compression(release: str) -> None:
    found = {(t.level, t.properties.compression) for m in checkpoints(release, "compressed") for t in tables(m)}
    assert found >= {(0, "NoCompression"), (1, "LZ4"), (2, "ZSTD")}


@pytest.mark.parametrize("release", NEWEST)
def test_expired_entries_are_read_until_a_compaction_drops_them(release: str) -> None:
    members = chain(release, "expiring")
    counts = [
        {name: len(member.open().state("expiring", name).to_arrow()) for name in ("text", "items", "entries")}
        for member in members
    ]
    expected = [
        {
            name: len([line for line in member.expected() if line["state"] == name])
            for name in ("text", "items", "entries")
        }
        for member in members
    ]
    assert counts[:2] == expected[:2]
    assert any(read[name] > recorded[name] for read, recorded in zip(counts, expected, strict=True) for name in read)
    assert counts[4]["items"] < counts[1]["items"]


@pytest.mark.parametrize("release", NEWEST)
def test_heap_timers_are_stored_next_to_rocksdb(release: str) -> None:
    for member in checkpoints(release, "heaptimers"):
        operators = member.open().metadata.operators
        assert any(subtask.raw_keyed is not None for operator in operators for subtask in operator.subtasks)


@pytest.mark.parametrize("release", NEWEST)
def test_merged_files_contain_segments_of_several_checkpoints(release: str) -> None:
    paths: list[set[str]] = []
    for member in checkpoints(release, "filemerging"):
        handles = [handle for handle in keyed_handles(member.open()) if isinstance(handle, IncrementalHandle)]
        streams = [stream for handle in handles for _, stream in (*handle.shared, *handle.private)]
        assert {type(stream) for stream in streams} == {SegmentHandle}
        paths.append({stream.path for stream in streams if isinstance(stream, SegmentHandle)})
    assert any(earlier & later for earlier, later in pairwise(paths))


def test_forst_writes_asynchronous_states_and_keeps_files_in_its_working_directory() -> None:
    for mode, kind, working in (
        ("forst", KEY_VALUE_V2, True),
        ("forst-local", KEY_VALUE_V2, False),
        ("forst-synchronous", KEY_VALUE, False),
        ("async-rocksdb", KEY_VALUE, False),
    ):
        for member in checkpoints("2.3", mode):
            snapshot = member.open()
            for handle in keyed_handles(snapshot):
                assert isinstance(handle, IncrementalHandle)
                states = open_database(handle, snapshot.location).header.states
                assert {info.backend_type for info in states} - {PRIORITY_QUEUE} == {kind}
                tables_in = [stream.path for _, stream in handle.shared if isinstance(stream, FileHandle)]
                assert tables_in
                assert any("/db/" in path for path in tables_in) == working


def streams(fixture: Fixture) -> list[StreamHandle]:
    """Return the SST files of a snapshot's databases."""
    handles = [handle for handle in keyed_handles(fixture.open()) if isinstance(handle, IncrementalHandle)]
    return [stream for handle in handles for name, stream in (*handle.shared, *handle.private) if name.endswith(".sst")]


@pytest.mark.parametrize("release", NEWEST)
def test_checkpoints_after_claim_refer_to_files_of_the_former_job(release: str) -> None:
    members = checkpoints(release, "claimed")
    former, job = (member.manifest["snapshot"].split("/")[1] for member in (members[0], members[-1]))
    assert former != job
    found = [stream.path for stream in streams(members[3]) if isinstance(stream, FileHandle)]
    assert any(f"/{former}/shared/" in path for path in found)
    assert any(f"/{job}/shared/" in path for path in found)


@pytest.mark.parametrize("release", NEWEST)
def test_small_tables_are_stored_in_the_metadata(release: str) -> None:
    for member in checkpoints(release, "inline"):
        assert {type(stream) for stream in streams(member)} == {ByteStreamHandle}


@pytest.mark.parametrize("release", CHANGELOGS)
def test_changelogs_without_materialized_state(release: str) -> None:
    assert {materialized_and_logged(member) for member in chain(release, "changelog-never")} == {(False, True)}


@pytest.mark.parametrize(
    ("release", "mode"),
    [(release, "changelog") for release in (*CHANGELOGS, "1.18", "1.19")]
    + [(release, "changelog-rescaled") for release in CHANGELOGS]
    + [(release, "changelog-heap") for release in NEWEST]
    + [(release, "changelog-memory") for release in ("1.16", "1.17")],
)
def test_changelogs_with_no_partial_and_complete_materialization(release: str, mode: str) -> None:
    found = [materialized_and_logged(member) for member in checkpoints(release, mode)]
    assert found[0] == (False, True)
    assert {(True, True), (True, False)} <= set(found)


@pytest.mark.parametrize(
    ("release", "mode", "kind", "handle_type", "segments_type"),
    [
        ("1.15", "changelog", FileChangelogHandle, 8, 10),
        ("1.16", "changelog", FileChangelogHandle, 14, 13),
        ("1.16", "changelog-memory", InMemoryChangelogHandle, 14, None),
        ("1.17", "changelog", FileChangelogHandle, 14, 13),
        ("1.17", "changelog-memory", InMemoryChangelogHandle, 14, None),
        ("1.18", "changelog", FileChangelogHandle, 14, 13),
        ("2.3", "changelog", FileChangelogHandle, 14, 13),
    ],
)
def test_handles_of_changelogs_in_files_and_in_memory(
    release: str, mode: str, kind: type, handle_type: int, segments_type: int | None
) -> None:
    """Flink 1.15 wrote other handle types, without the checkpoint's id and the storage's name."""
    handles = [handle for member in checkpoints(release, mode) for handle in changelogs(member)]
    assert {(handle.type_byte, handle.checkpoint_id is None) for handle in handles} == {(handle_type, handle_type == 8)}
    parts = [part for handle in handles for part in handle.non_materialized]
    assert {type(part) for part in parts} == {kind}
    files = [part for part in parts if isinstance(part, FileChangelogHandle)]
    assert {(part.type_byte, part.storage) for part in files} == (
        {(segments_type, None if segments_type == 10 else "filesystem")} if segments_type else set()
    )


def merges(fixture: Fixture) -> Counter[str]:
    """Return the number of logged changes that merge namespaces, by kind of state."""
    found: Counter[str] = Counter()
    location = fixture.open().location
    for handle in changelogs(fixture):
        kinds: dict[int, str] = {}
        for block in log_blocks(handle.non_materialized, location, lambda _: True):
            for change in block.changes():
                if block.key_group == METADATA_GROUP:
                    number, info = read_declaration(change)
                    kinds[number] = info.options.get("KEYED_STATE_TYPE", "")
                elif change.data[0] == Operation.MERGE_NS:
                    found[kinds[int.from_bytes(change.data[1:3], "big")]] += 1
    return found


@pytest.mark.parametrize("release", NEWEST)
def test_changelogs_merge_sessions_before_and_after_materialization(release: str) -> None:
    never = chain(release, "changelog-sessions")
    assert {materialized_and_logged(member) for member in never} == {(False, True)}
    found = merges(never[-1])
    assert set(found) == {"LIST", "AGGREGATING", "REDUCING"} and min(found.values()) >= 30
    heap = chain(release, "changelog-sessions-heap")
    assert any(len(merges(member)) == 3 for member in heap if materialized_and_logged(member) == (True, True))


@pytest.mark.parametrize("release", NEWEST)
def test_one_materialized_subtask_determines_the_key_type_of_the_others(release: str) -> None:
    found = [{bool(handle.materialized) for handle in changelogs(m)} for m in chain(release, "changelog-by-and-by")]
    assert found[0] == {False, True}
    for member in chain(release, "changelog-by-and-by"):
        assert [operator.problems for operator in member.open().operators if operator.problems] == []


@pytest.mark.parametrize("release", CHANGELOGS)
def test_chains_enable_and_disable_the_changelog(release: str) -> None:
    """Flink 1.15 does so through canonical savepoints, the only snapshots that it restores with another setting."""
    found = [bool(changelogs(member)) for member in checkpoints(release, "changelog-switched")]
    assert found == [False, False, True, True, True, False, False]


def test_a_relative_file_is_read_from_the_mapped_path(tmp_path: Path) -> None:
    """Checkpoints with a changelog may name a savepoint's file by a relative name, as if it were in their directory."""
    member = next(item for item in chain("1.15", "changelog-switched") if item.manifest["kind"] == "canonical")
    shutil.copy(Path(member.snapshot) / "_metadata", tmp_path)
    (problem,) = stateproc.open(str(tmp_path)).operators[-1].problems
    assert isinstance(problem, MissingFile) and "path_mapping" in str(problem)
    mapped = stateproc.open(str(tmp_path), uids={"chain"}, path_mapping={str(tmp_path): member.snapshot})
    assert differences(member, mapped) == []


@pytest.mark.parametrize("release", CHANGELOGS)
def test_a_rescaled_changelog_replays_all_changes_of_the_subtasks_key_groups(release: str) -> None:
    """Flink filters changes by the subtask's key groups, not by the segment's."""
    handles = changelogs(checkpoints(release, "changelog-rescaled")[-1])
    parts = [part for handle in handles for part in handle.non_materialized if isinstance(part, FileChangelogHandle)]
    first = [(part.segments[0], part.key_groups) for part in parts]
    repeated = [segment for segment, _ in first if [other for other, _ in first].count(segment) > 1]
    assert repeated


@pytest.mark.parametrize("release", NEWEST)
def test_canonical_native_and_incremental_snapshots_of_one_job_have_equal_tables(release: str) -> None:
    *_, checkpoint, canonical, native = chain(release, "rocksdb")
    assert [item.manifest["kind"] for item in (checkpoint, canonical, native)] == ["checkpoint", "canonical", "native"]
    snapshots = [item.open(temporal="exact") for item in (checkpoint, canonical, native)]
    names = [{(state.operator.operator_id, state.name, state.kind) for state in item.states} for item in snapshots]
    assert names[0] == names[1] == names[2]
    assert len(names[0]) >= 12
    for states in zip(*(snapshot.states for snapshot in snapshots), strict=True):
        first, *others = [rows(state) for state in states]
        assert len(first) > 0
        for other in others:
            assert other.schema.equals(first.schema)
            assert other.equals(first), states[0].name
