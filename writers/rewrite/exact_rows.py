"""How writers read the rows of a state: exactly, unless the user chose otherwise.

By default dates and times are text (ISO-8601) where the type of their values has nanoseconds, which neither Spark's
timestamps nor most functions of Arrow have, and Arrow's types where microseconds are all the type has. Whatever a
column cannot hold is an error: digits below a microsecond where the user chose ``temporal='micros'``, a RowKind other
than +I without ``row_kind``, half of a surrogate pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stateproc.readers.read_options import ReadOptions
from stateproc.writers.bootstrap.column_type import ColumnType

EXACT_ROWS = {"temporal": "lossless", "on_loss": "fail"}
"""The options of reading with which rows are exact, by their names in Python."""
_SPARK_NAMES = {"temporal": "temporal", "on_loss": "onLoss"}


def exact_open_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Add what makes rows exact to arguments of ``stateproc.open``, unless they are given."""
    return {**EXACT_ROWS, **given}


def exact_spark_options(given: Mapping[str, str]) -> dict[str, str]:
    """Add what makes rows exact to options of Spark's data source, unless they are given in any spelling."""
    names = {name.lower().replace("_", "") for name in given}
    added = {_SPARK_NAMES[name]: value for name, value in EXACT_ROWS.items() if name.replace("_", "") not in names}
    return {**added, **given}


def exact_read_options(options: ReadOptions, given: Mapping[str, str] | None) -> ReadOptions:
    """Return the options with which a snapshot was opened, with those that make rows exact.

    Args:
        options: The options.
        given: Those that the user gave, by Spark's names; None if that is not known: then what is the default of
            reading was not chosen.
    """
    if given is None:
        loose = {"temporal": "micros", "on_loss": "cut"}
        chosen = {name for name, value in loose.items() if getattr(options, name) != value}
    else:
        names = {name.lower().replace("_", "") for name in given}
        chosen = {name for name in EXACT_ROWS if name.replace("_", "") in names}
    added: dict[str, Any] = {name: value for name, value in EXACT_ROWS.items() if name not in chosen}
    return replace(options, **added)


def is_alike(now: ColumnType, before: ColumnType, typed: ColumnType | None) -> bool:
    """Return whether a column has the type that it had before, so that Flink's type is the same.

    Args:
        now: The type of the column.
        before: The type that it was read as.
        typed: The same with Arrow's dates and times instead of text.
    """
    # What may be null is said of columns only: Flink's types are the same without it.
    if now.text == before.text or (typed is not None and now.text == typed.text):
        return True
    if typed is None or not now.fields or not now.kind == before.kind == typed.kind:
        return False
    names = [[name for name, _ in type_.fields] for type_ in (now, before, typed)]
    if names[0] != names[1] or names[1] != names[2]:
        return False
    return all(map(is_alike, now.children, before.children, typed.children))
