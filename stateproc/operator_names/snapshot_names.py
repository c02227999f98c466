"""Name the operators of one snapshot whose uids ``_metadata`` does not contain."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cached_property, lru_cache

from stateproc.errors import UnmatchedUidWarning
from stateproc.metadata import OperatorEntry
from stateproc.operator_names.given_names import GivenNames

MAX_NODE_ID = 10_000
"""The largest id of an ExecNode whose uids are tried; a compiled plan with larger ids may be given as a file."""
_SHOWN = 5
_SNAPSHOTS_KEPT = 64
"""For how many sets of operators the search is remembered: a session opens the snapshots of a few jobs many times."""


class SnapshotNames:
    """Names of operators: uids that were given, those of Flink's table planner, and names of vertices in plans.

    Args:
        operators: The operators as ``_metadata`` lists them.
        given: What the user gave to name them.
    """

    def __init__(self, operators: Sequence[OperatorEntry], given: GivenNames) -> None:
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

    def vertex(self, operator_id: str) -> str | None:
        """Return the name of the operator's vertex in a given plan."""
        return self._given.vertices.get(operator_id)

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
