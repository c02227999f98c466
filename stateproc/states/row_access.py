"""Return rows as tables, frames, streams and Python values: what all states have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stateproc.errors import InvalidOption
from stateproc.row_formats.case_collisions import ascii_lower, distinct_reader
from stateproc.states.key_lookup import has_one_row, plain_value, rows_of_key
from stateproc.states.other_libraries import RereadableStream, to_duckdb_relation, to_polars_frame
from stateproc.states.pandas_frames import check_dtypes, to_frame
from stateproc.states.schema_merging import narrowed

if TYPE_CHECKING:
    import pandas as pd
    import polars
    from duckdb import DuckDBPyConnection, DuckDBPyRelation


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
