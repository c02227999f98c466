"""Run functions in threads that all end with the call, whether it returns, fails or is interrupted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Stopped(Exception):
    """Ends a function whose result is not needed any more, because another one has failed."""


class Stop:
    """A flag by which running functions notice that they should end."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def checked(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the items. Raises Stopped between two of them."""
        for item in items:
            if self._event.is_set():
                raise Stopped
            yield item


def run_in_threads(
    items: Sequence[Item], function: Callable[[Item, Stop], Result], threads: int, name: str = "stateproc-write"
) -> list[Result]:
    """Call ``function`` for each item, in threads, and return the results in the order of the items.

    Args:
        items: What to do.
        function: Does it; it ends early if its second argument is set (`Stop.checked`).
        threads: The most threads. One item, or one thread, runs in the calling thread.
        name: The prefix of the threads' names.

    Raises:
        BaseException: What a function raised, of several the one of the first item; or KeyboardInterrupt. All functions
            have ended then.
    """
    stop = Stop()
    if threads < 2 or len(items) < 2:
        return [function(item, stop) for item in items]
    run = _ThreadedCalls(items, function, stop)
    workers = [
        threading.Thread(target=run.work, name=f"{name}-{number}", daemon=True)
        for number in range(min(threads, len(items)))
    ]
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        stop.set()
        _join(workers)
    return run.results()


def _join(workers: Sequence[threading.Thread]) -> None:
    """Wait until the threads have ended, also if the user interrupts the wait again."""
    for worker in workers:
        while worker.ident is not None and worker.is_alive():
            try:
                worker.join()
            except KeyboardInterrupt:
                continue


class _ThreadedCalls(Generic[Item, Result]):
    """What the threads of one call share."""

    def __init__(self, items: Sequence[Item], function: Callable[[Item, Stop], Result], stop: Stop) -> None:
        self._items, self._function, self._stop = items, function, stop
        self._lock = threading.Lock()
        self._next = 0
        self._results: dict[int, Result] = {}
        self._errors: dict[int, BaseException] = {}

    def work(self) -> None:
        """Take items until none is left; what each thread runs."""
        while (number := self._take()) is not None:
            try:
                self._results[number] = self._function(self._items[number], self._stop)
            except Stopped:
                return
            except BaseException as error:
                self._errors[number] = error
                self._stop.set()

    def _take(self) -> int | None:
        with self._lock:
            if self._stop.is_set or self._next >= len(self._items):
                return None
            self._next += 1
            return self._next - 1

    def results(self) -> list[Result]:
        if self._errors:
            raise self._errors[min(self._errors)]
        return [self._results[number] for number in range(len(self._items))]
