"""Leave small states and operators out of the report of ``inspect``."""

from __future__ import annotations

from typing import Any

Report = dict[str, Any]


def without_small(report: Report, min_bytes: int) -> Report:
    """Return the report without states and operators of fewer bytes.

    States of unknown size remain, and so do those that cannot be read and operators with problems.

    Args:
        report: What ``snapshot_report`` returned.
        min_bytes: The number of bytes.

    Returns:
        A report that counts under ``hidden`` what it leaves out; the counts of all of it are unchanged.
    """
    operators = []
    hidden_states = 0
    for operator in report["operators"]:
        states = [state for state in operator["states"] if _remains(state, min_bytes)]
        if states or operator["problems"] or operator["bytes"] >= min_bytes:
            hidden_states += len(operator["states"]) - len(states)
            operators.append({**operator, "states": states})
    hidden = {"min_bytes": min_bytes, "operators": len(report["operators"]) - len(operators), "states": hidden_states}
    return {**report, "hidden": hidden, "operators": operators}


def _remains(state: Report, min_bytes: int) -> bool:
    return state["problem"] is not None or state["bytes"] is None or state["bytes"] >= min_bytes


def by_size(items: list[Report]) -> list[Report]:
    """Return operators or states, the largest first; those of unknown size are the last."""
    return sorted(items, key=lambda item: -1 if item["bytes"] is None else item["bytes"], reverse=True)


def is_stateless(operator: Report) -> bool:
    """Return whether there is nothing to show of an operator but its name and parallelism."""
    return not (operator["states"] or operator["problems"] or operator["coordinator"] or operator["bytes"])
