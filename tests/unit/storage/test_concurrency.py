"""Parallel scans: order, bounded memory, errors at their place, and threads that end with the generator."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from stateproc.errors import CorruptSnapshot
from stateproc.storage import concurrency
from stateproc.storage.concurrency import RequestPool, map_in_order, read_in_order

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
    monkeypatch.setattr(concurrency, "BYTES_AHEAD", 10)
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


def test_no_item_is_begun_while_many_bytes_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency, "BEGUN_BELOW", 10)
    begun, second_is_read, go_on = list[int](), threading.Event(), threading.Event()

    def read(item: int) -> Iterator[int]:
        begun.append(item)
        if item == 0:
            assert go_on.wait(60)
        for index in range(25):
            yield 100 * item + index
        if item == 1:
            second_is_read.set()

    found: list[int] = []
    scan = read_in_order(range(6), read, 2, at_once=True, size_of=lambda _: 1)
    consumer = threading.Thread(target=lambda: found.extend(scan))
    consumer.start()
    # All of the second item waits, which is more than ten bytes for each of two threads.
    assert second_is_read.wait(60)
    time.sleep(0.1)
    assert sorted(begun) == [0, 1]
    go_on.set()
    consumer.join()
    assert found == [100 * item + index for item in range(6) for index in range(25)]


def test_a_result_larger_than_the_bound_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency, "BYTES_AHEAD", 10)
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
        "from stateproc.storage.concurrency import RequestPool, map_in_order, read_in_order\n"
        "scan = read_in_order(range(9), lambda item: iter(range(10**9)), 2, size_of=lambda _: 1 << 20)\n"
        "print(next(scan), next(scan))\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (out.returncode, out.stdout, out.stderr) == (0, "0 1\n", "")


@pytest.mark.parametrize(
    ("threads", "most", "wanted"),
    [(8, 4, [1, 2, 3, 4, 4, 4]), (8, 1, [1] * 6), (8, None, [16] * 4 + [15, 14]), (1, 4, [0] * 6)],
)
def test_results_of_requests_are_in_order_and_those_ahead_are_bounded(
    threads: int, most: int | None, wanted: list[int]
) -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for number in range(20):
            taken += 1
            yield number

    ahead = []
    with RequestPool(threads) as pool:
        for position, result in enumerate(pool.map(lambda number: -number, items(), most)):
            assert result == -position
            ahead.append(taken - position - 1)
    assert (ahead[:6], len(ahead)) == (wanted, 20)


def test_requests_are_made_at_the_same_time_and_a_single_one_in_the_calling_thread() -> None:
    together = threading.Barrier(3)
    assert list(map_in_order(lambda item: (together.wait(10), item)[1], range(6), 3)) == list(range(6))
    assert list(map_in_order(lambda _: threading.current_thread(), [1])) == [threading.current_thread()]
    assert list(map_in_order(abs, [])) == []


def test_an_error_of_a_request_comes_at_its_place_and_no_further_requests_are_made() -> None:
    called, results = [], []

    def request(item: int) -> int:
        called.append(item)
        if item == 3:
            raise CorruptSnapshot("damaged")
        return item

    with pytest.raises(CorruptSnapshot):
        for result in map_in_order(request, range(1000), 2):
            results.append(result)
    assert results == [0, 1, 2] and len(called) < 20
