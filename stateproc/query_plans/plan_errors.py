"""The error for a plan that cannot be used."""

from __future__ import annotations

from stateproc.errors import InvalidOption

_ADVICE = "give the file that CompiledPlan.writeToFile or COMPILE PLAN wrote for the job (Flink 1.15 or later)"


def invalid_plan(problem: str, advice: str = _ADVICE) -> InvalidOption:
    """Return the error for a plan that is not one, or not of this snapshot."""
    return InvalidOption(f"the query plan cannot be used: {problem}", advice=advice)
