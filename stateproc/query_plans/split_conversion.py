"""Convert the state of an aggregate with DISTINCT that the planner splits, or splits no more.

    one       accumulators by the key; what DISTINCT has seen by the key
    partial   accumulators by key and buckets, unless it is incremental; what DISTINCT has seen by key and buckets
    final     accumulators by the key: sums, the least, the largest of those of the partial aggregate; how many rows
              these are, of which SUM counts those that are not null

Sums are the same however they are divided, so the accumulators of one become those of the buckets that are null; the
others begin, and what DISTINCT has seen keeps them from counting again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stateproc.errors import InvalidOption
from stateproc.query_plans.aggregate_conversion import (
    AggregateConversion,
    Part,
    buffers,
    of_another_plan,
    of_parts,
)
from stateproc.query_plans.aggregate_views import distinct_views
from stateproc.query_plans.call_buffers import buffer_starts
from stateproc.query_plans.node_rules import aggregate_calls
from stateproc.query_plans.plan_comparison import goes_on
from stateproc.query_plans.plan_file import PlanNode
from stateproc.query_plans.plan_matching import Pair, is_known_call
from stateproc.query_plans.split_distinct import SplitAggregate
from stateproc.serializers.table.java_streams import MAP_VIEW
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.serializers import RowData

ACCUMULATORS = "accState"


@dataclass(frozen=True)
class SplitChange:
    """An aggregate with DISTINCT that is split in one of two plans.

    Attributes:
        one: Its node in the plan that does not split it.
        split: Its nodes in the other one.
        partial: The uid of the operator of the partial aggregate.
        is_new: Whether the new plan splits it.
    """

    one: PlanNode
    split: SplitAggregate
    partial: str
    is_new: bool

    @property
    def words(self) -> str:
        """What becomes of it."""
        if self.is_new:
            return f"DISTINCT split: what it has seen in buckets of {self.partial}"
        return "DISTINCT not split any more"


def refuse_split(pair: Pair, change: SplitChange, uid: str, *, is_changed: bool) -> None:
    """Raise InvalidOption for an aggregate whose state is not converted.

    Args:
        pair: Its nodes.
        change: What becomes of it.
        uid: The uid of the new operator.
        is_changed: Whether its calls, columns or time to live are others, too.
    """
    what = f"{pair.new.label} ({uid}) {'splits' if change.is_new else 'does not split'} its DISTINCT"
    empty = f"let it begin without state: --empty {uid}"
    same = f"keep the setting table.optimizer.distinct-agg.split.enabled, or {empty}"
    if pair.new.at("needRetraction") is True:
        raise InvalidOption(
            f"{what}, over rows that may be taken back: of which bucket's rows sums are is not known", advice=same
        )
    if is_changed:
        raise InvalidOption(
            f"{what}, and is another aggregate, too",
            advice="change the setting table.optimizer.distinct-agg.split.enabled in a write of its own, to a plan of "
            "the old query",
        )
    unknown = [number for number in range(len(aggregate_calls(change.one))) if not is_known_call(change.one, number)]
    if unknown:
        raise InvalidOption(f"{what}, and has calls whose accumulators are not known", advice=same)


def split_conversion(change: SplitChange, old: RowData, *, partial: bool = False) -> AggregateConversion:
    """Return how accumulators become those of the new plan.

    Args:
        change: What becomes of the aggregate.
        old: The type of the accumulators, with the names under which they are read.
        partial: Whether they become those of the partial aggregate, and not of the final one.

    Raises:
        InvalidOption: The accumulators are not those of the old plan.
    """
    one, final = change.one, change.split.final
    before, views = (one, distinct_views(one)) if change.is_new else (final, [])
    types = [type_ for number in range(len(aggregate_calls(before))) for type_ in buffers(before, number)]
    types += [MAP_VIEW] * len(views)
    if [type_.kind for type_ in types] != [type_.kind for type_ in old.types]:
        raise of_another_plan(before, f"{len(types)} fields by its plan, of other types in the snapshot")
    names = ['value."' + name.replace('"', '""') + '"' for name in old.names]
    if not change.is_new:
        return of_parts(one, old, list(_one(change, old, names)))
    node = change.split.partial if partial else final
    return of_parts(node, old, list(_divided(one, node, old, names)))


def _divided(one: PlanNode, node: PlanNode, old: RowData, names: Sequence[str]) -> Iterator[Part]:
    """Yield the accumulators of the partial aggregate, or of the final one over one row of that.

    AVG has become two calls: its sum and its number.
    """
    starts, number = buffer_starts(one), 0
    for at in range(buffer_starts(one)[len(one.items("aggCalls"))]):
        own, *counts = buffers(node, number)
        yield _field(own, old, at, names)
        yield from ((type_, f"CASE WHEN {names[at]} IS NULL THEN 0 ELSE 1 END") for type_ in counts)
        number += 1
    for added in range(number, len(aggregate_calls(node))):
        yield from ((type_, "1") for type_ in buffers(node, added))
    yield from ((None, starts[-1] + view) for view in range(len(distinct_views(node))))


def _one(change: SplitChange, old: RowData, names: Sequence[str]) -> Iterator[Part]:
    """Yield the accumulators of the aggregate that is not split."""
    one, starts = change.one, buffer_starts(change.split.final)
    types = [type_ for number in range(len(one.items("aggCalls"))) for type_ in buffers(one, number)]
    yield from (_field(type_, old, starts[number], names) for number, type_ in enumerate(types))
    yield from ((MAP_VIEW, "NULL") for _ in distinct_views(one))


def _field(type_: LogicalType, old: RowData, at: int, names: Sequence[str]) -> Part:
    """Return an old field in a type: AVG adds up INT as BIGINT, and a sum does as INT."""
    if type_.kind == old.types[at].kind:
        return None, at
    return type_, at if goes_on(old.types[at], type_) else f"CAST({names[at]} AS {type_.sql})"
