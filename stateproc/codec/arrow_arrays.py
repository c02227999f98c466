"""Get the buffers of Arrow arrays for kernels, whatever their slice; casts that lose nothing; null handling."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.array_types import Bytes, Longs

# Encoded rows: one byte string per row, in two buffers.


@dataclass(frozen=True)
class RowBytes:
    """One byte string per row: row ``i`` is ``data[offsets[i]:offsets[i + 1]]``.

    data: uint8. offsets: int64 [rows + 1], not falling. A row that stands for nothing has no bytes.
    """

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The number of bytes of each row, int64 [rows]."""
        lengths: npt.NDArray[np.int64] = np.diff(self.offsets)
        return lengths

    def to_arrow(self) -> pa.LargeBinaryArray:
        """The same as an Arrow array, without a copy."""
        buffers = [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.large_binary(), len(self), buffers)


class Unencodable(ValueError):
    """A value that its type cannot hold. ``row``: its position in the array given; ``message`` says why."""

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message, row)
        self.message = message
        self.row = row


def row_bytes_of(array: pa.Array) -> RowBytes:
    """Return a binary array without nulls as RowBytes; the bytes are not copied."""
    wide = array.cast(pa.large_binary())
    _, starts, content = wide.buffers()
    if starts is None or len(wide) == 0:
        return RowBytes(np.empty(0, dtype=np.uint8), np.zeros(len(wide) + 1, dtype=np.int64))
    offsets = np.frombuffer(starts, dtype=np.int64, count=len(wide) + 1, offset=8 * wide.offset)
    return RowBytes(np.frombuffer(content, dtype=np.uint8) if content else np.empty(0, dtype=np.uint8), offsets)


def empty_row_bytes(n: int) -> RowBytes:
    """Return ``n`` byte strings of length 0."""
    return RowBytes(np.empty(0, dtype=np.uint8), np.zeros(n + 1, dtype=np.int64))


# Memory for the bytes of batches, from a pool of Arrow.
#
# A thread that is not the main one gets memory from an arena of its own, which glibc returns to the kernel at once when
# it is freed: every batch that is read by a thread would pay the page faults of fresh memory. A pool of Arrow keeps
# what is freed for the next batch, whichever thread asks for it. Its default, mimalloc, keeps more than jemalloc: two
# threads that read 5 million keys again and again take 255 MB with it instead of 201 of RocksDB, and 219 instead of 176
# of canonical state. That takes 2 to 7 % less time, but the first read a tenth to a quarter more.


def _pool() -> pa.MemoryPool:
    """Return jemalloc's pool where pyarrow has it, unless the user has chosen another."""
    is_free = "ARROW_DEFAULT_MEMORY_POOL" not in os.environ
    if is_free and "jemalloc" in pa.supported_memory_backends():
        return pa.jemalloc_memory_pool()
    return pa.default_memory_pool()


_POOL = _pool()

_SMALLEST = 64 << 10
"""The allocator of numpy is faster for less."""


def uninitialized_bytes(size: int) -> Bytes:
    """Return ``size`` bytes that may hold anything, uint8 [size], writable."""
    if size < _SMALLEST:
        return np.empty(size, dtype=np.uint8)
    return np.frombuffer(pa.allocate_buffer(size, memory_pool=_POOL), dtype=np.uint8)


def uninitialized_longs(n: int) -> Longs:
    """Return ``n`` numbers that may be any."""
    return uninitialized_bytes(8 * n).view(np.int64)


# Find the values that Arrow's casts change without an error.
#
# Arrow refuses integers out of range, fractions that become integers, and decimals of too many digits. It rounds
# numbers that become floats or come from them, and takes any number but 0 for true. A number and a float are the same
# here if both have one shortest decimal form: 0.1 is the float 0.1, although no float is a tenth.


