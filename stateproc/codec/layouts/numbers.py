"""Fixed-width and varint numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec import arrow_arrays as arrays
from stateproc.codec import ops
from stateproc.codec.arrow_arrays import Unencodable, values_array
from stateproc.codec.builder import Assembler, Builder, DecodedColumns
from stateproc.codec.encoding import sized_writers as numbers
from stateproc.codec.encoding.kryo import long_varints
from stateproc.codec.encoding.sized_writers import SizedWriter, constant_bytes
from stateproc.codec.layouts.base import Layout, Wrapper, is_valid, validity_buffer

_BIG = {1: ops.F1, 2: ops.F2, 4: ops.F4, 8: ops.F8}
_LITTLE = {1: ops.F1, 2: ops.L2, 4: ops.L4, 8: ops.L8}
_NUMPY = {
    pa.int8(): np.int8,
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.uint8(): np.uint8,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
    pa.uint16(): np.uint16,
}


def number_column(b: Builder, width: int, nullable: bool) -> tuple[int, int]:
    """Columns (validity or -1, values) of a number."""
    valid = b.column(1, 0) if nullable else -1
    if nullable and valid >= 0:
        b.op(ops.PUT1, valid, 1)
    return valid, b.column(width, 0)


def number_array(decoded: DecodedColumns, valid: int, column: int, arrow_type: pa.DataType) -> pa.Array:
    """The Arrow array of a number's columns."""
    values = decoded.column(column, _NUMPY[arrow_type])
    mask = validity_buffer(is_valid(decoded, valid)) if valid >= 0 else None
    return pa.Array.from_buffers(arrow_type, len(values), [mask, pa.py_buffer(values)])


@dataclass(frozen=True)
class Number(Layout):
    """An integer or float of 1, 2, 4 or 8 bytes; ``type`` an Arrow number type."""

    type: pa.DataType
    big_endian: bool = True

    @property
    def arrow_type(self) -> pa.DataType:
        return self.type

    @property
    def size(self) -> int:
        return int(self.type.bit_width) // 8

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        valid, column = number_column(b, self.size, nullable)
        b.op((_BIG if self.big_endian else _LITTLE)[self.size], column)
        return lambda decoded: number_array(decoded, valid, column, self.type)

    def measure(self, array: pa.Array) -> SizedWriter:
        """Big-endian floats are written as DataOutput does, with one NaN; binary rows keep a NaN's bits."""
        array = arrays.as_type(array, self.type)
        arrays.refuse_nulls(array, f"a number ({self.type})")
        values = arrays.numbers_of(array)
        if self.big_endian and pa.types.is_floating(self.type):
            values = numbers.canonical_nans(values)
        return numbers.fixed(values, self.big_endian)


@dataclass(frozen=True)
class Boolean(Layout):
    """One byte, 0 or 1."""

    arrow_type = pa.bool_()
    size = 1

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        valid, column = number_column(b, 1, nullable)
        b.op(ops.BOOL, column)

        def assemble(decoded: DecodedColumns) -> pa.Array:
            values = decoded.column(column, np.uint8).astype(np.bool_)
            mask = validity_buffer(is_valid(decoded, valid)) if valid >= 0 else None
            bits = pa.py_buffer(np.packbits(values, bitorder="little"))
            return pa.Array.from_buffers(pa.bool_(), len(values), [mask, bits])

        return assemble

    def measure(self, array: pa.Array) -> SizedWriter:
        array = arrays.as_type(array, pa.bool_())
        arrays.refuse_nulls(array, "a boolean")
        return numbers.fixed(arrays.booleans_of(array))


@dataclass(frozen=True)
class VarNumber(Layout):
    """A varint; ``kind`` one of ops.VARINT_*, ``type`` int32 or int64."""

    type: pa.DataType
    kind: int
    min_size = 1

    @property
    def arrow_type(self) -> pa.DataType:
        return self.type

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        width = int(self.type.bit_width) // 8
        valid, column = number_column(b, width, nullable)
        b.op(ops.VARINT, column, width, self.kind)
        return lambda decoded: number_array(decoded, valid, column, self.type)

    def measure(self, array: pa.Array) -> SizedWriter:
        array = arrays.as_type(array, self.type)
        arrays.refuse_nulls(array, "a varint")
        values = arrays.numbers_of(array).astype(np.int64)
        if self.kind in (ops.VARINT_Z32, ops.VARINT_Z64):
            values = (values << 1) ^ (values >> 63)
        if self.kind in (ops.VARINT_U64, ops.VARINT_Z64):
            return long_varints(values)
        return numbers.varints(values & 0xFFFFFFFF)


@dataclass(frozen=True)
class AlwaysNull(Layout):
    """A value without content: always null, after ``size_`` ignored bytes, which are written as ``byte``."""

    size_: int = 0
    byte: int = 0
    arrow_type = pa.bool_()
    encodes_null = True

    @property
    def size(self) -> int:
        return self.size_

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        column = b.column(1, 0)
        if self.size_:
            b.op(ops.SKIP, self.size_)
        b.op(ops.PUT1, column, 0)
        return lambda decoded: pa.nulls(len(decoded.column(column, np.uint8)), pa.bool_())

    def measure(self, array: pa.Array) -> SizedWriter:
        if array.null_count < len(array):
            row = int(np.flatnonzero(~arrays.null_rows(array))[0])
            raise Unencodable("a value, where the type has none but null", row)
        return constant_bytes(bytes([self.byte]) * self.size_)


@dataclass(frozen=True)
class SingletonValue(AlwaysNull):
    """The only value of its type: as AlwaysNull, but true where the value is nullable, to distinguish it from null."""

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        if not nullable:
            return super().emit(b, nullable)
        column = b.column(1, 0)
        if self.size_:
            b.op(ops.SKIP, self.size_)
        b.op(ops.PUT1, column, 1)
        return lambda decoded: _true_or_null(is_valid(decoded, column))

    def measure(self, array: pa.Array) -> SizedWriter:
        array = arrays.as_type(array, pa.bool_())
        if array.false_count:
            raise Unencodable("false, where the type has one value only", _first_false(array))
        return constant_bytes(bytes([self.byte]) * self.size_)


def _true_or_null(present: npt.NDArray[np.bool_]) -> pa.Array:
    return values_array(present, ~present)


def _first_false(array: pa.Array) -> int:
    return int(np.argmin(array.fill_null(True).to_numpy(zero_copy_only=False)))


# Values that must fill their range: the size in the bytes and the end of the value have to agree.


@dataclass(frozen=True)
class FullRange(Wrapper):
    """``inner``, which must end where its range does; for use inside of Sized and VariableSlot."""

    inner: Layout

    @property
    def size(self) -> int | None:
        return self.inner.size

    @property
    def min_size(self) -> int:
        return self.inner.min_size

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        assemble = self.inner.emit(b, nullable)
        b.op(ops.RANGE_END)
        return assemble

    @property
    def encodes_null(self) -> bool:
        return self.inner.encodes_null

    def measure(self, array: pa.Array) -> SizedWriter:
        return self.inner.measure(array)
