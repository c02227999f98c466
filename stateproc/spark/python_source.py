"""Register the data source in Python, which Spark has since 4.0."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pyspark
from pyspark.errors import AnalysisException

from stateproc.errors import InvalidOption

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ALREADY_THERE = "DATA_SOURCE_ALREADY_EXISTS"


def register_source(spark: SparkSession) -> None:
    """Register the data source, which Spark finds itself in an installed package, but not in an editable installation.

    Raises:
        InvalidOption: The release of Spark has no data sources in Python.
    """
    check_python_sources()
    from pyspark_savepoint import DefaultSource  # Lazy: not before Spark 4.0.

    try:
        spark.dataSource.register(DefaultSource)
    except AnalysisException as error:
        # Spark 4.0 found it itself, and registers nothing twice.
        if _ALREADY_THERE not in str(error):
            raise


def check_python_sources() -> None:
    """Raise InvalidOption before Spark 4.0, which brought data sources in Python."""
    if find_spec("pyspark.sql.datasource") is None:
        raise InvalidOption(
            f"PySpark {pyspark.__version__} has no data sources in Python",
            advice="install pyspark>=4.1; or read one state after another: stateproc.load(spark, path, uid=…, state=…)",
        )
