"""Convert the state of an aggregate with DISTINCT that the planner splits, or splits no more.

    one       accumulators by the key; what DISTINCT has seen by the key
    partial   accumulators by key and buckets, unless it is incremental; what DISTINCT has seen by key and buckets
    final     accumulators by the key: sums, the least, the largest of those of the partial aggregate; how many rows
              these are, of which SUM counts those that are not null. After an incremental aggregate those of one

AVG is two calls of a split aggregate: its sum and its number. Sums are the same however they are divided, so the
accumulators of one become those of the buckets that are null; the others begin, and what DISTINCT has seen keeps them
from counting again.
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
from stateproc.query_plans.node_rules import aggregate_calls, counts_rows, function_of
from stateproc.query_plans.plan_comparison import goes_on
from stateproc.query_plans.plan_file import PlanNode
from stateproc.query_plans.plan_matching import Pair, is_known_call
from stateproc.query_plans.split_distinct import SplitAggregate
from stateproc.serializers.table.java_streams import MAP_VIEW
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.serializers import RowData

ACCUMULATORS = "accState"
_BITS = 63
"""So many calls with DISTINCT have a bit each in one number."""


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
    is_taken_back = pair.new.at("needRetraction") is True
    if is_taken_back and change.split.has_partial_results:
        raise InvalidOption(
            f"{what}, over rows that may be taken back, and not in mini-batches of two phases: of which bucket's rows "
            "sums are is not known",
            advice=same,
        )
    if _most_bits(change.one) > (1 if is_taken_back else _BITS):
        raise InvalidOption(f"{what}, and keeps otherwise what both calls that AVG becomes have seen", advice=same)
    if is_changed:
        raise InvalidOption(
            f"{what}, and is another aggregate, too",
            advice="change the setting table.optimizer.distinct-agg.split.enabled in a write of its own, to a plan of "
            "the old query",
        )


def split_conversion(change: SplitChange, old: RowData, *, partial: bool = False) -> AggregateConversion:
    """Return how accumulators become those of the new plan.

    Args:
        change: What becomes of the aggregate.
        old: The type of the accumulators, with the names under which they are read.
        partial: Whether they become those of the partial aggregate, and not of the final one.

    Raises:
        InvalidOption: The accumulators are not those of the old plan.
    """
    one, final, is_alike = change.one, change.split.final, not change.split.has_partial_results
    before, views = (one, distinct_views(one)) if change.is_new else (final, [])
    types = [*_fields(before), *[MAP_VIEW] * len(views)]
    if len(types) != len(old.types) or any(
        planned is not None and planned.kind != found.kind for planned, found in zip(types, old.types, strict=True)
    ):
        raise of_another_plan(before, f"{len(types)} fields by its plan, of other types in the snapshot")
    names = ['value."' + name.replace('"', '""') + '"' for name in old.names]
    if not change.is_new:
        parts = _as_one(change, old, names) if is_alike else _one(change, old, names)
        return of_parts(one, old, [*parts, *((MAP_VIEW, "NULL") for _ in distinct_views(one))])
    if is_alike:
        return of_parts(final, old, list(_as_one(change, old, names)))
    node = change.split.partial if partial else final
    return of_parts(node, old, list(_divided(one, node, old, names)))


def seen_bits(change: SplitChange, view: int) -> str | None:
    """Return the bits of the new calls of a view of DISTINCT, as an expression over ``{0}``, the bits of the old ones.

    AVG becomes two calls: its sum and its number. None where bits stay.
    """
    calls = aggregate_calls(change.one)
    widths = [2 if function_of(calls[number]) == "AVG" else 1 for number in distinct_views(change.one)[view]]
    if max(widths) == 1:
        return None
    starts = [sum(widths[:at]) for at in range(len(widths))]
    if change.is_new:
        bits = ((at, (1 << width) - 1 << start) for at, (start, width) in enumerate(zip(starts, widths, strict=True)))
    else:
        bits = ((start, 1 << at) for at, start in enumerate(starts))
    return " + ".join(f"(({{0}} >> {bit}) & 1) * {becomes}" for bit, becomes in bits)


def _most_bits(one: PlanNode) -> int:
    """Return how many calls the split aggregate has of a view with DISTINCT of AVG, at most."""
    calls = aggregate_calls(one)
    views = [[function_of(calls[number]) for number in numbers] for numbers in distinct_views(one)]
    return max((len(view) + view.count("AVG") for view in views if "AVG" in view), default=0)


def final_numbers(one: PlanNode) -> list[int]:
    """Return which call of the final aggregate has the results of each call; of AVG its sum."""
    calls = [function_of(call) for call in one.items("aggCalls")]
    return [number + calls[:number].count("AVG") for number in range(len(calls))]


def _fields(node: PlanNode) -> list[LogicalType | None]:
    """Return the types of accumulators, without views; None of MIN and MAX of rows that may be taken back."""
    found: list[LogicalType | None] = []
    for number in range(len(aggregate_calls(node))):
        found += buffers(node, number) if is_known_call(node, number) else [None]
    return found


def _as_one(change: SplitChange, old: RowData, names: Sequence[str]) -> Iterator[Part]:
    """Yield the accumulators of one aggregate, or of the final one of an incremental one, which are alike.

    If rows may be taken back, and no call knows their number, a field of its own has it: the final aggregate counts
    each row as often as it was read.
    """
    one, final, copies = change.one, change.split.final, change.split.copies
    new = final if change.is_new else one
    fields, calls = _fields(new), buffer_starts(one)[len(one.items("aggCalls"))]
    yield from (_field(type_, old, at, names) for at, type_ in enumerate(fields[:calls]))
    if len(fields) == calls:
        return
    if not change.is_new:
        rows = f"{names[calls]} // {copies}"
    else:
        own = next(at for at, call in zip(buffer_starts(one), aggregate_calls(one), strict=False) if counts_rows(call))
        rows = f"{names[own]} * {copies}"
    yield fields[calls], rows


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


def _field(type_: LogicalType | None, old: RowData, at: int, names: Sequence[str]) -> Part:
    """Return an old field in a type: AVG adds up INT as BIGINT, and a sum does as INT."""
    if type_ is None or type_.kind == old.types[at].kind:
        return None, at
    return type_, at if goes_on(old.types[at], type_) else f"CAST({names[at]} AS {type_.sql})"
