"""Find nodes that go on with the same rows and would have emitted other results before, which nobody can take back.

A join of another type; TopN of other ranks, or with its ranks as a column, or without; the first row of each key
instead of the last. The user says that what was emitted stays as it is, or the node begins without state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stateproc.errors import InvalidOption
from stateproc.query_plans.deduplication import keeps_no_rows, kept_row, waits
from stateproc.query_plans.join_types import lacks_partners, missing_in_condition, other_rows, partner_changes
from stateproc.query_plans.node_definitions import JOIN, WAITING_JOINS, join_type
from stateproc.query_plans.plan_file import PlanNode
from stateproc.query_plans.plan_matching import Pair
from stateproc.query_plans.rank_order import (
    ALL_ROWS,
    NUMBER_OF_ROWS,
    first_rank,
    last_rank,
    missing_ranks,
    rank_words,
    rows_state,
    shows_ranks,
    window_ranks,
)
from stateproc.query_plans.time_bounds import (
    INTERVAL_JOIN,
    are_within,
    bounds_words,
    frame_rows,
    missing_rows,
    rows_words,
    time_bounds,
)

_OF_SOURCES = "the other rows, which only the job's sources have"


@dataclass(frozen=True)
class OtherResults:
    """What a node emits from now on, and had not before, or the other way round.

    Attributes:
        before: What the node was.
        after: What it is.
        rows: Which rows were not emitted, or stay emitted, in words.
        found: How to find these.
    """

    before: str
    after: str
    rows: Sequence[str]
    found: str

    @property
    def words(self) -> str:
        """What a plan says of it."""
        return f"{self.before} → {self.after} ({', '.join(self.rows)})"


def other_results(pair: Pair) -> OtherResults | None:
    """Return what a node that goes on would have emitted otherwise; None if it is nothing."""
    old, new = pair.old, pair.new
    joined, near = other_rows(old, new), _other_bounds(old, new)
    if joined is not None or pair.other_partners:
        rows = [] if joined is None else [*joined.words]
        rows += ["pairs were emitted by the condition that it was"] if pair.other_partners else []
        rows += [] if near is None else near.rows
        now = join_type(new) + (" with another condition" if pair.other_partners else "")
        found = None if joined is None or pair.other_partners else joined.found
        return OtherResults(join_type(old), now, rows, found or _OF_SOURCES)
    was_kept, is_kept = kept_row(old), kept_row(new)
    if was_kept is not None and is_kept is not None and was_kept != is_kept:
        counts = ["of each key the row that was emitted counts as the only one before"]
        return OtherResults(was_kept, is_kept, counts, _OF_SOURCES)
    if waits(old) != waits(new):
        texts = [f"the first row {'when its time has come' if waits(node) else 'at once'}" for node in (old, new)]
        counts = ["of each key the row that was emitted is the first, whatever comes"]
        return OtherResults(texts[0], texts[1], counts, _OF_SOURCES)
    return near or _other_ranks(old, new)


def _other_bounds(old: PlanNode, new: PlanNode) -> OtherResults | None:
    """Return what rows that are not as near in time would have been left out; None if it is nothing."""
    was, now = time_bounds(old), time_bounds(new)
    counts = frame_rows(old), frame_rows(new)
    if counts[0] is not None and counts[1] is not None and counts[0] != counts[1]:
        rows = [f"what was emitted of {'fewer' if counts[0] < counts[1] else 'more'} rows stays"]
        return OtherResults(rows_words(counts[0]), rows_words(counts[1]), rows, _OF_SOURCES)
    if was is None or now is None or was == now:
        return None
    rows = ["what was emitted of rows beyond stays"]
    if new.kind == INTERVAL_JOIN and join_type(new) != "INNER":
        rows.append("a row that had a partner there is not emitted without one")
    return OtherResults(bounds_words(was), bounds_words(now), rows, "its columns of times")


def _other_ranks(old: PlanNode, new: PlanNode) -> OtherResults | None:
    """Return what TopN would have emitted otherwise; None if it is nothing."""
    before, after = _ranks(old), _ranks(new)
    shown = [shows_ranks(old), shows_ranks(new)]
    if before is None or after is None or (before == after and shown[0] == shown[1]):
        return None
    rows = [f"rows {rank_words(*one)} were not emitted" for one in _without(after, before)]
    rows += [f"rows {rank_words(*one)} stay emitted" for one in _without(before, after)]
    if shown[0] != shown[1]:
        rows.append(f"rows were emitted {'with' if shown[0] else 'without'} their ranks")
    texts = [f"the first {last}" if first == 1 else f"the ranks {first} to {last}" for first, last in (before, after)]
    if shown[0] != shown[1]:
        texts = [text + " with their ranks" * one for text, one in zip(texts, shown, strict=True)]
    if window_ranks(new) is not None:
        return OtherResults(texts[0], texts[1], [f"{one}, of windows that have ended" for one in rows], _OF_SOURCES)
    state = rows_state(old)
    places = {ALL_ROWS: f"are in the state {state}", NUMBER_OF_ROWS: "only the job's sources have"}
    found = places.get(state, f"are in the state {state} of the old snapshot")
    return OtherResults(texts[0], texts[1], rows, f"these rows, which {found}")


def _ranks(node: PlanNode) -> tuple[int, int] | None:
    last = last_rank(node)
    return window_ranks(node) if last is None else (first_rank(node), last)


def _without(ranks: tuple[int, int], others: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the ranges of ranks that the others do not have."""
    (first, last), (start, end) = ranks, others
    return [one for one in ((first, min(last, start - 1)), (max(first, end + 1), last)) if one[0] <= one[1]]


