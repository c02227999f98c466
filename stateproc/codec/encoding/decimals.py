"""Convert Arrow's decimals to Java's unscaled values and bytes; the inverse of codec.decimals."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

import numpy as np
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import null_rows, values_array
from stateproc.codec.byte_arrays import Unencodable

_WIDTH = 16


def _halves(values: pa.Array) -> Longs:
    """decimal128 as int64 [rows, 2], the low half first."""
    raw = np.frombuffer(values.buffers()[1] or b"", dtype=np.int64).reshape(-1, 2)
    return raw[values.offset : values.offset + len(values)]


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
