"""Java hash codes over Arrow arrays: `hash_codes` and the table of composite kinds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from stateproc.codec.array_types import Ints, Longs
from stateproc.codec.arrow_arrays import null_rows
from stateproc.errors import InvalidOption
from stateproc.keygroups import kernels
from stateproc.keygroups.binary_rows import binary_rows
from stateproc.keygroups.kernels import fields, list_rows, numbers
from stateproc.keygroups.key_hash import KeyHash
from stateproc.keygroups.scalars import SCALARS, TIMES, binary_row_hash, byte_array_hashes, is_text

_31 = np.int32(31)
_BARE_IN_ROW = frozenset({"row_1_12", "row_1_12_with_kind"})
_ROW_KINDS = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}


def hash_codes(array: pa.Array | pa.ChunkedArray, kind: KeyHash) -> Ints:
    """Java's hashCode of every value; 0 for null, as in java.util.Objects.hashCode.

    Raises InvalidOption when the column's type does not fit ``kind``, or there is no such kind.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks) if array.chunks else pa.array([], array.type)
    if kind.kind in COMPOSITES:
        codes = COMPOSITES[kind.kind](array, kind)
    elif kind.kind in _LEAVES:
        codes = _LEAVES[kind.kind](array)
    else:
        raise InvalidOption(f"no hash function for key kind '{kind.kind}'")
    return _zero_at_nulls(codes, array)


def _zero_at_nulls(codes: Ints, array: pa.Array) -> Ints:
    if not array.null_count:
        return codes
    return np.where(null_rows(array), np.int32(0), codes)


def _tuple(array: pa.Array, kind: KeyHash) -> Ints:
    """Tuple1..25: 31-polynomial that starts with the first field's hash."""
    codes = np.zeros(len(array), np.int32)
    for column, child in _paired(fields(array), kind.children, array):
        codes = codes * _31 + hash_codes(column, child)
    return codes


def _row(array: pa.Array, kind: KeyHash) -> Ints:
    """Row since Flink 1.13 (RowUtils.deepHashCodeRow), kind INSERT; a struct of the fields."""
    return _fields_hash(fields(array), array, kind, _deep)


def _row_with_kind(array: pa.Array, kind: KeyHash) -> Ints:
    """Row whose struct has the RowKind in front, as 0..3 or as +I, -U, +U, -D."""
    codes: Ints = _row_kinds(array) * _31 + _fields_hash(fields(array)[1:], array, kind, _deep)
    return codes


def _row_1_12(array: pa.Array, kind: KeyHash) -> Ints:
    """Row of Flink 1.12: the polynomial starts with the RowKind, and a nested Row counts as its hash."""
    return _fields_hash(fields(array), array, kind, _deep, start=0)


def _row_1_12_with_kind(array: pa.Array, kind: KeyHash) -> Ints:
    return _fields_hash(fields(array)[1:], array, kind, _deep, start=_row_kinds(array))


def _legacy_row(array: pa.Array, kind: KeyHash) -> Ints:
    """Row up to Flink 1.11: Arrays.deepHashCode of the fields."""
    return _fields_hash(fields(array), array, kind, _arrays_deep)


def _legacy_row_with_kind(array: pa.Array, kind: KeyHash) -> Ints:
    codes: Ints = _row_kinds(array) * _31 + _fields_hash(fields(array)[1:], array, kind, _arrays_deep)
    return codes


Element = Callable[[pa.Array, KeyHash], Ints]


def _fields_hash(
    columns: list[pa.Array], array: pa.Array, kind: KeyHash, element: Element, *, start: Ints | int = 1
) -> Ints:
    codes = np.zeros(len(array), np.int32) + np.asarray(start, np.int32)
    for column, child in _paired(columns, kind.children, array):
        codes = codes * _31 + element(column, child)
    return codes


