"""Java hashCodes of numbers, booleans and strings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stateproc.codec.array_types import Ints, Longs
from stateproc.codec.arrow_arrays import Unencodable, booleans_of
from stateproc.codec.uuid_text import rows_of
from stateproc.errors import InvalidOption
from stateproc.keygroups import kernels
from stateproc.keygroups.kernels import as_int32, byte_rows, fields, numbers

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


def uuid_hashes(array: pa.Array) -> Ints:
    """java.util.UUID, given as text."""
    if not is_text(array.type):
        raise InvalidOption(f"UUIDs as text are expected where the column is {array.type}")
    try:
        halves = rows_of(array).view(">i8").astype(np.int64)
    except Unencodable as error:
        raise InvalidOption(f"a key is no UUID: {error.message}") from error
    return long_hashes(halves[:, 0] ^ halves[:, 1])


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
    "uuid": uuid_hashes,
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


# Java hashCodes of dates, times and windows.

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def epoch_millis_hashes(array: pa.Array) -> Ints:
    """java.util.Date, java.sql.Date, Time and Timestamp: Long hash of the epoch ms."""
    return long_hashes(_millis(array))


def instant_hashes(array: pa.Array) -> Ints:
    """java.time.Instant, from a timestamp or a struct of seconds and nanos."""
    seconds, nanos = seconds_and_nanos(array)
    return long_hashes(seconds) + as_int32(nanos * 51)


def local_date_hashes(array: pa.Array) -> Ints:
    """java.time.LocalDate, from date32."""
    if not pa.types.is_date32(array.type):
        raise _not("a date", array)
    return _date_hashes(numbers(array.view(pa.int32()), np.int64))


def local_time_hashes(array: pa.Array) -> Ints:
    """java.time.LocalTime, from time32 or time64."""
    if not pa.types.is_time(array.type):
        raise _not("a time of day", array)
    plain = array.view(pa.int32() if pa.types.is_time32(array.type) else pa.int64())
    return long_hashes(numbers(plain, np.int64) * (10**9 // _PER_SECOND[array.type.unit]))


def local_date_time_hashes(array: pa.Array) -> Ints:
    """java.time.LocalDateTime, from a timestamp or a struct of seconds and nanos."""
    seconds, nanos = seconds_and_nanos(array)
    days, second_of_day = np.divmod(seconds, 86400)
    return _date_hashes(days) ^ long_hashes(second_of_day * 10**9 + nanos)


def time_window_hashes(array: pa.Array) -> Ints:
    """TimeWindow of the DataStream API: MathUtils.longToIntWithBitMixing(start + end)."""
    start, end = (_millis(part) for part in _pair(array))
    x = (start + end).view(np.uint64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return as_int32((x ^ (x >> np.uint64(31))).view(np.int64))


def _millis(array: pa.Array) -> Longs:
    kind = array.type
    if pa.types.is_integer(kind):
        return numbers(array, np.int64)
    if pa.types.is_date64(kind):
        return numbers(array.view(pa.int64()), np.int64)
    if not pa.types.is_timestamp(kind):
        # A day or a time of day does not determine the instant that the JVM hashed.
        raise _not("a timestamp or epoch milliseconds", array)
    ticks = numbers(array.view(pa.int64()), np.int64)
    per_second = _PER_SECOND[kind.unit]
    return ticks // (per_second // 1000) if per_second >= 1000 else ticks * 1000


def seconds_and_nanos(array: pa.Array) -> tuple[Longs, Longs]:
    """Seconds since 1970 and nanoseconds of the second, of timestamps or of structs that hold them. Raises
    InvalidOption for any other column."""
    if pa.types.is_struct(array.type):
        seconds, nanos = (numbers(part, np.int64) for part in _pair(array))
        return seconds, nanos
    if not pa.types.is_timestamp(array.type):
        raise _not("a timestamp", array)
    per_second = _PER_SECOND[array.type.unit]
    seconds, ticks = np.divmod(numbers(array.view(pa.int64()), np.int64), per_second)
    return seconds, ticks * (10**9 // per_second)


def _date_hashes(days: NDArray[Any]) -> Ints:
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    years = months.astype("datetime64[Y]")
    year = years.astype(np.int64) + 1970
    month = (months - years).astype(np.int64) + 1
    day = (dates - months).astype(np.int64) + 1
    return as_int32((year & ~0x7FF) ^ ((year << 11) + (month << 6) + day))


def _pair(array: pa.Array) -> list[pa.Array]:
    parts = fields(array)
    if len(parts) != 2:
        raise _not("a struct of two fields", array)
    return parts


def _not(expected: str, array: pa.Array) -> InvalidOption:
    return InvalidOption(f"{expected} is expected where the column is {array.type}")


TIMES: dict[str, Callable[[pa.Array], Ints]] = {
    "epoch_millis": epoch_millis_hashes,
    "instant": instant_hashes,
    "local_date": local_date_hashes,
    "local_time": local_time_hashes,
    "local_date_time": local_date_time_hashes,
    "time_window": time_window_hashes,
}
