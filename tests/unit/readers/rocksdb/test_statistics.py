"""Statistics of databases from table properties and the MANIFEST."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.metadata.stream_handles import ByteStreamHandle, FileHandle, SegmentHandle, StreamHandle
from stateproc.readers.rocksdb import database_statistics, new_tables
from tests.helpers.rocksdb.databases import database


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Write a column family: 100 puts at the lowest level; 30 puts, 10 deletes and a deleted range in a newer file."""
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


def test_statistics_per_state(directory: Path) -> None:
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


def test_without_a_manifest_levels_are_unknown(directory: Path) -> None:
    files = [file for file in database(directory) if file.name.endswith(".sst")]
    (counts,) = database_statistics(files)
    assert (counts.state, counts.files, counts.levels) == ("counts", 2, {})


def handle(**streams: StreamHandle) -> IncrementalHandle:
    shared = tuple((f"{name}.sst", stream) for name, stream in streams.items())
    meta = ByteStreamHandle("meta", b"")
    return IncrementalHandle(5, 1, "backend", 0, 128, None, meta, shared, (("MANIFEST-000004", meta),))


def test_new_tables_are_those_absent_from_the_earlier_checkpoint() -> None:
    files = {name: FileHandle(f"hdfs://host/shared/{name}", 10) for name in "abc"}
    now = handle(a=files["a"], b=files["b"], c=files["c"])
    assert new_tables(now, []) == {"a.sst", "b.sst", "c.sst"}
    assert new_tables(now, [now]) == set()
    # Local names do not identify files: after rescaling, files of two databases belong to one database.
    assert new_tables(now, [handle(b=files["a"]), handle(x=files["c"])]) == {"b.sst"}
    merged = SegmentHandle("hdfs://host/merged", 0, 10, "SHARED", "1")
    assert new_tables(handle(a=merged), [handle(a=replace(merged, start=10))]) == {"a.sst"}
