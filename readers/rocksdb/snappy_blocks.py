"""Decompress RocksDB's blocks of snappy: all blocks of one read in one kernel, which other threads do not wait for.

Format: format_description.txt of snappy. Blocks have some KB: decompressed one by one from Python, threads that read at
the same time would wait for the interpreter's lock twice for each.
"""

from __future__ import annotations

from stateproc.codec.array_types import Flags, Longs
from stateproc.codec.jit import copy_bytes, exported, inlined, load_i64, load_u8, store_8, store_64

_LONGEST_IN_TAG = 60
_MARGIN = 8
_SPACE = 24
"""Bytes after a piece's tag and in the output, with which a piece of up to 16 bytes needs no further checks."""


@inlined
def _copy(target: int, source: int, size: int, has_margin: bool) -> None:
    """Copy bytes, eight at a time where as many may be read and written after the last one."""
    if not has_margin or size > 64:
        copy_bytes(target, source, size)
        return
    done = 0
    while done < size:
        store_64(target + done, load_i64(source + done))
        done += 8


@exported
def decompress_snappy(
    source: int, compressed: Flags, begins: Longs, ends: Longs, plain: int, lows: Longs, highs: Longs
) -> int:
    """Decompress blocks of raw snappy one after another, and copy those that are not compressed.

    Args:
        source: Address of the stored blocks.
        compressed: For each block, whether it is compressed.
        begins: Where each begins at ``source``; compressed ones with their size, which the caller has checked.
        ends: Where each ends.
        plain: Address of the result.
        lows: Where each decompressed block begins at ``plain``.
        highs: Where each ends.

    Returns:
        The first block that is damaged; -1 if all are sound.
    """
    for k in range(len(begins)):
        at, stop = source + begins[k], source + ends[k]
        first, limit = plain + lows[k], plain + highs[k]
        if not compressed[k]:
            if stop - at != limit - first:
                return k
            copy_bytes(first, at, stop - at)
            continue
        while at < stop and load_u8(at) >= 0x80:
            at += 1
        at += 1
        out = first
        while at < stop:
            tag = load_u8(at)
            at += 1
            kind = tag & 3
            if stop - at >= _SPACE and limit - out >= _SPACE:
                # Most pieces are short: two words, of which some bytes are overwritten by the next piece.
                length = (tag >> 2) + 1
                if kind == 0 and length <= 16:
                    store_64(out, load_i64(at))
                    store_64(out + 8, load_i64(at + 8))
                    at += length
                    out += length
                    continue
                distance = load_u8(at)
                if kind == 1:
                    length = 4 + ((tag >> 2) & 7)
                    distance |= (tag >> 5) << 8
                else:
                    distance |= load_u8(at + 1) << 8
                if (kind == 1 or kind == 2) and length <= 16 and 8 <= distance <= out - first:
                    store_64(out, load_i64(out - distance))
                    store_64(out + 8, load_i64(out - distance + 8))
                    at += kind
                    out += length
                    continue
            if kind == 0:
                length = (tag >> 2) + 1
                extra = length - _LONGEST_IN_TAG
                if extra > 0:
                    if stop - at < extra:
                        return k
                    length = 1
                    for index in range(extra):
                        length += load_u8(at + index) << (8 * index)
                    at += extra
                if length > stop - at or length > limit - out:
                    return k
                _copy(out, at, length, stop - at - length >= _MARGIN and limit - out - length >= _MARGIN)
                at += length
                out += length
                continue
            width = 1 if kind == 1 else 2 * kind - 2
            if stop - at < width:
                return k
            distance = load_u8(at)
            if kind == 1:
                length = 4 + ((tag >> 2) & 7)
                distance |= (tag >> 5) << 8
            else:
                length = (tag >> 2) + 1
                for index in range(1, width):
                    distance |= load_u8(at + index) << (8 * index)
            at += width
            if distance == 0 or distance > out - first or length > limit - out:
                return k
            if distance >= 8 and limit - out - length >= _MARGIN:
                _copy(out, out - distance, length, True)
            else:
                for index in range(length):
                    store_8(out + index, load_u8(out - distance + index))
            out += length
        if out != limit or first == limit:
            return k
    return -1
