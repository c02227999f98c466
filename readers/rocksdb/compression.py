"""Block compression (RocksDB: util/compression.h).

Before a block compressed otherwise than by snappy stands its decompressed size: a varint; in tables of format
versions 0 and 1 eight bytes for LZ4, and nothing for zlib and bzip2.
"""

from __future__ import annotations

import bz2
import zlib
from typing import Any

import cramjam
import numpy as np
import numpy.typing as npt

from stateproc.codec.array_types import Flags, Longs
from stateproc.codec.arrow_arrays import uninitialized_bytes
from stateproc.codec.native.jit import copy_bytes, exported, inlined, load_i64, load_le64, load_u8, store_8, store_64
from stateproc.errors import UnsupportedSnapshot, Where
from stateproc.readers.rocksdb.format import damaged

# Decompress RocksDB's blocks of snappy: all blocks of one read in one kernel, which other threads do not wait for.
#
# Format: format_description.txt of snappy. Blocks have some KB: decompressed one by one from Python, threads that read
# at the same time would wait for the interpreter's lock twice for each.

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


NONE, SNAPPY, ZLIB, BZIP2, LZ4, LZ4HC, ZSTD = 0, 1, 2, 3, 4, 5, 7
NAMES = {6: "xpress", 0x40: "zstd (not final)"}
MOST_PLAIN = 64 << 20
"""Bytes of several blocks that are decompressed together."""
_MOST_GROWN = 1 << 30
"""Bytes of a block that decompresses to more than 64 times its size."""

_RATIOS = np.zeros(256, dtype=np.int64)
"""How far a compression can shrink at most; a larger claim is refused before memory is taken."""
for _kind, _ratio in {NONE: 1, SNAPPY: 22, ZLIB: 1040, BZIP2: 1 << 20, LZ4: 256, LZ4HC: 256, ZSTD: 1 << 15}.items():
    _RATIOS[_kind] = _ratio

OK, UNKNOWN, CLAIM = 0, 1, 2


class Oversized(Exception):
    """Blocks that hold more than may be decompressed together; ``parts``: runs of them that hold less, or are one."""

    def __init__(self, parts: list[slice]) -> None:
        super().__init__(parts)
        self.parts = parts


@exported
def _claims(
    source: int, starts: Longs, ends: Longs, ratios: Longs, first: bool, kinds: Longs, begins: Longs, sizes: Longs
) -> tuple[int, int]:
    """Per block: compression, where its compressed bytes begin, its size when decompressed; (block, outcome).

    ``starts`` and ``ends`` (at the compression byte) are checked by the caller. ``first``: format version 0 or 1.
    """
    for k in range(len(starts)):
        at, stop = source + starts[k], source + ends[k]
        kind = load_u8(stop)
        kinds[k] = kind
        if ratios[kind] == 0:
            return k, UNKNOWN
        size = stop - at
        if kind != NONE:
            size = np.int64(0)
            shift = 0
            ended = False
            if first and kind in (ZLIB, BZIP2):
                begins[k] = starts[k]
                sizes[k] = 0  # to be found out
                continue
            if first and (kind in (LZ4, LZ4HC)):
                if stop - at < 8:
                    return k, CLAIM
                size = np.int64(load_le64(at))
                at += 8
                shift = 64
                ended = size >= 0
            while at < stop and shift <= 28 and not ended:
                byte = load_u8(at)
                size |= (byte & 0x7F) << shift
                ended = byte < 0x80
                at += 1
                shift += 7
            if not ended or size > 0xFFFFFFFF or size > (stop - at + 1) * ratios[kind] + 64:
                return k, CLAIM
            if size > _MOST_GROWN and size > (stop - at) * 64:
                return k, CLAIM  # no state of Flink compresses this well
            if kind == SNAPPY:
                at = source + starts[k]  # snappy's own format begins with the size
        begins[k] = at - source
        sizes[k] = size
    return -1, OK