def refuse_lost(array: pa.Array, cast: pa.Array) -> None:
    """Raise Unencodable for the first value of ``array``, of any nesting, that is another one in ``cast``."""
    found, type_ = array.type, cast.type
    if pa.types.is_struct(found) and pa.types.is_struct(type_):
        for field in type_:
            if found.get_field_index(field.name) >= 0:
                refuse_lost(pc.struct_field(array, field.name), pc.struct_field(cast, field.name))
        return
    if pa.types.is_list(found) and pa.types.is_list(type_):
        try:
            refuse_lost(array.flatten(), cast.flatten())
        except Unencodable as error:
            raise Unencodable(error.message, int(pc.list_parent_indices(array)[error.row].as_py())) from error
        return
    if found == type_ or pa.types.is_nested(found) or pa.types.is_nested(type_):
        return
    lost = _lost(array, cast)
    if lost is not None and pc.any(lost).as_py():
        row = int(pc.index(lost, True).as_py())
        raise Unencodable(f"{array[row]} ({found}) is no {type_}: it would become {cast[row]}", row)


def _lost(array: pa.Array, cast: pa.Array) -> pa.BooleanArray | None:
    """Return which values are others; None for types whose casts are exact or refused."""
    found, type_ = array.type, cast.type
    if pa.types.is_boolean(type_) and _is_number(found):
        return pc.and_(pc.not_equal(array, pa.scalar(0, found)), pc.not_equal(array, pa.scalar(1, found)))
    if pa.types.is_floating(type_):
        if pa.types.is_floating(found):
            return _rounded(array, cast) if type_.bit_width < found.bit_width else None
        if pa.types.is_decimal(found):
            return _differs(array, cast, found)
        if pa.types.is_string(found) or pa.types.is_large_string(found):
            return _texts_differ(array, cast)
    if pa.types.is_decimal(type_) and pa.types.is_floating(found):
        return _differs(cast, array, type_)
    return None


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_))


def _rounded(array: pa.Array, cast: pa.Array) -> pa.BooleanArray:
    """Return which floats have another shortest form after a cast to fewer bits."""
    changed = pc.and_(pc.not_equal(cast.cast(array.type), array), pc.is_finite(array))
    if not pc.any(changed).as_py():
        return changed
    return pc.and_(changed, pc.not_equal(cast.cast(pa.string()), array.cast(pa.string())))


def _differs(decimals: pa.Array, floats: pa.Array, type_: pa.DataType) -> pa.BooleanArray:
    """Return which decimals are not the shortest forms of floats."""
    wide = pa.decimal256(76, type_.scale)
    texts = floats.cast(pa.string())
    try:
        return pc.not_equal(texts.cast(wide), decimals.cast(wide))
    except pa.ArrowInvalid:
        # A float has more digits than the decimal type, at least in one row.
        return pa.array([_differ(*pair, wide) for pair in zip(texts, decimals.cast(wide), strict=True)], pa.bool_())


def _differ(text: pa.StringScalar, decimal: pa.Scalar, wide: pa.DataType) -> bool | None:
    if not text.is_valid or not decimal.is_valid:
        return None
    try:
        return bool(text.cast(wide) != decimal)
    except pa.ArrowInvalid:
        return True


def _texts_differ(texts: pa.Array, floats: pa.Array) -> pa.BooleanArray:
    """Return which texts are other numbers than the shortest forms of floats."""

    def differ(text: str | None, shown: str | None) -> bool | None:
        if text is None or shown is None:
            return None
        number, again = Decimal(text), Decimal(shown)
        return not (number.is_nan() and again.is_nan()) and number != again

    pairs = zip(texts.to_pylist(), floats.cast(pa.string()).to_pylist(), strict=True)
    return pa.array(np.array([bool(differ(*pair)) for pair in pairs], dtype=np.bool_), pa.bool_())


