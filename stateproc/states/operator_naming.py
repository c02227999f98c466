"""Name operators whose uids are not in ``_metadata``: the interface, which a package above this one implements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from stateproc.states.operator import Operator


class OperatorNaming(Protocol):
    """Finds names of operators when one is shown or looked up; neither opening nor reading a state needs them."""

    def planner_uid(self, operator_id: str) -> str | None:
        """Return the uid with this hash among those that Flink's table planner generates."""

    def label(self, operator: Operator) -> str | None:
        """Return what the operator is called in a plan, or its kind by its states."""
