"""From Arrow arrays to the numpy buffers that the hash kernels read; offsets are checked here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stateproc.codec.array_types import Ints, Longs
from stateproc.codec.arrow_arrays import numbers_of, offsets_of
from stateproc.errors import CorruptSnapshot, InvalidOption


def numbers(array: pa.Array, dtype: type[np.generic]) -> NDArray[Any]:
    """A numeric array as numpy, nulls as 0. Raises InvalidOption for any other column."""
    if not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        raise InvalidOption(f"a number is expected where the column is {array.type}")
    filled = array.fill_null(0) if array.null_count else array
    return np.ascontiguousarray(numbers_of(filled), dtype=dtype)


def byte_rows(array: pa.Array) -> tuple[Longs, NDArray[np.uint8]]:
    """Offsets and bytes of a string or binary array. Raises InvalidOption for any other column."""
    text = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
    if not (text or pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type)):
        raise InvalidOption(f"text or bytes are expected where the column is {array.type}")
    flat = array.cast(pa.large_string() if text else pa.large_binary())
    buffers = flat.buffers()
    data = np.frombuffer(buffers[2], np.uint8) if buffers[2] is not None else np.empty(0, np.uint8)
    return _checked(_offsets(buffers[1], flat), len(data)), data


def list_rows(array: pa.Array) -> tuple[Longs, pa.Array]:
    """Offsets and elements of a list or map array; a map's elements are structs of key and value."""
    kind = array.type
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind):
        array = array.cast(pa.large_list(kind.value_field))
    elif pa.types.is_map(kind):
        entries = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
        return _checked(offsets_of(array), len(entries)), entries
    elif not pa.types.is_large_list(kind):
        raise InvalidOption(f"a list of values is expected where the column is {kind}")
    values = array.values
    return _checked(offsets_of(array), len(values)), values


def fields(array: pa.Array) -> list[pa.Array]:
    """The columns of a struct array."""
    if not pa.types.is_struct(array.type):
        raise InvalidOption(f"a struct is expected where the column is {array.type}")
    return [array.field(i) for i in range(array.type.num_fields)]


def _offsets(buffer: pa.Buffer | None, array: pa.Array) -> Longs:
    if buffer is None:
        return np.zeros(1, np.int64)
    return np.frombuffer(buffer, np.int64)[array.offset : array.offset + len(array) + 1]


def _checked(offsets: Longs, size: int) -> Longs:
    if len(offsets) and (offsets[0] < 0 or offsets[-1] > size or bool((np.diff(offsets) < 0).any())):
        raise CorruptSnapshot("offsets of a column do not ascend, or leave its data")
    return offsets


def as_int32(wide: NDArray[Any]) -> Ints:
    """The low 32 bits, as Java's (int) cast."""
    low: Ints = (wide.astype(np.int64, copy=False) & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    return low
