"""The snappy framing format, written: a stream of chunks of 64 KiB each, the last one shorter.

Source: org.apache.flink.runtime.state.SnappyStreamCompressionDecorator, org.xerial.snappy.SnappyFramedOutputStream.
"""

from __future__ import annotations

import cramjam

IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"
"""What a framed stream begins with."""
_CHUNK = 1 << 16
_AT_ONCE = 64 * _CHUNK


class FramedStream:
    """One compressed stream: ``frame`` takes plain bytes and gives those to be written, ``end`` the rest."""

    def __init__(self, *, identified: bool = False) -> None:
        """``identified``: the stream's identifier is written already."""
        self._identified = identified
        self._rest = bytearray()

    def frame(self, plain: bytes | memoryview) -> bytes:
        """The chunks that ``plain`` completes; what is left over waits for more."""
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
        """A chunk of what waits, so that the next byte begins a new one."""
        rest, self._rest = self._rest, bytearray()
        return self._chunks(rest) if rest else b""

    def _chunks(self, plain: bytes | bytearray | memoryview) -> bytes:
        framed = bytes(cramjam.snappy.compress(plain))
        if self._identified:
            return framed[len(IDENTIFIER) :]
        self._identified = True
        return framed
