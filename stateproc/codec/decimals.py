"""Convert Java's big numbers from two's complement bytes to decimals and text, exactly."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec.array_types import Bytes, Longs
from stateproc.codec.arrow_arrays import Unencodable, bytes_of, null_rows, numbers_of, values_array

_DECIMAL_BYTES = 16
"""Bytes of a decimal128."""


def unscaled(raw: bytes) -> int:
    """java.math.BigInteger(byte[])."""
    return int.from_bytes(raw, "big", signed=True)


def decimal_text(number: int, scale: int) -> str:
    """java.math.BigDecimal.toString of unscaled value and scale."""
    digits = str(abs(number))
    sign = "-" if number < 0 else ""
    if scale == 0:
        return sign + digits
    exponent = -scale + (len(digits) - 1)
    if scale >= 0 and exponent >= -6:
        if len(digits) > scale:
            return f"{sign}{digits[:-scale]}.{digits[-scale:]}"
        return f"{sign}0.{digits.rjust(scale, '0')}"
    mantissa = digits if len(digits) == 1 else f"{digits[0]}.{digits[1:]}"
    return f"{sign}{mantissa}E{exponent:+d}" if exponent else sign + mantissa


def compact_decimals(values: pa.Array, precision: int, scale: int) -> pa.Array:
    """int64 unscaled values as decimal128(precision, scale)."""
    # An int64 and its sign-extended 128 bits differ in the upper half only.
    low = numbers_of(values.fill_null(0)).astype(np.int64, copy=False)
    wide = np.empty((len(low), 2), dtype=np.int64)
    wide[:, 0] = low
    wide[:, 1] = low >> 63
    mask = values.buffers()[0] if values.null_count else None
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(low), [mask, pa.py_buffer(wide)])


def wide_decimals(values: pa.Array, precision: int, scale: int) -> pa.Array:
    """Convert two's complement big-endian bytes of any length to decimal128(precision, scale).

    Args:
        values: A binary array; no bytes are 0.
        precision: At most 38 digits.
        scale: Digits after the point.

    Raises:
        OverflowError: A number has more digits.
    """
    data, offsets = bytes_of(values)
    null = null_rows(values)
    lengths = np.where(null, 0, np.diff(offsets))
    ends = offsets[:-1] + lengths
    words = np.zeros((len(values), _DECIMAL_BYTES), dtype=np.uint8)
    given = np.flatnonzero(lengths)
    words[given] = np.where(data[offsets[given]] > 127, 255, 0)[:, None]
    for place in range(min(_DECIMAL_BYTES, int(lengths.max(initial=0)))):
        rows = np.flatnonzero(lengths > place)
        words[rows, place] = data[ends[rows] - 1 - place]
    if _out_of_range(words, precision).any() or any(
        _is_longer(data[offsets[row] : ends[row]]) for row in np.flatnonzero(lengths > _DECIMAL_BYTES)
    ):
        raise OverflowError(f"a decimal of more than {precision} digits")
    mask = pa.py_buffer(np.packbits(~null, bitorder="little")) if values.null_count else None
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(values), [mask, pa.py_buffer(words)])


def _out_of_range(words: Bytes, precision: int) -> npt.NDArray[np.bool_]:
    """Which little-endian 128-bit numbers have more than ``precision`` digits."""
    low, high = words.view(np.uint64)[:, 0], words.view(np.int64)[:, 1]
    most, least = 10**precision, -(10**precision)
    low_bits = (1 << 64) - 1
    return np.asarray(
        (high > most >> 64)
        | ((high == most >> 64) & (low >= np.uint64(most & low_bits)))
        | (high < least >> 64)
        | ((high == least >> 64) & (low <= np.uint64(least & low_bits)))
    )


def _is_longer(raw: Bytes) -> bool:
    """Whether a number needs more than 16 bytes. Leading bytes that repeat its sign do not count."""
    sign = 255 if raw[0] > 127 else 0
    extra = raw[:-_DECIMAL_BYTES]
    return bool((extra != sign).any()) or (raw[-_DECIMAL_BYTES] > 127) != (sign == 255)


# Convert Arrow's decimals to Java's unscaled values and bytes; the inverse of codec.decimals.

_WIDTH = 16


def _halves(values: pa.Array) -> Longs:
    """decimal128 as int64 [rows, 2], the low half first."""
    end = values.offset + len(values)  # As in arrow_arrays.numbers_of.
    return np.frombuffer(values.buffers()[1] or b"", dtype=np.int64, count=2 * end).reshape(-1, 2)[values.offset :]


def unscaled_longs(values: pa.Array) -> pa.Array:
    """decimal128 of up to 18 digits as int64 unscaled values; nulls stay."""
    halves, null = _halves(values), null_rows(values)
    wide = (halves[:, 1] != halves[:, 0] >> 63) & ~null
    if wide.any():
        raise Unencodable(f"a decimal of more than {values.type.precision} digits", int(np.argmax(wide)))
    return values_array(halves[:, 0], null)


def unscaled_bytes(values: pa.Array, size: int = 0) -> pa.Array:
    """decimal128 as big-endian two's complement: as few bytes as BigInteger.toByteArray gives, or ``size`` of them."""
    n, null = len(values), null_rows(values)
    digits = np.ascontiguousarray(_halves(values)[:, ::-1]).astype(">i8").view(np.uint8).reshape(n, _WIDTH)
    fill = np.where(digits[:, :1] >= 0x80, np.uint8(0xFF), np.uint8(0))
    # A leading byte says nothing if it and the sign bit of the next one are all sign.
    idle = (digits[:, :-1] == fill) & ((digits[:, 1:] ^ fill) < 0x80)
    lead = np.cumprod(idle, axis=1).sum(axis=1)
    if size:
        if (_WIDTH - lead > size)[~null].any():
            row = int(np.argmax((_WIDTH - lead > size) & ~null))
            raise Unencodable(f"a decimal that does not fit {size} bytes", row)
        padding = np.repeat(fill, max(size - _WIDTH, 0), axis=1)
        kept = np.hstack([padding, digits])[:, -size:].ravel()
        offsets = np.arange(n + 1, dtype=np.int64) * size
    else:
        kept = digits[np.arange(_WIDTH) >= lead[:, None]]
        offsets = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(_WIDTH - lead, out=offsets[1:])
    mask = pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None
    return pa.Array.from_buffers(pa.large_binary(), n, [mask, pa.py_buffer(offsets), pa.py_buffer(kept)])


def integer_bytes(number: int) -> bytes:
    """java.math.BigInteger.toByteArray."""
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


def parts_of(text: str) -> tuple[int, int]:
    """(unscaled value, scale) of what java.math.BigDecimal.toString gives. Raises ValueError."""
    try:
        number = Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"{text!r} is no decimal number") from error
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{text!r} is no finite number")
    unscaled = int("".join(map(str, digits)))
    return (-unscaled if sign else unscaled), -exponent
