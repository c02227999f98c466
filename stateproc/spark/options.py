"""Parse the options of ``format("savepoint")``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stateproc.change_feed.feed_query import FeedQuery
from stateproc.errors import InvalidOption
from stateproc.options import BY_NAME, FEED_OPTIONS, SPLIT_BYTES, Interface, open_arguments, parse_options
from stateproc.snapshot.selection import StateSelection

_SQL = "CREATE TEMPORARY VIEW v USING savepoint OPTIONS (path '…', uid '…', state '…')"
_TABLE_PROPERTIES = frozenset({"location", "owner", "provider"})
"""What Spark passes instead of options for a table of its catalog."""


@dataclass(frozen=True)
class SourceOptions:
    """What to open, what to select in it, and which rows of it to read; see docs/options.md.

    Attributes:
        opening: Keyword arguments of :func:`stateproc.open`.
        feed: What a change feed compares; None if rows are those of a snapshot.
        starting_snapshot: The path of the earlier snapshot of a change feed. ``path`` is the later one; without an
            earlier one it may be a checkpoint root.
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
    feed: FeedQuery | None = None
    starting_snapshot: str | None = None


def source_options(raw: Mapping[str, str]) -> SourceOptions:
    """Parse the options as Spark passes them (names in any case).

    Raises:
        InvalidOption: An option is unknown, its value does not fit, or options exclude each other.
    """
    for name in raw:
        _check_name(name.lower())
    values = parse_options(raw)
    path = _feed_path(values, raw) if values["read_change_feed"] else _plain_path(values, raw)
    if not path:
        raise InvalidOption("no path given", advice=f'load("/path/of/savepoint"), or in SQL: {_SQL}')
    rows = {name: values[name] for name in SourceOptions.__dataclass_fields__ if name in values}
    opening = open_arguments(values)
    feed = FeedQuery.of(values) if values["read_change_feed"] else None
    return SourceOptions(path, StateSelection.of(values, Interface.SPARK), opening, **rows, feed=feed)


def _plain_path(values: dict[str, Any], raw: Mapping[str, str]) -> Any:
    """Return the path of a snapshot. Raises InvalidOption for options of change feeds."""
    given = {name.lower() for name in raw}
    for option in FEED_OPTIONS:
        if option.spark_name.lower() in given and option.name != "read_change_feed":
            raise InvalidOption(
                f"option {option.spark_name} is one of change feeds", advice='give readChangeFeed="true" as well'
            )
    return values.pop("path")


def _feed_path(values: dict[str, Any], raw: Mapping[str, str]) -> Any:
    """Return the path of the later snapshot or of a checkpoint root. Raises InvalidOption."""
    path, ending = values.pop("path"), values.pop("ending_snapshot")
    if path and ending:
        raise InvalidOption(
            f"two later snapshots are given: {path} and {ending}",
            advice="leave endingSnapshot away, or the path: load()",
        )
    ids = [name for name in ("starting_checkpoint", "ending_checkpoint") if values[name] is not None]
    given = (("starting_snapshot", values["starting_snapshot"]), ("ending_snapshot", ending))
    paths = [name for name, snapshot in given if snapshot]
    if ids and paths:
        one, two = (BY_NAME[names[0]].spark_name for names in (ids, paths))
        raise InvalidOption(
            f"options {one} and {two} exclude each other",
            advice="give ids with the path of a checkpoint root, or the paths of two snapshots",
        )
    return path or ending


def _check_name(name: str) -> None:
    if name == "paths":
        raise InvalidOption("several paths given", advice="load one snapshot at a time and union the DataFrames")
    if name in _TABLE_PROPERTIES:
        raise InvalidOption("CREATE TABLE … USING savepoint loses its options at reading", advice=_SQL)