def _row_kinds(array: pa.Array) -> Ints:
    columns = fields(array)
    if not columns:
        raise InvalidOption("a Row's kind is expected in front of its fields, where the column has no fields")
    if not is_text(columns[0].type):
        return numbers(columns[0], np.int32)
    names = columns[0].to_pylist()
    if unknown := set(names) - _ROW_KINDS.keys() - {None}:
        raise InvalidOption(f"no RowKind {sorted(unknown)}; there are {', '.join(_ROW_KINDS)}")
    return np.array([_ROW_KINDS.get(name, 0) for name in names], np.int32)


def _deep(array: pa.Array, kind: KeyHash) -> Ints:
    """RowUtils.deepHashCodeInternal: looks into lists, maps, arrays; a scalar counts as an array of one."""
    if kind.kind in ("list", "object_array"):
        return _zero_at_nulls(_polynomial(array, kind.children[0], _deep), array)
    if kind.kind == "map":
        return _zero_at_nulls(_entry_sums(array, kind, _deep) + np.int32(1), array)
    if kind.kind in _BARE_IN_ROW:
        return hash_codes(array, kind)
    codes = _array(array, kind) if kind.kind == "array" else hash_codes(array, kind)
    return _zero_at_nulls(codes + _31, array)


def _arrays_deep(array: pa.Array, kind: KeyHash) -> Ints:
    """One element of Arrays.deepHashCode: looks into arrays only."""
    if kind.kind == "object_array":
        return _zero_at_nulls(_polynomial(array, kind.children[0], _arrays_deep), array)
    if kind.kind == "array":
        return _zero_at_nulls(_array(array, kind), array)
    return hash_codes(array, kind)


def _array(array: pa.Array, kind: KeyHash) -> Ints:
    """Arrays.hashCode of a primitive array; byte[] may stand as binary."""
    if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
        return byte_array_hashes(array)
    return _polynomial(array, kind.children[0], hash_codes)


def _list(array: pa.Array, kind: KeyHash) -> Ints:
    return _polynomial(array, kind.children[0], hash_codes)


def _map(array: pa.Array, kind: KeyHash) -> Ints:
    """AbstractMap.hashCode."""
    return _entry_sums(array, kind, hash_codes)


def _polynomial(array: pa.Array, child: KeyHash, element: Element) -> Ints:
    offsets, values = list_rows(array)
    return _reduce(kernels.polynomial_hashes, offsets, element(values, child), len(array))


def _entry_sums(array: pa.Array, kind: KeyHash, element: Element) -> Ints:
    offsets, entries = list_rows(array)
    keys, values = fields(entries)
    codes = element(keys, kind.children[0]) ^ element(values, kind.children[1])
    return _reduce(kernels.sums, offsets, codes, len(array))


def _reduce(reduce: Callable[..., None], offsets: Longs, codes: Ints, rows: int) -> Ints:
    out = np.empty(rows, np.int32)
    reduce(offsets, np.ascontiguousarray(codes), out)
    return out


def _paired(columns: list[pa.Array], children: tuple[KeyHash, ...], array: pa.Array) -> list[tuple[pa.Array, KeyHash]]:
    if len(columns) != len(children):
        raise InvalidOption(f"{len(children)} fields are expected where the column is {array.type}")
    return list(zip(columns, children, strict=True))


def _rowdata(array: pa.Array, kind: KeyHash) -> Ints:
    """BinaryRowData, from a struct of the key columns."""
    return binary_row_hash(binary_rows(array, kind))


_LEAVES: dict[str, Callable[[pa.Array], Ints]] = {**SCALARS, **TIMES}

COMPOSITES: dict[str, Callable[[pa.Array, KeyHash], Ints]] = {
    "tuple": _tuple,
    "row": _row,
    "row_with_kind": _row_with_kind,
    "row_1_12": _row_1_12,
    "row_1_12_with_kind": _row_1_12_with_kind,
    "legacy_row": _legacy_row,
    "legacy_row_with_kind": _legacy_row_with_kind,
    "list": _list,
    "object_array": _list,
    "array": _array,
    "map": _map,
    "rowdata": _rowdata,
}
"""Kinds with children. `array` (of primitives), `object_array`: only inside a row, see `is_reproducible`."""

KINDS = frozenset(_LEAVES) | frozenset(COMPOSITES)
"""Every kind of KeyHash there is."""
