"""Columns by their names, whatever is in these."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def column_named(name: str) -> Column:
    """The column of a DataFrame that is called so; dots and backticks are parts of its name."""
    return F.col("`" + name.replace("`", "``") + "`")
