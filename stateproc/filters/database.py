"""The DuckDB in memory that parses and evaluates conditions: one connection per thread, without access to anything."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_LOCAL = threading.local()


def connection() -> DuckDBPyConnection:
    """Return this thread's connection: no files, no extensions, no settings that a condition could change."""
    found: DuckDBPyConnection | None = getattr(_LOCAL, "connection", None)
    if found is None:
        import duckdb  # Lazy: start-up.

        found = duckdb.connect(config={"threads": 1, "python_enable_replacements": False})
        found.execute("SET TimeZone = 'UTC'")
        found.execute("SET errors_as_json = true")
        if int(duckdb.__version__.partition(".")[0]) < 2:
            # It lets Arrow evaluate conditions, where NaN is not the greatest number.
            found.execute("SET disabled_optimizers = 'filter_pushdown'")
        found.execute("SET enable_external_access = false")
        found.execute("SET lock_configuration = true")
        _LOCAL.connection = found
    return found


def duckdb_errors() -> Any:
    """Return the base class of DuckDB's errors."""
    import duckdb

    return duckdb.Error