def as_type(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Cast ``array`` to ``type_`` without loss.

    Raises:
        Unencodable: A value does not fit. Times as numbers and numbers as times are refused, too: whether the numbers
            are seconds, milliseconds or microseconds is unknown.
    """
    if array.type == type_:
        return array
    if len(array) == array.null_count:
        return pa.nulls(len(array), type_)
    if _is_time(array.type) != _is_time(type_) and _both_numbers(array.type, type_):
        way = "unix_millis(…), unix_date(…)" if _is_time(array.type) else "timestamp_millis(…), date_from_unix_date(…)"
        raise Unencodable(
            f"{array.type} does not fit {type_}: the unit is unknown (Spark has {way})",
            int(split_nulls(array)[0][0]),
        )
    try:
        cast = array.cast(type_)
    except pa.ArrowNotImplementedError as error:
        raise Unencodable(f"{array.type} does not fit {type_}", 0) from error
    except pa.ArrowInvalid as error:
        raise Unencodable(f"{array.type} does not fit {type_}: {error}", _first_misfit(array, type_)) from error

    if pa.types.is_floating(type_) and pa.types.is_floating(array.type):
        _refuse_overflow(array, cast)
    if pa.types.is_timestamp(array.type):
        _refuse_half_times(array, type_)
    refuse_lost(array, cast)
    return cast


def _is_time(type_: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(type_))


def _both_numbers(*types: pa.DataType) -> bool:
    return all(_is_time(type_) or pa.types.is_integer(type_) for type_ in types)


def _refuse_overflow(array: pa.Array, cast: pa.Array) -> None:
    """Doubles that are no longer finite as floats."""
    wrong = pc.and_not(pc.is_inf(cast), pc.is_inf(array))
    if pc.any(wrong).as_py():
        raise Unencodable(f"{array.type} does not fit {cast.type}: out of range", int(pc.index(wrong, True).as_py()))


def _refuse_half_times(array: pa.Array, type_: pa.DataType) -> None:
    """Timestamps of which a date or a time of day would keep a half: midnights are dates, and 1970-01-01 has times."""
    if not pa.types.is_date(type_) and not pa.types.is_time(type_):
        return
    local = pc.local_timestamp(array) if array.type.tz else array
    days = local.cast(pa.date32())
    if pa.types.is_date(type_):
        lost, wrong = "a time of day", pc.not_equal(days.cast(local.type), local)
    else:
        lost, wrong = "a date", pc.not_equal(days.cast(pa.int32()), 0)
    if pc.any(wrong).as_py():
        row = int(pc.index(wrong, True).as_py())
        raise Unencodable(f"{scalar_text(array[row], str)} has {lost}, which {type_} does not hold", row)


def scalar_text(value: pa.Scalar, text: Callable[[Any], str] = repr) -> str:
    """Return a value for messages, as ``text`` has it in Python.

    Without pandas, Python has no value for a time with nanoseconds: then it is Arrow's text, or its type.
    """
    try:
        return text(value.as_py())
    except ValueError:
        is_time = pa.types.is_temporal(value.type)
        return str(value.cast(pa.string())) if is_time else f"a {value.type}"


def _first_misfit(array: pa.Array, type_: pa.DataType) -> int:
    """The first row that does not cast, by halves."""
    low, high = 0, len(array) - 1
    while low < high:
        middle = (low + high) // 2
        try:
            array.slice(low, middle - low + 1).cast(type_)
            low = middle + 1
        except pa.ArrowInvalid:
            high = middle
    return max(low, 0)


def refuse_nulls(array: pa.Array, what: str) -> None:
    """Raises Unencodable for the first null; ``what`` cannot hold it."""
    if array.null_count:
        row = int(np.flatnonzero(null_rows(array))[0])
        raise Unencodable(f"a null, which {what} has no bytes for", row)


def null_rows(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Which rows are null."""
    return booleans_of(array.is_null()).view(np.bool_)


def split_nulls(array: pa.Array) -> tuple[Longs, Longs]:
    """(rows that are not null, rows that are)."""
    null = null_rows(array)
    return np.flatnonzero(~null), np.flatnonzero(null)


def number_dtype(type_: pa.DataType) -> np.dtype[Any]:
    """The dtype of a number type; ``to_pandas_dtype`` imports pandas with Arrow 25 and older."""
    kind = "f" if pa.types.is_floating(type_) else "u" if pa.types.is_unsigned_integer(type_) else "i"
    return np.dtype(f"{kind}{type_.bit_width // 8}")


def numbers_of(array: pa.Array) -> npt.NDArray[Any]:
    """The values of a number array (anything where null), without a copy."""
    end = array.offset + len(array)  # Arrays of nulls may share a buffer that is no whole number of their values.
    values = np.frombuffer(array.buffers()[1] or b"", dtype=number_dtype(array.type), count=end)
    return values[array.offset :]


def booleans_of(array: pa.Array) -> Bytes:
    """The values of a boolean array as 0 and 1."""
    bits = np.frombuffer(array.buffers()[1] or b"", dtype=np.uint8)
    return np.unpackbits(bits, bitorder="little")[array.offset : array.offset + len(array)]


def offsets_of(array: pa.Array, buffer: int = 1) -> Longs:
    """The offsets of a string, binary, list or map array, int64 [rows + 1], from the first row's start."""
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    wide = wide or pa.types.is_large_list(array.type)
    raw = array.buffers()[buffer]
    if raw is None or raw.size == 0:
        return np.zeros(len(array) + 1, dtype=np.int64)
    offsets = np.frombuffer(raw, dtype=np.int64 if wide else np.int32)
    return offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)


