"""Translate the filters that Spark pushes down into key groups and keys."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

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


# What Spark pushes into the reader: filters, and columns and limits in releases that have these for Python sources.


class PushFilters:
    """The reader's ``pushFilters``: stores all filters, and returns all of them for Spark to evaluate as well.

    Spark refuses a reader that overrides pushFilters while spark.sql.python.filterPushdown.enabled is false, which it
    recognizes by the method's ``__func__`` (pyspark.sql.worker.plan_data_source_read). This callable has that of the
    base class: Spark calls it if the setting is true, and takes it for not overridden if it is false. Spark 4.0 pushes
    no filters into Python sources.
    """

    __func__ = staticmethod(getattr(DataSourceReader, "pushFilters", list))

    def __init__(self) -> None:
        self.filters: tuple[Filter, ...] = ()

    def __call__(self, filters: Sequence[Filter]) -> list[Filter]:
        self.filters = tuple(filters)
        return list(filters)


class LimitingReader(Protocol):
    """A reader that can be limited to columns and to a number of rows."""

    def prune_columns(self, required: StructType) -> StructType: ...

    def push_limit(self, limit: int) -> bool: ...


Reader = TypeVar("Reader", bound=LimitingReader)


def with_offered_pushdowns(reader: type[Reader], base: type = DataSourceReader) -> type[Reader]:
    """Give a reader the methods by which newer releases of Spark limit columns and rows, if the base class has them.

    ``pruneColumns`` is that of SPARK-51713, ``pushLimit`` that of SPARK-58551.
    """
    for name, method in (("pruneColumns", reader.prune_columns), ("pushLimit", reader.push_limit)):
        if hasattr(base, name):
            setattr(reader, name, method)
    return reader


def limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the first rows of batches, and read no further; all without a limit."""
    remaining = limit
    for batch in batches:
        yield batch if remaining is None else batch.slice(0, remaining)
        if remaining is not None:
            remaining -= len(batch)
            if remaining <= 0:
                return
