"""Say which max parallelism a job needs to restore a planned savepoint.

Flink compares the max parallelism of each operator's state with that of the operator's vertex
(org.apache.flink.runtime.checkpoint.StateAssignmentOperation): where the job sets another number, it refuses the
savepoint; where it sets none, the vertex gets the savepoint's. Operators of one chain are one vertex, and so need one
number. A savepoint does not contain which operators were chained.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stateproc.writers.plan.restore_notes import listed
from stateproc.writers.plan.savepoint_plan import OperatorPlan


def max_parallelism_notes(plans: Sequence[OperatorPlan], kept: Mapping[str, str]) -> Iterator[str]:
    """Yield the notes of a plan.

    Args:
        plans: The operators.
        kept: Why operators keep their max parallelism where another is set for all, by operator id.
    """
    present = [plan for plan in plans if plan.max_parallelism is not None]
    changed = [plan for plan in present if plan.source_max_parallelism not in (None, plan.max_parallelism)]
    if not changed:
        return
    # Flink itself sets 1 for operators that are not parallel, whatever the job's number is.
    parallel = [plan for plan in present if plan.max_parallelism != 1 or plan in changed]
    numbers = {plan.max_parallelism for plan in parallel}
    if len(numbers) == 1:
        (number,) = numbers
        yield f"the job's max parallelism has to be {number}, or not set: Flink restores no other than the savepoint's"
    else:
        yield from _of_operators(parallel, changed)
    for plan in present:
        if plan.operator_id in kept:
            yield f"{plan.display} keeps its max parallelism {plan.max_parallelism}: {kept[plan.operator_id]}"
        elif plan in changed and (plan.source_parallelism or 0) > (plan.max_parallelism or 0):
            yield (
                f"{plan.display} ran with parallelism {plan.source_parallelism}: in the job it has to be "
                f"{plan.max_parallelism} or less, the new max parallelism"
            )


def _of_operators(parallel: Sequence[OperatorPlan], changed: Sequence[OperatorPlan]) -> Iterator[str]:
    """Yield the notes of operators with different numbers."""
    for number in sorted({plan.max_parallelism for plan in changed if plan.max_parallelism is not None}):
        own = [plan for plan in changed if plan.max_parallelism == number]
        subtasks = {plan.parallelism for plan in own}
        others = [plan for plan in parallel if plan.max_parallelism != number and plan.parallelism in subtasks]
        yield (
            f"the job has to set max parallelism {number} for {listed([plan.display for plan in own])} alone "
            f"(setMaxParallelism({number}) of the operator), or not set any: Flink restores no other than the "
            "savepoint's, and other operators have other numbers"
        )
        if others:
            yield (
                f"every operator that is chained with {listed([plan.display for plan in own])} needs max parallelism "
                f"{number} as well; a savepoint does not say which are. Those of the same parallelism and another "
                f"max parallelism are {listed([plan.display for plan in others])}"
            )
