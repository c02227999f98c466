"""Elements of lists and maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.arrow_arrays import offsets_of
from stateproc.errors import InvalidOption
from stateproc.filters.comparison import compare
from stateproc.filters.exact_numbers import small_integer
from stateproc.filters.sql_value import SqlValue


def element(collection: SqlValue, key: SqlValue) -> SqlValue:
    """Return ``list[index]``, counted from 1 or back from -1, or ``map[key]``; null where there is no such element."""
    if collection.kind not in ("list", "map"):
        raise InvalidOption(f"{collection.shown} has no elements", advice="[ ] needs a list or a map")
    if not key.is_scalar or not key.values.is_valid:
        raise InvalidOption("the index or key in [ ] must be a literal")
    starts, stops = _bounds(collection.values)
    if collection.kind == "map":
        keys = SqlValue(collection.values.keys, collection.type.key_type)
        found = np.flatnonzero(pc.fill_null(compare("=", keys, key), False).to_numpy(zero_copy_only=False))
        at = np.append(found, np.iinfo(np.int64).max)[np.searchsorted(found, starts)]
        return SqlValue(_take(collection.values.items, at, at < stops), collection.type.item_type)
    index = _index(key)
    at = starts + (index - 1) if index > 0 else stops + index
    return SqlValue(_take(collection.values.values, at, (at >= starts) & (at < stops)), collection.type.value_type)


def _index(key: SqlValue) -> int:
    if key.kind != "number":
        raise InvalidOption(f"{key.shown} is not an index", advice="a list has numbers in [ ], from 1")
    index = small_integer(key)
    if index == 0:
        raise InvalidOption("a list has no element 0", advice="elements are counted from 1, as in `stateproc sql`")
    return index


def size(collection: SqlValue) -> SqlValue:
    """Return the number of elements; null for a null."""
    if collection.kind not in ("list", "map"):
        raise InvalidOption(f"{collection.shown} has no elements", advice="SIZE needs a list or a map")
    starts, stops = _bounds(collection.values)
    return SqlValue(pa.array(stops - starts, mask=_nulls(collection.values)), pa.int64())


def contains(collection: SqlValue, value: SqlValue) -> SqlValue:
    """Return whether a list has an element, or a map a key, that equals a literal."""
    if collection.kind not in ("list", "map") or not value.is_scalar:
        raise InvalidOption("ARRAY_CONTAINS needs a list or a map, and a literal")
    is_map = collection.kind == "map"
    values = collection.values.keys if is_map else collection.values.values
    type_ = collection.type.key_type if is_map else collection.type.value_type
    equal = pc.fill_null(compare("=", SqlValue(values, type_), value), False)
    counts = np.concatenate([[0], np.cumsum(equal.to_numpy(zero_copy_only=False))])
    starts, stops = _bounds(collection.values)
    return SqlValue(pa.array(counts[stops] > counts[starts], mask=_nulls(collection.values)), pa.bool_())


def _bounds(array: Any) -> tuple[Any, Any]:
    """Return where the elements of each row begin and end; a null has none."""
    offsets = offsets_of(array)
    starts = offsets[:-1]
    return starts, np.where(_nulls(array), starts, offsets[1:])


def _nulls(array: Any) -> Any:
    return array.is_null().to_numpy(zero_copy_only=False)


def _take(values: Any, at: Any, valid: Any) -> Any:
    return values.take(pa.array(np.where(valid, at, 0), mask=~valid))
