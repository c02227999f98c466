"""List the execution nodes of Flink's table planner, and the names in the uids that it generates for them.

A uid contains the id of an ExecNode and the name of one of its transformations (``ExecNodeContext.generateUid``). Its
form is the option ``table.exec.uid.format``: ``<id>_<transformation>`` by default from Flink 1.16 on, in 1.15
``<id>_<type>_<version>_<transformation>``. Jobs have such uids where they run from a compiled plan, or with
``table.exec.uid.generation: ALWAYS``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

SINK_TRANSFORMATION = "sink"
_SINK = ("constraint-validator", "partitioner", "upsert-materialize", "timestamp-inserter", "row-kind-setter")
_OTHERS: dict[str, tuple[str, ...]] = {
    "interval-join": ("filter-left", "filter-right", "pad-left", "pad-right", "interval-join"),
    "limit": ("rank",),
    "lookup-join": ("partitioner", "lookup-join-materialize", "lookup-join"),
    "match": ("timestamp-inserter", "match"),
    "process-table-function": ("process",),
    "sink": (*_SINK, SINK_TRANSFORMATION),
    "sort-limit": ("rank",),
    "table-source-scan": ("source",),
    "window-table-function": ("window",),
}
"""ExecNodes whose transformations are not named as they are."""
_SAME = (
    "async-calc", "async-correlate", "calc", "changelog-normalize", "correlate", "deduplicate", "delta-join",
    "drop-update-before", "exchange", "expand", "global-group-aggregate", "global-window-aggregate",
    "group-aggregate", "group-table-aggregate", "group-window-aggregate", "incremental-group-aggregate", "join",
    "lateral-snapshot-join", "local-group-aggregate", "local-window-aggregate", "mini-batch-assigner",
    "ml-predict-table-function", "multi-join", "over-aggregate", "python-async-calc", "python-calc",
    "python-correlate", "python-group-aggregate", "python-group-window-aggregate", "python-over-aggregate",
    "rank", "sort", "temporal-join", "temporal-sort", "values", "vector-search-table-function",
    "watermark-assigner", "window-aggregate", "window-deduplicate", "window-join", "window-rank",
)  # fmt: skip
TRANSFORMATIONS: dict[str, tuple[str, ...]] = {**{name: (name,) for name in _SAME}, **_OTHERS}
"""Names of stream ExecNodes without ``stream-exec-``, and of their transformations, of Flink 1.15 to 2.3."""
_OF_CONNECTORS = (
    "kafka", "upsert-kafka", "hive", "jdbc", "collect", "streaming-writer", "compact-coordinator",
    "compact-operator", "partition-committer", "discarding-sink",
)  # fmt: skip
"""Names that connectors pass to ``ProviderContext.generateUid``."""
_VERSIONS = (1,)
"""Versions of ExecNodes in Flink 1.15, whose format of uids contains them."""


class UidTemplate(NamedTuple):
    """What is before and after the id of an ExecNode in a uid."""

    prefix: str
    suffix: str


def uid_templates() -> Iterator[UidTemplate]:
    """Return the forms of all uids that the planner generates."""
    names = dict.fromkeys(name for found in TRANSFORMATIONS.values() for name in found)
    for name in (*names, *_OF_CONNECTORS):
        yield from _with_committers(f"_{name}", is_sink=name == SINK_TRANSFORMATION)
    for node in TRANSFORMATIONS:
        for version in _VERSIONS:
            yield from templates_of_node(f"stream-exec-{node}", version)


def templates_of_node(node: str, version: int) -> Iterator[UidTemplate]:
    """Return the forms of uids with type and version of one ExecNode, as Flink 1.15 generates them."""
    for name in TRANSFORMATIONS.get(node.removeprefix("stream-exec-"), ()):
        yield from _with_committers(f"_{node}_{version}_{name}", is_sink=name == SINK_TRANSFORMATION)


def _with_committers(suffix: str, *, is_sink: bool) -> Iterator[UidTemplate]:
    yield UidTemplate("", suffix)
    if is_sink:
        before, after = sink_uids("\0")[0].split("\0"), sink_uids("\0")[1].split("\0")
        yield from (UidTemplate(prefix, suffix + rest) for prefix, rest in (before, after))


def sink_uids(uid: str) -> tuple[str, str]:
    """Return the uids of the committer and of the global committer of a sink (SinkTransformationTranslator)."""
    return f"Sink Committer: {uid}", f"Sink {uid} Global Committer"
