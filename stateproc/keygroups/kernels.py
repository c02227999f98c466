"""Hash kernels over Arrow buffers: Java's 31-polynomials and Flink's murmur3_32.

Invariant: offsets ascend and end within ``data``; `stateproc.keygroups.kernels` checks that before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stateproc.codec.array_types import Bytes, Ints, Longs
from stateproc.codec.arrow_arrays import numbers_of, offsets_of
from stateproc.codec.native.jit import exported
from stateproc.errors import CorruptSnapshot, InvalidOption


@exported
def utf16_hashes(offsets: Longs, data: Bytes, out: Ints) -> None:
    """String.hashCode of UTF-8 strings: the polynomial over the UTF-16 units they have in Java."""
    for row in range(out.size):
        at, end = offsets[row], offsets[row + 1]
        h = np.uint32(0)
        while at < end:
            lead = np.uint32(data[at])
            # A lead byte whose tail is cut off counts as one unit, so nothing is read past the row.
            if lead < 0xC0 or (lead < 0xE0 and at + 2 > end) or (0xE0 <= lead < 0xF0 and at + 3 > end):
                unit = lead
                at += 1
            elif lead < 0xE0:
                unit = ((lead & np.uint32(0x1F)) << np.uint32(6)) | (np.uint32(data[at + 1]) & np.uint32(0x3F))
                at += 2
            elif lead < 0xF0:
                unit = (
                    ((lead & np.uint32(0x0F)) << np.uint32(12))
                    | ((np.uint32(data[at + 1]) & np.uint32(0x3F)) << np.uint32(6))
                    | (np.uint32(data[at + 2]) & np.uint32(0x3F))
                )
                at += 3
            elif at + 4 > end:
                unit = lead
                at += 1
            else:
                point = (
                    ((lead & np.uint32(0x07)) << np.uint32(18))
                    | ((np.uint32(data[at + 1]) & np.uint32(0x3F)) << np.uint32(12))
                    | ((np.uint32(data[at + 2]) & np.uint32(0x3F)) << np.uint32(6))
                    | (np.uint32(data[at + 3]) & np.uint32(0x3F))
                )
                # In 32 bits, also where bytes that are no UTF-8 make a smaller number.
                point = np.uint32(point - np.uint32(0x10000))
                h = np.uint32(h * np.uint32(31)) + (np.uint32(0xD800) | (point >> np.uint32(10)))
                unit = np.uint32(0xDC00) | (point & np.uint32(0x3FF))
                at += 4
            h = np.uint32(np.uint32(h * np.uint32(31)) + unit)
        out[row] = np.int32(h)


@exported
def polynomial_hashes(offsets: Longs, elements: Ints, out: Ints) -> None:
    """Arrays.hashCode / List.hashCode: 31 * h + element, from 1, per row of elements."""
    for row in range(out.size):
        h = np.uint32(1)
        for at in range(offsets[row], offsets[row + 1]):
            h = np.uint32(np.uint32(h * np.uint32(31)) + np.uint32(elements[at]))
        out[row] = np.int32(h)


@exported
def sums(offsets: Longs, elements: Ints, out: Ints) -> None:
    """Wrapping int sum of each row's elements."""
    for row in range(out.size):
        h = np.uint32(0)
        for at in range(offsets[row], offsets[row + 1]):
            h = np.uint32(h + np.uint32(elements[at]))
        out[row] = np.int32(h)


@exported
def murmur3_hashes(offsets: Longs, data: Bytes, out: Ints) -> None:
    """MurmurHashUtils.hashBytes, seed 42: little-endian words, then each byte left over as a word."""
    for row in range(out.size):
        at, end = offsets[row], offsets[row + 1]
        length = end - at
        h = np.uint32(42)
        while at < end:
            if end - at >= 4:
                k = (
                    np.uint32(data[at])
                    | (np.uint32(data[at + 1]) << np.uint32(8))
                    | (np.uint32(data[at + 2]) << np.uint32(16))
                    | (np.uint32(data[at + 3]) << np.uint32(24))
                )
                at += 4
            else:
                k = np.uint32(np.int8(data[at]))
                at += 1
            k = np.uint32(k * np.uint32(0xCC9E2D51))
            k = np.uint32((k << np.uint32(15)) | (k >> np.uint32(17)))
            k = np.uint32(k * np.uint32(0x1B873593))
            h = np.uint32(h ^ k)
            h = np.uint32((h << np.uint32(13)) | (h >> np.uint32(19)))
            h = np.uint32(np.uint32(h * np.uint32(5)) + np.uint32(0xE6546B64))
        h = np.uint32(h ^ np.uint32(length))
        h = np.uint32(np.uint32(h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B))
        h = np.uint32(np.uint32(h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35))
        out[row] = np.int32(h ^ (h >> np.uint32(16)))


# From Arrow arrays to the numpy buffers that the hash kernels read; offsets are checked here.


def numbers(array: pa.Array, dtype: type[np.generic]) -> NDArray[Any]:
    """A numeric array as numpy, nulls as 0. Raises InvalidOption for any other column."""
    if not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        raise InvalidOption(f"a number is expected where the column is {array.type}")
    filled = array.fill_null(0) if array.null_count else array
    return np.ascontiguousarray(numbers_of(filled), dtype=dtype)


def byte_rows(array: pa.Array) -> tuple[Longs, NDArray[np.uint8]]:
    """Offsets and bytes of a string or binary array. Raises InvalidOption for any other column."""
    text = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
    if not (text or pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type)):
        raise InvalidOption(f"text or bytes are expected where the column is {array.type}")
    flat = array.cast(pa.large_string() if text else pa.large_binary())
    buffers = flat.buffers()
    data = np.frombuffer(buffers[2], np.uint8) if buffers[2] is not None else np.empty(0, np.uint8)
    return _checked(_offsets(buffers[1], flat), len(data)), data


def list_rows(array: pa.Array) -> tuple[Longs, pa.Array]:
    """Offsets and elements of a list or map array; a map's elements are structs of key and value."""
    kind = array.type
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind):
        array = array.cast(pa.large_list(kind.value_field))
    elif pa.types.is_map(kind):
        entries = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
        return _checked(offsets_of(array), len(entries)), entries
    elif not pa.types.is_large_list(kind):
        raise InvalidOption(f"a list of values is expected where the column is {kind}")
    values = array.values
    return _checked(offsets_of(array), len(values)), values


def fields(array: pa.Array) -> list[pa.Array]:
    """The columns of a struct array."""
    if not pa.types.is_struct(array.type):
        raise InvalidOption(f"a struct is expected where the column is {array.type}")
    return [array.field(i) for i in range(array.type.num_fields)]


def _offsets(buffer: pa.Buffer | None, array: pa.Array) -> Longs:
    if buffer is None:
        return np.zeros(1, np.int64)
    return np.frombuffer(buffer, np.int64)[array.offset : array.offset + len(array) + 1]


def _checked(offsets: Longs, size: int) -> Longs:
    if len(offsets) and (offsets[0] < 0 or offsets[-1] > size or bool((np.diff(offsets) < 0).any())):
        raise CorruptSnapshot("offsets of a column do not ascend, or leave its data")
    return offsets


def as_int32(wide: NDArray[Any]) -> Ints:
    """The low 32 bits, as Java's (int) cast."""
    low: Ints = (wide.astype(np.int64, copy=False) & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    return low
