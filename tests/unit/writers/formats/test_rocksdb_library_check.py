"""Verification of written databases by RocksDB itself (rocksdict)."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

from stateproc.errors import WriteFailed
from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.readers.rocksdb import DatabaseFile, database_files, native_database
from stateproc.storage import InlineSource, open_handle
from stateproc.storage.store import StorePath
from stateproc.writers.commit.commit import Commit
from stateproc.writers.commit.staging import Staging
from stateproc.writers.formats.rocksdb import writer as library_check
from stateproc.writers.formats.rocksdb import writer as verify
from stateproc.writers.formats.rocksdb.writer import check_with_library, has_library, verify_rocksdb
from tests.helpers.writers.written_files import written_file
from tests.unit.writers.formats.test_rocksdb import SMALL, random_entries, written

STATES = ["values", "Zustände", "empty", 'e#m:p\\t"y]']


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    return Commit.begin(StorePath.of(tmp_path / "savepoint")).staging


@pytest.fixture(params=["iterated", "properties"])
def counting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Select one of the two methods by which RocksDB counts entries."""
    if request.param == "properties":
        monkeypatch.setattr(library_check, "MAX_ITERATED_ENTRIES", 0)
    return str(request.param)


def many(staging: Staging) -> tuple[IncrementalHandle, dict[str, int]]:
    """Return a database of several hundred tables and its number of entries by state."""
    entries = [entry for entry in random_entries(7, 4000, 4, 300) if entry[1] != 2]
    handle, writer = written(staging, entries, STATES, 1000, SMALL, at_once=1000)
    return handle, dict(zip(STATES, writer.entries.sum(axis=0).tolist(), strict=True))


def check(handle: IncrementalHandle, staging: Staging, entries: dict[str, int]) -> None:
    check_with_library(database_files(handle, staging.location), entries, staging.directory_uri)


def table_of(handle: IncrementalHandle, staging: Staging) -> Path:
    name = next(stream for local, stream in handle.private if local.endswith(".sst") and stream.size > 1000)
    return Path(open_handle(name, staging.location).name)


def one_table(staging: Staging) -> tuple[IncrementalHandle, dict[str, int]]:
    entries = [(0, 0, struct.pack(">q", key), struct.pack(">q", 7 * key) * 5) for key in range(2000)]
    handle, _ = written(staging, entries, ["a"], at_once=5000)
    return handle, {"a": 2000}


def test_rocksdb_counts_what_was_written(staging: Staging, counting: str) -> None:
    handle, entries = many(staging)
    before = sorted(Path(staging.directory_uri).iterdir())
    check(handle, staging, entries)
    assert sorted(Path(staging.directory_uri).iterdir()) == before
    for state in STATES:
        wrong = {**entries, state: entries[state] + 1}
        with pytest.raises(WriteFailed, match=f"{entries[state]} entries where {entries[state] + 1}"):
            check(handle, staging, wrong)


def test_damaged_blocks_are_found_when_entries_are_iterated(staging: Staging) -> None:
    handle, entries = one_table(staging)
    path = table_of(handle, staging)
    whole = path.read_bytes()
    for at in (100, len(whole) // 2):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(WriteFailed, match="entries where 2000 were written"):
            check(handle, staging, entries)


def test_damaged_table_metadata_is_found(staging: Staging, counting: str) -> None:
    """RocksDB reads footer, index and properties of tables over which it does not iterate."""
    handle, entries = one_table(staging)
    path = table_of(handle, staging)
    whole = path.read_bytes()
    for at in (len(whole) - 3, len(whole) - 200, len(whole) - 53):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(WriteFailed, match="RocksDB"):
            check(handle, staging, entries)


def test_a_damaged_manifest_is_found(staging: Staging) -> None:
    handle, entries = one_table(staging)
    files = list(database_files(handle, staging.location))
    (index,) = (n for n, file in enumerate(files) if file.name.startswith("MANIFEST"))
    data = files[index].source.read_all(1 << 20)
    damaged = InlineSource("m", data[:60] + bytes([data[60] ^ 1]) + data[61:])
    files[index] = DatabaseFile(files[index].name, damaged)
    with pytest.raises(WriteFailed, match=r"RocksDB cannot open .*checksum mismatch"):
        check_with_library(files, entries, staging.directory_uri)


def test_databases_on_remote_storage_are_opened_up_to_a_size_limit(
    staging: Staging, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle, entries = one_table(staging)
    monkeypatch.setattr(native_database, "scheme_of", lambda uri: "s3")
    check(handle, staging, entries)
    with pytest.raises(WriteFailed, match="2000 entries where 1 were written"):
        check(handle, staging, {"a": 1})
    monkeypatch.setattr(library_check, "MAX_DOWNLOADED_BYTES", 1000)
    check(handle, staging, {"a": 1})  # not opened


def test_verification_uses_the_library_where_it_is_installed(staging: Staging, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [(0, 0, struct.pack(">q", key), b"v" * 40) for key in range(10)]
    handle, writer = written(staging, entries, ["a"])
    calls: list[dict[str, int]] = []
    monkeypatch.setattr(verify, "check_with_library", lambda files, counts, file, compression: calls.append(counts))
    assert has_library()
    verify_rocksdb(written_file(staging.location, ["a"]), handle, writer.entries)
    assert calls == [{"a": 10}]
    monkeypatch.setitem(sys.modules, "rocksdict", None)  # importing it raises ImportError
    assert not has_library()
    verify_rocksdb(written_file(staging.location, ["a"]), handle, writer.entries)
    assert len(calls) == 1
