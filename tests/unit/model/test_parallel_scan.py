"""Parallel scans: order, bounded memory, errors at their place, and threads that end with the generator."""

from __future__ import annotations

import gc
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc.errors import CorruptSnapshot, InvalidOption
from stateproc.model import parallel_scan
from stateproc.model.parallel_scan import parallel_split_bytes, read_in_order, thread_count, useful_threads
from tests.helpers.paths import FIXTURES

MB = 1 << 20


def scan_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("stateproc-scan")]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert scan_threads() == []


def three(item: int) -> Iterator[int]:
    """Yield three numbers of an item, at irregular times."""
    for index in range(3):
        time.sleep(random.random() / 500)
        yield 10 * item + index


THREES = [10 * item + index for item in range(20) for index in range(3)]


@pytest.mark.parametrize("threads", [1, 2, 5, 40])
@pytest.mark.parametrize("at_once", [False, True])
def test_results_come_in_the_order_of_the_items(threads: int, at_once: bool) -> None:
    assert list(read_in_order(range(20), three, threads, at_once=at_once, size_of=lambda _: 1)) == THREES


def test_items_without_results_are_passed() -> None:
    def read(item: int) -> list[int]:
        return [item] if item % 4 == 3 else []

    for at_once in (False, True):
        assert list(read_in_order(range(9), read, 3, at_once=at_once, size_of=lambda _: 1)) == [3, 7]
        assert list(read_in_order(range(3), read, 3, at_once=at_once, size_of=lambda _: 1)) == []
    assert list(read_in_order([], read, 3)) == []


def test_the_first_result_starts_no_thread() -> None:
    scan = read_in_order(range(20), three, 4, size_of=lambda _: 1)
    assert next(scan) == 0
    assert scan_threads() == []
    assert next(scan) == 1
    assert len(scan_threads()) == 4
    assert [0, 1, *scan] == THREES


def test_items_are_read_at_the_same_time() -> None:
    together = threading.Barrier(3)

    def read(item: int) -> Iterator[int]:
        together.wait(timeout=20)
        yield item

    assert list(read_in_order(range(3), read, 3, at_once=True, size_of=lambda _: 1)) == [0, 1, 2]


@pytest.mark.parametrize("end", ["close", "delete", "error"])
def test_threads_and_items_end_with_the_generator(end: str) -> None:
    opened, closed = set(), set()

    def read(item: int) -> Iterator[int]:
        opened.add(item)
        try:
            yield from range(1000)
        finally:
            closed.add(item)

    scan = read_in_order(range(50), read, 4, size_of=lambda _: MB)
    assert [next(scan) for _ in range(5)] == [0, 1, 2, 3, 4]
    if end == "close":
        scan.close()
    elif end == "error":
        with pytest.raises(KeyError):
            scan.throw(KeyError("of the consumer"))
    else:
        del scan
        gc.collect()
    assert scan_threads() == []
    assert closed == opened


def test_an_error_comes_after_all_results_before_it_and_ends_the_scan() -> None:
    damage = CorruptSnapshot("damaged")
    begun = []

    def read(item: int) -> Iterator[int]:
        begun.append(item)
        yield item
        if item in (5, 7):
            raise damage if item == 5 else ValueError("of a later item")

    for at_once in (False, True):
        begun.clear()
        found = []
        with pytest.raises(CorruptSnapshot) as caught:
            for result in read_in_order(range(1000), read, 3, at_once=at_once, size_of=lambda _: 1):
                found.append(result)
        assert caught.value is damage
        assert found == [0, 1, 2, 3, 4, 5]
        assert len(begun) < 1000


@pytest.mark.parametrize("at_once", [False, True])
def test_an_error_before_the_first_result(at_once: bool) -> None:
    def read(item: int) -> Iterator[int]:
        raise CorruptSnapshot(f"item {item}")

    with pytest.raises(CorruptSnapshot, match="item 0"):
        list(read_in_order(range(9), read, 3, at_once=at_once, size_of=lambda _: 1))


def test_waiting_results_are_bounded_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_scan, "BYTES_AHEAD", 10)
    changed, counts = threading.Condition(), {"made": 0, "consumed": 0, "most": 0}

    def read(item: int) -> Iterator[int]:
        for index in range(20):
            with changed:
                counts["made"] += 1
                counts["most"] = max(counts["most"], counts["made"] - counts["consumed"])
                changed.notify()
            yield 100 * item + index

    found = []
    for result in read_in_order(range(30), read, 3, at_once=True, size_of=lambda _: 1):
        found.append(result)
        with changed:
            # The consumer waits for the threads, however slow they are.
            assert changed.wait_for(lambda: counts["most"] >= 20, timeout=60)
            counts["consumed"] += 1
    assert found == [100 * item + index for item in range(30) for index in range(20)]
    # Three threads of ten bytes each, and a result in the hands of each thread and of the consumer.
    assert 20 <= counts["most"] <= 30 + 3 + 1


def test_a_result_larger_than_the_bound_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_scan, "BYTES_AHEAD", 10)
    assert list(read_in_order(range(20), three, 3, at_once=True, size_of=lambda _: 1000)) == THREES


def test_items_begun_ahead_are_bounded_where_they_have_no_results() -> None:
    begun = []
    go_on = threading.Event()

    def read(item: int) -> Iterator[int]:
        begun.append(item)
        if item == 0:
            assert go_on.wait(20)
        yield from ([item] if item == 999 else [])

    scan = read_in_order(range(1000), read, 2, at_once=True, size_of=lambda _: 0)
    consumer = threading.Thread(target=lambda: found.extend(scan))
    found: list[int] = []
    consumer.start()
    time.sleep(0.1)
    assert len(begun) <= 2 * 8
    go_on.set()
    consumer.join()
    assert found == [999]


def in_fork(action: Any) -> str:
    """Return what ``action`` returns in a forked process, or its error."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = str(action())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write_end, text.encode())
        os._exit(0)
    os.close(write_end)
    with open(read_end, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)
    return text


def test_a_forked_process_has_its_own_threads_and_refuses_those_of_its_parent() -> None:
    scan = read_in_order(range(20), three, 2, size_of=lambda _: 1)
    assert [next(scan), next(scan)] == [0, 1]
    assert in_fork(lambda: list(read_in_order(range(20), three, 2, size_of=lambda _: 1)) == THREES) == "True"
    assert in_fork(lambda: next(scan)).startswith("RuntimeError: these rows are read by threads of another process")
    assert in_fork(scan.close) == "None"
    assert [0, 1, *scan] == THREES


@pytest.mark.processes
def test_an_interpreter_ends_although_a_scan_was_not_closed() -> None:
    code = (
        "from stateproc.model.parallel_scan import read_in_order\n"
        "scan = read_in_order(range(9), lambda item: iter(range(10**9)), 2, size_of=lambda _: 1 << 20)\n"
        "print(next(scan), next(scan))\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (out.returncode, out.stdout, out.stderr) == (0, "0 1\n", "")


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
    scan = parallel_scan._Scan
    monkeypatch.setattr(parallel_scan, "_Scan", lambda *given: scans.append(given) or scan(*given))
    rows = state.to_arrow(threads=4)
    assert scans == []
    monkeypatch.setattr(parallel_scan, "SMALLEST_SCAN", sum(split.bytes for split in splits))
    assert state.to_arrow(threads=4) == rows
    assert len(scans) == 1
    # Threads wait for requests to a remote store at the same time, however few bytes they read.
    monkeypatch.setattr("stateproc.model.state.store_kind", lambda uri: "s3")
    assert state.useful_threads(4, splits) == 4


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
