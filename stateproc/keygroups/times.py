"""Java hashCodes of dates, times and windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stateproc.codec.array_types import Ints, Longs
from stateproc.errors import InvalidOption
from stateproc.keygroups.buffers import as_int32, fields, numbers
from stateproc.keygroups.scalars import long_hashes

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
