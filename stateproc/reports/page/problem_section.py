"""Group the problems of a snapshot by their reason."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from stateproc.reports.inspect_report import Report
from stateproc.reports.page.page_limits import PageLimits

_PLACE = re.compile(r" \[[^\[\]]*\]$")
_ADVICE = "\n  → "
_SHOWN = 12


@dataclass
class ProblemGroup:
    """States and operators that share a reason.

    Attributes:
        reason: What is wrong.
        advice: What to do; "" if there is nothing to recommend.
        count: The number of states and operators.
        names: Some of them.
    """

    reason: str
    advice: str
    count: int = 0
    names: list[str] = field(default_factory=list)

    @property
    def omitted(self) -> int:
        """The number of those that are not in ``names``."""
        return self.count - len(self.names)


def problem_groups(operators: Iterable[Report], limits: PageLimits) -> list[ProblemGroup]:
    """Return all problems, those with the most states first."""
    groups: dict[tuple[str, str], ProblemGroup] = {}

    def add(text: str, name: str) -> None:
        message, _, advice = text.partition(_ADVICE)
        reason = _PLACE.sub("", message)
        group = groups.setdefault((reason, advice), ProblemGroup(reason[: 4 * limits.text], advice[: 4 * limits.text]))
        group.count += 1
        if len(group.names) < _SHOWN:
            group.names.append(limits.short(name))

    for operator in operators:
        display = operator["uid"] or operator["uid_hash"]
        for problem in operator["problems"]:
            add(problem, display)
        for state in operator["states"]:
            if state["problem"]:
                add(state["problem"], f"{display} · {state['name']}")
    return sorted(groups.values(), key=lambda group: -group.count)[: limits.problems]
