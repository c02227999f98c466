"""Find nodes that go on with the same rows and would have emitted other results before, which nobody can take back.

A join of another type, TopN of another number over rows that are taken back, and the first row of each key instead of
the last. The user says that what was emitted stays as it is, or the node begins without state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stateproc.errors import InvalidOption
from stateproc.query_plans.join_types import partner_changes
from stateproc.query_plans.node_definitions import join_type, keeps_no_rows, kept_row, last_rank
from stateproc.query_plans.plan_file import PlanNode

_SNAPSHOTS = {True: "new snapshot", False: "old snapshot"}
"""Where the numbers of partners are, if rows get or lose them."""


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
    partners = [one for one in partner_changes(old, new) if one is not None]
    if partners:
        states = ", ".join(f"{one.side}-records of the {_SNAPSHOTS[one.on]}" for one in partners)
        rows = [one.words for one in partners]
        return OtherResults(join_type(old), join_type(new), rows, f"these rows, which have 0 associations ({states})")
    was_kept, is_kept = kept_row(old), kept_row(new)
    if was_kept is not None and is_kept is not None and was_kept != is_kept:
        counts = ["of each key the row that was emitted counts as the only one before"]
        return OtherResults(was_kept, is_kept, counts, "the other rows, which only the job's sources have")
    was, now = last_rank(old), last_rank(new)
    if was is None or now is None or was == now:
        return None
    first, last = min(was, now) + 1, max(was, now)
    ranks = f"of rank {last}" if first == last else f"of the ranks {first} to {last}"
    rows = [f"rows {ranks} " + ("were not emitted" if now > was else "stay emitted")]
    return OtherResults(f"the first {was}", f"the first {now}", rows, "these rows, which are in the state data-state")


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
    is_counted = any(one is not None and one.on for one in partner_changes(old, new))
    if is_counted and new.at("joinSpec", "nonEquiCondition") is not None:
        raise InvalidOption(
            f"{what}: it has a condition beside its keys, and only Flink knows which rows are partners by it",
            advice=f"let the join begin without state: --empty {uid}",
        )
    if keeps_no_rows(old) and not keeps_no_rows(new):
        raise InvalidOption(
            f"{what}: by processing time only the keys of first rows are kept, so that these could not be taken back",
            advice=f"let the operator begin without state: --empty {uid}",
        )
    if not keeps:
        raise InvalidOption(
            f"{what}, so that it would have emitted other results before: {', '.join(found.rows)}",
            advice=f"leave what was emitted as it is (--emitted keep), and correct the sink by {found.found}; or let "
            f"the operator begin without state: --empty {uid}",
        )
