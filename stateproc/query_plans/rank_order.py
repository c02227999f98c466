"""Say what of the rows that TopN keeps is of its ranks, in which state and in which order they are.

    strategy      which rows its state keeps          state                                function
    Retract       all, whatever their rank            data-state, by their sort key        RetractableTopNFunction
    AppendFast    those of its ranks                  data-state-with-append, in this way  AppendOnlyTopNFunction
    UpdateFast    those of its ranks                  data-state-with-update, by a key of  UpdatableTopNFunction
                                                      their own
    both          the first, where no other is asked  Top1-Rank-State                      FastTop1Function
                  for
    AppendFast    by PROCTIME(): their number only    counterState                         AppendOnlyFirstNFunction

The planner chooses the strategy by what it knows of the rows that come.

Source: org.apache.flink.table.runtime.operators.rank, StreamExecRank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stateproc.query_plans.plan_file import PlanNode

ALL_ROWS, ADDED_ROWS, REPLACED_ROWS = "data-state", "data-state-with-append", "data-state-with-update"
FIRST_ROW, NUMBER_OF_ROWS = "Top1-Rank-State", "counterState"
NUMBERS_OF_ALL_ROWS = "sorted-map"
"""The state of RetractableTopNFunction with the number of rows of each sort key."""
_OF_RANKS = (ADDED_ROWS, REPLACED_ROWS, FIRST_ROW)
_MADE_OF = {
    ALL_ROWS: (ALL_ROWS,),
    ADDED_ROWS: (ADDED_ROWS, ALL_ROWS),
    REPLACED_ROWS: (REPLACED_ROWS, ALL_ROWS),
    FIRST_ROW: (FIRST_ROW, ADDED_ROWS, REPLACED_ROWS, ALL_ROWS),
    NUMBER_OF_ROWS: (NUMBER_OF_ROWS,),
}
"""State of TopN → the states of which it is made."""
WINDOW_RANK = "stream-exec-window-rank"
_RANKS = ("stream-exec-rank", "stream-exec-sort-limit", "stream-exec-limit")


@dataclass(frozen=True)
class SortColumn:
    """How a column of a sort key is ordered.

    Attributes:
        is_ascending: Whether small values come first.
        null_is_last: Whether null comes last.
        position: Where it is in the rows as they are.
    """

    is_ascending: bool
    null_is_last: bool
    position: int


@dataclass(frozen=True)
class RowsWithRanks:
    """Which rows of TopN stay, and in which state.

    Attributes:
        state: The state that has them.
        becomes: The state that will have them.
        order: How each column of the sort key is ordered.
        unique: Positions of the columns by which the new state finds rows, in these as they will be.
    """

    state: str
    becomes: str
    last: int
    order: tuple[SortColumn, ...]
    unique: tuple[int, ...] = ()


def last_rank(node: PlanNode) -> int | None:
    """Return the last rank of TopN; None of others, or if it depends on rows."""
    last = node.at("rankRange", "end")
    if node.kind not in _RANKS or node.at("rankRange", "type") != "Constant" or type(last) is not int:
        return None
    return last if _strategy(node) in ("Retract", "AppendFast", "UpdateFast") else None


def window_ranks(node: PlanNode) -> tuple[int, int] | None:
    """Return the first and the last rank of TopN of windows; None of other nodes.

    Its state has the rows of these ranks, and maybe others; which they are is decided as a window ends
    (WindowRankProcessor).
    """
    first, last = (node.at("rankRange", name) for name in ("start", "end"))
    is_known = node.kind == WINDOW_RANK and node.at("rankRange", "type") == "Constant"
    return (first, last) if is_known and type(first) is int and type(last) is int else None


def first_rank(node: PlanNode) -> int:
    """Return the first rank that TopN returns, which is another than 1 with OFFSET."""
    first = node.at("rankRange", "start")
    return first if type(first) is int else 1


def rows_state(node: PlanNode) -> str:
    """Return the state of a TopN that has `last_rank` in which its rows are, or their number."""
    if _strategy(node) == "Retract":
        return ALL_ROWS
    if _strategy(node) == "AppendFast" and _is_first_by_proctime(node):
        return NUMBER_OF_ROWS
    if (first_rank(node), last_rank(node)) == (1, 1):
        return FIRST_ROW
    return ADDED_ROWS if _strategy(node) == "AppendFast" else REPLACED_ROWS


def shows_ranks(node: PlanNode) -> bool:
    """Whether the rank is a column of the results."""
    return node.at("outputRowNumber") is True


def missing_ranks(old: PlanNode, new: PlanNode, columns: Sequence[int | None]) -> str | None:
    """Return what the state of TopN does not have that of another one needs, in words; None if it has all.

    Args:
        old: The node as it was.
        new: The node as it will be.
        columns: Where each column of its rows was, None for a new one.
    """
    was, now = last_rank(old), last_rank(new)
    if was is None or now is None:
        return None
    state, becomes = rows_state(old), rows_state(new)
    if state == NUMBER_OF_ROWS != becomes:
        return "its state has no rows, only their number: by PROCTIME() no row is ever replaced"
    if now > was and state != ALL_ROWS:
        return (
            f"its state has no rows {rank_words(was + 1, now)}: only those of its ranks are kept where no row is "
            "taken back"
        )
    if state not in _MADE_OF[becomes]:
        kept = "those of its ranks, by their own key" if state == REPLACED_ROWS else "those of its ranks"
        return f"it would be found in the state {becomes}, which needs more than {kept}, which is all that {state} has"
    if becomes == REPLACED_ROWS:
        unique = unique_of_ranks(new)
        found = [columns[at] if at < len(columns) else None for at in unique]
        if None in found or (state == REPLACED_ROWS and found != unique_of_ranks(old)):
            return "its rows have another unique key, by which they are found"
    return None


def kept_ranks(old: PlanNode, new: PlanNode) -> RowsWithRanks | None:
    """Return which rows of TopN stay, and where, if its ranks, its strategy or what it shows is another; None for all.

    Where it counts ranks it may keep rows beyond the last, of the same sort key, which it never looks at.
    """
    was, now = last_rank(old), last_rank(new)
    if was is None or now is None:
        return None
    state, becomes = rows_state(old), rows_state(new)
    if state not in (ALL_ROWS, *_OF_RANKS) or (state == becomes and state in (ALL_ROWS, FIRST_ROW)):
        return None
    if (state, was, _counts_ranks(old)) == (becomes, now, _counts_ranks(new)):
        return None
    fields = [one if isinstance(one, dict) else {} for one in old.items("orderBy", "fields")]
    order = (
        SortColumn(one.get("isAscending") is True, one.get("nullIsLast") is True, int(one.get("index", -1)))
        for one in fields
    )
    unique = tuple(unique_of_ranks(new)) if becomes == REPLACED_ROWS else ()
    return RowsWithRanks(state, becomes, now, tuple(order), unique)


def keeps_kinds(node: PlanNode) -> bool:
    """Whether TopN keeps rows with the kind of change as which it emitted them, such as +U.

    With OFFSET it does so, and does not find them any more as they are taken back (RetractableTopNFunction).
    """
    return rows_state(node) == ALL_ROWS and first_rank(node) > 1 and not shows_ranks(node)


def rank_words(first: int, last: int) -> str:
    """Return which ranks these are."""
    return f"of rank {last}" if first == last else f"of the ranks {first} to {last}"


def _strategy(node: PlanNode) -> str:
    return str(node.at("rankStrategy", "type"))


def keys_of_rows(node: PlanNode) -> list[int]:
    """Return the columns that are the keys of the map in which TopN keeps its rows, by their positions: those of their
    own key, or by which they are ordered; none of all rows, the number of which is kept by these in another state."""
    if window_ranks(node) is not None:
        return [at for at in _order(node, "sortSpec") if type(at) is int]
    state = None if last_rank(node) is None else rows_state(node)
    if state == REPLACED_ROWS:
        return unique_of_ranks(node)
    return [at for at in _order(node, "orderBy") if type(at) is int] if state == ADDED_ROWS else []


def ordered_by(node: PlanNode) -> list[Any]:
    """Return the columns by which a node orders rows and finds its state, by their positions; none of TopN whose state
    has other keys, or `keys_of_rows`."""
    if window_ranks(node) is not None or (last_rank(node) is not None and rows_state(node) != ALL_ROWS):
        return []
    return [*_order(node, "orderBy"), *_order(node, "sortSpec")]


def _order(node: PlanNode, spec: str) -> list[Any]:
    return [one.get("index") for one in node.items(spec, "fields") if isinstance(one, dict)]


def unique_of_ranks(node: PlanNode) -> list[int]:
    """Return the columns of the unique key by which TopN finds its rows, by their positions."""
    return [at for at in node.items("rankStrategy", "primaryKeys") if type(at) is int]


def _counts_ranks(node: PlanNode) -> bool:
    return shows_ranks(node) or first_rank(node) > 1


def _is_first_by_proctime(node: PlanNode) -> bool:
    fields = node.items("orderBy", "fields")
    if len(fields) != 1 or not isinstance(fields[0], dict) or fields[0].get("isAscending") is not True:
        return False
    return node.time_at(fields[0].get("index")) == "PROCTIME"
