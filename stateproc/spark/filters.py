"""Filters that Spark pushes, as the key groups that can hold matching rows."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

from stateproc.keygroups.key_group_pruning import keys_of_fields

KeyGroupsOf = Callable[[Sequence[Any]], "set[int] | None"]

_COMPARISONS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}


def key_groups_of_filters(
    filters: Iterable[Filter],
    max_parallelism: int,
    key_groups_of: KeyGroupsOf,
    key_type: pa.DataType | None = None,
) -> set[int] | None:
    """The key groups that all filters leave; None if they exclude nothing.

    ``key_groups_of`` tells where keys are (None: unknown). ``key_type``: of the column ``key``; a struct is known when
    filters tell each of its fields. Filters on other columns are left to Spark.
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
    """The column, or field of one, that the filter is on."""
    return getattr(item, "attribute", None)


def _of_key_group(item: Filter, max_parallelism: int) -> set[int] | None:
    every = range(max_parallelism)
    if isinstance(item, In):
        return set(every).intersection(item.value)
    compare = _COMPARISONS.get(type(item))
    if compare is None or item.value is None:
        return None
    return {group for group in every if compare(group, item.value)}


def _keys(filters: Sequence[Filter], key_type: pa.DataType | None) -> Iterator[list[Any] | None]:
    """The keys that each filter on ``key`` names, and those that filters on its fields name together."""
    yield from (_values(item) for item in filters if item_path(item) == ("key",))
    if key_type is None or not pa.types.is_struct(key_type):
        return

    def found(path: tuple[str, ...], _kind: pa.DataType) -> list[Any] | None:
        named = [values for item in filters if item_path(item) == path and (values := _values(item)) is not None]
        nulls = any(isinstance(item, IsNull) and item_path(item) == path for item in filters)
        return min(named, key=len) if named else [None] if nulls else None

    yield keys_of_fields(key_type, lambda path, kind: None if path == ("key",) else found(path, kind))


def _values(item: Filter) -> list[Any] | None:
    """The values that the filter lets through; None if it does not name them."""
    if isinstance(item, In):
        return [value for value in item.value if value is not None]
    if isinstance(item, EqualTo | EqualNullSafe) and item.value is not None:
        return [item.value]
    return None


def keys_of_filters(filters: Iterable[Filter]) -> list[Any] | None:
    """The keys that rows can have by these filters; None if they name none."""
    named = [_values(item) for item in filters if getattr(item, "attribute", None) == ("key",)]
    found = [keys for keys in named if keys is not None]
    return min(found, key=len) if found else None
