"""Snappy blocks by our kernel: equal to the library's result for sound blocks, refused where the library refuses."""

from __future__ import annotations

import random

import cramjam
import numpy as np
import pytest

from stateproc.readers.rocksdb.compression import decompress_snappy

SIZES = (1, 2, 3, 7, 8, 9, 60, 61, 64, 65, 300, 4096, 70_000)


def some_block(numbers: random.Random, size: int) -> bytes:
    """Return bytes without repetition, with a short period (copies that overlap), or like the entries of a state."""
    kind = numbers.randrange(3)
    if kind == 0:
        return numbers.randbytes(size)
    if kind == 1:
        return (bytes(numbers.randrange(4) for _ in range(numbers.randrange(1, 40))) * size)[:size]
    return b"".join(b"customer-%011d\0\0%d" % (n, numbers.randrange(9)) for n in range(size // 20 + 1))[:size]


def decompressed(stored: list[bytes], sizes: list[int], compressed: list[bool] | None = None) -> tuple[int, bytes]:
    """Return the kernel's outcome and the plain bytes; nothing after them may be written."""
    raw = np.frombuffer(b"".join(stored), dtype=np.uint8)
    ends = np.cumsum([len(item) for item in stored], dtype=np.int64)
    begins = ends - np.array([len(item) for item in stored], dtype=np.int64)
    highs = np.cumsum(sizes, dtype=np.int64)
    lows = highs - np.array(sizes, dtype=np.int64)
    plain = np.full(int(highs[-1]) + 64, 0xEE, dtype=np.uint8)
    flags = np.array(compressed or [True] * len(stored))
    bad = decompress_snappy(raw.ctypes.data, flags, begins, ends, plain.ctypes.data, lows, highs)
    assert (plain[int(highs[-1]) :] == 0xEE).all()
    return bad, plain[: int(highs[-1])].tobytes()


def test_sound_blocks() -> None:
    numbers = random.Random(1)
    blocks = [some_block(numbers, size) for size in SIZES for _ in range(20)]
    compressed = [numbers.random() < 0.9 for _ in blocks]
    stored = [
        bytes(cramjam.snappy.compress_raw(block)) if is_compressed else block
        for block, is_compressed in zip(blocks, compressed, strict=True)
    ]
    assert decompressed(stored, [len(block) for block in blocks], compressed) == (-1, b"".join(blocks))


def test_damaged_blocks_are_refused_where_the_library_refuses_them() -> None:
    numbers = random.Random(2)
    refused = 0
    for _ in range(3000):
        block = some_block(numbers, numbers.choice(SIZES[:-1]))
        stored = bytearray(cramjam.snappy.compress_raw(block))
        head = next(index for index, byte in enumerate(stored) if byte < 0x80) + 1
        stored[numbers.randrange(head, len(stored))] ^= 1 << numbers.randrange(8)
        if numbers.random() < 0.3:
            stored = stored[: numbers.randrange(head, len(stored) + 1)]
        bad, plain = decompressed([bytes(stored)], [len(block)])
        expected = bytearray(len(block))
        try:
            sound = cramjam.snappy.decompress_raw_into(bytes(stored), expected) == len(block)
        except cramjam.DecompressionError:
            sound = False
        assert (bad == -1) == sound
        assert plain == bytes(expected) or not sound
        refused += not sound
    assert refused > 500


@pytest.mark.parametrize(
    "stored",
    [
        b"\x05",  # nothing follows the size
        b"\x05\xf0",  # a literal without its length
        b"\x05\xfc\xff\xff\xff\xff",  # a literal of 4 GiB
        b"\x05\x10abcde\x00x",  # more than the size
        b"\x05\x00a\x01\x00",  # a copy from distance 0
        b"\x05\x00a\x01\x02",  # a copy from before the block
        b"\x05\x00a\x02\x01",  # a copy whose distance is cut off
        b"\x05\x00a\xff\xff\xff\xff\xff",  # a copy from 4 GiB before
    ],
)
def test_impossible_elements(stored: bytes) -> None:
    assert decompressed([stored], [5])[0] == 0


def test_the_first_damaged_block_is_named() -> None:
    good = bytes(cramjam.snappy.compress_raw(b"hello"))
    assert decompressed([good, good, b"\x05\xf0", b"\x05"], [5, 5, 5, 5])[0] == 2
    assert decompressed([good, b"hell"], [5, 5], [True, False])[0] == 1
