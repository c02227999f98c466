"""Java hashCodes of numbers, booleans and strings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stateproc.codec.array_types import Ints
from stateproc.codec.arrow_arrays import booleans_of
from stateproc.errors import InvalidOption
from stateproc.keygroups import kernels
from stateproc.keygroups.buffers import as_int32, byte_rows, numbers

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,10})?")


def long_hashes(values: NDArray[np.int64]) -> Ints:
    """Long.hashCode of each value."""
    return as_int32(values ^ (values.view(np.uint64) >> np.uint64(32)).view(np.int64))


def int_hashes(array: pa.Array) -> Ints:
    """Integer, Short, Byte and Character hash to their value; a Character may be a string of one unit."""
    if is_text(array.type):
        return string_hashes(array)
    return as_int32(numbers(array, np.int64))


def boolean_hashes(array: pa.Array) -> Ints:
    codes: Ints = np.where(_truths(array), np.int32(1231), np.int32(1237))
    return codes


def boolean_value_hashes(array: pa.Array) -> Ints:
    """org.apache.flink.types.BooleanValue."""
    return _truths(array).astype(np.int32)


def float_hashes(array: pa.Array) -> Ints:
    values = numbers(array, np.float32)
    bits: Ints = values.view(np.int32).copy()
    bits[np.isnan(values)] = 0x7FC00000
    return bits


def double_hashes(array: pa.Array) -> Ints:
    values = numbers(array, np.float64)
    bits = values.view(np.int64).copy()
    bits[np.isnan(values)] = 0x7FF8000000000000
    return long_hashes(bits)


def string_hashes(array: pa.Array) -> Ints:
    """String and org.apache.flink.types.StringValue."""
    if not is_text(array.type):
        raise InvalidOption(f"strings are expected where the column is {array.type}")
    return run(kernels.utf16_hashes, array)


def string_data_hashes(array: pa.Array) -> Ints:
    """BinaryStringData: murmur3 of the UTF-8 bytes."""
    return run(kernels.murmur3_hashes, array)


def binary_row_hash(rows: pa.Array | Iterable[bytes]) -> Ints:
    """BinaryRowData.hashCode of rows given as their content bytes, without the length before them."""
    array = rows if isinstance(rows, pa.Array) else pa.array(rows, pa.large_binary())
    return run(kernels.murmur3_hashes, array)


def byte_array_hashes(array: pa.Array) -> Ints:
    """Arrays.hashCode of byte[] given as binary."""
    offsets, data = byte_rows(array)
    out = np.empty(len(array), np.int32)
    kernels.polynomial_hashes(offsets, data.view(np.int8).astype(np.int32), out)
    return out


def run(hashes: Callable[..., None], array: pa.Array) -> Ints:
    """A kernel over the rows of a string or binary array."""
    offsets, data = byte_rows(array)
    out = np.empty(len(array), np.int32)
    hashes(offsets, data, out)
    return out


def big_integer_hashes(array: pa.Array) -> Ints:
    """BigInteger from decimal strings, integers or decimals of scale 0."""
    return _each(array, lambda text: big_integer_hash(_integer(text)))


def big_decimal_hashes(array: pa.Array) -> Ints:
    """BigDecimal from strings or decimals; the scale counts: 1.5 and 1.50 differ, in Java too."""
    return _each(array, big_decimal_hash)


def big_integer_hash(value: int) -> int:
    """BigInteger.hashCode: 31-polynomial over the 32-bit words of the magnitude, times the sign."""
    magnitude, h = abs(value), 0
    for word in range((magnitude.bit_length() + 31) // 32 - 1, -1, -1):
        h = (31 * h + (magnitude >> 32 * word & 0xFFFFFFFF)) & 0xFFFFFFFF
    return signed(h if value >= 0 else -h)


def big_decimal_hash(text: str) -> int:
    """Compute BigDecimal.hashCode from its toString form."""
    if not _DECIMAL.fullmatch(text):
        raise InvalidOption(f"'{text[:40]}' is not a decimal number")
    sign, digits, exponent = Decimal(text).as_tuple()
    unscaled, scale = int(Decimal((sign, digits, 0))), -int(exponent)
    magnitude = abs(unscaled)
    if magnitude < 1 << 63:
        h = 31 * (magnitude >> 32) + (magnitude & 0xFFFFFFFF)
        return signed(31 * (h if unscaled >= 0 else -h) + scale)
    return signed(31 * big_integer_hash(unscaled) + scale)


def signed(value: int) -> int:
    """The low 32 bits as Java's int."""
    return ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise InvalidOption(f"'{text[:40]}' is not an integer")
    return int(Decimal(text))


def _each(array: pa.Array, hash_of: Callable[[str], int]) -> Ints:
    values = array.to_pylist()
    return np.fromiter((0 if v is None else hash_of(str(v)) for v in values), np.int32, len(values))


def _truths(array: pa.Array) -> NDArray[np.bool_]:
    if not pa.types.is_boolean(array.type):
        raise InvalidOption(f"booleans are expected where the column is {array.type}")
    return booleans_of(array.fill_null(False)).view(np.bool_)


def long_value_hashes(array: pa.Array) -> Ints:
    """org.apache.flink.types.LongValue."""
    codes: Ints = long_hashes(numbers(array, np.int64)) + np.int32(43)
    return codes


def double_value_hashes(array: pa.Array) -> Ints:
    """org.apache.flink.types.DoubleValue."""
    codes: Ints = double_hashes(array) + np.int32(31)
    return codes


SCALARS: dict[str, Callable[[pa.Array], Ints]] = {
    "int": int_hashes,
    "short": int_hashes,
    "byte": int_hashes,
    "char": int_hashes,
    "long": lambda array: long_hashes(numbers(array, np.int64)),
    "boolean": boolean_hashes,
    "float": float_hashes,
    "double": double_hashes,
    "string": string_hashes,
    "big_integer": big_integer_hashes,
    "big_decimal": big_decimal_hashes,
    "string_data": string_data_hashes,
    "binary_row": binary_row_hash,
    # org.apache.flink.types
    "int_value": int_hashes,
    "short_value": int_hashes,
    "byte_value": int_hashes,
    "char_value": int_hashes,
    "long_value": long_value_hashes,
    "boolean_value": boolean_value_hashes,
    "float_value": float_hashes,
    "double_value": double_value_hashes,
    "string_value": string_hashes,
}
"""Kinds without children: Java class (or Flink's own) → hash codes of a column; any value at nulls."""
