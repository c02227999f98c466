"""Destinations of written bytes, as the writers of all formats use them."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from stateproc.metadata.stream_handles import ByteStreamHandle, RelativeFileHandle


class ByteSink(Protocol):
    """Accepts bytes in their order; an open binary file is one."""

    def write(self, data: memoryview, /) -> object: ...


class StateFileSink(Protocol):
    """A state file being written, used as a context: left with an error, the file is removed."""

    def write(self, data: bytes | memoryview, /) -> object: ...

    def close(self) -> ByteStreamHandle | RelativeFileHandle:
        """Finish the file and return its handle. Raises WriteFailed."""
        ...

    def __enter__(self) -> StateFileSink: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
