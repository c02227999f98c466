"""Which files a ``_metadata`` names: paths of moved snapshots, and damaged ones."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from stateproc.catalog.file_references import file_references
from stateproc.errors import SnapshotError
from stateproc.metadata import OperatorEntry, SnapshotMetadata, SubtaskState, read_metadata, snapshot_kind
from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.metadata.stream_handles import FileHandle, RelativeFileHandle, StreamHandle
from tests.helpers.paths import FIXTURES
from tests.helpers.sweeps import sweep

JOB, OTHER_JOB = "0123456789abcdef0123456789abcdef", "f" * 32


def metadata(*files: StreamHandle) -> SnapshotMetadata:
    shared = tuple((f"{index}.sst", file) for index, file in enumerate(files))
    handle = IncrementalHandle(5, 1, "b", 0, 4, None, RelativeFileHandle("meta", 1), shared, ())
    subtask = SubtaskState(0, managed_keyed=handle)
    return SnapshotMetadata(3, 7, (), (OperatorEntry("0a" * 16, 1, 4, subtasks=(subtask,)),))


def ids(path: str, directory: str, root: str) -> set[int]:
    """The files of a snapshot with one shared file at ``path``."""
    return {int(number) for number in file_references(metadata(FileHandle(path, 5)), directory, [root]).ids}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # Two spellings of one place.
        (f"file:/flink/{JOB}/shared/f", f"file:///flink/{JOB}/shared/f"),
        # Written before the directories were moved.
        (f"/flink/{JOB}/shared/f", f"hdfs://old/{JOB}/shared/f"),
        # The directory of another job that this one continues moves, too.
        (f"/flink/{OTHER_JOB}/shared/f", f"s3://old/x/{OTHER_JOB}/shared/f"),
    ],
)
def test_one_file_under_two_paths(one: str, other: str) -> None:
    directory = f"/flink/{JOB}/chk-7"
    assert ids(one, directory, "/flink") == ids(other, directory, "/flink")


def test_spellings_of_one_object_store() -> None:
    directory = f"s3://bucket/{JOB}/chk-7"
    spellings = (f"s3a://bucket/{JOB}/shared/f", f"s3://bucket/{JOB}/shared/f", f"s3p://bucket/{JOB}/shared/f")
    assert len({frozenset(ids(path, directory, "s3a://bucket")) for path in spellings}) == 1


def test_different_files() -> None:
    directory = f"/flink/{JOB}/chk-7"
    paths = (f"/flink/{JOB}/shared/f", f"/flink/{JOB}/shared/g", f"/flink/{OTHER_JOB}/shared/f", "/elsewhere/f")
    found = [ids(path, directory, "/flink") - ids("/elsewhere/none", directory, "/flink") for path in paths]
    assert [len(item) for item in found] == [1] * 4 and len(set.union(*found)) == 4


def test_a_file_that_is_named_twice_counts_once() -> None:
    found = file_references(metadata(FileHandle("/a/f", 5), FileHandle("/a/f", 5)), "/flink/chk-7", ["/flink"])
    assert (len(found.ids), int(found.sizes.sum()), len(found.names)) == (2, 6, 2)


@pytest.mark.parametrize("rounds", sweep(4000))
def test_damaged_metadata_raises_typed_errors_only(rounds: range) -> None:
    names = ("chain-rocksdb", "chain-filemerging", "chain-changelog", "kitchen-hashmap-checkpoint")
    sources = [next(Path(FIXTURES / "1.20" / name).rglob("_metadata")).read_bytes() for name in names]
    for number in rounds:
        chance = random.Random(number)
        data = bytearray(chance.choice(sources))
        for _ in range(chance.choice((1, 1, 3))):
            at = chance.randrange(len(data))
            if chance.random() < 0.7:
                data[at] = chance.randrange(256)
            else:
                data[at : at + 8] = chance.choice((b"\x7f" + b"\xff" * 7, b"\xff" * 8, b""))
        try:
            read = read_metadata(bytes(data), file="_metadata")
            snapshot_kind(read)
            found = file_references(read, f"/flink/{JOB}/chk-1", ["/flink"])
        except SnapshotError:
            continue
        assert int(found.sizes.sum()) >= 0
