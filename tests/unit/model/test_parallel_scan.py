"""How many threads read a state: the same rows, and the same errors, with any number of them."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stateproc
from stateproc.diff.key_group_units import aligned_units
from stateproc.errors import CorruptSnapshot, InvalidOption
from stateproc.model import parallel_scan
from stateproc.model.parallel_scan import parallel_split_bytes, thread_count, useful_threads
from stateproc.storage import StorePath, concurrency
from tests.helpers.paths import FIXTURES

MB = 1 << 20
LONGS = np.ones(64, dtype=np.int64)


def scan_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("stateproc-scan")]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert scan_threads() == []


def test_the_number_of_threads() -> None:
    assert thread_count(None) == len(os.sched_getaffinity(0))
    assert thread_count(3) == 3
    for wrong in (0, -1, True, 1.5, "x", 10_000):
        with pytest.raises(InvalidOption) as caught:
            thread_count(wrong)  # type: ignore[arg-type]
        assert caught.value.advice == "give a number of threads from 1 to 9999"


@pytest.mark.parametrize(
    ("threads", "stored", "limit", "size"),
    [
        (1, 1 << 40, 256 * MB, 256 * MB),
        (2, 1 << 40, 256 * MB, 32 * MB),
        (2, None, 256 * MB, 32 * MB),
        (2, 160 * MB, 256 * MB, 32 * MB),
        (2, 80 * MB, 256 * MB, 20 * MB),
        (2, 10 * MB, 256 * MB, 4 * MB),
        (64, 160 * MB, 256 * MB, 4 * MB),
        (2, 160 * MB, 1 * MB, 1 * MB),
    ],
)
def test_splits_are_small_enough_for_all_threads(threads: int, stored: int | None, limit: int, size: int) -> None:
    assert parallel_split_bytes(threads, stored, limit) == size
    assert parallel_split_bytes(threads, stored, limit, smallest=32 * MB) == min(limit, max(size, 32 * MB))


def test_tiny_local_states_start_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [useful_threads(4, size) for size in (0, (256 << 10) - 1, 256 << 10, 1 << 40)] == [1, 1, 4, 4]
    assert useful_threads(1, 1 << 40) == 1
    state = stateproc.open(str(FIXTURES / "1.20/demo/snapshot")).state("orders-per-customer", "profile")
    splits, scans = state.splits(), []
    assert len(splits) == 2
    scan = concurrency._Scan
    monkeypatch.setattr(concurrency, "_Scan", lambda *given: scans.append(given) or scan(*given))
    rows = state.to_arrow(threads=4)
    assert scans == []
    monkeypatch.setattr(parallel_scan, "SMALLEST_SCAN", sum(split.bytes for split in splits))
    assert state.to_arrow(threads=4) == rows
    assert len(scans) == 1
    # Threads wait for requests to a remote store at the same time, however few bytes they read.
    monkeypatch.setattr(StorePath, "is_local", False)
    assert state.useful_threads(4, splits) == 4


def test_tiny_changelogs_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each split reads the whole log, so that there is one for each thread that saves time."""
    snapshot = stateproc.open(str(FIXTURES / "1.20/tiny-rocksdb-changelog/snapshot"))
    state = next(item for item in snapshot.states if item.reads_whole_files)
    files = len(state.splits())
    assert state.stored_bytes is not None and state.stored_bytes < parallel_scan.SMALLEST_SCAN

    def splits() -> int:
        return len(state.splits(split_bytes=state.parallel_split_bytes(4, 256 * MB)))

    assert splits() == files
    assert len(aligned_units(LONGS, LONGS, 4, few=True)) == 1
    monkeypatch.setattr(parallel_scan, "SMALLEST_SCAN", 16)
    assert splits() > files
    assert len(aligned_units(LONGS, LONGS, 4, few=True)) == 4
    monkeypatch.undo()
    # Threads wait for requests to a remote store at the same time.
    monkeypatch.setattr(StorePath, "is_local", False)
    assert splits() > files


STATES = [
    ("1.20/demo/snapshot", "orders-per-customer", "profile", {}),
    ("1.20/kitchen-rocksdb-incremental/snapshot", "kitchen-string", "addresses", {}),
    ("1.20/kitchen-hashmap-checkpoint/snapshot", "kitchen-string", "addresses", {}),
    ("1.20/windows-hashmap-changelog/snapshot", None, None, {}),
]


@pytest.mark.parametrize(("path", "uid", "name", "options"), STATES)
def test_rows_do_not_depend_on_the_number_of_threads(
    path: str, uid: str | None, name: str | None, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel_scan, "_SMALLEST_SPLIT", 256)
    monkeypatch.setattr(parallel_scan, "SMALLEST_SCAN", 0)
    snapshot = stateproc.open(str(FIXTURES / path), **options)
    states = snapshot.states if uid is None else [snapshot.operator(uid).state(name or "")]
    for state in states:
        rows = [row for split in state.splits() for batch in split.read() for row in batch.to_pylist()]
        assert state.to_arrow(threads=1).to_pylist() == rows
        assert state.to_arrow(threads=4).to_pylist() == rows
        assert [row for batch in state.batches(threads=3) for row in batch.to_pylist()] == rows


def test_a_damaged_split_raises_the_same_error_with_any_number_of_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel_scan, "_SMALLEST_SPLIT", 256)
    monkeypatch.setattr(parallel_scan, "SMALLEST_SCAN", 0)
    target = tmp_path / "snapshot"
    shutil.copytree(FIXTURES / "1.20/demo/snapshot", target)
    state = stateproc.open(str(target)).state("orders-per-customer", "profile")
    last = state.splits(split_bytes=256)[-1]
    file = Path(last.origin)  # type: ignore[attr-defined]
    with file.open("r+b") as opened:
        opened.seek(last.ranges[0].start + 2)  # type: ignore[attr-defined]
        opened.write(b"\xff\xff\xff\xff")
    messages = set()
    for threads in (1, 2, 5):
        with pytest.raises(CorruptSnapshot) as caught:
            state.to_arrow(threads=threads)
        where = caught.value.where
        assert (where.operator, where.state) == ("orders-per-customer", "profile")
        messages.add(str(caught.value))
    assert len(messages) == 1