def decompressed(
    raw: npt.NDArray[np.uint8], starts: Longs, ends: Longs, file: str, offsets: Longs, version: int
) -> tuple[npt.NDArray[np.uint8], Longs]:
    """Decompress all blocks of ``raw``, one after another, and the n + 1 positions where they begin and end.

    ``ends``: where their compression bytes are. ``offsets``: the blocks' places in the file, for errors.
    ``version``: the table's format version.
    Raises CorruptSnapshot, UnsupportedSnapshot, Oversized for several blocks of over 64 MiB.
    """
    n = len(starts)
    kinds, begins, sizes = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    bad, outcome = _claims(raw.ctypes.data, starts, ends, _RATIOS, version < 2, kinds, begins, sizes)
    if outcome == UNKNOWN:
        kind = int(kinds[bad])
        raise UnsupportedSnapshot(
            f"a block is compressed by {NAMES.get(kind, f'the unknown method {kind}')}",
            where=Where(file=file, offset=int(offsets[bad])),
            advice="let Flink restore the snapshot and take a canonical savepoint of it",
        )
    if outcome == CLAIM:
        raise damaged(file, int(offsets[bad]), "a compressed block claims an impossible size")
    unsized: dict[int, bytes] = {}
    for k in np.flatnonzero((kinds == ZLIB) | (kinds == BZIP2)).tolist() if version < 2 else []:
        unsized[k] = _inflated(int(kinds[k]), raw.data[starts[k] : ends[k]], file, int(offsets[k]))
        sizes[k] = len(unsized[k])
        if n > 1 and sizes.sum() > MOST_PLAIN:
            raise Oversized([slice(i, i + 1) for i in range(n)])
    bounds = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(sizes, out=bounds[1:])
    if n > 1 and bounds[-1] > MOST_PLAIN:
        raise Oversized(_parts(bounds))
    if n == 1 and kinds[0] == NONE:
        return raw[starts[0] : ends[0]], bounds
    plain = uninitialized_bytes(int(bounds[-1]))
    lows, highs = bounds[:-1], bounds[1:]
    quick = np.flatnonzero((kinds == NONE) | (kinds == SNAPPY))
    bad = decompress_snappy(
        raw.ctypes.data,
        kinds[quick] == SNAPPY,
        begins[quick],
        ends[quick],
        plain.ctypes.data,
        lows[quick],
        highs[quick],
    )
    if bad >= 0:
        raise damaged(file, int(offsets[quick[bad]]), "a compressed block is damaged: it is not valid snappy")
    source, target = raw.data, plain.data
    for k in np.flatnonzero((kinds != NONE) & (kinds != SNAPPY)).tolist():
        stored, found = source[int(begins[k]) : int(ends[k])], target[int(lows[k]) : int(highs[k])]
        try:
            if k in unsized:
                found[:] = unsized[k]
            else:
                _decompress(int(kinds[k]), stored, found)
        except (cramjam.DecompressionError, zlib.error, OSError, ValueError, EOFError) as error:
            raise damaged(file, int(offsets[k]), f"a compressed block is damaged: {error}") from error
    return plain, bounds


def _parts(bounds: Longs) -> list[slice]:
    """Runs of blocks of at most 64 MiB together, or of one block."""
    found, at = [], 0
    while at < len(bounds) - 1:
        stop = max(at + 1, int(np.searchsorted(bounds, bounds[at] + MOST_PLAIN, side="right")) - 1)
        found.append(slice(at, stop))
        at = stop
    return found


def _inflated(kind: int, source: memoryview, file: str, offset: int) -> bytes:
    """Decompress a zlib or bzip2 block, which does not contain its size."""
    inflater = _inflater(kind)
    most = min(int(_RATIOS[kind]) * len(source) + 64, max(_MOST_GROWN, 64 * len(source)))
    try:
        plain: bytes = inflater.decompress(source, most)
    except (zlib.error, OSError) as error:
        raise damaged(file, offset, f"a compressed block is damaged: {error}") from error
    if not inflater.eof:
        raise damaged(file, offset, "a compressed block is cut off")
    return plain


def _inflater(kind: int) -> Any:
    return zlib.decompressobj(-15) if kind == ZLIB else bz2.BZ2Decompressor()


def _decompress(kind: int, source: memoryview, target: memoryview) -> None:
    """Fill ``target`` exactly. Raises ValueError, or the library's error."""
    if not len(target):
        raise ValueError("nothing is in it")
    if kind in (ZLIB, BZIP2):
        plain = _inflater(kind).decompress(source, len(target))
        done = len(plain)
        target[:done] = plain
    elif kind == ZSTD:
        done = cramjam.zstd.decompress_into(source, target)
    else:
        done = cramjam.lz4.decompress_block_into(source, target, output_len=len(target))
    if done != len(target):
        raise ValueError(f"{done} bytes where {len(target)} were claimed")
