"""Name the operators of one snapshot whose uids ``_metadata`` does not contain."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from stateproc.errors import UnmatchedUidWarning
from stateproc.metadata import OperatorState
from stateproc.model.operator import Operator
from stateproc.model.state import State
from stateproc.operator_names.given_names import GivenNames

MAX_NODE_ID = 10_000
"""The largest id of an ExecNode whose uids are tried; a compiled plan with larger ids may be given as a file."""
_SHOWN = 5
_SNAPSHOTS_KEPT = 64
"""For how many sets of operators the search is remembered: a session opens the snapshots of a few jobs many times."""


class SnapshotNames:
    """Names of operators: uids that were given, those of Flink's table planner, and labels.

    Args:
        operators: The operators as ``_metadata`` lists them.
        given: What the user gave to name them.
    """

    def __init__(self, operators: Sequence[OperatorState], given: GivenNames) -> None:
        self._operators = tuple(operators)
        self._given = given

    def given_uid(self, operator_id: str) -> str | None:
        """Return the uid with this hash among the given ones."""
        return self._given.uids.get(operator_id)

    def planner_uid(self, operator_id: str) -> str | None:
        """Return the uid with this hash among those that Flink's table planner generates."""
        return self._planner_uids.get(operator_id)

    @cached_property
    def _planner_uids(self) -> dict[str, str]:
        """The uids of all operators that have none: the search takes as long for one operator as for all."""
        ids = [item.operator_id for item in self._operators if not item.uid and not self.given_uid(item.operator_id)]
        return _planner_uids_of(tuple(ids)) if ids else {}

    def label(self, operator: Operator) -> str | None:
        """Return the name of the operator's vertex in a given plan, else its kind by the names of its states."""
        # Lazy: start-up. Labels are shown by few commands.

        return self._given.vertices.get(operator.operator_id) or label_of_states(operator.states)

    def warn_of_unmatched(self) -> None:
        """Issue one warning about given uids that match no operator."""
        names = [name for item in self._operators for name in (item.uid, item.name, item.operator_id)]
        missing = self._given.unmatched((item.operator_id for item in self._operators), names)
        if missing:
            shown = ", ".join(map(repr, missing[:_SHOWN]))
            more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
            warnings.warn(
                f"uids that match no operator: {shown}{more}; they are compared letter by letter, as .uid(…) has them",
                UnmatchedUidWarning,
                stacklevel=2,
            )


@lru_cache(maxsize=_SNAPSHOTS_KEPT)
def _planner_uids_of(ids: tuple[str, ...]) -> dict[str, str]:
    """Return the uids that the planner generates for operators: operator id → uid. It takes 0.07 s of CPU."""
    # Lazy: start-up. Most commands show no operator without a uid.
    from stateproc.operator_names.uid_hashes import find_numbered_uids, uid_templates

    return find_numbered_uids(ids, uid_templates(), MAX_NODE_ID)


# Recognize the kind of an operator by the names of its states, which Flink's operators choose.
#
# The names are those in flink-table-runtime, flink-streaming-java and flink-cep of 1.15 to 2.3. Names of table
# operators are compared only where keys are rows, as in SQL: a function of a DataStream job may name its states alike.

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
