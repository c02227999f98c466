"""Parse and decompress the snappy framing format.

Source: org.apache.flink.runtime.state.SnappyStreamCompressionDecorator, org.xerial.snappy.SnappyFramedInputStream.
"""

from __future__ import annotations

from dataclasses import dataclass

import cramjam

from stateproc.errors import CorruptSnapshot, Where

_IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"
_MAX_FRAME = 65536


@dataclass(frozen=True)
class Frames:
    """The whole chunks at the beginning of some bytes.

    ``size``: their bytes. ``streams``: where streams begin (their identifiers stand) in what the chunks hold.
    """

    size: int
    streams: tuple[int, ...]


def frames(raw: bytes, file: str, file_at: int) -> Frames:
    """Find the complete chunks at the beginning of ``raw``, at ``file_at`` in the file. Raises CorruptSnapshot."""
    at = plain = 0
    streams = []
    while at + 4 <= len(raw):
        kind, length = raw[at], int.from_bytes(raw[at + 1 : at + 4], "little")
        end = at + 4 + length
        if kind in (0, 1):
            if length < 4 or length > _MAX_FRAME + 4 + _MAX_FRAME // 6 + 32:
                raise damaged(file, file_at + at, f"a compressed chunk of {length} bytes")
        elif kind == 0xFF:
            if length != len(_IDENTIFIER) - 4:
                raise damaged(file, file_at + at, f"a stream identifier of {length} bytes")
        elif kind < 0x80:
            raise damaged(file, file_at + at, f"a compressed chunk of the unknown type {kind}")
        if end > len(raw):
            break
        if kind == 0xFF:
            streams.append(plain)
        elif kind in (0, 1):
            size = _uncompressed_size(raw, at + 8, end) if kind == 0 else length - 4
            if size > _MAX_FRAME:
                raise damaged(file, file_at + at, "a compressed chunk claims more than 64 KiB")
            plain += size
        at = end
    return Frames(at, tuple(streams))


def whole_frames(raw: bytes, file: str, file_at: int) -> int:
    """How many bytes at the beginning of ``raw`` are whole chunks. Raises CorruptSnapshot."""
    return frames(raw, file, file_at).size


def _uncompressed_size(raw: bytes, at: int, stop: int) -> int:
    """The varint that raw snappy begins with."""
    size = shift = 0
    while at < stop and shift <= 28:
        size |= (raw[at] & 0x7F) << shift
        if raw[at] < 0x80:
            return size
        at, shift = at + 1, shift + 7
    return _MAX_FRAME + 1


def decompress_frames(raw: bytes, file: str, file_at: int) -> bytes:
    """Decompress whole chunks; their checksums are verified. Raises CorruptSnapshot."""
    if not raw:
        return b""
    try:
        return bytes(cramjam.snappy.decompress(raw if raw.startswith(_IDENTIFIER) else _IDENTIFIER + raw))
    except cramjam.DecompressionError as error:
        raise damaged(file, file_at, f"compressed data is damaged: {error}") from error


def damaged(file: str, offset: int, what: str) -> CorruptSnapshot:
    """The error for damage found at ``offset``."""
    return CorruptSnapshot(
        what, where=Where(file=file, offset=offset), advice="the file is damaged; use a copy or take the snapshot again"
    )
