"""Measuring many small files together: the sizes of each alone, added up, and errors that name their file."""

from __future__ import annotations

import json
import os
import pickle
from collections import Counter
from pathlib import Path

import pytest

import stateproc
from benchmarks.many_files import SHAPES, STATE, make, uid_of
from stateproc.cli import main
from stateproc.errors import CorruptSnapshot, MissingFile
from stateproc.readers.keyed_file import KeyedFile, SizeRequest, StateSizes
from stateproc.readers.read_options import ReadOptions
from stateproc.reports import state_sizes as small_files
from stateproc.reports.state_sizes import MeasuredFiles, batches_of_files, measure_files
from stateproc.storage import FileSource, InlineSource
from tests.helpers.paths import FIXTURES
from tests.helpers.stores.counting_filesystem import counted, counting
from tests.helpers.sweeps import exhaustive

SNAPSHOTS = (
    "demo", "kitchen-hashmap-canonical-snappy", "kitchen-hashmap-checkpoint", "many-states-hashmap-checkpoint",
    "tiny-hashmap-checkpoint-snappy", "tiny-rocksdb-canonical-1024", "windows-rocksdb-canonical",
)  # fmt: skip


def keyed_files(path: Path, operator: int = 0) -> tuple[KeyedFile, ...]:
    return stateproc.open(str(path)).operators[operator].keyed_files


def measured(files: tuple[KeyedFile, ...]) -> list[MeasuredFiles]:
    request = SizeRequest(ReadOptions(), None)
    return [found for batch in batches_of_files(files) for found in measure_files(batch, request)]


def sums(sizes: list[StateSizes]) -> tuple[dict[str, tuple[int, int]], Counter[int]]:
    """Return bytes and entries by state, and bytes by key group."""
    states: dict[str, tuple[int, int]] = {}
    key_groups: Counter[int] = Counter()
    for item in sizes:
        for name, (size, entries) in (item.states or {}).items():
            known = states.get(name, (0, 0))
            states[name] = (known[0] + size, known[1] + (entries or 0))
        key_groups.update(item.key_groups)
    return states, key_groups


def alone(files: tuple[KeyedFile, ...]) -> list[StateSizes]:
    return [file.sizes(SizeRequest(ReadOptions(), None)) for file in files]


@pytest.mark.parametrize("shape", SHAPES)
def test_files_of_one_header_are_measured_at_once(shape: str, tmp_path: Path) -> None:
    path = make(tmp_path, shape, 1000)
    files = keyed_files(path)
    found = measured(files)
    if shape == "incremental":
        # The entries of several tables are not known; their bytes are, without opening one of them.
        tables = sum(file.stat().st_size for file in (path.parent / "shared").glob("operator-0-*"))
        assert [(len(item.files), item.sizes) for item in found] == [(1, StateSizes({STATE: (tables, None)}, {}))]
        return
    (together,) = found
    assert list(together.files) == list(files)
    assert len(files) == 20
    assert together.layout == {"savepoint": "canonical", "heap": "heap"}[shape]
    assert sums([together.sizes]) == sums(alone(keyed_files(path)))
    assert together.sizes.states[STATE][1] == 128
    assert sorted(together.sizes.key_groups) == list(range(128))
    assert all(isinstance(file.source, FileSource) for file in files)


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_sizes_of_real_snapshots_are_those_of_the_single_files(name: str) -> None:
    path = FIXTURES / "1.20" / name / "snapshot"
    for number in range(len(stateproc.open(str(path)).operators)):
        found = [item.sizes for item in measured(keyed_files(path, number))]
        if any(isinstance(sizes, StateSizes) for sizes in found):
            assert sums(found) == sums(alone(keyed_files(path, number)))


@pytest.mark.parametrize("shape", ["savepoint", "heap"])
def test_a_bad_file_is_named_and_the_others_are_measured(shape: str, tmp_path: Path) -> None:
    path = make(tmp_path, shape, 1000)
    files = keyed_files(path)
    missing, cut, damaged = (Path(files[index].source.name) for index in (3, 5, 7))
    missing.unlink()
    cut.write_bytes(cut.read_bytes()[:-1])
    data = bytearray(damaged.read_bytes())
    data[files[7].ranges[1].start + 4] ^= 0x70  # in the length of a key, or in the number of entries
    damaged.write_bytes(data)
    files = keyed_files(path)
    errors = {}
    counted = 0
    for item in measured(files):
        if isinstance(item.sizes, StateSizes):
            counted += len(item.files)
        else:
            (file,) = item.files
            errors[file.subtask] = type(item.sizes), item.sizes.where.file
    assert errors == {
        3: (MissingFile, str(missing)),
        5: (CorruptSnapshot, str(cut)),
        7: (CorruptSnapshot, str(damaged)),
    }
    assert counted == 17