def _missing(pair: Pair) -> str | None:
    """Return what the state of a node does not have that the new one needs, in words; None if it has all."""
    old, new = pair.old, pair.new
    if not pair.columns:
        return None
    bounds, ranks = (time_bounds(old), time_bounds(new)), (window_ranks(old), window_ranks(new))
    if bounds[0] is not None and bounds[1] is not None and not are_within(bounds[1], bounds[0]):
        return "rows that are in these bounds have left its state, as they were beyond those"
    if ranks[0] is not None and ranks[1] is not None and ranks[1][1] > ranks[0][1]:
        return f"its state need not have rows {rank_words(ranks[0][1] + 1, ranks[1][1])}"
    if new.kind in (JOIN, *WAITING_JOINS):
        lacks = lacks_partners(old, new, other_condition=pair.other_partners)
        return lacks or (missing_in_condition(new, pair.columns) if pair.other_partners else None)
    return missing_rows(old, new) or missing_ranks(old, new, pair.columns[0])


def refuse_other_results(pair: Pair, uid: str, *, keeps: bool) -> None:
    """Raise InvalidOption for a node whose state cannot be made, or if nobody said that results stay.

    Args:
        pair: The node as it was and as it will be.
        uid: Its uid in the new plan.
        keeps: Whether the user said that what was emitted before stays as it is.
    """
    old, new = pair.old, pair.new
    missing, found = _missing(pair), other_results(pair)
    if missing is not None:
        was = ":" if found is None else f" was {found.before} and is {found.after}, and"
        raise InvalidOption(
            f"{new.label} ({uid}){was} {missing}",
            advice=f"keep it as it is, or let the operator begin without state: --empty {uid}",
        )
    if found is None:
        return
    what = f"{new.label} ({uid}) was {found.before} and is {found.after}"
    try:
        partner_changes(old, new)
    except InvalidOption as error:
        raise InvalidOption(f"{what}: {error.message}", advice=f"{error.advice} {uid}") from error
    if (keeps_no_rows(old) and not keeps_no_rows(new)) or (waits(old) and not waits(new)):
        which = "first rows that were emitted" if waits(old) else "first rows"
        raise InvalidOption(
            f"{what}: only the keys of {which} are kept, so that these could not be taken back",
            advice=f"let the operator begin without state: --empty {uid}",
        )
    if not keeps:
        raise InvalidOption(
            f"{what}, so that it would have emitted other results before: {', '.join(found.rows)}",
            advice=f"leave what was emitted as it is (--emitted keep), and correct the sink by {found.found}; or let "
            f"the operator begin without state: --empty {uid}",
        )
