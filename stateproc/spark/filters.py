"""Filters that Spark pushes, as the key groups that can hold matching rows."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

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
    filters: Iterable[Filter], max_parallelism: int, key_groups_of: KeyGroupsOf
) -> set[int] | None:
    """The key groups that all filters leave; None if they exclude nothing.

    ``key_groups_of`` tells where keys are (None: unknown). Filters on other columns are left to Spark.
    """
    left: set[int] | None = None
    for item in filters:
        groups = _key_groups(item, max_parallelism, key_groups_of)
        if groups is not None:
            left = groups if left is None else left & groups
    return left


def _key_groups(item: Filter, max_parallelism: int, key_groups_of: KeyGroupsOf) -> set[int] | None:
    column = getattr(item, "attribute", None)
    if column == ("key_group",):
        return _of_key_group(item, max_parallelism)
    if column == ("key",):
        keys = _values(item)
        return None if keys is None else key_groups_of(with_both_zeros(keys))
    return None


def _of_key_group(item: Filter, max_parallelism: int) -> set[int] | None:
    every = range(max_parallelism)
    if isinstance(item, In):
        return set(every).intersection(item.value)
    compare = _COMPARISONS.get(type(item))
    if compare is None or item.value is None:
        return None
    return {group for group in every if compare(group, item.value)}


def _values(item: Filter) -> list[Any] | None:
    """The keys that the filter lets through; None if it does not name them."""
    if isinstance(item, In):
        return [value for value in item.value if value is not None]
    if isinstance(item, EqualTo | EqualNullSafe) and item.value is not None:
        return [item.value]
    return None


def with_both_zeros(keys: Sequence[Any]) -> list[Any]:
    """To Spark 0.0 equals -0.0; to Flink they are two keys in two key groups."""
    return [*keys, *(-key for key in keys if isinstance(key, float) and key == 0.0)]


def keys_of_filters(filters: Iterable[Filter]) -> list[Any] | None:
    """The keys that rows can have by these filters; None if they name none."""
    named = [_values(item) for item in filters if getattr(item, "attribute", None) == ("key",)]
    found = [keys for keys in named if keys is not None]
    return min(found, key=len) if found else None
