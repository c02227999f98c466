"""Statistics of databases, from properties and the MANIFEST."""

from __future__ import annotations

from pathlib import Path

import pytest
from rocksdb_databases import database
from rocksdict import Options, Rdict

from stateproc.readers.rocksdb import database_statistics, new_files


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A family with 100 puts at the lowest level, and 30 puts, 10 deletes and a deleted range in a newer file."""
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_disable_auto_compactions(True)
    db = Rdict(str(tmp_path), options)
    counts = db.create_column_family("counts", options)
    db.create_column_family("empty", options)
    for k in range(100):
        counts[b"\x01%03d" % k] = b"0123456789"
    counts.flush()
    counts.compact_range(None, None)
    for k in range(30):
        counts[b"\x02%03d" % k] = b"01234"
    for k in range(10):
        counts.delete(b"\x01%03d" % k)
    counts.delete_range(b"\x01050", b"\x01060")
    counts.flush()
    db.close()
    return tmp_path


def test_numbers_per_state(directory: Path) -> None:
    counts, empty = database_statistics(database(directory))
    assert (counts.state, counts.files, counts.range_deletions) == ("counts", 2, 1)
    assert sum(counts.levels.values()) == 2 and counts.levels[0] == 1
    assert counts.entries - counts.deletions == 130
    assert counts.raw_value_bytes >= 100 * 10 + 30 * 5
    assert counts.bytes == sum(path.stat().st_size for path in directory.glob("*.sst"))
    assert counts.live_ratio is not None and 0.8 < counts.live_ratio < 0.9
    assert counts.compressions == ("Snappy",)
    assert (empty.state, empty.files, empty.bytes, empty.live_ratio, empty.oldest_key_time) == (
        "empty",
        0,
        0,
        None,
        None,
    )


def test_without_a_manifest_there_are_no_levels(directory: Path) -> None:
    files = [file for file in database(directory) if file.name.endswith(".sst")]
    (counts,) = database_statistics(files)
    assert (counts.state, counts.files, counts.levels) == ("counts", 2, {})


def test_new_files(directory: Path) -> None:
    files = database(directory)
    tables = [file for file in files if file.name.endswith(".sst")]
    assert new_files(files, files) == []
    assert new_files(files, [file for file in files if file is not tables[1]]) == [tables[1]]
