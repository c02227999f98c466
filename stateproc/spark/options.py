"""Parse the options of ``format("savepoint")``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from stateproc.errors import InvalidOption
from stateproc.feed.feed_rows import FeedQuery
from stateproc.options import (
    BY_NAME,
    FEED_OPTIONS,
    SPLIT_BYTES,
    STREAM_OPTIONS,
    Interface,
    open_arguments,
    parse_options,
)
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
        roots: Further checkpoint roots.
        whole_states: Whether rows are those of whole states, each with its checkpoint: in streams only.
        streamed: The names of options that only streams have.
    """

    path: str
    selection: StateSelection
    opening: Mapping[str, Any] = field(repr=False)
    flatten: bool = False
    raw: bool = False
    columns: tuple[str, ...] | None = None
    key_groups: frozenset[int] | None = None
    keys: tuple[Any, ...] | None = None
    split_bytes: int = SPLIT_BYTES
    feed: FeedQuery | None = None
    starting_snapshot: str | None = None
    roots: tuple[str, ...] = ()
    whole_states: bool = False
    starting_checkpoint: int | None = None
    ending_checkpoint: int | None = None
    max_checkpoints_per_trigger: int | None = None
    fail_on_data_loss: bool = True
    streamed: tuple[str, ...] = ()

    @property
    def all_roots(self) -> tuple[str, ...]:
        """The path and further checkpoint roots."""
        return tuple(dict.fromkeys((self.path, *self.roots)))


def source_options(raw: Mapping[str, str]) -> SourceOptions:
    """Parse the options as Spark passes them (names in any case).

    Raises:
        InvalidOption: An option is unknown, its value does not fit, or options exclude each other.
    """
    for name in raw:
        _check_name(name.lower())
    values = parse_options(raw)
    given = {name.lower() for name in raw}
    is_feed = values["read_change_feed"] or values["streaming_mode"] == "changes"
    whole_states = not is_feed and values["streaming_mode"] == "snapshots"
    if values["read_change_feed"] and values["streaming_mode"] == "snapshots":
        raise InvalidOption(
            "options readChangeFeed and streamingMode=snapshots exclude each other",
            advice="leave readChangeFeed away for whole states, or streamingMode for changes",
        )
    more = values.pop("roots")
    path = _feed_path(values, more) if is_feed else _plain_path(values, given, more, whole_states)
    if not path:
        raise InvalidOption("no path given", advice=f'load("/path/of/savepoint"), or in SQL: {_SQL}')
    rows = {name: values[name] for name in SourceOptions.__dataclass_fields__ if name in values}
    only_streams = (option.spark_name for option in STREAM_OPTIONS if option.name != "roots")
    streamed = tuple(name for name in only_streams if name.lower() in given)
    return SourceOptions(
        path,
        StateSelection.of(values, Interface.SPARK),
        open_arguments(values),
        **rows,
        feed=FeedQuery.of(values) if is_feed else None,
        roots=more,
        whole_states=whole_states,
        streamed=streamed,
    )


def _plain_path(values: dict[str, Any], given: Collection[str], more: tuple[str, ...], whole_states: bool) -> Any:
    """Return the path of a snapshot. Raises InvalidOption for options of change feeds."""
    allowed = ("read_change_feed", *(("starting_checkpoint", "ending_checkpoint") if whole_states else ()))
    for option in FEED_OPTIONS:
        if option.spark_name.lower() in given and option.name not in allowed:
            raise InvalidOption(
                f"option {option.spark_name} is one of change feeds", advice='give readChangeFeed="true" as well'
            )
    if more and not whole_states:
        raise InvalidOption("option roots is one of change feeds and streams", advice="load one snapshot by its path")
    return values.pop("path") or next(iter(more), None)


def _feed_path(values: dict[str, Any], more: tuple[str, ...]) -> Any:
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
    if more and paths:
        raise InvalidOption(
            f"options roots and {BY_NAME[paths[0]].spark_name} exclude each other",
            advice="give the roots of checkpoints, or the paths of two snapshots",
        )
    return path or ending or next(iter(more), None)


def _check_name(name: str) -> None:
    if name == "paths":
        raise InvalidOption("several paths given", advice="load one snapshot at a time and union the DataFrames")
    if name in _TABLE_PROPERTIES:
        raise InvalidOption("CREATE TABLE … USING savepoint loses its options at reading", advice=_SQL)
