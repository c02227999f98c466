"""A file system that counts what is read of it: local files under ``counted://``."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

_LOCK = threading.Lock()


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
    seconds = 0.0

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
            time.sleep(type(self).seconds)
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
def counting(seconds: float = 0.0) -> Iterator[Count]:
    """Inside: the count starts at nothing, and each request takes ``seconds``."""
    CountedFileSystem.count, CountedFileSystem.seconds = Count(), seconds
    try:
        yield CountedFileSystem.count
    finally:
        CountedFileSystem.seconds = 0.0
