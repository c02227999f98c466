"""Which inputs of a regular join keep the number of partners beside their rows, by the join's type.

    INNER              none: rows alone, or with the number of their occurrences
    LEFT, SEMI, ANTI   the left one
    RIGHT              the right one
    FULL               both

Rows of these are emitted without a partner, too, so that the join has to know when the last one is gone. If a join gets
another type, the rows stay and the numbers come or go. What it has emitted before cannot be taken back.

Sources: StreamingJoinOperator, StreamingSemiAntiJoinOperator of org.apache.flink.table.runtime.operators.join.stream,
and JoinRecordStateViews, OuterJoinRecordStateViews of its state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stateproc.query_plans.node_definitions import JOIN, join_type
from stateproc.query_plans.plan_file import PlanNode

OUTER: Mapping[str, tuple[bool, bool]] = {
    "INNER": (False, False), "LEFT": (True, False), "RIGHT": (False, True), "FULL": (True, True),
    "SEMI": (True, False), "ANTI": (True, False),
}  # fmt: skip
"""Type of a join → of which inputs rows are emitted without a partner, or by whether they have one."""
_SIDES = ("left", "right")


@dataclass(frozen=True)
class PartnerChange:
    """What becomes of the numbers of partners of an input's rows.

    Attributes:
        side: The input: left or right.
        on: Whether rows get the number, or lose it.
        null_keys: Positions of columns of the join's key of which a null has no partner.
    """

    side: str
    on: bool
    null_keys: tuple[int, ...] = ()

    @property
    def words(self) -> str:
        """What it means for the results."""
        rows = f"rows of the {self.side} input without a partner"
        return f"{rows} were not emitted" if self.on else f"{rows} stay emitted"


def partner_changes(old: PlanNode, new: PlanNode) -> tuple[PartnerChange | None, ...]:
    """Return what becomes of the numbers of each input of a join that gets another type; nothing for other nodes."""
    if old.kind != JOIN or join_type(old) == join_type(new):
        return ()
    before, after = OUTER[join_type(old)], OUTER[join_type(new)]
    filtered = tuple(at for at, is_filtered in enumerate(new.items("joinSpec", "filterNulls")) if is_filtered is True)
    return tuple(
        None if was == now else PartnerChange(side, now, filtered)
        for side, was, now in zip(_SIDES, before, after, strict=True)
    )
