"""Compute HASH_CODE of SQL, by which the planner assigns values to buckets.

The functions are those of Java's classes of the values: of texts Math.abs of that of the String, of dates that of the
days as an Integer, of timestamps 31 times that of the milliseconds as a Long, and the nanoseconds of the millisecond.
Source: hashCodeForType of CodeGenUtils (org.apache.flink.table.planner.codegen), TimestampData.hashCode, and the
buckets that Flink 1.15, 1.20 and 2.3 gave.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stateproc.codec.array_types import Ints
from stateproc.keygroups.hashed_types import hashed_values
from stateproc.keygroups.hashes import hash_codes
from stateproc.keygroups.kernels import as_int32, numbers
from stateproc.keygroups.key_hash import KeyHash
from stateproc.keygroups.scalars import long_hashes, seconds_and_nanos
from stateproc.serializers.table.logical_types import LogicalType

_TIMESTAMP, _TEXTS = "TIMESTAMP_WITHOUT_TIME_ZONE", ("CHAR", "VARCHAR")
_KINDS = {
    "BOOLEAN": "boolean",
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER"), "int"),
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    **dict.fromkeys(_TEXTS, "string"),
    "DECIMAL": "big_decimal",
    "DATE": "local_date",
    _TIMESTAMP: "local_date_time",
}


def has_sql_hash_code(type_: LogicalType) -> bool:
    """Whether the function is known for values of a type."""
    return type_.kind in _KINDS


def sql_hash_codes(values: pa.Array, type_: LogicalType) -> Ints:
    """Return HASH_CODE of each value; of null any number. ``type_``: one of those that `has_sql_hash_code` knows."""
    kind = KeyHash(_KINDS[type_.kind])
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    found = hashed_values(values, kind)
    if type_.kind == "DATE":
        return as_int32(numbers(found.cast(pa.int32()), np.int64))
    if type_.kind in _TEXTS:
        codes: Ints = np.abs(hash_codes(found, kind))  # Of the least number itself, as in Java.
        return codes
    if type_.kind != _TIMESTAMP:
        return hash_codes(found, kind)
    seconds, nanos = seconds_and_nanos(found)
    codes = 31 * long_hashes(seconds * 1000 + nanos // 10**6) + as_int32(nanos % 10**6)
    return codes
