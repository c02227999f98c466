"""Writers of strings and byte strings."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import RowBytes, Unencodable, binary_array, bytes_of, null_rows, refuse_nulls
from stateproc.codec.encoding.kernels import put_blobs, put_varint, varint_size
from stateproc.codec.encoding.sized_writers import SizedWriter
from stateproc.codec.native.jit import (
    copy_bytes,
    exported,
    inlined,
    kernel,
    load_i64,
    load_le16,
    load_u8,
    store_8,
    store_16,
    store_64,
)
from stateproc.codec.vm.java_strings import ascii_end

# Kernels that encode UTF-8 as Java's string encodings: the inverse of stateproc.codec.vm.java_strings.
#
# UTF-8 has no lone surrogates, so none is ever written; characters outside of the BMP become two units.

NOT_UTF8 = -1


@kernel
def utf8_point(pos: int, end: int) -> tuple[int, int]:
    """The code point at ``pos``, which is not ASCII, and the position after it; NOT_UTF8 if there is none."""
    lead = np.int64(load_u8(pos))
    if lead < 0xC2 or lead > 0xF4:
        return NOT_UTF8, pos
    more = 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
    if pos + more >= end:
        return NOT_UTF8, pos
    code = lead & (0x3F >> more)
    for k in range(1, more + 1):
        byte = np.int64(load_u8(pos + k))
        if byte & 0xC0 != 0x80:
            return NOT_UTF8, pos
        code = (code << 6) | (byte & 0x3F)
    if (more == 2 and (code < 0x800 or 0xD800 <= code < 0xE000)) or (more == 3 and not 0x10000 <= code < 0x110000):
        return NOT_UTF8, pos
    return code, pos + more + 1


@exported
def measure_flink_strings(data: int, offsets: int, valid: int, bias: int, units: int, lengths: int, n: int) -> int:
    """UTF-16 units and encoded bytes of each row, as int64s; -1, or the first row that is not UTF-8.

    ``valid``: a byte per row, 0 for null; or 0 where none is. A null has -1 units, and one byte.
    """
    for i in range(n):
        if valid != 0 and load_u8(valid + i) == 0:
            store_64(units + 8 * i, -1)
            store_64(lengths + 8 * i, 1)
            continue
        pos, end = data + load_i64(offsets + 8 * i), data + load_i64(offsets + 8 * i + 8)
        start = pos
        pos = ascii_end(pos, end)
        count = pos - start
        body = count
        while pos < end:
            code, pos = utf8_point(pos, end)
            if code < 0:
                return i
            count += 2 if code >= 0x10000 else 1
            body += 6 if code >= 0x10000 else 3 if code >= 0x4000 else 2
            start = pos
            pos = ascii_end(pos, end)
            count += pos - start
            body += pos - start
        store_64(units + 8 * i, count)
        store_64(lengths + 8 * i, body + varint_size(count + bias))
    return -1


@kernel
def put_unit(target: int, unit: int) -> int:
    """One UTF-16 unit of 0x80 and more as a varint of two or three bytes; the address after it."""
    store_8(target, (unit & 0x7F) | 0x80)
    if unit < 0x4000:
        store_8(target + 1, unit >> 7)
        return target + 2
    store_8(target + 1, ((unit >> 7) & 0x7F) | 0x80)
    store_8(target + 2, unit >> 14)
    return target + 3


@exported
def put_flink_strings(data: int, offsets: int, bias: int, units: int, at: int, n: int) -> None:
    """StringValue.writeString (``bias`` 1) or StringValue.write (0) of rows that measure_fstr has measured."""
    for i in range(n):
        count = load_i64(units + 8 * i)
        target = load_i64(at + 8 * i)
        if count < 0:
            store_8(target, 0)
            store_64(at + 8 * i, target + 1)
            continue
        target = put_varint(target, count + bias)
        pos, end = data + load_i64(offsets + 8 * i), data + load_i64(offsets + 8 * i + 8)
        if end - pos == count:
            copy_bytes(target, pos, count)
            store_64(at + 8 * i, target + count)
            continue
        while pos < end:
            byte = np.int64(load_u8(pos))
            if byte < 0x80:
                store_8(target, byte)
                target += 1
                pos += 1
                continue
            code, pos = utf8_point(pos, end)
            if code >= 0x10000:
                target = put_unit(target, 0xD800 + ((code - 0x10000) >> 10))
                target = put_unit(target, 0xDC00 + ((code - 0x10000) & 0x3FF))
            else:
                target = put_unit(target, code)
        store_64(at + 8 * i, target)


@exported
def measure_modified_utf8(data: int, offsets: int, lengths: int, n: int) -> int:
    """The bytes of each row in modified UTF-8, without the length in front; -1, or the first row not UTF-8."""
    for i in range(n):
        pos, end = data + load_i64(offsets + 8 * i), data + load_i64(offsets + 8 * i + 8)
        body = 0
        while pos < end:
            byte = np.int64(load_u8(pos))
            if byte < 0x80:
                body += 2 if byte == 0 else 1
                pos += 1
                continue
            start = pos
            code, pos = utf8_point(pos, end)
            if code < 0:
                return i
            body += 6 if code >= 0x10000 else pos - start
        store_64(lengths + 8 * i, body)
    return -1


@kernel
def put_wide_unit(target: int, unit: int) -> int:
    """A UTF-16 unit in the three-byte form; the address after it."""
    store_8(target, 0xE0 | (unit >> 12))
    store_8(target + 1, 0x80 | ((unit >> 6) & 0x3F))
    store_8(target + 2, 0x80 | (unit & 0x3F))
    return target + 3


@inlined
def put_wide_point(target: int, pos: int, end: int) -> tuple[int, int]:
    """The character at ``pos``, valid and not ASCII, each of its units in UTF-8; the addresses after both."""
    lead = load_u8(pos)
    if lead < 0xF0:
        # One unit: UTF-8 as it is.
        store_16(target, load_le16(pos))
        if lead < 0xE0:
            return target + 2, pos + 2
        store_8(target + 2, load_u8(pos + 2))
        return target + 3, pos + 3
    code, pos = utf8_point(pos, end)
    target = put_wide_unit(target, 0xD800 + ((code - 0x10000) >> 10))
    return put_wide_unit(target, 0xDC00 + ((code - 0x10000) & 0x3FF)), pos


@exported
def put_modified_utf8(data: int, offsets: int, lengths: int, at: int, n: int) -> None:
    """DataOutput.writeUTF of rows that measure_mutf has measured (``lengths``, below 65536)."""
    for i in range(n):
        pos, end = data + load_i64(offsets + 8 * i), data + load_i64(offsets + 8 * i + 8)
        target = load_i64(at + 8 * i)
        size = load_i64(lengths + 8 * i)
        store_8(target, size >> 8)
        store_8(target + 1, size & 0xFF)
        target += 2
        while pos < end:
            byte = np.int64(load_u8(pos))
            if byte == 0:
                store_16(target, 0x80C0)
                target += 2
                pos += 1
            elif byte < 0x80:
                store_8(target, byte)
                target += 1
                pos += 1
            else:
                target, pos = put_wide_point(target, pos, end)
        store_64(at + 8 * i, target)


_UTF_LIMIT = 65_535


def flink_strings(array: pa.Array, bias: int) -> SizedWriter:
    """StringValue.writeString (``bias`` 1, which has nulls) or StringValue.write (0)."""
    if not bias:
        refuse_nulls(array, "a StringValue")
    array = binary_array(array, text=True)
    data, offsets = bytes_of(array)
    valid = np.logical_not(null_rows(array)) if array.null_count else None
    n = len(array)
    units, lengths = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    mask = 0 if valid is None else valid.ctypes.data
    wrong = measure_flink_strings(
        data.ctypes.data, offsets.ctypes.data, mask, bias, units.ctypes.data, lengths.ctypes.data, n
    )
    _check_utf8(wrong)

    def write(at: Longs) -> None:
        put_flink_strings(data.ctypes.data, offsets.ctypes.data, bias, units.ctypes.data, at.ctypes.data, n)

    return SizedWriter(lengths, write)


def java_utf(array: pa.Array) -> SizedWriter:
    """DataOutput.writeUTF."""
    refuse_nulls(array, "writeUTF")
    array = binary_array(array, text=True)
    data, offsets = bytes_of(array)
    n = len(array)
    lengths = np.empty(n, dtype=np.int64)
    _check_utf8(measure_modified_utf8(data.ctypes.data, offsets.ctypes.data, lengths.ctypes.data, n))
    if n and lengths.max() > _UTF_LIMIT:
        row = int(np.argmax(lengths > _UTF_LIMIT))
        raise Unencodable(f"a string of {lengths[row]} bytes, where writeUTF takes {_UTF_LIMIT}", row)

    def write(at: Longs) -> None:
        put_modified_utf8(data.ctypes.data, offsets.ctypes.data, lengths.ctypes.data, at.ctypes.data, n)

    return SizedWriter(lengths + 2, write)


def _check_utf8(row: int) -> None:
    if row >= 0:
        raise Unencodable("a string that is not UTF-8", row)


def blobs(array: pa.Array, text: bool = False) -> SizedWriter:
    """The bytes alone, without a length."""
    refuse_nulls(array, "a byte string")
    data, offsets = bytes_of(binary_array(array, text))
    return blob_bytes(data, offsets)


def row_bytes_writer(these: RowBytes) -> SizedWriter:
    """Write bytes that are encoded already."""
    return blob_bytes(these.data, these.offsets)


def blob_bytes(data: np.ndarray[tuple[int], np.dtype[np.uint8]], offsets: Longs) -> SizedWriter:
    """Row i: data[offsets[i]:offsets[i + 1]]."""
    lengths: Longs = np.diff(offsets)
    n = len(lengths)
    return SizedWriter(lengths, lambda at: put_blobs(data.ctypes.data, offsets.ctypes.data, at.ctypes.data, n))
