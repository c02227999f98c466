"""Destinations of written bytes, as the writers of all formats use them; Snappy's framing, in which they may be.

A framed stream (org.xerial.snappy.SnappyFramedOutputStream, which SnappyStreamCompressionDecorator uses) is the
identifier ff 06 00 00 "sNaPpY" and chunks of at most 64 KiB of plain bytes, each:

    u8       0: compressed, 1: plain
    u24 LE   bytes that follow
    u32 LE   masked CRC-32C of the plain bytes
    bytes    a block of Snappy, or the plain bytes
"""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

import cramjam

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


IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"
"""The first bytes of a framed stream."""
_CHUNK = 1 << 16
_AT_ONCE = 64 * _CHUNK


class FramedStream:
    """One compressed stream: ``frame`` returns the compressed chunks of plain bytes, ``flush`` the last one."""

    def __init__(self, *, identified: bool = False) -> None:
        """``identified``: the stream's identifier is written already."""
        self._identified = identified
        self._rest = bytearray()

    def frame(self, plain: bytes | memoryview) -> bytes:
        """Return the chunks that ``plain`` completes; the remaining bytes are kept for the next chunk."""
        view = memoryview(plain)
        parts = []
        if self._rest:
            missing = min(_CHUNK - len(self._rest), len(view))
            self._rest += view[:missing]
            view = view[missing:]
            if len(self._rest) == _CHUNK:
                parts.append(self._chunks(self._rest))
                self._rest = bytearray()
        whole = len(view) - len(view) % _CHUNK
        parts += [self._chunks(view[at : min(at + _AT_ONCE, whole)]) for at in range(0, whole, _AT_ONCE)]
        if whole < len(view):
            self._rest += view[whole:]
        return b"".join(parts)

    def flush(self) -> bytes:
        """Return a chunk of the remaining bytes, so that the next byte begins a new one."""
        rest, self._rest = self._rest, bytearray()
        return self._chunks(rest) if rest else b""

    def _chunks(self, plain: bytes | bytearray | memoryview) -> bytes:
        framed = bytes(cramjam.snappy.compress(plain))
        if self._identified:
            return framed[len(IDENTIFIER) :]
        self._identified = True
        return framed
