"""Reading changelog files: offsets, compression, files shared by tasks, truncation, and logs larger than memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stateproc.errors import CorruptSnapshot, MissingFile
from stateproc.metadata.keyed_handles import ChangelogHandle, FileChangelogHandle, IncrementalHandle
from stateproc.metadata.stream_handles import FileHandle, KeyGroupsHandle
from stateproc.readers.changelog.change_blocks import blocks_of
from stateproc.readers.changelog.changelog_split import ChangelogSplit
from stateproc.readers.changelog.log_metadata import ChangelogSource
from stateproc.readers.changelog.log_segments import Change, LogContent, log_changes, log_source
from stateproc.readers.changelog.spill_buckets import Buckets
from stateproc.readers.splits import StateScan
from stateproc.snapshot.snapshot import Snapshot
from stateproc.storage import SnapshotLocation
from stateproc.storage.store import StorePath
from tests.helpers.byte_builders.changelog import (
    ADD_ELEMENT,
    LIST,
    LONG,
    SET,
    change,
    declared,
    empty_materialized,
    fstr,
    log_file,
    long,
    opened,
    segment_content,
    state_info,
)
from tests.helpers.byte_builders.metadata import file, file_changelog, inline
from tests.helpers.fixtures import Fixture, fixtures
from tests.helpers.stores.counting_filesystem import counted, counting
from tests.helpers.sweeps import exhaustive, sweep

INFO = state_info("s", "VALUE", LONG)
MINE = segment_content([declared(0, INFO), change(SET, "a", long(1)), change(SET, "b", long(2), group=9)])
LATER = segment_content([change(SET, "a", long(3))])
OTHERS = segment_content([declared(0, state_info("other", "LIST", LIST)), change(ADD_ELEMENT, "x", fstr("y"))])


def rows(directory: Path, segments: list[tuple[int, bytes]], kind: int = 13) -> list[tuple[str, int]]:
    state = opened(directory, [empty_materialized()], [file_changelog(kind, segments)]).state("s")
    return sorted((row["key"], row["value"]) for batch in state.batches() for row in batch.to_pylist())


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", [10, 13])
def test_segments_are_read_at_their_offsets(tmp_path: Path, compressed: bool, kind: int) -> None:
    """Segments of other tasks before, between and after the handle's are skipped; the handle defines the order."""
    content = OTHERS + LATER + OTHERS + MINE + OTHERS
    path = log_file(tmp_path / "log", content, compressed=compressed)
    late, mine = len(OTHERS), len(OTHERS + LATER + OTHERS)
    handle = file(path, len(content))
    assert rows(tmp_path, [(mine, handle), (late, handle)], kind) == [("a", 3), ("b", 2)]


@pytest.mark.parametrize("compressed", [False, True])
def test_segments_of_several_files_follow_one_another(tmp_path: Path, compressed: bool) -> None:
    first = log_file(tmp_path / "first", MINE, compressed=compressed)
    second = log_file(tmp_path / "second", LATER, compressed=compressed)
    segments = [(0, file(first, len(MINE))), (0, file(second, len(LATER)))]
    assert rows(tmp_path, segments) == [("a", 3), ("b", 2)]
    assert rows(tmp_path, [segments[0], segments[1], (0, file(first, len(MINE)))]) == [("a", 1), ("b", 2)]


def test_a_segment_stored_inline_in_the_metadata_is_read(tmp_path: Path) -> None:
    assert rows(tmp_path, [(0, inline("log", b"\0" + MINE))]) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("remainders", sweep(4), ids=str)
def test_every_truncation_of_a_file_is_refused_with_file_and_offset(
    tmp_path: Path, remainders: range, compressed: bool
) -> None:
    path = Path(log_file(tmp_path / "log", MINE, compressed=compressed))
    whole = path.read_bytes()
    for length in (length for length in range(len(whole)) if length % 4 in remainders):
        path.write_bytes(whole[:length])
        with pytest.raises(CorruptSnapshot) as caught:
            rows(tmp_path, [(0, file(str(path), len(MINE)))])
        assert caught.value.where.file == str(path)
        assert caught.value.where.offset is not None and caught.value.where.offset <= length


