"""Describe a state: its types in Flink, Arrow and Spark, and how it is stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from stateproc.row_formats.column_types import spark_type
from stateproc.states.described_types import DescribedType


@dataclass(frozen=True)
class StoredColumn:
    """A column of a state's rows."""

    name: str
    arrow: str
    spark: str


@dataclass(frozen=True)
class Storage:
    """How a state is stored.

    Attributes:
        layouts: canonical, heap, rocksdb, changelog, operator state or raw timers.
        subtasks: The subtasks whose files contain it.
        variants: How many different descriptions these files have; more than 1 after a schema was changed.
        compressed: Whether entries are compressed with snappy; None where that is not known.
        serializer: The class of the snapshot of the serializer that is registered for the values.
        version: The version of that snapshot.
    """

    layouts: tuple[str, ...] = ()
    subtasks: tuple[int, ...] = ()
    variants: int = 1
    compressed: bool | None = None
    serializer: str | None = None
    version: int | None = None


@dataclass(frozen=True)
class StateDescription:
    """What is known of a state without reading its rows.

    Attributes:
        operator: The operator's uid, else its id.
        operator_id: The uid hash.
        name: The state's name.
        kind: value, list, map, reducing, aggregating, event timers, processing timers, broadcast.
        distribution: keyed, split, union or broadcast.
        ttl: Whether it has a time to live; then rows have a column ``last_access``.
        max_parallelism: The number of key groups.
        storage: How it is stored.
        types: Key, namespace and values; the key and the value of maps, the element of lists.
        columns: The columns of its rows.
        problem: Why it cannot be read; None if its types are known.
    """

    operator: str
    operator_id: str
    name: str
    kind: str
    distribution: str
    ttl: bool
    max_parallelism: int
    storage: Storage
    types: tuple[DescribedType, ...] = ()
    columns: tuple[StoredColumn, ...] = ()
    problem: str | None = field(default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return the description as plain values, as ``stateproc describe --json`` prints them."""
        storage = {name: getattr(self.storage, name) for name in _STORAGE}
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "storage": {**storage, "layouts": list(self.storage.layouts), "subtasks": list(self.storage.subtasks)},
            "types": [node.to_dict() for node in self.types],
            "columns": [{"name": item.name, "arrow": item.arrow, "spark": item.spark} for item in self.columns],
        }

    def __str__(self) -> str:
        lines = [f"{self.kind} state {self.name!r} of operator {self.operator!r}"]
        lines += [f"  {item.name}: {item.arrow} (Spark: {item.spark})" for item in self.columns]
        lines += [f"  {self.problem}"] if self.problem else []
        return "\n".join(lines)


_STORAGE = ("layouts", "subtasks", "variants", "compressed", "serializer", "version")
_PLAIN = ("operator", "operator_id", "name", "kind", "distribution", "ttl", "max_parallelism", "problem")


def stored_columns(schema: pa.Schema) -> tuple[StoredColumn, ...]:
    """Return the columns of a schema."""
    return tuple(StoredColumn(item.name, str(item.type), spark_type(item.type)) for item in schema)
