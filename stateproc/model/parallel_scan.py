"""Read splits in parallel threads, in their order and in bounded memory.

Each thread takes the next split and reads it to its end. What it reads waits in a queue of that split until all splits
before it have been consumed. Kernels and Arrow release the GIL, so that threads run on as many cores.

Memory is bounded by bytes, not by a number of splits: threads pause while ``BYTES_AHEAD`` bytes for each of them wait,
except for the split that is being consumed, which may always add one batch to an empty queue. The order therefore never
blocks: the split that the consumer waits for is the oldest unfinished one, and a thread works on it.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from stateproc.options import BY_NAME

Item = TypeVar("Item")
Result = TypeVar("Result")

BYTES_AHEAD = 64 << 20
"""Bytes of batches that may wait for the consumer, per thread."""
_ITEMS_AHEAD = 8
"""Splits that may be begun after the one that is consumed, per thread. Filters may leave nothing of a split, so that
bytes alone do not bound how far threads run ahead."""

_SMALLEST_SPLIT, _LARGEST_SPLIT = 4 << 20, 32 << 20
_SPLITS_PER_THREAD = 2
"""Splits per thread where the state is large enough: with one, a thread idles while the other reads its last split;
with four, two threads need a quarter more time for a RocksDB state of 110 MB, because each split opens the tables."""

SMALLEST_SCAN = 256 << 10
"""Stored bytes in local files from which threads save time. Two threads for a state of 4 KB take 3.8 ms of CPU and
4.8 ms in all where one takes 2.3 ms and 3.0 ms; 256 KB take one thread some milliseconds."""


def thread_count(threads: int | None) -> int:
    """Return the number of threads for the option ``threads``: the available cores if it is None.

    Raises:
        InvalidOption: It is no positive number.
    """
    return BY_NAME["threads"].value(threads) or available_cores()


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def parallel_split_bytes(threads: int, stored_bytes: int | None, limit: int, *, smallest: int | None = None) -> int:
    """Return a size of splits that keeps all threads busy.

    Args:
        threads: The number of threads.
        stored_bytes: Stored bytes of what is read, or an upper bound; None if not known.
        limit: The size for one thread, which is never exceeded.
        smallest: The smallest size, where splits cost more than usual.
    """
    if threads < 2:
        return limit
    share = _LARGEST_SPLIT if stored_bytes is None else stored_bytes // (_SPLITS_PER_THREAD * threads)
    return min(limit, max(_SMALLEST_SPLIT if smallest is None else smallest, min(share, _LARGEST_SPLIT)))


def useful_threads(threads: int, stored_bytes: int) -> int:
    """Return the number of threads that read local files of this size in the least time: one for tiny ones."""
    return threads if stored_bytes >= SMALLEST_SCAN else 1


def _buffer_bytes(batch: Any) -> int:
    return int(batch.nbytes)


def read_in_order(
    items: Sequence[Item],
    read: Callable[[Item], Iterable[Result]],
    threads: int,
    *,
    at_once: bool = False,
    size_of: Callable[[Result], int] = _buffer_bytes,
) -> Generator[Result, None, None]:
    """Read all items in parallel and yield their results in the order of the items.

    Closing the generator stops the threads: each finishes the result that it is reading. No thread outlives the
    generator, and none is started for its first result, so that a caller who needs no more does not wait for others.

    Args:
        items: What to read, usually splits.
        read: Reads one item, to record batches as a rule. An error that it raises is raised to the consumer, after all
            results before it.
        threads: The number of threads; with 1, everything is read in the calling thread.
        at_once: Start the threads before the first result, because the caller needs all results.
        size_of: Returns the bytes of a result.

    Raises:
        RuntimeError: The generator is continued in a forked process, where its threads do not exist.
    """
    if threads < 2 or len(items) < 2:
        for item in items:
            yield from read(item)
        return
    first = 0
    begun: dict[int, Generator[Result, None, None]] = {}
    while not (at_once or begun) and first < len(items):
        results = _results(read, items[first])
        for result in results:
            begun[first] = results
            yield result
            break
        else:
            first += 1
    scan = _Scan(items, read, size_of, threads, first, begun)
    workers = [
        threading.Thread(target=scan.work, name=f"stateproc-scan-{index}", daemon=True)
        for index in range(min(threads, len(items) - first))
    ]
    stop = partial(_stop, scan, workers)
    # An interpreter may end before a generator is closed; its threads must not run while modules are torn down.
    atexit.register(stop)
    try:
        for worker in workers:
            worker.start()
        yield from scan.results()
    finally:
        atexit.unregister(stop)
        stop()


def _results(read: Callable[[Item], Iterable[Result]], item: Item) -> Generator[Result, None, None]:
    """Read an item by a generator, which can be closed whatever ``read`` returns."""
    yield from read(item)


def _stop(scan: _Scan[Any, Any], workers: Sequence[threading.Thread]) -> None:
    """End the threads and wait for them. Forked processes have no threads, but perhaps a lock that one of them held."""
    if not scan.is_own_process:
        return
    scan.stop()
    for worker in workers:
        # The garbage collector may close a generator in any thread.
        if worker.ident is not None and worker is not threading.current_thread():
            worker.join()


@dataclass
class _Queue(Generic[Result]):
    """Results of one item that are not consumed yet, with their sizes."""

    results: deque[tuple[Result, int]] = field(default_factory=deque)
    error: BaseException | None = None
    is_read: bool = False


class _Scan(Generic[Item, Result]):
    """What the threads of one scan share, guarded by one condition.

    Args:
        items: All items.
        read: Reads one item.
        size_of: Returns the bytes of a result.
        threads: The number of threads.
        first: The first item to read.
        begun: Further results of items whose reading has begun.
    """

    def __init__(
        self,
        items: Sequence[Item],
        read: Callable[[Item], Iterable[Result]],
        size_of: Callable[[Result], int],
        threads: int,
        first: int,
        begun: dict[int, Generator[Result, None, None]],
    ) -> None:
        self._items, self._read, self._size_of = items, read, size_of
        self._begun = begun
        self._changed = threading.Condition()
        self._queues: dict[int, _Queue[Result]] = {}
        self._head = self._next = first
        self._end = len(items)
        self._waiting_bytes, self._most_bytes = 0, BYTES_AHEAD * threads
        self._most_items = _ITEMS_AHEAD * threads
        self._is_stopped = False
        self._process = os.getpid()

    @property
    def is_own_process(self) -> bool:
        """Whether this is the process that the threads belong to."""
        return os.getpid() == self._process

    def work(self) -> None:
        """Read items until none is left or the scan is stopped; what each thread runs."""
        while (index := self._take()) is not None:
            error: BaseException | None = None
            results = self._begun.get(index) or _results(self._read, self._items[index])
            try:
                with closing(results):
                    for result in results:
                        if not self._put(index, result):
                            break
            except BaseException as raised:
                error = raised
            self._finish(index, error)

    def _take(self) -> int | None:
        """Return the next item once it may be begun; None if there is nothing to do."""
        with self._changed:
            while self._is_wanted(self._next) and not self._may_begin(self._next):
                self._changed.wait()
            if not self._is_wanted(self._next):
                return None
            self._queues[self._next] = _Queue()
            self._next += 1
            return self._next - 1

    def _is_wanted(self, index: int) -> bool:
        return index < self._end and not self._is_stopped

    def _may_begin(self, index: int) -> bool:
        if index == self._head:
            return True
        return index - self._head < self._most_items and self._waiting_bytes < self._most_bytes

    def _put(self, index: int, result: Result) -> bool:
        """Add a result of an item once the bytes that wait allow it; return False if it is not wanted any more."""
        size = self._size_of(result)
        with self._changed:
            queue = self._queues[index]
            while self._is_wanted(index) and self._waiting_bytes >= self._most_bytes:
                if index == self._head and not queue.results:
                    break
                self._changed.wait()
            if not self._is_wanted(index):
                return False
            queue.results.append((result, size))
            self._waiting_bytes += size
            self._changed.notify_all()
            return True

    def _finish(self, index: int, error: BaseException | None) -> None:
        """Mark an item as read, to its end or to an error; after an error, later items are not needed."""
        with self._changed:
            self._queues[index].is_read, self._queues[index].error = True, error
            if error is not None:
                self._end = min(self._end, index + 1)
            self._changed.notify_all()

    def results(self) -> Iterator[Result]:
        """Yield the results in order. Raises what reading raised."""
        while self._head < self._end:
            if not self.is_own_process:
                raise RuntimeError("these rows are read by threads of another process: read the state in this process")
            with self._changed:
                queue = self._queues.get(self._head)
                while queue is None or not (queue.results or queue.is_read):
                    self._changed.wait()
                    queue = self._queues.get(self._head)
                found = queue.results.popleft() if queue.results else None
                if found is None:
                    del self._queues[self._head]
                    self._head += 1
                else:
                    self._waiting_bytes -= found[1]
                self._changed.notify_all()
            if found is not None:
                yield found[0]
            elif queue.error is not None:
                raise queue.error

    def stop(self) -> None:
        """Make the threads end after the result that they are reading."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
