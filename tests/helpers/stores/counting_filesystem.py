"""A file system that counts what is read of it: local files under ``counted://``."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

_LOCK = threading.Lock()
_MOST_SECONDS = 60


@dataclass
class Count:
    """The requests made, as (file name, bytes), how many at most were under way at a time, and files looked for."""

    requests: list[tuple[str, int]] = field(default_factory=list)
    lookups: list[str] = field(default_factory=list)
    most_at_once: int = 0
    now: int = 0

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.requests)

    def times(self, name: str) -> int:
        """How many requests were made to the file."""
        return sum(file == name for file, _ in self.requests)


class CountedFileSystem(LocalFileSystem):  # type: ignore[misc]  # fsspec is not type-checked
    """Local files whose reads are counted; every other way of reading them fails."""

    protocol = "counted"
    cachable = False
    count = Count()
    together = 0
    least = 0
    were_together = threading.Event()

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        """Return the local path, also with releases of fsspec whose local files know no other protocol."""
        return str(LocalFileSystem._strip_protocol(path.removeprefix("counted://")))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        count = type(self).count
        with _LOCK:
            count.now += 1
            count.most_at_once = max(count.most_at_once, count.now)
        data = b""  # of a file that does not exist
        try:
            if end is not None and end - (start or 0) >= type(self).least:
                if count.now >= type(self).together:
                    type(self).were_together.set()
                type(self).were_together.wait(_MOST_SECONDS)
            with Path(self._strip_protocol(path)).open("rb") as file:
                file.seek(start or 0)
                data = file.read() if end is None else file.read(end - (start or 0))
        finally:
            with _LOCK:
                count.now -= 1
                count.requests.append((Path(path).name, len(data)))
        return data

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        with _LOCK:
            type(self).count.lookups.append(path)
        return dict(super().info(path, **options))

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        raise AssertionError(f"{path} is opened, not read by ranges")


fsspec.register_implementation("counted", CountedFileSystem, clobber=True)


def counted(path: Path) -> str:
    """The URI under which what is read of ``path`` is counted."""
    return f"counted://{path}"


@contextmanager
def counting(together: int = 0, least: int = 1) -> Iterator[Count]:
    """Count from nothing. Requests of ``least`` bytes wait until ``together`` of them are under way for the first time.

    So the test does not depend on how long a request takes. Where there are never so many, each waits for a minute.
    """
    filesystem = CountedFileSystem
    filesystem.count, filesystem.together, filesystem.least = Count(), together, least
    filesystem.were_together = threading.Event()
    try:
        yield filesystem.count
    finally:
        filesystem.together = 0
        filesystem.were_together.set()
