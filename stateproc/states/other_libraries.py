"""Pass rows to polars and DuckDB, which are imported only then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from stateproc.errors import MissingPackage

if TYPE_CHECKING:
    import polars
    from duckdb import DuckDBPyConnection, DuckDBPyRelation


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
    """Return a stream as a relation of a connection."""
    import duckdb  # Lazy: start-up.

    return (connection or duckdb).from_arrow(stream)
