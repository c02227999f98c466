"""Decode RoaringBitmap's portable format (32-bit) with pyroaring, which validates its input since 1.0.1."""

from __future__ import annotations

from pyroaring import BitMap

from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot, Where

MAX_POSITIONS = 1 << 22


def positions(data: bytes) -> list[int]:
    """Decode a bitmap to the positions that are set, in ascending order.

    Args:
        data: one serialized bitmap, and nothing after it.

    Raises:
        CorruptSnapshot: the bytes are no bitmap.
        UnsupportedSnapshot: the bitmap has over 4 million positions, which few bytes can stand for.
    """
    try:
        bitmap = BitMap.deserialize(data)
    except (ValueError, IndexError) as error:
        raise CorruptSnapshot(f"no Roaring bitmap: {error}", where=Where(file="<bytes>", offset=0)) from error
    if len(bitmap) > MAX_POSITIONS:
        raise UnsupportedSnapshot(
            f"a bitmap of {len(bitmap)} positions",
            advice="read it from the Arrow column, whose bytes libraries for Roaring bitmaps understand",
        )
    # Bytes after the bitmap are ignored by pyroaring.
    used = len(bitmap.serialize())
    if used != len(data):
        raise CorruptSnapshot(
            f"a Roaring bitmap of {used} bytes in {len(data)} bytes", where=Where(file="<bytes>", offset=used)
        )
    return list(bitmap)
