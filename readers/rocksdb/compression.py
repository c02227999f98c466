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

from stateproc.codec.allocation import uninitialized_bytes
from stateproc.codec.array_types import Longs
from stateproc.codec.jit import exported, load_le64, load_u8
from stateproc.errors import UnsupportedSnapshot, Where
from stateproc.readers.rocksdb.format import damaged
from stateproc.readers.rocksdb.snappy_blocks import decompress_snappy

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
