"""Find the rows of one key among batches that contain others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stateproc.errors import InvalidOption

_ONE_ROW_KINDS = frozenset({"value", "list", "map", "reducing", "aggregating"})
"""Kinds of states that have one row per key and namespace."""


def rows_of_key(batches: Iterable[pa.RecordBatch], key: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows whose column ``key`` equals a Python value, without the columns key and key_group.

    Raises:
        InvalidOption: The value is of another type than the keys.
    """
    for batch in batches:
        column = batch.column("key")
        found = batch.filter(_equal(column, key))
        if len(found):
            names = [name for name in found.schema.names if name not in ("key", "key_group")]
            yield from found.select(names).to_pylist()


def _equal(column: pa.Array, key: Any) -> pa.Array:
    try:
        wanted = pa.scalar(key, column.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidOption(f"{key!r} is no key of type {column.type}: {error}") from error
    try:
        return pc.equal(column, wanted)
    except pa.ArrowNotImplementedError:
        # Structs and lists: Arrow compares them value by value only.
        return pa.array([item.equals(wanted) for item in column], pa.bool_())


def has_one_row(kind: str, columns: Iterable[str]) -> bool:
    """Return whether a state of a kind has one row per key, because it has no namespaces."""
    return kind in _ONE_ROW_KINDS and "namespace" not in columns


def plain_value(value: Any, type_: pa.DataType) -> Any:
    """Return a map as a dict, where its keys can be those of a dict; other values as they are."""
    if value is None or not pa.types.is_map(type_) or pa.types.is_nested(type_.key_type):
        return value
    return dict(value)
