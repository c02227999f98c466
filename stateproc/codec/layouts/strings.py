"""Strings and byte strings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.arrow_arrays import Unencodable
from stateproc.codec.builder import Assembler, Builder, DecodedColumns
from stateproc.codec.encoding import strings
from stateproc.codec.encoding.list_encoding import sized
from stateproc.codec.encoding.sized_writers import SizedWriter, concatenate, fixed
from stateproc.codec.errors import LoneSurrogate
from stateproc.codec.layouts.base import Layout, Unwritable, validity_buffer
from stateproc.codec.layouts.collections import offsets_of_lengths


def blob_columns(b: Builder) -> tuple[int, int]:
    """Columns (lengths, -1 for null; bytes)."""
    lengths = b.column(4, -1)
    return lengths, b.column(0)


def blob_array(decoded: DecodedColumns, lengths: int, data: int, arrow_type: pa.DataType) -> pa.Array:
    """The Arrow array of a blob's columns; ``arrow_type`` string (bytes known to be UTF-8) or binary."""
    sizes = decoded.column(lengths, np.int32)
    mask = validity_buffer(sizes >= 0)
    buffers = [mask, pa.py_buffer(offsets_of_lengths(sizes)), pa.py_buffer(decoded.column(data, np.uint8))]
    return pa.Array.from_buffers(arrow_type, len(sizes), buffers)


def whole_strings(decoded: DecodedColumns, lengths: int, data: int) -> pa.Array:
    """Return the strings of a blob's columns whose lone surrogates were kept. Raises LoneSurrogate."""
    try:
        return blob_array(decoded, lengths, data, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid as error:
        raise LoneSurrogate from error


@dataclass(frozen=True)
class FlinkString(Layout):
    """StringValue.writeString (``bias`` 1: the length is stored plus one, 0 is null) or StringValue.write (0).

    ``strict``: half of a surrogate pair is refused, instead of read as U+FFFD.
    """

    bias: int = 1
    strict: bool = False
    arrow_type = pa.string()
    min_size = 1

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        lengths, data = blob_columns(b)
        b.op(ops.FLINK_STRING, lengths, data, self.bias + (ops.KEEP_SURROGATES if self.strict else 0))
        if self.strict:
            return lambda decoded: whole_strings(decoded, lengths, data)
        return lambda decoded: blob_array(decoded, lengths, data, pa.string())

    @property
    def encodes_null(self) -> bool:
        return self.bias == 1

    def measure(self, array: pa.Array) -> SizedWriter:
        return strings.flink_strings(array, self.bias)


@dataclass(frozen=True)
class JavaUtf(Layout):
    """java.io.DataOutput.writeUTF."""

    arrow_type = pa.string()
    min_size = 2

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        lengths, data = blob_columns(b)
        b.op(ops.MODIFIED_UTF8, lengths, data)
        return lambda decoded: blob_array(decoded, lengths, data, pa.string())

    def measure(self, array: pa.Array) -> SizedWriter:
        return strings.java_utf(array)


@dataclass(frozen=True)
class Blob(Layout):
    """Bytes: ``length`` one of ops.LENGTH_*; ``fixed`` the size if LENGTH_FIXED; ``text``: they are UTF-8."""

    length: int = ops.LENGTH_I32
    fixed: int = 0
    text: bool = False

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.string() if self.text else pa.binary()

    @property
    def size(self) -> int | None:
        return self.fixed if self.length == ops.LENGTH_FIXED else None

    @property
    def min_size(self) -> int:
        return {ops.LENGTH_I32: 4, ops.LENGTH_U16: 2, ops.LENGTH_FIXED: self.fixed}.get(self.length, 0)

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        lengths, data = blob_columns(b)
        b.op(ops.BYTES, lengths, data, self.length, self.fixed)

        def assemble(decoded: DecodedColumns) -> pa.Array:
            array = blob_array(decoded, lengths, data, pa.binary())
            # The cast checks that the bytes are UTF-8 (ArrowInvalid if not).
            return array.cast(pa.string()) if self.text else array

        return assemble

    def measure(self, array: pa.Array) -> SizedWriter:
        blobs = strings.blobs(array, self.text)
        lengths = blobs.lengths
        if isinstance(lengths, int):
            raise AssertionError("byte strings differ in length")
        if self.length == ops.LENGTH_I32:
            return sized(blobs, len(array))
        if self.length == ops.LENGTH_REST:
            return blobs
        if self.length == ops.LENGTH_FIXED:
            if (lengths != self.fixed).any():
                row = int(np.argmax(lengths != self.fixed))
                raise Unencodable(f"{lengths[row]} bytes, where there must be {self.fixed}", row)
            return blobs
        if self.length == ops.LENGTH_U16:
            if len(lengths) and lengths.max() > 0xFFFF:
                raise Unencodable("a byte string of 64 KiB and more", int(np.argmax(lengths)))
            return concatenate([fixed(lengths.astype(np.uint16)), blobs])
        raise Unwritable("byte strings whose length is stored in another value are read only")


@dataclass(frozen=True)
class SerializedValue(Layout):
    """Return the bytes of another layout's value as Arrow binary."""

    inner: Layout
    arrow_type = pa.binary()

    @property
    def min_size(self) -> int:
        return self.inner.min_size

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        lengths, data = blob_columns(b)
        b.op(ops.PUSH_POS)
        self.inner.skip(b)
        b.op(ops.SPAN, lengths, data)
        return lambda taken: blob_array(taken, lengths, data, pa.binary())