def test_batches_are_bounded_and_large_files_are_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = keyed_files(make(tmp_path, "savepoint", 1000))
    size = files[0].source.size
    assert [len(batch) for batch in batches_of_files(files)] == [20]
    monkeypatch.setattr(small_files, "_BATCH_BYTES", 5 * files[0].source.size + size // 2)
    assert max(len(batch) for batch in batches_of_files(files)) == 5
    monkeypatch.setattr(small_files, "_BATCH_FILES", 3)
    assert [len(batch) for batch in batches_of_files(files)] == [3] * 6 + [2]
    monkeypatch.setattr(small_files, "SMALL_FILE", size - 1)
    assert [file for batch in batches_of_files(files) for file in batch] == list(files)
    assert any(len(batch) == 1 for batch in batches_of_files(files))


def test_a_held_file_is_read_once_and_released(tmp_path: Path) -> None:
    file = keyed_files(make(tmp_path, "heap", 1000))[0]
    file.load(10)
    assert isinstance(file.source, FileSource)
    file.load(1 << 10)
    assert isinstance(file.source, InlineSource)
    Path(file.source.name).unlink()
    assert file.layout == "heap"
    assert [info.name for info in file.header.states] == [STATE]
    file.release()
    file.release()
    assert isinstance(file.source, FileSource)


def test_a_pickled_file_does_not_contain_what_was_read(tmp_path: Path) -> None:
    file = keyed_files(make(tmp_path, "heap", 1000))[0]
    fresh = pickle.dumps(file)
    file.load(1 << 10)
    assert file.layout == "heap" and not file.unreadable_states(ReadOptions())
    assert file.has_header and file.cache.is_canonical is False
    assert pickle.dumps(file) == fresh
    twin = pickle.loads(fresh)
    assert twin == file and not twin.has_header and twin.layout == "heap" and twin.header == file.header


def test_the_synthetic_snapshots_contain_what_they_say(tmp_path: Path) -> None:
    for shape in SHAPES:
        rows = stateproc.open(str(make(tmp_path / shape, shape, 1000))).state(uid_of(1), STATE).to_arrow()
        assert rows.num_rows >= 100
        assert [10 * key for key in rows["key"].to_pylist()] == rows["value"].to_pylist()


def test_missing_tables_are_reported_without_opening_any(tmp_path: Path) -> None:
    path = make(tmp_path, "incremental", 1000)
    (gone, *_) = sorted((path.parent / "shared").glob("operator-0-*"))
    gone.unlink()
    (found,) = measured(keyed_files(path))
    assert isinstance(found.sizes, MissingFile)
    assert found.sizes.where.file == str(gone)
    assert found.layout == "rocksdb"


@pytest.mark.parametrize("files", [100, exhaustive(1000)])
@pytest.mark.parametrize("shape", SHAPES)
def test_inspect_reads_each_file_once(
    shape: str, files: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = make(tmp_path, shape, files)
    with counting() as count:
        assert main(["inspect", counted(path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [state["name"] for operator in report["operators"] for state in operator["states"]] == [STATE] * len(
        report["operators"]
    )
    assert not any(operator["problems"] for operator in report["operators"])
    expected = {"_metadata": 1}
    if shape == "incremental":  # the header, CURRENT and the MANIFEST of each database, and no table
        files = [name for name in os.listdir(path) if name != "_metadata" and "OPTIONS" not in name]
        assert Counter(name for name, _ in count.requests)["_metadata"] == 1
        assert not any(name in os.listdir(path.parent / "shared") for name, _ in count.requests)
        assert max(Counter(name for name, _ in count.requests).values()) == 1
        assert len(count.requests) <= 1 + len(files)
        return
    expected.update(dict.fromkeys((name for name in os.listdir(path) if name != "_metadata"), 1))
    assert Counter(name for name, _ in count.requests) == expected
