"""The splits of one scan open each table once, and keep a bounded number of bytes of all of them."""

from __future__ import annotations

import pickle
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc.readers import scan_cache
from stateproc.readers.rocksdb import rocksdb_entries, sorted_runs
from stateproc.readers.rocksdb.sorted_runs import OpenFile
from stateproc.readers.rocksdb.splits import key_group_sizes
from stateproc.readers.scan_cache import ScanCache
from stateproc.storage import InlineSource
from tests.helpers.paths import FIXTURES
from tests.helpers.rocksdb.databases import contents, inline, keyed, write_database

KITCHEN = FIXTURES / "1.20/kitchen-rocksdb-incremental/snapshot"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often each table is opened."""
    found: Counter[str] = Counter()
    given = sorted_runs.open_file

    def open_file(sst: Any, *, verify: bool) -> OpenFile:
        found[sst.source.name] += 1
        return given(sst, verify=verify)

    monkeypatch.setattr(sorted_runs, "open_file", open_file)
    return found


@pytest.mark.parametrize("form", ["plain", "partitioned"])
def test_each_table_is_opened_once_for_all_splits(tmp_path: Path, opened: Counter[str], form: str) -> None:
    rows = {b"%c%05d" % (group, at): b"v%d" % at for group in range(8) for at in range(100)}
    deleted, gone = b"\x0200007", (b"\x0500010", b"\x0600020")
    files = inline(write_database(tmp_path, form, rows, deleted=deleted, range_deleted=gone, block_size=64))
    tables, cache = [file.name for file in files if file.name.endswith(".sst")], ScanCache()
    assert len(tables) == 2
    sizes = key_group_sizes(files, "default", range(8), 1, cache=cache)
    assert (sizes > 0).all()
    found = [keyed(rocksdb_entries(files, "default", range(at, at + 1), 1, cache=cache)) for at in range(8)]
    expected = {key: value for key, value in rows.items() if key != deleted and not gone[0] <= key < gone[1]}
    assert found == [{key: value for key, value in expected.items() if key[0] == at} for at in range(8)]
    assert opened == dict.fromkeys(tables, 1)
    # Without a cache, and with another one, they are opened again: files may have been replaced.
    assert contents(files, "default") == expected
    assert keyed(rocksdb_entries(files, "default", range(8), 1, cache=ScanCache())) == expected
    assert opened == dict.fromkeys(tables, 3)


def test_the_splits_of_one_read_share_a_cache_and_those_in_other_processes_none() -> None:
    state = stateproc.open(str(KITCHEN), uids=["kitchen-long"]).state("kitchen-long", "profile")
    splits: Any = state.splits()
    assert len({id(split.scan.cache) for split in splits}) == 1
    assert len({id(split.scan.cache) for split in [*splits, *state.splits()]}) == 2  # type: ignore[attr-defined]
    cache = splits[0].scan.cache
    rows = [batch for split in splits for batch in split.read()]
    assert cache.held_bytes > 0
    twins = pickle.loads(pickle.dumps(splits))
    assert twins[0].scan.cache.held_bytes == 0
    assert [batch for split in twins for batch in split.read()] == rows
    assert twins[0].scan.cache.held_bytes == cache.held_bytes


def test_the_bytes_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_cache, "_MOST_BYTES", 100)
    cache, reads = ScanCache(), list[str]()
    files = {name: InlineSource(name, b"") for name in ("a", "b", "c", "d", "e")}
    sizes = {"a": 40, "b": 40, "c": 20, "d": 30, "e": 101}

    def get(name: str) -> str:
        return cache.get(files[name], lambda: (reads.append(name), name.upper(), sizes[name])[1:])

    assert [get(name) for name in ("a", "b", "c", "a")] == ["A", "B", "C", "A"]
    assert (reads, cache.held_bytes) == (["a", "b", "c"], 100)
    # "b" was not used for the longest time.
    assert [get(name) for name in ("d", "a", "c", "d")] == ["D", "A", "C", "D"]
    assert (reads, cache.held_bytes) == (["a", "b", "c", "d"], 90)
    assert get("b") == "B"
    assert cache.held_bytes == 90
    # What is larger than the bound displaces nothing.
    assert [get("e"), get("e"), get("b")] == ["E", "E", "B"]
    assert (reads[-3:], cache.held_bytes) == (["b", "e", "e"], 90)


def test_threads_that_read_the_same_file_keep_it_once() -> None:
    cache, source, both = ScanCache(), InlineSource("x", b""), threading.Barrier(2)

    def read() -> tuple[str, int]:
        both.wait(60)
        return "x", 7

    threads = [threading.Thread(target=cache.get, args=(source, read)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.held_bytes == 7


def test_an_error_is_not_kept() -> None:
    cache, source = ScanCache(), InlineSource("x", b"")

    def fail() -> tuple[str, int]:
        raise ValueError("once")

    with pytest.raises(ValueError, match="once"):
        cache.get(source, fail)
    assert cache.get(source, lambda: ("x", 1)) == "x"