def test_damage_is_reported_with_file_and_offset(tmp_path: Path) -> None:
    path = tmp_path / "log"
    handle = file(str(path), len(MINE))

    def message(body: bytes, offset: int = 0) -> str:
        path.write_bytes(body)
        with pytest.raises(CorruptSnapshot) as caught:
            rows(tmp_path, [(offset, handle)])
        assert caught.value.where.file == str(path) and caught.value.where.offset is not None
        return caught.value.message

    assert "the mark 2" in message(b"\x02" + MINE)
    assert "outside" in message(b"\0" + MINE, 10_000) or "a segment at byte" in message(b"\0" + MINE, 10_000)
    assert "impossible number of key groups" in message(b"\0\xff\xff\xff\xff" + MINE)
    assert "impossible number of changes" in message(b"\0" + MINE[:4] + b"\xff" * 4 + MINE[8:])
    assert "negative length" in message(b"\0" + MINE[:12] + b"\xff" * 4 + MINE[16:])
    assert "bytes wanted" in message(b"\0" + MINE[:12] + b"\x7f\xff\xff\xff" + MINE[16:])
    path.unlink()
    with pytest.raises(MissingFile):
        rows(tmp_path, [(0, handle)])


def test_a_damaged_change_is_reported_with_file_state_and_offset(tmp_path: Path) -> None:
    content = segment_content([declared(0, INFO), (5, b"\x01\0\0\x09abc")])
    path = log_file(tmp_path / "log", content)
    with pytest.raises(CorruptSnapshot, match="needs more bytes") as caught:
        rows(tmp_path, [(0, file(path, len(content)))])
    assert caught.value.where.file == path and caught.value.where.state == "s"
    assert caught.value.where.offset is not None and abs(caught.value.where.offset - len(content)) < 8


def test_seeking_backwards_in_compressed_content_decompresses_it_again(tmp_path: Path) -> None:
    plain = bytes(range(256)) * 2000
    path = log_file(tmp_path / "log", plain, compressed=True)
    location = SnapshotLocation(StorePath(str(tmp_path / "_metadata")))
    content = LogContent(log_source(FileHandle(path, len(plain)), location))
    content.seek(300_000)
    assert content.take(5) == plain[300_000:300_005] and content.position == 300_005
    content.seek(7)
    assert content.take(300_000) == plain[7:300_007]
    with pytest.raises(CorruptSnapshot, match="cut off"):
        content.take(len(plain))


@pytest.mark.parametrize(("leading", "first"), [(True, 64 << 10), (False, 1 << 20)])
def test_content_is_read_in_growing_steps_and_once(tmp_path: Path, leading: bool, first: int) -> None:
    plain = bytes(range(256)) * (80 << 10)
    path = log_file(tmp_path / "log", plain)
    location = SnapshotLocation(StorePath(counted(tmp_path / "_metadata")))
    with counting() as count:
        content = LogContent(log_source(FileHandle(f"counted://{path}", len(plain)), location), leading=leading)
        for at in range(0, len(plain), 100_000):
            content.seek(at)
            assert content.take(min(100_000, len(plain) - at)) == plain[at : at + 100_000]
    assert count.bytes == len(plain) + 1
    assert [size for _, size in count.requests[:3]] == [first, first, 2 * first]
    with counting() as count:
        content = LogContent(log_source(FileHandle(f"counted://{path}", len(plain)), location), leading=True)
        content.seek(15 << 20)
        content.integer()
        content.seek(1 << 20)
        content.integer()
    assert [size for _, size in count.requests][-2:] == [64 << 10] * 2 and count.bytes <= 192 << 10


