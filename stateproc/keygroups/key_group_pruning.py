"""Compute the key groups that can contain given keys, by Java's hash of the key serializer's type."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import pyarrow as pa

from stateproc.codec.arrow_arrays import Unencodable
from stateproc.codec.layouts.base import Unwritable
from stateproc.codec.layouts.rows import ROW_KIND_FIELD
from stateproc.errors import InvalidOption
from stateproc.keygroups.hashed_types import Hashed, UnknownHash, hashed
from stateproc.keygroups.key_hash import KeyHash, is_reproducible
from stateproc.keygroups.ranges import key_group_of_hash, prefix_width
from stateproc.serializers import LayoutContext, Serializer
from stateproc.serializers.java.scalars import Scalar
from stateproc.serializers.java.structs import RowOf, TupleOf
from stateproc.serializers.java.temporal import Temporal

_MOST_KEYS = 4096
_ROW_KINDS = range(4)
_NO_KEY = (InvalidOption, UnknownHash, OverflowError)
_ROWS_1_13 = ("row",)
_ROWS_ANY = ("row", "row_1_12", "legacy_row")


def key_groups(
    serializer: Serializer, keys: Sequence[Any], ctx: LayoutContext, max_parallelism: int, metadata_version: int
) -> set[int] | None:
    """Return the key groups of ``keys``, or None where the hash cannot be reproduced.

    Keys are Python values of the key column: dates, times and bytes may be text, structs are dicts. 0.0 includes
    -0.0: Flink has two keys there, which compare equal.
    """
    how = hashed(serializer, ctx)
    if how is None or not is_reproducible(how.kind):
        return None
    try:
        values = [both for key in keys for both in _both_zeros(how.convert(key))]
        if len(values) > max(_MOST_KEYS, 4 * len(keys)):
            return None
        array = pa.array(values, type=how.type)
        return _groups(array, serializer, how, max_parallelism, metadata_version)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, ValueError, *_NO_KEY):
        # A value that is not a key of this type has no known key group: all key groups are read.
        return None


def in_both(one: set[int] | None, two: set[int] | None) -> set[int] | None:
    """Return the key groups in both sets, where None is all."""
    if one is None or two is None:
        return two if one is None else one
    return one & two


def key_groups_of_column(
    serializer: Serializer, keys: pa.Array, ctx: LayoutContext, max_parallelism: int, metadata_version: int
) -> set[int] | None:
    """Return the key groups of keys as a reader's layout has them, or None where the hash cannot be reproduced.

    0.0 and -0.0 are what they are. Values that are hashed as they are read do not become Python values, for
    ``pyarrow.array`` would import pandas.
    """
    how = hashed(serializer, ctx)
    if how is None or keys.type != how.type or not is_reproducible(how.kind):
        return key_groups(serializer, keys.to_pylist(), ctx, max_parallelism, metadata_version)
    try:
        return _groups(keys, serializer, how, max_parallelism, metadata_version)
    except (InvalidOption, UnknownHash):
        return None


def _groups(
    array: pa.Array, serializer: Serializer, how: Hashed, max_parallelism: int, metadata_version: int
) -> set[int]:
    from stateproc.keygroups.hashes import hash_codes

    found: set[int] = set()
    for kind, addends in hash_alternatives(serializer, how.kind, metadata_version):
        codes = hash_codes(array, kind)
        for addend in addends:
            shifted = (codes.astype("int64") + addend).astype("uint32").view("int32")
            found.update(int(group) for group in key_group_of_hash(shifted, max_parallelism))
    return found


def hash_alternatives(serializer: Serializer, kind: KeyHash, metadata_version: int) -> list[tuple[KeyHash, list[int]]]:
    """The hashes that a key may have had, each with what may be added to it.

    A Row's hash holds its RowKind, which keys do not show, and was defined anew in Flink 1.12 and 1.13.
    """
    if not isinstance(serializer, RowOf):
        return [(kind, [0])]
    names = _ROWS_1_13 if metadata_version >= 4 else ("legacy_row",) if metadata_version <= 2 else _ROWS_ANY
    row_kinds = _ROW_KINDS if serializer.has_kind else range(1)
    factors = {"row_1_12": 31 ** len(serializer.fields)}
    return [
        (KeyHash(name, kind.children), [row_kind * factors.get(name, 31) % 2**32 for row_kind in row_kinds])
        for name in names
    ]


def _both_zeros(value: Any) -> list[Any]:
    if isinstance(value, float) and value == 0.0:
        return [0.0, -0.0]
    if isinstance(value, dict):
        parts = [_both_zeros(item) for item in value.values()]
        if math.prod(map(len, parts)) > _MOST_KEYS:
            raise UnknownHash
        return [dict(zip(value, combination, strict=True)) for combination in itertools.product(*parts)]
    if isinstance(value, list) and any(len(_both_zeros(item)) > 1 for item in value):
        raise UnknownHash
    return [value]


def keys_of_fields(kind: pa.DataType, found: Any, path: tuple[str, ...] = ("key",)) -> list[Any] | None:
    """Return the keys of the column ``path`` that conditions allow, or None where they do not fix every field.

    ``found(path, type)`` returns the values that the conditions allow for a column or a field in it, or None.
    """
    values: list[Any] | None = found(path, kind)
    if values is not None or not pa.types.is_struct(kind):
        return values
    fields = [field for field in kind if field.name != ROW_KIND_FIELD]
    columns = [keys_of_fields(field.type, found, (*path, field.name)) for field in fields]
    known = [column for column in columns if column is not None]
    if not fields or len(known) < len(fields) or math.prod(map(len, known)) > _MOST_KEYS:
        return None
    names = [field.name for field in fields]
    return [dict(zip(names, combination, strict=True)) for combination in itertools.product(*known)]


# Compute the composite-key prefixes of given keys, to look them up in a RocksDB database.

_MOST_LOOKUPS = 1000
_SCALARS = frozenset({"Boolean", "Byte", "Short", "Int", "Long", "Char", "String"})
_TEMPORAL = frozenset({"LocalDate"})


def key_prefixes(
    serializer: Serializer,
    keys: Sequence[Any],
    ctx: LayoutContext,
    max_parallelism: int,
    key_groups_of: Callable[[Sequence[Any]], Collection[int] | None],
) -> tuple[bytes, ...] | None:
    """Return the prefixes (key group, serialized key) of the composite keys of ``keys``.

    None where they are not certain: a key that has several serialized forms or cannot be encoded, whose key group
    is unknown, or more keys than can be looked up one by one.
    """
    if not has_one_form(serializer) or len(keys) > _MOST_LOOKUPS:
        return None
    layout = serializer.layout(ctx)
    try:
        values = pa.array(list(keys), type=layout.arrow_type)
        if values.null_count:
            return None
        encoded = layout.encode(values).to_arrow().to_pylist()
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError, Unencodable, Unwritable):
        return None
    width = prefix_width(max_parallelism)
    prefixes = []
    for key, data in zip(keys, encoded, strict=True):
        groups = key_groups_of([key])
        if groups is None:
            return None
        prefixes += [group.to_bytes(width, "big") + data for group in groups]
    return tuple(prefixes)


def has_one_form(serializer: Serializer) -> bool:
    """Whether equal keys have equal bytes; floats (NaN, zeros) and numbers with a scale do not."""
    if isinstance(serializer, Scalar):
        return serializer.name in _SCALARS
    if isinstance(serializer, Temporal):
        return serializer.kind.name in _TEMPORAL
    return isinstance(serializer, TupleOf) and all(map(has_one_form, serializer.fields))