def bytes_of(array: pa.Array) -> tuple[Bytes, Longs]:
    """(data, offsets into it) of a string or binary array of either width."""
    return np.frombuffer(array.buffers()[2] or b"", dtype=np.uint8), offsets_of(array)


def binary_array(array: pa.Array, text: bool = False) -> pa.Array:
    """Strings and bytes of any Arrow type as a (large) string or binary array. ``text``: bytes must be UTF-8."""
    type_ = array.type
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return array
    if not text and (pa.types.is_binary(type_) or pa.types.is_large_binary(type_)):
        return array
    return as_type(array, pa.large_string() if text else pa.large_binary())


def items_of(array: pa.Array) -> tuple[Longs, pa.Array]:
    """(offsets from 0, the items themselves) of a list array without nulls."""
    if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        array = as_type(array, pa.large_list(array.type.value_type if pa.types.is_nested(array.type) else pa.null()))
    offsets = offsets_of(array)
    return offsets - offsets[0], array.values.slice(offsets[0], offsets[-1] - offsets[0])


def entries_of(array: pa.Array) -> tuple[Longs, pa.Array, pa.Array]:
    """(offsets from 0, keys, values) of a map array, or of a list of structs of two fields, without nulls."""
    if pa.types.is_map(array.type):
        offsets = offsets_of(array)
        first, n = offsets[0], offsets[-1] - offsets[0]
        return offsets - first, array.keys.slice(first, n), array.items.slice(first, n)
    offsets, pairs = items_of(array)
    if not pa.types.is_struct(pairs.type) or pairs.type.num_fields != 2:
        raise Unencodable(f"{array.type} is no map", 0)
    refuse_nulls(pairs, "a map's entry")
    return offsets, pairs.field(0), pairs.field(1)


def list_of(offsets: Longs, items: pa.Array) -> pa.Array:
    """A list array of these offsets (from 0, rising)."""
    return pa.LargeListArray.from_arrays(values_array(offsets), items)


def field_of(array: pa.Array, name: str, position: int) -> pa.Array:
    """The field ``name`` of a struct array, mostly at ``position`` (-1: anywhere); its nulls are its own alone."""
    type_ = array.type
    if not pa.types.is_struct(type_):
        raise Unencodable(f"{type_} is no struct, whose field {name!r} is wanted", 0)
    if 0 <= position < type_.num_fields and type_.field(position).name == name:
        return array.field(position)
    found = type_.get_field_index(name)
    if found < 0:
        raise Unencodable(f"the struct has no field {name!r}: {type_}", 0)
    return array.field(found)


def values_array(values: npt.NDArray[Any], null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """The Arrow array of numbers or booleans. ``null``: which rows are null.

    pa.array would import pandas, to ask it whether the values are a Series: 0.3 s and 40 MB in every process.
    """
    valid = None if null is None or not null.any() else pa.py_buffer(np.packbits(~null, bitorder="little"))
    if values.dtype == np.bool_:
        return pa.Array.from_buffers(
            pa.bool_(), len(values), [valid, pa.py_buffer(np.packbits(values, bitorder="little"))]
        )
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, data])


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch without rows; pa.array and Schema.empty_table would import pandas."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def repeated_text(text: str, rows: int) -> pa.Array:
    """Return a string array of ``rows`` times the same text.

    pa.repeat would import pandas.
    """
    data = text.encode()
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(len(data))
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data * rows)])


def with_nulls(array: pa.Array, null: npt.NDArray[np.bool_]) -> pa.Array:
    """``array`` with the rows of ``null`` made null."""
    if not null.any():
        return array
    return pc.if_else(values_array(~null), array, pa.scalar(None, array.type))
