"""Numba intrinsics of kernels, written with llvmlite: loads, stores and bit casts."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from stateproc.codec.native import jit
from stateproc.codec.native.jit import inlined, kernel

_BYTES = bytes(range(0xF0, 0xFC))


@pytest.mark.parametrize(
    ("load", "layout"),
    [
        ("load_u8", "<B"), ("load_i32", "<i"), ("load_i64", "<q"), ("load_be16", ">H"), ("load_be32", ">I"),
        ("load_be64", ">Q"), ("load_le16", "<H"), ("load_le32", "<I"), ("load_le64", "<Q"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("offset", range(3))
def test_loads_equal_those_of_struct_at_any_alignment(load: str, layout: str, offset: int) -> None:
    assert _load(load)(_data().ctypes.data + offset) == struct.unpack_from(layout, _BYTES, offset)[0]


@pytest.mark.parametrize(("bits", "layout"), [(8, "<B"), (16, "<H"), (32, "<I"), (64, "<Q")])
@pytest.mark.parametrize("offset", range(3))
def test_stores_write_only_the_low_bits(bits: int, layout: str, offset: int) -> None:
    target = np.full(12, 0xAA, dtype=np.uint8)
    _store(bits)(target.ctypes.data + offset, -2)
    expected = bytearray(b"\xaa" * 12)
    struct.pack_into(layout, expected, offset, (1 << bits) - 2)
    assert target.tobytes() == bytes(expected)


def test_bits_are_cast_to_floats() -> None:
    assert float_of(0x3FC00000) == 1.5
    assert double_of(0x3FF8000000000000) == 1.5
    assert np.isnan(double_of(0x7FF8000000000000))


def test_a_kernel_is_inlined_into_its_caller() -> None:
    """``forceinline`` is an option of numba.njit: a release without it would refuse the kernel."""
    assert calls_inlined(20) == 42


def _data() -> Any:
    return np.frombuffer(_BYTES, dtype=np.uint8)


def _load(name: str) -> Any:
    return {
        "load_u8": load_u8, "load_i32": load_i32, "load_i64": load_i64, "load_be16": load_be16,
        "load_be32": load_be32, "load_be64": load_be64, "load_le16": load_le16, "load_le32": load_le32,
        "load_le64": load_le64,
    }[name]  # fmt: skip


def _store(bits: int) -> Any:
    return {8: store_8, 16: store_16, 32: store_32, 64: store_64}[bits]


@kernel
def load_u8(at: int) -> Any:
    return jit.load_u8(at)


@kernel
def load_i32(at: int) -> Any:
    return jit.load_i32(at)


@kernel
def load_i64(at: int) -> Any:
    return jit.load_i64(at)


@kernel
def load_be16(at: int) -> Any:
    return jit.load_be16(at)


@kernel
def load_be32(at: int) -> Any:
    return jit.load_be32(at)


@kernel
def load_be64(at: int) -> Any:
    return jit.load_be64(at)


@kernel
def load_le16(at: int) -> Any:
    return jit.load_le16(at)


@kernel
def load_le32(at: int) -> Any:
    return jit.load_le32(at)


@kernel
def load_le64(at: int) -> Any:
    return jit.load_le64(at)


@kernel
def store_8(at: int, value: int) -> None:
    jit.store_8(at, value)


@kernel
def store_16(at: int, value: int) -> None:
    jit.store_16(at, value)


@kernel
def store_32(at: int, value: int) -> None:
    jit.store_32(at, value)


@kernel
def store_64(at: int, value: int) -> None:
    jit.store_64(at, value)


@kernel
def float_of(bits: int) -> Any:
    return jit.float_of(bits)


@kernel
def double_of(bits: int) -> Any:
    return jit.double_of(bits)


@inlined
def _doubled(n: int) -> int:
    return 2 * n


@kernel
def calls_inlined(n: int) -> int:
    return _doubled(n) + 2
