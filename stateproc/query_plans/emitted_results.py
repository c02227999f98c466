"""Find nodes that go on with the same rows and would have emitted other results before, which nobody can take back.

A join of another type; TopN of another number, or with its ranks as a column, or without; the first row of each key
instead of the last. The user says that what was emitted stays as it is, or the node begins without state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stateproc.errors import InvalidOption
from stateproc.query_plans.deduplication import keeps_no_rows, kept_row
from stateproc.query_plans.join_types import other_rows, partner_changes
from stateproc.query_plans.node_definitions import join_type
from stateproc.query_plans.plan_file import PlanNode
from stateproc.query_plans.rank_order import RANKED_STATE, has_all_ranks, last_rank, shows_ranks


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


def other_results(old: PlanNode, new: PlanNode) -> OtherResults | None:
    """Return what a node that goes on would have emitted otherwise; None if it is nothing."""
    joined = other_rows(old, new)
    if joined is not None:
        return OtherResults(join_type(old), join_type(new), joined.words, joined.found)
    was_kept, is_kept = kept_row(old), kept_row(new)
    if was_kept is not None and is_kept is not None and was_kept != is_kept:
        counts = ["of each key the row that was emitted counts as the only one before"]
        return OtherResults(was_kept, is_kept, counts, "the other rows, which only the job's sources have")
    was, now = last_rank(old), last_rank(new)
    shown = [shows_ranks(old), shows_ranks(new)]
    if was is None or now is None or (was == now and shown[0] == shown[1]):
        return None
    rows = []
    if was != now:
        rows.append(f"rows {_ranks(was, now)} " + ("were not emitted" if now > was else "stay emitted"))
    if shown[0] != shown[1]:
        rows.append(f"rows were emitted {'with' if shown[0] else 'without'} their ranks")
    texts = [f"the first {last}" for last in (was, now)]
    if shown[0] != shown[1]:
        texts = [text + " with their ranks" * one for text, one in zip(texts, shown, strict=True)]
    place = "data-state" if has_all_ranks(new) else f"{RANKED_STATE} of the old snapshot"
    return OtherResults(texts[0], texts[1], rows, f"these rows, which are in the state {place}")


def _ranks(was: int, now: int) -> str:
    first, last = min(was, now) + 1, max(was, now)
    return f"of rank {last}" if first == last else f"of the ranks {first} to {last}"


def refuse_other_results(old: PlanNode, new: PlanNode, uid: str, *, keeps: bool) -> None:
    """Raise InvalidOption for a node whose state cannot be made, or if nobody said that results stay.

    Args:
        old: The node as it was.
        new: The node as it will be.
        uid: Its uid in the new plan.
        keeps: Whether the user said that what was emitted before stays as it is.
    """
    found = other_results(old, new)
    if found is None:
        return
    what = f"{new.label} ({uid}) was {found.before} and is {found.after}"
    try:
        partner_changes(old, new)
    except InvalidOption as error:
        raise InvalidOption(f"{what}: {error.message}", advice=f"{error.advice} {uid}") from error
    if keeps_no_rows(old) and not keeps_no_rows(new):
        raise InvalidOption(
            f"{what}: by processing time only the keys of first rows are kept, so that these could not be taken back",
            advice=f"let the operator begin without state: --empty {uid}",
        )
    was, now = last_rank(old), last_rank(new)
    if was is not None and now is not None and now > was and not has_all_ranks(new):
        raise InvalidOption(
            f"{what}, and its state has no rows {_ranks(was, now)}: only those of its ranks are kept where no row is "
            "taken back",
            advice=f"keep the number, or let the operator begin without state: --empty {uid}",
        )
    if not keeps:
        raise InvalidOption(
            f"{what}, so that it would have emitted other results before: {', '.join(found.rows)}",
            advice=f"leave what was emitted as it is (--emitted keep), and correct the sink by {found.found}; or let "
            f"the operator begin without state: --empty {uid}",
        )
