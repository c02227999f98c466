"""Reading ahead: from object stores several requests at a time, from local disks one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

Made = TypeVar("Made")
Given = TypeVar("Given")

REQUESTS_AT_ONCE = 8


class Fetcher:
    """Runs what waits for bytes; ``ahead``: in threads, before it is used.

    A context manager: its threads end with it.
    """

    def __init__(self, *, ahead: bool) -> None:
        self._pool = ThreadPoolExecutor(REQUESTS_AT_ONCE, "stateproc-fetch") if ahead else None

    def __enter__(self) -> Fetcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def map(self, make: Callable[[Given], Made], items: Sequence[Given]) -> list[Made]:
        """``make`` of every item, in their order. Raises what it raises."""
        if self._pool is None or len(items) < 2:
            return [make(item) for item in items]
        return list(self._pool.map(make, items))

    def each(self, jobs: Iterable[Callable[[], Made]], most: int = 1) -> Iterator[Made]:
        """The jobs' results in their order; the next ones are at work while the caller has the one before them.

        At first one, then one more for each result up to ``most``: a caller who needs few results does not pay for
        many.
        """
        if self._pool is None:
            for job in jobs:
                yield job()
            return
        waiting: deque[Future[Made]] = deque()
        ahead = 1
        for job in jobs:
            waiting.append(self._pool.submit(job))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
                ahead = min(ahead + 1, most)
        while waiting:
            yield waiting.popleft().result()
