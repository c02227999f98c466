"""Say what of the rows that TopN keeps is of its ranks, and in which order they are.

Retract      all rows, whatever their rank (RetractableTopNFunction)
AppendFast   those of its ranks (AppendOnlyTopNFunction); of the first alone another state (FastTop1Function)
UpdateFast   those of its ranks, by their unique key (UpdatableTopNFunction)
"""

from __future__ import annotations

from dataclasses import dataclass

from stateproc.query_plans.plan_file import PlanNode

RANKED_STATE = "data-state-with-append"
"""The state of AppendOnlyTopNFunction."""
_RANKS = ("stream-exec-rank", "stream-exec-sort-limit", "stream-exec-limit")


@dataclass(frozen=True)
class SortColumn:
    """How a column of a sort key is ordered."""

    is_ascending: bool
    null_is_last: bool


@dataclass(frozen=True)
class RowsWithRanks:
    """Which rows of TopN stay.

    Attributes:
        last: The last rank.
        order: How each column of the sort key is ordered.
    """

    last: int
    order: tuple[SortColumn, ...]


def last_rank(node: PlanNode) -> int | None:
    """Return the last rank of TopN that may go on with another one; None of others."""
    first, last = node.at("rankRange", "start"), node.at("rankRange", "end")
    if node.kind not in _RANKS or node.at("rankRange", "type") != "Constant" or type(last) is not int:
        return None
    return last if has_all_ranks(node) or (_has_own_ranks(node) and (first, last) != (1, 1)) else None


def has_all_ranks(node: PlanNode) -> bool:
    """Whether the state of TopN has all rows, whatever its last rank is."""
    return bool(node.at("rankStrategy", "type") == "Retract")


def shows_ranks(node: PlanNode) -> bool:
    """Whether the rank is a column of the results."""
    return node.at("outputRowNumber") is True


def limited_ranks(old: PlanNode, new: PlanNode) -> RowsWithRanks | None:
    """Return which rows of TopN stay if its last rank, or what it shows, is another; None for all.

    With the rank as a column it may keep rows beyond the last, of the same sort key, which it never looks at.
    """
    was, now = last_rank(old), last_rank(new)
    if was is None or now is None or has_all_ranks(new):
        return None
    if was == now and shows_ranks(old) == shows_ranks(new):
        return None
    fields = [one if isinstance(one, dict) else {} for one in new.items("orderBy", "fields")]
    order = (SortColumn(one.get("isAscending") is True, one.get("nullIsLast") is True) for one in fields)
    return RowsWithRanks(now, tuple(order))


def _has_own_ranks(node: PlanNode) -> bool:
    return bool(node.at("rankStrategy", "type") == "AppendFast")
