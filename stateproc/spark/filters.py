"""Translate the filters that Spark pushes down into key groups and keys."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stateproc.keygroups.key_group_pruning import keys_of_fields

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

KeyGroupsOf = Callable[[Sequence[Any]], "set[int] | None"]

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "EqualTo": operator.eq,
    "EqualNullSafe": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
}
"""By the names of the classes of filters: Spark 4.0 has no such classes."""


def key_groups_of_filters(
    filters: Iterable[Filter],
    max_parallelism: int,
    key_groups_of: KeyGroupsOf,
    key_type: pa.DataType | None = None,
) -> set[int] | None:
    """Return the key groups that can contain matching rows; None if no filter excludes any.

    Args:
        filters: The filters, all of which rows must match. Those on other columns than the key are ignored.
        max_parallelism: The number of key groups.
        key_groups_of: Returns the key groups of keys, None if unknown.
        key_type: The type of the column ``key``; a struct is known when filters specify each of its fields.
    """
    filters = tuple(filters)
    left: set[int] | None = None
    found = [_of_key_group(item, max_parallelism) for item in filters if item_path(item) == ("key_group",)]
    found += [key_groups_of(keys) for keys in _keys(filters, key_type) if keys is not None]
    for groups in found:
        if groups is not None:
            left = groups if left is None else left & groups
    return left


def item_path(item: Filter) -> tuple[str, ...] | None:
    """Return the path of the column or field that the filter is on."""
    return getattr(item, "attribute", None)


def _class(item: Filter) -> str:
    return type(item).__name__


def _value(item: Filter) -> Any:
    return getattr(item, "value", None)


def _of_key_group(item: Filter, max_parallelism: int) -> set[int] | None:
    every = range(max_parallelism)
    if _class(item) == "In":
        return set(every).intersection(_value(item))
    compare, value = _COMPARISONS.get(_class(item)), _value(item)
    if compare is None or value is None:
        return None
    return {group for group in every if compare(group, value)}


def _keys(filters: Sequence[Filter], key_type: pa.DataType | None) -> Iterator[list[Any] | None]:
    """Yield the keys that each filter on ``key`` specifies, then those that filters on its fields specify together."""
    yield from (_values(item) for item in filters if item_path(item) == ("key",))
    if key_type is None or not pa.types.is_struct(key_type):
        return

    def found(path: tuple[str, ...], _kind: pa.DataType) -> list[Any] | None:
        named = [values for item in filters if item_path(item) == path and (values := _values(item)) is not None]
        nulls = any(_class(item) == "IsNull" and item_path(item) == path for item in filters)
        return min(named, key=len) if named else [None] if nulls else None

    yield keys_of_fields(key_type, lambda path, kind: None if path == ("key",) else found(path, kind))


def _values(item: Filter) -> list[Any] | None:
    """Return the values that the filter accepts; None if it does not list them."""
    if _class(item) == "In":
        return [value for value in _value(item) if value is not None]
    if _class(item) in ("EqualTo", "EqualNullSafe") and _value(item) is not None:
        return [_value(item)]
    return None


def keys_of_filters(filters: Iterable[Filter]) -> list[Any] | None:
    """Return the keys that matching rows can have; None if no filter lists them."""
    named = [_values(item) for item in filters if getattr(item, "attribute", None) == ("key",)]
    found = [keys for keys in named if keys is not None]
    return min(found, key=len) if found else None
