"""Convert UUIDs between their 16 bytes and their text, a column at a time.

The text is what java.util.UUID.toString writes: 32 hexadecimal digits, most significant byte first, in groups of 8, 4,
4, 4 and 12 with dashes between them.
"""

from __future__ import annotations

from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec.arrow_arrays import null_rows, row_bytes_of, with_nulls
from stateproc.codec.errors import BadValue
from stateproc.codec.temporal import by_distinct, nulls

SIZE = 16
_LENGTH = 36
_DASH = ord("-")
_DASHES = np.array([8, 13, 18, 23])
_DIGITS = np.delete(np.arange(_LENGTH), _DASHES)
_DIGIT = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_NO_DIGIT = 255
_VALUE = np.full(256, _NO_DIGIT, dtype=np.uint8)
_VALUE[_DIGIT] = np.arange(16)
_VALUE[np.frombuffer(b"ABCDEF", dtype=np.uint8)] = np.arange(10, 16)

UuidBytes = npt.NDArray[np.uint8]
"""The bytes of UUIDs: [rows, 16], contiguous."""


def uuid_texts(raws: pa.Array) -> pa.Array:
    """Convert a column of 16 bytes each to text. Raises BadValue for another length."""
    return texts_of(_rows_of(raws), nulls(raws))


def uuid_bytes(texts: pa.Array) -> pa.Array:
    """Convert text to a column of 16 bytes each. Raises Unencodable for text that is no UUID."""
    return with_nulls(_fixed(rows_of(texts)).cast(pa.binary()), nulls(texts))


def texts_of(rows: UuidBytes, null: npt.NDArray[np.bool_]) -> pa.Array:
    """Return UUIDs as text; null: [rows]."""
    texts = np.full((len(rows), _LENGTH), _DASH, dtype=np.uint8)
    texts[:, _DIGITS[0::2]] = _DIGIT[rows >> 4]
    texts[:, _DIGITS[1::2]] = _DIGIT[rows & 15]
    return with_nulls(_fixed(texts).cast(pa.string()), null)


def rows_of(texts: pa.Array) -> UuidBytes:
    """Return the bytes of UUIDs given as text, zeros at nulls. Raises Unencodable for text that is no UUID."""
    pieces = row_bytes_of(texts.drop_null())
    if (pieces.lengths == _LENGTH).all():
        characters = pieces.data[pieces.offsets[0] : pieces.offsets[-1]].reshape(-1, _LENGTH)
        digits = _VALUE[characters[:, _DIGITS]]
        if (digits != _NO_DIGIT).all() and (characters[:, _DASHES] == _DASH).all():
            return _spread(np.ascontiguousarray(digits[:, 0::2] << 4 | digits[:, 1::2], dtype=np.uint8), texts)
    # Other spellings: without dashes, in braces.
    return _rows_of(by_distinct(texts, lambda text: UUID(text).bytes, pa.binary()))


def _rows_of(raws: pa.Array) -> UuidBytes:
    pieces = row_bytes_of(raws.drop_null())
    wrong = pieces.lengths[pieces.lengths != SIZE]
    if len(wrong):
        raise BadValue(f"a UUID of {wrong[0]} bytes")
    return _spread(pieces.data[pieces.offsets[0] : pieces.offsets[-1]].reshape(-1, SIZE), raws)


def _spread(rows: UuidBytes, array: pa.Array) -> UuidBytes:
    """Return rows of all values of a column, given those that are not null."""
    if not array.null_count:
        return rows
    found = np.zeros((len(array), SIZE), dtype=np.uint8)
    found[~null_rows(array)] = rows
    return found


def _fixed(rows: UuidBytes) -> pa.FixedSizeBinaryArray:
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(rows.shape[1]), len(rows), [None, pa.py_buffer(rows)])
