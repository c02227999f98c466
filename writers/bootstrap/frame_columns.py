"""The columns of the rows that fill a state, whichever library holds the rows: Spark or Arrow."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from stateproc.writers.bootstrap.arrow_frames import arrow_columns, arrow_rows, arrow_table, is_arrow, schema_columns
from stateproc.writers.bootstrap.column_types import ColumnType, FrameColumns


def columns_of(frame: Any) -> FrameColumns | None:
    """Return the columns of a DataFrame of Spark or of Arrow data; None for anything else."""
    if not is_spark(frame):
        return arrow_columns(frame) if is_arrow(frame) else None
    from stateproc.writers.bootstrap.spark_frames import spark_columns  # Lazy: only where Spark is imported.

    return spark_columns(frame)


def columns_like(frame: Any, schema: pa.Schema) -> FrameColumns:
    """Return an Arrow schema as columns of the library that holds ``frame``. Raises InvalidOption if it has no type."""
    if not is_spark(frame):
        return schema_columns(schema)
    from stateproc.writers.bootstrap.spark_frames import columns_of_schema

    return columns_of_schema(schema)


def is_spark(frame: Any) -> bool:
    """Return whether this is a DataFrame of Spark."""
    # Rows of Spark exist only where its classes are imported already; a local write does not import them.
    if "pyspark.sql.types" in sys.modules:
        from stateproc.writers.bootstrap.spark_frames import is_data_frame

        return is_data_frame(frame)
    return False


def type_given(given: object) -> ColumnType | None:
    """Return the type that a type of Spark means; None for anything else."""
    if "pyspark.sql.types" in sys.modules:
        from stateproc.writers.bootstrap.spark_frames import spark_type_given

        return spark_type_given(given)
    return None


def collected(frame: Any, roles: Mapping[str, str | None]) -> list[dict[str, Any]]:
    """Return all rows of a few columns, under the names of their roles; None for a role without a column."""
    if not is_spark(frame):
        return arrow_rows(frame, roles)
    from stateproc.writers.bootstrap.spark_frames import collected_rows

    return collected_rows(frame, roles)


def rows_like(frame: Any, rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> Any:
    """Return rows as an object of the library that holds ``frame``."""
    if not is_spark(frame):
        return arrow_table(rows, schema)
    from stateproc.writers.bootstrap.spark_frames import created

    return created(frame, rows, schema)
