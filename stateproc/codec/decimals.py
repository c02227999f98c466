"""Convert Java's big numbers from two's complement bytes to decimals and text, exactly."""

from __future__ import annotations

from decimal import Context, Decimal

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import numbers_of

_EXACT = Context(prec=100)


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
    """Two's complement big-endian bytes as decimal128(precision, scale). Raises OverflowError."""
    out: list[Decimal | None] = []
    for raw in values.to_pylist():
        if raw is None:
            out.append(None)
            continue
        number = unscaled(raw)
        if abs(number) >= 10**precision:
            raise OverflowError(f"a decimal of more than {precision} digits")
        out.append(Decimal(number).scaleb(-scale, _EXACT))
    return pa.array(out, type=pa.decimal128(precision, scale))
