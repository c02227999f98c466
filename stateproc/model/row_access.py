"""Return rows as tables, frames, streams and Python values: what all states have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from stateproc.errors import InvalidOption, MissingPackage, package_for
from stateproc.model.schema_merging import narrowed
from stateproc.row_formats.case_collisions import ascii_lower, distinct_reader

if TYPE_CHECKING:
    import pandas as pd
    import polars
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

# Find the rows of one key among batches that contain others.

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


# Convert Arrow tables to pandas without losing values: no integer or decimal becomes a float, no time is rounded.

PANDAS_DTYPES = ("arrow", "nullable")


def check_dtypes(dtypes: str) -> None:
    """Raise InvalidOption for an unknown kind of dtypes."""
    if dtypes not in PANDAS_DTYPES:
        raise InvalidOption(f"option dtypes={dtypes!r}", advice=f"give one of {', '.join(PANDAS_DTYPES)}")


def to_frame(table: pa.Table, dtypes: str = "arrow") -> pd.DataFrame:
    """Convert a table to a DataFrame.

    Args:
        table: The rows.
        dtypes: ``arrow``: every column is Arrow-backed (``pandas.ArrowDtype``). ``nullable``: integers, floats,
            booleans and strings have pandas' own nullable types (``Int64``, ``Float64``, ``boolean``, ``string`` …);
            all other columns, which pandas has no exact type for, are Arrow-backed.

    Raises:
        InvalidOption: ``dtypes`` is neither.
        MissingPackage: pandas is not installed.
    """
    check_dtypes(dtypes)
    with package_for("to_pandas()"):
        import pandas as pd  # Lazy: slow to import, optional dependency.

    mapper: Callable[[pa.DataType], Any] = pd.ArrowDtype if dtypes == "arrow" else _nullable_dtype
    frame: pd.DataFrame = table.to_pandas(types_mapper=mapper)
    return frame


def _nullable_dtype(type_: pa.DataType) -> Any:
    """Return pandas' nullable type for values of an Arrow type, or the Arrow-backed one where there is none."""
    import pandas as pd

    by_type: dict[pa.DataType, Any] = {
        pa.bool_(): pd.BooleanDtype(),
        pa.int8(): pd.Int8Dtype(),
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.uint8(): pd.UInt8Dtype(),
        pa.uint16(): pd.UInt16Dtype(),
        pa.uint32(): pd.UInt32Dtype(),
        pa.uint64(): pd.UInt64Dtype(),
        pa.float32(): pd.Float32Dtype(),
        pa.float64(): pd.Float64Dtype(),
        pa.string(): pd.StringDtype(),
    }
    return by_type.get(type_) or pd.ArrowDtype(type_)


# Pass rows to polars and DuckDB, which are imported only then.


