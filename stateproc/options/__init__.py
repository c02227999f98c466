"""Define every option once, for the Python API, the Spark data source and the command line.

An option has one name in three spellings: ``path_mapping`` (Python), ``pathMapping`` (Spark), ``--path-mapping``
(command line). This package imports nothing but errors, because ``stateproc --help`` builds its arguments from it.
"""

from stateproc.options.definition import Interface, OptionDefinition
from stateproc.options.parsers import storage_value
from stateproc.options.table import (
    BY_NAME,
    FEED_OPTIONS,
    ON_ERROR,
    ON_LOSS,
    OPAQUE,
    OPEN_OPTIONS,
    OPTIONS,
    PATH,
    ROW_OPTIONS,
    SELECT_OPTIONS,
    SPLIT_BYTES,
    STORAGE_PREFIX,
    STREAM_OPTIONS,
    TEMPORAL,
    open_arguments,
    parse_options,
)

__all__ = [
    "BY_NAME",
    "FEED_OPTIONS",
    "ON_ERROR",
    "ON_LOSS",
    "OPAQUE",
    "OPEN_OPTIONS",
    "OPTIONS",
    "PATH",
    "ROW_OPTIONS",
    "SELECT_OPTIONS",
    "SPLIT_BYTES",
    "STORAGE_PREFIX",
    "STREAM_OPTIONS",
    "TEMPORAL",
    "Interface",
    "OptionDefinition",
    "open_arguments",
    "parse_options",
    "storage_value",
]
