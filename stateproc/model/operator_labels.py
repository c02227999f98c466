"""Recognize the kind of an operator by the names of its states, which Flink's operators choose.

The names are those in flink-table-runtime, flink-streaming-java and flink-cep of 1.15 to 2.3. Names of table operators
are compared only where keys are rows, as in SQL: a function of a DataStream job may name its states alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stateproc.model.state import State

_ROW_KEY = "ROW<"


@dataclass(frozen=True)
class _Rule:
    """A kind of operator: it has all states ``names``; ``kind`` is the kind of the first, if that matters."""

    label: str
    names: tuple[str, ...]
    kind: str | None = None


_TABLE = (
    _Rule("IntervalJoin", ("IntervalJoinLeftCache",)),
    _Rule("IntervalJoin", ("IntervalJoinRightCache",)),
    _Rule("WindowJoin", ("left-records",), "list"),
    _Rule("WindowJoin", ("right-records",), "list"),
    _Rule("Join", ("left-records",)),
    _Rule("Join", ("right-records",)),
    _Rule("TemporalJoin", ("left", "right", "next-index")),
    _Rule("TemporalJoin", ("right", "cleanup-timestamp")),
    _Rule("LookupJoin", ("unique-value",), "value"),
    _Rule("WindowDeduplicate", ("window_deduplicate",)),
    _Rule("WindowRank", ("window_rank",)),
    _Rule("WindowTableFunction", ("session-window-tvf-acc",)),
    _Rule("WindowTableFunction", ("session-window-tvf-counter",)),
    _Rule("GroupWindowAggregate", ("window-aggs", "previous-aggs")),
    _Rule("WindowAggregate", ("window-aggs",)),
    # ChangelogNormalize keeps the last row of each key with the function of Deduplicate.
    _Rule("Deduplicate or ChangelogNormalize", ("deduplicate-state",)),
    _Rule("Rank", ("data-state-with-append",)),
    _Rule("Rank", ("data-state-with-update",)),
    _Rule("Rank", ("Top1-Rank-State",)),
    _Rule("Rank", ("data-state", "sorted-map")),
    _Rule("Rank", ("counterState",)),
    _Rule("OverAggregate", ("accState", "inputState")),
    _Rule("OverAggregate", ("accState", "lastTriggeringTsState")),
    _Rule("GroupAggregate", ("accState",)),
    _Rule("TemporalSort", ("dataState", "lastTriggeringTsState")),
    _Rule("TemporalSort", ("sortState",)),
    _Rule("SinkMaterializer", ("values",), "value"),
)
_STREAM = (
    _Rule("Source", ("SourceReaderState",)),
    _Rule("Kafka source", ("topic-partition-offset-states",)),
    _Rule("Kafka sink", ("next-transactional-id-hint",)),
    _Rule("Kafka sink", ("next-transactional-id-hint-v2",)),
    _Rule("File source", ("file-monitoring-state",)),
    _Rule("File sink", ("bucket-states",)),
    _Rule("Sink writer", ("writer_raw_states",)),
    _Rule("Sink committer", ("streaming_committer_raw_states",)),
    _Rule("Iceberg committer", ("iceberg-files-committer-state",)),
    _Rule("Pattern (CEP)", ("nfaStateName",)),
    _Rule("AsyncFunction", ("_async_wait_operator_state_",)),
    _Rule("IntervalJoin", ("LEFT_BUFFER", "RIGHT_BUFFER")),
    _Rule("Window", ("window-contents",)),
    _Rule("Sort", ("localBufferState",)),
)


def label_of_states(states: Sequence[State]) -> str | None:
    """Return the kind of the operator that has these states; None if their names do not show it."""
    kinds = {state.name: state.kind for state in states}
    has_rows = any((state.key_type or "").startswith(_ROW_KEY) for state in states)
    rules = (*_TABLE, *_STREAM) if has_rows else _STREAM
    return next((rule.label for rule in rules if _fits(rule, kinds)), None)


def _fits(rule: _Rule, kinds: Mapping[str, str]) -> bool:
    if any(name not in kinds for name in rule.names):
        return False
    return rule.kind is None or kinds[rule.names[0]] == rule.kind