@pytest.mark.parametrize(("leading", "most"), [(True, 8), (False, 4)])
def test_remote_files_are_opened_ahead_and_read_in_order(tmp_path: Path, leading: bool, most: int) -> None:
    contents = [segment_content([(5, bytes([number]) * 10)]) for number in range(20)]
    paths = [log_file(tmp_path / f"log-{number}", content) for number, content in enumerate(contents)]
    streams = [FileHandle(f"counted://{path}", len(content)) for path, content in zip(paths, contents, strict=True)]
    handle = FileChangelogHandle(13, 0, 64, tuple((0, stream) for stream in streams), 0, 0, "log")
    location = SnapshotLocation(StorePath(counted(tmp_path / "_metadata")))
    with counting(together=2) as count:
        found = [change.data for change in log_changes([handle], location, lambda _: True, leading=leading)]
    assert found == ([] if leading else [bytes([number]) * 10 for number in range(20)])
    assert len(count.requests) == 20 and 2 <= count.most_at_once <= most


@pytest.mark.parametrize("memory", [0, 1000, 1 << 30])
def test_changes_are_returned_in_order_from_memory_and_from_files(memory: int) -> None:
    groups = list(range(10, 150))
    added = [
        Change(10 + index * 7 % 140, bytes([index % 251]) * (index % 5), f"f{index % 3}", index) for index in range(900)
    ]
    with Buckets(groups, memory) as buckets:
        for block in blocks_of(added):
            buckets.add(block)
        runs = [
            (run, [change for block in buckets.taken(run) for change in block.changes()])
            for run in buckets.runs(more=1 << 20)
        ]
    assert [group for run, _ in runs for group in run] == groups
    assert len(runs) > 3
    for run, changes in runs:
        assert {item.key_group for item in changes} <= set(run)
    for group in groups:
        found = [item for _, changes in runs for item in changes if item.key_group == group]
        assert found == [item for item in added if item.key_group == group]


# --- real snapshots ------------------------------------------------------------------------------------------


CLASSES = {
    "fixtures.Edges$Dog": {"legs": "int", "name": "String", "weight": "Double"},
    "fixtures.Edges$Generic": {"text": "String", "number": "int", "longs": "long[]"},
}


def _fixture(name: str) -> Fixture:
    return next(item for item in fixtures() if item.name == name)


def _sorted(batches: Iterator[Any]) -> list[str]:
    return sorted(repr({**row, "raw_key": None}) for batch in batches for row in batch.to_pylist())


def _changelog_of(snapshot: Snapshot, handle: KeyGroupsHandle | IncrementalHandle) -> ChangelogHandle:
    return ChangelogHandle(
        14, handle.key_groups.start, len(handle.key_groups), 0, (handle,), (), 1, 1, "changelog-id"
    )  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "1.20/kitchen-hashmap-checkpoint",
        exhaustive("1.20/kitchen-hashmap-canonical"),
        "1.20/kitchen-rocksdb-incremental",
        "1.20/windows-hashmap-canonical",
    ],
)
def test_materialized_state_replayed_without_changes_equals_a_direct_read(name: str) -> None:
    """Compare all states split into raw keys and values and decoded again with the same states read directly."""
    snapshot = _fixture(name).open(classes=CLASSES)
    compared = 0
    for operator in snapshot.operators:
        for file_ in operator.keyed_files:
            assert isinstance(file_.handle, KeyGroupsHandle | IncrementalHandle)
            for state in operator.keyed_states:
                before = [split for split in state.plain_splits() if split.origin == file_.source.name]
                expected = _sorted(batch for split in before for batch in split.read())
                split = ChangelogSplit(
                    StateScan(state.name, operator.display, operator.max_parallelism, snapshot.options),
                    ChangelogSource(_changelog_of(snapshot, file_.handle), snapshot.location),
                    tuple(file_.handle.key_groups),
                    0,
                )
                assert _sorted(split.read()) == expected
                taken_apart = [
                    batch.drop_columns(["raw_key"])
                    for batch in replace(split, scan=replace(split.scan, raw_keys=True)).read()
                ]
                assert _sorted(iter(taken_apart)) == expected
                compared += 1
    assert compared > 10
