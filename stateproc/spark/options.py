"""Parse the options of ``format("savepoint")``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stateproc.errors import InvalidOption
from stateproc.options import SPLIT_BYTES, Interface, open_arguments, parse_options
from stateproc.snapshot.selection import StateSelection

_SQL = "CREATE TEMPORARY VIEW v USING savepoint OPTIONS (path '…', uid '…', state '…')"
_TABLE_PROPERTIES = frozenset({"location", "owner", "provider"})
"""What Spark passes instead of options for a table of its catalog."""


@dataclass(frozen=True)
class SourceOptions:
    """What to open, what to select in it, and which rows of it to read; see docs/options.md.

    Attributes:
        opening: Keyword arguments of :func:`stateproc.open`.
    """

    path: str
    selection: StateSelection
    opening: Mapping[str, Any]
    flatten: bool = False
    raw: bool = False
    columns: tuple[str, ...] | None = None
    key_groups: frozenset[int] | None = None
    keys: tuple[Any, ...] | None = None
    split_bytes: int = SPLIT_BYTES


def source_options(raw: Mapping[str, str]) -> SourceOptions:
    """Parse the options as Spark passes them (names in any case).

    Raises:
        InvalidOption: An option is unknown, its value does not fit, or options exclude each other.
    """
    for name in raw:
        _check_name(name.lower())
    values = parse_options(raw)
    path = values.pop("path")
    if not path:
        raise InvalidOption("no path given", advice=f'load("/path/of/savepoint"), or in SQL: {_SQL}')
    rows = {name: values[name] for name in SourceOptions.__dataclass_fields__ if name in values}
    opening = open_arguments(values)
    return SourceOptions(path, StateSelection.of(values, Interface.SPARK), opening, **rows)


def _check_name(name: str) -> None:
    if name == "paths":
        raise InvalidOption("several paths given", advice="load one snapshot at a time and union the DataFrames")
    if name in _TABLE_PROPERTIES:
        raise InvalidOption("CREATE TABLE … USING savepoint loses its options at reading", advice=_SQL)
