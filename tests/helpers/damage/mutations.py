"""Random damage: each mutation is a pure function of the bytes and a random generator."""

from __future__ import annotations

import random
from collections.abc import Callable

Mutation = Callable[[random.Random, bytearray], None]

_EXTREMES = (
    b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\x00\x00\x00\x00", b"\x00\x0f\xff\xff",
    b"\xff\xff", b"\x7f\xff", b"\x80\x00", b"\xff\xff\xff\xff\xff\xff\xff\xff", b"\x7f" + b"\xff" * 7,
    b"\x80" + b"\x00" * 7, b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
)  # fmt: skip
"""Big-endian lengths and counts at their limits, and the longest varints."""


def _flip_bit(rng: random.Random, data: bytearray) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _overwrite_byte(rng: random.Random, data: bytearray) -> None:
    data[rng.randrange(len(data))] = rng.choice((0, 1, 2, 0x2C, 0x7F, 0x80, 0xFF, rng.randrange(256)))


def _overwrite_run(rng: random.Random, data: bytearray) -> None:
    start, stop = _block(rng, data)
    data[start:stop] = rng.randbytes(stop - start)


def _delete(rng: random.Random, data: bytearray) -> None:
    start, stop = _block(rng, data)
    del data[start:stop]


def _insert(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.randbytes(rng.choice((1, 2, 4, 8, 30)))


def _duplicate(rng: random.Random, data: bytearray) -> None:
    start, stop = _block(rng, data)
    data[stop:stop] = data[start:stop]


def _extreme(rng: random.Random, data: bytearray) -> None:
    value = rng.choice(_EXTREMES)
    value = value[::-1] if rng.random() < 0.2 else value
    at = rng.randrange(len(data))
    value = value[: len(data) - at]
    data[at : at + len(value)] = value


def _count(rng: random.Random, data: bytearray) -> None:
    """A small number a little larger or smaller, as a length field's last byte."""
    at = rng.randrange(len(data))
    data[at] = (data[at] + rng.choice((-2, -1, 1, 2, 16))) & 0xFF


def _swap(rng: random.Random, data: bytearray) -> None:
    """Two regions of the same length change places."""
    length = min(rng.choice((1, 2, 4, 8, 16, 64)), len(data) // 2)
    if length == 0:
        return
    first = rng.randrange(len(data) - 2 * length + 1)
    second = rng.randrange(first + length, len(data) - length + 1)
    one, other = data[first : first + length], data[second : second + length]
    data[first : first + length], data[second : second + length] = other, one


def _block(rng: random.Random, data: bytearray) -> tuple[int, int]:
    start = rng.randrange(len(data))
    return start, min(len(data), start + rng.choice((1, 2, 4, 8, 16, 64, 300)))


SAME_LENGTH: tuple[Mutation, ...] = (
    _flip_bit, _flip_bit, _overwrite_byte, _overwrite_run, _extreme, _extreme, _count, _swap,
)  # fmt: skip
"""Damage a file without changing its length."""
MUTATIONS: tuple[Mutation, ...] = (*SAME_LENGTH, _delete, _insert, _duplicate)


def mutated(seed: int, data: bytes, *, first: int = 0, kinds: tuple[Mutation, ...] = MUTATIONS) -> bytes:
    """``data`` with one to three mutations after the byte ``first``; the same for the same seed."""
    rng = random.Random(seed)
    part = bytearray(data[first:])
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if part:
            rng.choice(kinds)(rng, part)
    return data[:first] + bytes(part)
