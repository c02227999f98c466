"""Do several things at a time and return what comes of them in order: requests, and scans that are bounded by bytes.

Requests (`map_in_order`, `RequestPool`) return one result each; a few more of them are under way than are consumed.
A scan (`read_in_order`) reads many results of each item, as record batches of a split: each thread takes the next item
and reads it to its end, and what it reads waits in a queue of that item until all items before it have been consumed.
Kernels and Arrow release the GIL, so that threads run on as many cores.

Memory of a scan is bounded by bytes, not by a number of items: no item is begun while ``BEGUN_BELOW`` bytes for each
thread wait, and threads pause while ``BYTES_AHEAD`` bytes for each of them wait, except for the item that is being
consumed, which may always add one result to an empty queue. The order therefore never blocks: the item that the
consumer waits for is the oldest unfinished one, and a thread works on it.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from types import TracebackType
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

REQUESTS_AT_ONCE = 16
"""Requests to a store that are under way together: latencies add up otherwise."""

BYTES_AHEAD = 64 << 20
"""Bytes of batches that may wait for the consumer, per thread."""
BEGUN_BELOW = 8 << 20
"""Bytes of batches, per thread, below which another item is begun: one item of each thread may wait for the consumer,
but not many where one thread is held up. Large items, as those of changelogs, are read on up to ``BYTES_AHEAD``."""
_ITEMS_AHEAD = 8
"""Items that may be begun after the one that is consumed, per thread. Filters may leave nothing of a split, so that
bytes alone do not bound how far threads run ahead."""


class RequestPool:
    """Threads for what waits for a store or a disk. A context manager: its threads end with it.

    Args:
        threads: How many calls run at a time; below 2 they run in the calling thread, when their results are wanted.
    """

    def __init__(self, threads: int = REQUESTS_AT_ONCE) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, "stateproc-requests") if threads > 1 else None

    @property
    def is_concurrent(self) -> bool:
        """Whether several calls run at a time."""
        return self._pool is not None

    def __enter__(self) -> RequestPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], ahead: int | None = None
    ) -> Iterator[Result]:
        """Yield ``function`` of each item, in their order. Raises what it raises.

        Args:
            function: What to call.
            items: What to call it with; taken as calls are made.
            ahead: The most calls under way besides the one whose result is wanted. At first one, then one more for each
                result: who needs few results does not pay for many. None: as many as keep all threads busy, at once.
        """
        if self._pool is None:
            yield from map(function, items)
            return
        waiting: deque[Future[Result]] = deque()
        most, allowed = (2 * self._threads, 2 * self._threads) if ahead is None else (ahead, 1)
        for item in items:
            waiting.append(self._pool.submit(function, item))
            if len(waiting) > allowed:
                yield waiting.popleft().result()
                allowed = min(allowed + 1, most)
        while waiting:
            yield waiting.popleft().result()

    def run(self, calls: Iterable[Callable[[], Result]], ahead: int = 1) -> Iterator[Result]:
        """Yield the results of calls in their order; ``ahead`` as in `map`."""
        return self.map(lambda call: call(), calls, ahead)


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int = REQUESTS_AT_ONCE
) -> Generator[Result, None, None]:
    """Yield ``function`` of each item in their order, called in threads, which end with the generator.

    A single item is done in the calling thread. Raises what the function raises.
    """
    given = iter(items)
    first = list(islice(given, 2))
    with RequestPool(threads if len(first) > 1 else 1) as pool:
        yield from pool.map(function, chain(first, given))


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
        self._waiting_bytes, self._most_bytes, self._begun_below = 0, BYTES_AHEAD * threads, BEGUN_BELOW * threads
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
        return index - self._head < self._most_items and self._waiting_bytes < self._begun_below

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