@dataclass(frozen=True)
class RereadableStream:
    """An Arrow stream that can be consumed more than once: each consumer has a reader of its own."""

    open: Callable[[], pa.RecordBatchReader]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows as a new Arrow C stream."""
        return self.open().__arrow_c_stream__(requested_schema)


def to_polars_frame(table: pa.Table) -> polars.DataFrame:
    """Return a table as a polars DataFrame. Raises MissingPackage if polars is not installed."""
    try:
        import polars
    except ImportError as error:
        raise MissingPackage("polars is not installed", advice="pip install polars") from error
    return polars.DataFrame(table)


def to_duckdb_relation(stream: RereadableStream, connection: DuckDBPyConnection | None) -> DuckDBPyRelation:
    """Return a stream as a relation of a connection. Raises MissingPackage if duckdb is not installed."""
    with package_for("to_duckdb()"):
        import duckdb  # Lazy: start-up, optional dependency.

    return (connection or duckdb).from_arrow(stream)


class RowAccess(ABC):
    """What can be asked of anything that has rows.

    Attributes:
        name: The state's name.
        kind: The state's kind.
    """

    name: str
    kind: str

    @abstractmethod
    def schema(self, *, flatten: bool = False) -> pa.Schema:
        """Return the columns of the rows."""

    @abstractmethod
    def batches(self, *arguments: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        """Read the rows, one bounded batch after another."""

    @abstractmethod
    def _batches(self, *arguments: Any, **options: Any) -> Generator[pa.RecordBatch, None, None]:
        """Read the rows; ``at_once``: all threads begin before the first batch is there."""

    def to_arrow(self, **options: Any) -> pa.Table:
        """Read all rows as a table.

        Args:
            **options: As in :meth:`batches`.

        Raises:
            SnapshotError: As in :meth:`batches`.
        """
        schema = narrowed(self.schema(flatten=options.get("flatten", False)), options.get("columns"))
        return pa.Table.from_batches(list(self._batches(**options, at_once=True)), schema=schema)

    def to_pandas(self, *, dtypes: str = "arrow", **options: Any) -> pd.DataFrame:
        """Return all rows as a pandas DataFrame that keeps every value: integers with nulls do not become floats.

        Args:
            dtypes: ``arrow``: Arrow-backed columns. ``nullable``: pandas' own nullable types (``Int64``, ``Float64``,
                ``boolean``, ``string``) where it has an exact one; dates, times, decimals, bytes, structs, lists and
                maps stay Arrow-backed.
            **options: As in :meth:`batches`.

        Raises:
            SnapshotError: As in :meth:`batches`.
        """
        check_dtypes(dtypes)
        return to_frame(self.to_arrow(**options), dtypes)

    def to_polars(self, **options: Any) -> polars.DataFrame:
        """Return all rows as a polars DataFrame.

        Args:
            **options: As in :meth:`batches`.

        Raises:
            MissingPackage: polars is not installed.
            SnapshotError: As in :meth:`batches`.
        """
        return to_polars_frame(self.to_arrow(**options))

    def to_duckdb(self, connection: DuckDBPyConnection | None = None, **options: Any) -> DuckDBPyRelation:
        """Return the rows as a DuckDB relation, which reads them in bounded memory each time that it is evaluated.

        DuckDB does not distinguish names by case: columns and fields that differ by case only have numbers, as ``ID_1``
        and ``id_2``.

        Args:
            connection: The connection of the relation; default DuckDB's own.
            **options: As in :meth:`batches`.

        Raises:
            MissingPackage: duckdb is not installed.
            InvalidOption: As in :meth:`batches`.
            SnapshotError: The schema cannot be determined.
        """
        return to_duckdb_relation(
            RereadableStream(lambda: distinct_reader(self.to_reader(**options), ascii_lower)), connection
        )

    def head(self, n: int = 5, **options: Any) -> pa.Table:
        """Read the first rows, and little more.

        Args:
            n: The number of rows.
            **options: As in :meth:`batches`.

        Raises:
            SnapshotError: As in :meth:`batches`.
        """
        schema = narrowed(self.schema(flatten=options.get("flatten", False)), options.get("columns"))
        found: list[pa.RecordBatch] = []
        with closing(self._batches(**{"threads": 1, **options})) as batches:
            for batch in batches:
                if n <= 0:
                    break
                found.append(batch.slice(0, n))
                n -= len(found[-1])
                if n <= 0:
                    break
        return pa.Table.from_batches(found, schema=schema)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return what the state has for one key, reading only the key's key group, of RocksDB only its blocks.

        Args:
            key: A Python value as ``to_pylist`` returns it: of a composite key a dict.
            default: What is returned where the state has no value for the key.

        Returns:
            The value, of map states a dict. Of states with several rows per key (namespaces, timers, all keyed states
            of an operator) a list of dicts, one per row.

        Raises:
            InvalidOption: The state has no keys, or the key is of another type.
            SnapshotError: As in :meth:`batches`.
        """
        schema = self.schema()
        if "key" not in schema.names:
            raise InvalidOption(f"state '{self.name}' has no keys", advice="to_arrow() returns all of its rows")
        with closing(self._batches(keys=[key])) as batches:
            rows = list(rows_of_key(batches, key))
        if not has_one_row(self.kind, schema.names):
            return rows
        return plain_value(rows[0]["value"], schema.field("value").type) if rows else default

    def to_reader(self, **options: Any) -> pa.RecordBatchReader:
        """Return a stream of the rows, in bounded memory, for what consumes Arrow streams.

        Args:
            **options: As in :meth:`batches`.

        Raises:
            SnapshotError: The schema cannot be determined; reading raises as :meth:`batches`.
        """
        schema = narrowed(self.schema(flatten=options.get("flatten", False)), options.get("columns"))
        return pa.RecordBatchReader.from_batches(schema, self.batches(**options))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export all rows as an Arrow C stream, so that ``pa.table(state)``, polars and duckdb read the state.

        Args:
            requested_schema: A schema to cast the rows to, as a PyCapsule.

        Raises:
            SnapshotError: The schema cannot be determined.
        """
        return self.to_reader().__arrow_c_stream__(requested_schema)
