"""Build bloom filters of tables, in the format that every RocksDB reads (util/bloom_impl.h, LegacyLocalityBloomImpl).

A filter is an odd number of cache lines of 64 bytes; a key's hash chooses the line and the bits in it. They are
followed by the number of probes (one byte) and the number of lines (u32).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stateproc.codec.array_types import Ints, Longs, Words
from stateproc.codec.native.jit import exported, kernel, load_le32, load_u8, store_8

FILTER_POLICY = "rocksdb.BuiltinBloomFilter"
_LINE = 64
_SEED, _M = 0xBC9F1D34, 0xC6A4A793
_MASK = 0xFFFFFFFF


@kernel
def _hash(data: int, n: int) -> int:
    """BloomHash in util/hash.h: 32 bits; the bytes after the last whole word count with their signs."""
    h = _SEED ^ ((n * _M) & _MASK)
    at, stop = data, data + n
    while at + 4 <= stop:
        h = (((h + load_le32(at)) & _MASK) * _M) & _MASK
        h ^= h >> 16
        at += 4
    left = stop - at
    if left > 0:
        for k in range(left):
            byte = np.int64(load_u8(at + k))
            h = (h + ((byte - 256 if byte > 127 else byte) << (8 * k))) & _MASK
        h = (h * _M) & _MASK
        h ^= h >> 24
    return h


@exported
def hash_keys(
    first: int, last: int, groups: Ints, keys: int, key_offsets: Longs, prefix: int, buffer: int, out: Words
) -> None:
    """Hash the keys of rows ``first`` to ``last`` with their prefixes; ``buffer`` holds the longest of them."""
    for row in range(first, last):
        group = np.int64(groups[row])
        size = key_offsets[row + 1] - key_offsets[row]
        for k in range(prefix):
            store_8(buffer + k, (group >> (8 * (prefix - 1 - k))) & 0xFF)
        for k in range(size):
            store_8(buffer + prefix + k, np.int64(load_u8(keys + key_offsets[row] + k)))
        out[row - first] = _hash(buffer, size + prefix)


@exported
def _set_bits(hashes: Words, lines: int, probes: int, bits: int) -> None:
    for k in range(len(hashes)):
        h = np.int64(hashes[k])
        line = bits + (h % lines) * _LINE
        delta = ((h >> 17) | (h << 15)) & _MASK
        for _ in range(probes):
            bit = h & (8 * _LINE - 1)
            at = line + (bit >> 3)
            store_8(at, np.int64(load_u8(at)) | (1 << (bit & 7)))
            h = (h + delta) & _MASK


def bloom_filter(hashes: npt.NDArray[np.uint32], bits_per_key: float) -> bytes:
    """Return a filter of the keys with these hashes."""
    lines = -(-int(len(hashes) * bits_per_key) // (8 * _LINE)) or 1
    lines += 1 - lines % 2
    probes = min(30, max(1, int(bits_per_key * 0.69)))
    bits = np.zeros(lines * _LINE, dtype=np.uint8)
    _set_bits(hashes, lines, probes, bits.ctypes.data)
    return bits.tobytes() + bytes([probes]) + lines.to_bytes(4, "little")
