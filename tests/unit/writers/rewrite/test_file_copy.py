"""Copying the files of unchanged operators: each file once, next to a relocatable new `_metadata`."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import stateproc
from stateproc.errors import InvalidOption, MissingFile, UnsupportedSnapshot, WriteFailed
from stateproc.metadata import walk_stream_handles
from stateproc.metadata.keyed_handles import ChangelogHandle
from stateproc.metadata.operator_handles import OperatorStreamHandle
from stateproc.metadata.snapshot import OperatorEntry, SubtaskState
from stateproc.metadata.stream_handles import (
    ByteStreamHandle,
    EmptySegmentHandle,
    FileHandle,
    KeyGroupsHandle,
    RelativeFileHandle,
    SegmentHandle,
    StreamHandle,
)
from stateproc.metadata.walk import StreamUse
from stateproc.snapshot.snapshot import Snapshot
from stateproc.storage import SnapshotLocation, open_handle
from stateproc.storage.sources import FileSource
from stateproc.storage.store import StorePath
from stateproc.writers.commit.commit import Commit
from stateproc.writers.rewrite.file_copy import FileCopy, copy_plan
from tests.helpers.fixtures import CLASSES, FIXTURES, Fixture, differences, fixtures, fixtures_in
from tests.helpers.sweeps import sampled
from tests.helpers.writers.rewritten_snapshots import copied

KINDS = [
    one
    for one in fixtures()
    if one.path.parent.name in ("1.20", "2.3")
    and one.manifest["job"] != "inflight"
    and (not one.part or one.path.name in ("chain-filemerging", "chain-changelog", "chain-rocksdb"))
]


def fixture(name: str) -> Fixture:
    return fixtures_in(FIXTURES / name)[-1]


def files_of(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()} - {"_metadata"}


@pytest.mark.parametrize("one", KINDS, ids=lambda one: one.name)
def test_a_moved_copy_contains_the_states_that_the_job_recorded(one: Fixture, tmp_path: Path) -> None:
    snapshot = one.open()
    there = copied(snapshot, tmp_path / "copy")
    for before, after in zip(_filled(snapshot), _filled(there), strict=True):
        assert (before.operator.operator_id, before.subtask) == (after.operator.operator_id, after.subtask)
        _same_bytes(before.handle, snapshot.location, after.handle, there.location)
    os.rename(tmp_path / "copy", tmp_path / "moved")
    options = {"classes": CLASSES, "temporal": "exact"}
    uids = {line["uid"] for line in one.expected() if line["uid"]}
    assert differences(one, stateproc.open(str(tmp_path / "moved"), uids=uids, **options)) == []


def _filled(snapshot: Snapshot) -> list[StreamUse]:
    """Return all streams except empty segments of merged files."""
    return [use for use in walk_stream_handles(snapshot.metadata) if not isinstance(use.handle, EmptySegmentHandle)]


def _same_bytes(before: StreamHandle, at: SnapshotLocation, after: StreamHandle, there: SnapshotLocation) -> None:
    ours, theirs = open_handle(after, there), open_handle(before, at, whole=False)
    assert isinstance(after, RelativeFileHandle | ByteStreamHandle | EmptySegmentHandle)
    assert ours.read(0, theirs.size) == theirs.read(0, theirs.size)
    assert isinstance(after, ByteStreamHandle | EmptySegmentHandle) or ours.size >= theirs.size


def test_files_shared_by_several_handles_are_copied_once(tmp_path: Path) -> None:
    snapshot = fixture("1.20/chain-changelog-rescaled").open()
    plan = copy_plan(snapshot.metadata.operators, snapshot.location)
    sources = [(copy.source.uri, copy.source.base) for copy in plan.copies]
    assert len(sources) == len(set(sources))
    handles = [
        use.handle for use in walk_stream_handles(snapshot.metadata) if not isinstance(use.handle, ByteStreamHandle)
    ]
    assert len(handles) > len(sources)
    assert any(copy.to_end for copy in plan.copies)
    assert plan.bytes == sum(copy.bytes for copy in plan.copies) > 0
    copied(snapshot, tmp_path / "copy")
    assert len(files_of(tmp_path / "copy")) == len(sources)


def test_segments_of_merged_files_are_extracted(tmp_path: Path) -> None:
    """Only the segments of the handles are copied, not the merged files of all tasks."""
    snapshot = fixture("2.3/operators-hashmap-filemerging").open()
    segments = {
        use.handle: use.handle.size
        for use in walk_stream_handles(snapshot.metadata)
        if isinstance(use.handle, SegmentHandle)
    }
    assert segments
    there = copied(snapshot, tmp_path / "copy")
    sizes = sorted(path.stat().st_size for path in (tmp_path / "copy").iterdir() if path.name != "_metadata")
    assert sizes == sorted(segments.values())
    operators = [subtask.managed_operator for operator in there.metadata.operators for subtask in operator.subtasks]
    assert {handle.type_byte for handle in operators if handle is not None} == {4}


def test_handles_keep_all_fields_except_their_streams(tmp_path: Path) -> None:
    snapshot = fixture("1.20/chain-changelog").open()
    there = copied(snapshot, tmp_path / "copy")
    found = 0
    for before, after in zip(
        _changelogs(snapshot.metadata.operators), _changelogs(there.metadata.operators), strict=True
    ):
        assert replace(after, materialized=before.materialized, non_materialized=before.non_materialized) == before
        for ours, theirs in zip(after.materialized, before.materialized, strict=True):
            assert ours.handle_id == theirs.handle_id and type(ours) is type(theirs)
        found += len(after.non_materialized)
    assert found


def _changelogs(operators: tuple[OperatorEntry, ...]) -> Iterator[ChangelogHandle]:
    for operator in operators:
        for subtask in operator.subtasks:
            if isinstance(subtask.managed_keyed, ChangelogHandle):
                yield subtask.managed_keyed


@pytest.mark.parametrize("release", ["1.20", "2.3"])
def test_records_in_flight_are_refused_or_dropped(release: str, tmp_path: Path) -> None:
    snapshot = fixture(f"{release}/inflight-hashmap-checkpoint").open()
    with pytest.raises(UnsupportedSnapshot, match=r"subtask 0 has records in flight \(\d+ bytes") as raised:
        copy_plan(snapshot.metadata.operators, snapshot.location)
    assert "drop_in_flight_data()" in str(raised.value)
    plan = copy_plan(snapshot.metadata.operators, snapshot.location, drop_channel_state=True)
    commit = Commit.begin(StorePath.of(str(tmp_path / "copy")))
    operators = plan.finish([copy.run(commit.staging) for copy in plan.copies])
    assert not any(s.input_channels or s.output_channels for operator in operators for s in operator.subtasks)
    assert [operator.operator_id for operator in operators] == [o.operator_id for o in snapshot.metadata.operators]


def test_inline_and_empty_state_stays_in_the_metadata(tmp_path: Path) -> None:
    location = SnapshotLocation(StorePath(str(tmp_path / "_metadata")))
    (tmp_path / "file").write_bytes(b"0123456789")
    (tmp_path / "nothing").write_bytes(b"")
    absolute = str(tmp_path / "file")
    inline = KeyGroupsHandle(7, 0, (0,), ByteStreamHandle("inline", b"x"))
    nested = KeyGroupsHandle(3, 0, (0,), KeyGroupsHandle(3, 0, (0,), FileHandle(absolute, 10)))
    merged = OperatorStreamHandle(17, (), SegmentHandle(absolute, 2, 3, "SHARED", "id"), "/owned", "/shared", False)
    empty = OperatorStreamHandle(17, (), EmptySegmentHandle(), "/owned", "/shared", True)
    subtasks = (
        SubtaskState(0, managed_keyed=inline, raw_keyed=nested, managed_operator=merged, raw_operator=empty),
        SubtaskState(1, managed_keyed=KeyGroupsHandle(12, 0, (), EmptySegmentHandle(), "id")),
        SubtaskState(2, managed_keyed=KeyGroupsHandle(12, 0, (), RelativeFileHandle("file", 10), "id")),
        SubtaskState(3, managed_keyed=KeyGroupsHandle(12, 0, (), RelativeFileHandle("nothing", 0), "id")),
    )
    plan = copy_plan([OperatorEntry("0" * 32, 1, 128, subtasks=subtasks)], location)
    commit = Commit.begin(StorePath.of(str(tmp_path / "new")))
    handles = [copy.run(commit.staging) for copy in plan.copies]
    cut, whole, nothing = handles
    assert isinstance(whole, RelativeFileHandle) and (tmp_path / "new" / whole.path).read_bytes() == b"0123456789"
    assert isinstance(cut, RelativeFileHandle) and (tmp_path / "new" / cut.path).read_bytes() == b"234"
    assert isinstance(nothing, ByteStreamHandle) and nothing.data == b""
    (operator,) = plan.finish(handles)
    assert operator.subtasks == (
        SubtaskState(
            0,
            managed_keyed=inline,
            raw_keyed=replace(nested, stream=replace(nested.stream, stream=whole)),
            managed_operator=OperatorStreamHandle(4, (), cut),
        ),
        subtasks[1],
        SubtaskState(2, managed_keyed=KeyGroupsHandle(12, 0, (), whole, "id")),
        SubtaskState(3, managed_keyed=KeyGroupsHandle(12, 0, (), nothing, "id")),
    )
    with pytest.raises(InvalidOption, match="2 copies where 3 were planned"):
        plan.finish(handles[:2])


def test_a_missing_file_leaves_no_files(tmp_path: Path) -> None:
    location = SnapshotLocation(StorePath(str(tmp_path / "_metadata")))
    handle = KeyGroupsHandle(12, 0, (), RelativeFileHandle("gone", 10), "id")
    plan = copy_plan([OperatorEntry("0" * 32, 1, 128, subtasks=(SubtaskState(0, managed_keyed=handle),))], location)
    commit = Commit.begin(StorePath.of(str(tmp_path / "new")))
    with pytest.raises(MissingFile, match="missing"):
        plan.copies[0].run(commit.staging)
    assert not [name for name in files_of(tmp_path / "new") if not name.startswith(".")]


@pytest.mark.parametrize("refused", [errno.EXDEV, sampled(errno.EOPNOTSUPP), None])
def test_files_are_read_and_written_if_the_system_call_cannot_copy_them(
    refused: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call fails between file systems and on old kernels, is absent on some systems, or copies only a part."""
    data = bytes(range(256)) * 70_000
    (tmp_path / "file").write_bytes(data)
    real, calls = os.copy_file_range, itertools.count()

    def first_only(source: int, target: int, size: int, at: int) -> int:
        if refused is not None:
            raise OSError(refused, "refused")
        return real(source, target, 1000, at) if next(calls) == 0 else 0

    monkeypatch.setattr(os, "copy_file_range", first_only)
    commit = Commit.begin(StorePath.of(str(tmp_path / "new")))
    source = FileSource(StorePath(str(tmp_path / "file")), len(data) - 100, base=50, whole=False)
    handle = FileCopy(source).run(commit.staging)
    assert isinstance(handle, RelativeFileHandle)
    assert (tmp_path / "new" / handle.path).read_bytes() == data[50:-50]
    assert handle.size == len(data) - 100
    monkeypatch.delattr(os, "copy_file_range")
    again = FileCopy(source).run(commit.staging)
    assert isinstance(again, RelativeFileHandle)
    assert (tmp_path / "new" / again.path).read_bytes() == data[50:-50]


def test_a_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")

    def full(*_: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "copy_file_range", full)
    commit = Commit.begin(StorePath.of(str(tmp_path / "new")))
    with pytest.raises(WriteFailed, match="No space left"):
        FileCopy(FileSource(StorePath(str(tmp_path / "file")), 10)).run(commit.staging)
    assert not [name for name in files_of(tmp_path / "new") if not name.startswith(".")]
