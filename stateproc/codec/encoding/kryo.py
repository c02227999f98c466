"""Kernels that write strings and varints as com.esotericsoftware.kryo.io.Output does."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import Unencodable, binary_array, bytes_of, refuse_nulls
from stateproc.codec.encoding.kernels import put_varint
from stateproc.codec.encoding.sized_writers import SizedWriter
from stateproc.codec.encoding.strings import NOT_UTF8, put_wide_point, utf8_point
from stateproc.codec.native.jit import copy_bytes, exported, kernel, load_i64, load_u8, store_8, store_64
from stateproc.codec.vm.java_strings import ascii_end

_LAST = 8  # a long's ninth byte has no mark, and carries eight bits


@exported
def put_longs(source: int, sizes: int, at: int, n: int) -> None:
    """int64s as unsigned 64-bit varints of the measured sizes, nine bytes at most."""
    for i in range(n):
        value, size = load_i64(source + 8 * i), load_i64(sizes + 8 * i)
        target = load_i64(at + 8 * i)
        for k in range(size):
            part = value >> (7 * k)
            if k == _LAST:
                store_8(target + k, part & 0xFF)
            else:
                store_8(target + k, (part & 0x7F) | (0x80 if k < size - 1 else 0))
        store_64(at + 8 * i, target + size)


def long_varints(values: Longs) -> SizedWriter:
    """Output.writeVarLong of the 64 bits of each value."""
    values = np.ascontiguousarray(values, dtype=np.int64)
    sizes = np.ones(len(values), dtype=np.int64)
    for k in range(1, _LAST + 1):
        sizes += values.view(np.uint64) >= np.uint64(1) << np.uint64(7 * k)
    return SizedWriter(sizes, lambda at: put_longs(values.ctypes.data, sizes.ctypes.data, at.ctypes.data, len(values)))


@kernel
def flagged_size(value: int) -> int:
    """The bytes of a varint whose first byte has a flag and six bits."""
    size = 1
    value >>= 6
    while value > 0:
        value >>= 7
        size += 1
    return size


@kernel
def put_flagged(target: int, value: int, flag: int) -> int:
    """Write Output.writeVarIntFlag; the address after it."""
    byte = (value & 0x3F) | flag
    value >>= 6
    if value == 0:
        store_8(target, byte)
        return target + 1
    store_8(target, byte | 0x40)
    return put_varint(target + 1, value)


@exported
def measure_strings(data: int, offsets: int, longest: int, units: int, lengths: int, n: int) -> int:
    """UTF-16 units (negative: ASCII form) and bytes of each row; -1, or the first row that is not UTF-8."""
    for i in range(n):
        pos, end = data + load_i64(offsets + 8 * i), data + load_i64(offsets + 8 * i + 8)
        size = end - pos
        if 1 < size <= longest and ascii_end(pos, end) == end:
            store_64(units + 8 * i, -size)
            store_64(lengths + 8 * i, size)
            continue
        count = 0
        body = 0
        while pos < end:
            if load_u8(pos) < 0x80:
                count += 1
                body += 1
                pos += 1
                continue
            start = pos
            code, pos = utf8_point(pos, end)
            if code == NOT_UTF8:
                return i
            count += 2 if code >= 0x10000 else 1
            body += 6 if code >= 0x10000 else pos - start
        store_64(units + 8 * i, count)
        store_64(lengths + 8 * i, body + flagged_size(count + 1))
    return -1


@exported
def put_strings(data: int, offsets: int, units: int, at: int, n: int) -> None:
    """Output.writeString of rows that measure_strings has measured."""
    for i in range(n):
        pos, end = data + load_i64(offsets + 8 * i), data + load_i64(offsets + 8 * i + 8)
        target, count = load_i64(at + 8 * i), load_i64(units + 8 * i)
        if count < 0:
            copy_bytes(target, pos, -count)
            target -= count
            store_8(target - 1, np.int64(load_u8(target - 1)) | 0x80)
            store_64(at + 8 * i, target)
            continue
        target = put_flagged(target, count + 1, 0x80)
        while pos < end:
            byte = np.int64(load_u8(pos))
            if byte < 0x80:
                store_8(target, byte)
                target += 1
                pos += 1
            else:
                target, pos = put_wide_point(target, pos, end)
        store_64(at + 8 * i, target)


def strings(array: pa.Array, longest_ascii: int) -> SizedWriter:
    """Strings; those of 2 to ``longest_ascii`` ASCII characters in the form that marks the last one."""
    refuse_nulls(array, "a Kryo string")
    data, offsets = bytes_of(binary_array(array, text=True))
    n = len(array)
    units, lengths = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    wrong = measure_strings(
        data.ctypes.data, offsets.ctypes.data, longest_ascii, units.ctypes.data, lengths.ctypes.data, n
    )
    if wrong >= 0:
        raise Unencodable("a string that is not UTF-8", wrong)

    def write(at: Longs) -> None:
        put_strings(data.ctypes.data, offsets.ctypes.data, units.ctypes.data, at.ctypes.data, n)

    return SizedWriter(lengths, write)


@exported
def put_flagged_counts(counts: int, flags: int, at: int, n: int) -> None:
    """Counts (int64), each with its flag (int64, 0 or 0x80)."""
    for i in range(n):
        count, flag = load_i64(counts + 8 * i), load_i64(flags + 8 * i)
        store_64(at + 8 * i, put_flagged(load_i64(at + 8 * i), count, flag))


def flagged_varints(values: Longs, flagged: Longs) -> SizedWriter:
    """Output.writeVarIntFlag: ``flagged`` 0 or 0x80 per row."""
    values, flagged = np.ascontiguousarray(values, dtype=np.int64), np.ascontiguousarray(flagged, dtype=np.int64)
    sizes = np.ones(len(values), dtype=np.int64)
    for k in range(5):
        sizes += values >= 1 << (6 + 7 * k)

    def write(at: Longs) -> None:
        put_flagged_counts(values.ctypes.data, flagged.ctypes.data, at.ctypes.data, len(values))

    return SizedWriter(sizes, write)
