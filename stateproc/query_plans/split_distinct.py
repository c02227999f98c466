"""Find the aggregates with DISTINCT that the planner has split, and what they are as one.

With table.optimizer.distinct-agg.split.enabled an aggregate over groups becomes several nodes (SplitAggregateRule):

    Calc            adds a bucket for each column that is an argument of DISTINCT, MIN or MAX: MOD(HASH_CODE(x), n)
    Expand, Calc    of several such columns: each row once for each, with its bucket alone, and once without any;
                    filters give each call the rows that are its own
    partial         the calls, by key and buckets: GroupAggregate, or in mini-batches of two phases
                    LocalGroupAggregate and IncrementalGroupAggregate, which keeps only what DISTINCT has seen
    final           GroupAggregate, GlobalGroupAggregate by the key: the sum, the least, the largest of these
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stateproc.query_plans.aggregate_views import distinct_views
from stateproc.query_plans.node_definitions import CALC, is_on
from stateproc.query_plans.node_rules import function_of, is_built_in
from stateproc.query_plans.plan_file import CompiledPlan, PlanNode, row_type_types
from stateproc.query_plans.plan_lineage import in_order
from stateproc.serializers.table.type_text import parse_sql_type

_GROUPS, _GLOBAL = "stream-exec-group-aggregate", "stream-exec-global-group-aggregate"
_LOCAL, _INCREMENTAL = "stream-exec-local-group-aggregate", "stream-exec-incremental-group-aggregate"
_EXCHANGE, _EXPAND = "stream-exec-exchange", "stream-exec-expand"
_FINAL = {"COUNT": "SUM0", "SUM": "SUM", "SUM0": "SUM0", "MIN": "MIN", "MAX": "MAX"}
"""Function of the partial aggregate → that of the final one over its results."""
_DIVIDED = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DOUBLE", "DECIMAL")
"""Types whose AVG keeps a sum of which that of the split one is made, and the other way round, without loss."""
_LEAST_SCALE = 6
"""Of a mean of decimals (findAvgAggType of LogicalTypeMerging)."""


@dataclass(frozen=True)
class SplitAggregate:
    """An aggregate that is split.

    Attributes:
        whole: The node that it is without: under the number of the final aggregate, and over the same rows.
        partial: The node whose operator keeps what DISTINCT has seen.
        kept: The positions of the key's columns in the partial aggregate's key; the others are buckets.
        width: How many columns the partial aggregate's key has.
        buckets: Of each view of DISTINCT the position of its bucket in that key, and the number of buckets.
        copies: How many rows the partial aggregate reads for each row.
    """

    whole: PlanNode
    partial: PlanNode
    final: PlanNode
    kept: tuple[int, ...]
    width: int
    buckets: tuple[tuple[int, int], ...]
    copies: int

    @property
    def has_partial_results(self) -> bool:
        """Whether the partial aggregate keeps accumulators, and not only what DISTINCT has seen."""
        return self.partial.kind == _GROUPS


def without_split(plan: CompiledPlan) -> tuple[CompiledPlan, dict[int, SplitAggregate]]:
    """Return a plan in which each split aggregate is one, and those that were split, by their numbers in it.

    One stays as it is whose buckets are of several columns, of those of its key, or of functions of which the final
    aggregate makes something else.
    """
    found: dict[int, SplitAggregate] = {}
    made: dict[int, PlanNode] = {}
    passed: set[int] = set()
    readers: dict[int, list[PlanNode]] = {}
    for node in plan.nodes:
        for source in node.sources:
            readers.setdefault(source.id, []).append(node)
    projections: dict[int, dict[str, Any]] = {}
    for node in in_order(plan):
        split = _split(node)
        merged = None if split is None else _with_means(split, readers.get(node.id, []))
        if merged is not None:
            split, others = merged
            projections |= others
            found[node.id] = split
            passed |= _between(node, _base(split.whole).id)
            (source,) = split.whole.sources
            base = made[_base(split.whole).id]
            own = base if source.kind == CALC else replace(source, sources=(base,))
            made[node.id] = replace(split.whole, sources=(own,))
            continue
        attributes = {**node.attributes, **projections.get(node.id, {})}
        made[node.id] = replace(node, attributes=attributes, sources=tuple(made[one.id] for one in node.sources))
    read = {one.id for node in plan.nodes if node.id not in passed and node.id not in found for one in node.sources}
    nodes = [made[node.id] for node in plan.nodes if node.id not in passed or node.id in read]
    return CompiledPlan(plan.flink_version, nodes), found


def _base(whole: PlanNode) -> PlanNode:
    (source,) = whole.sources
    return source if source.kind == CALC else source.sources[0]


def _between(node: PlanNode, base: int) -> set[int]:
    """Return the numbers of the nodes between a final aggregate and the Calc that adds buckets."""
    found: set[int] = set()
    (node,) = node.sources
    while node.id != base:
        found.add(node.id)
        (node,) = node.sources
    return found


def _split(final: PlanNode) -> SplitAggregate | None:
    """Return the split aggregate whose final one a node is; None if it is none, or stays as it is."""
    if final.kind not in (_GROUPS, _GLOBAL):
        return None
    partial = _below(final)
    if final.kind == _GLOBAL and partial.kind == _INCREMENTAL:
        reader, kept = _below(partial), partial.items("finalAggGrouping")
    else:
        reader, kept = partial, final.items("grouping")
    if reader.kind != (_LOCAL if final.kind == _GLOBAL else _GROUPS) or not _are_final(final, reader):
        return None
    if not _are_positions([*kept, *reader.items("grouping")]):
        return None
    if _times_to_live(partial) != _times_to_live(final):
        return None
    rows = _Rows.below(reader)
    if rows is None:
        return None
    keys: dict[int, int] = {}
    buckets: dict[int, tuple[Any, int, tuple[int | None, ...]]] = {}
    for at, position in enumerate(reader.items("grouping")):
        columns = rows.columns(position)
        known = {one for one in columns if one is not None}
        if len(known) != 1:
            return None
        (column,) = known
        bucket = _bucket(rows.expression(column))
        if (at in kept) != (bucket is None) or (at in kept and None in columns):
            return None
        if bucket is None:
            keys[at] = column
        else:
            buckets[at] = (*bucket, columns)
    calls: list[Any] = []
    seen: dict[int, int] = {}
    for call in reader.items("aggCalls"):
        places = [set(rows.columns(one)) for one in call.get("argList") or []]
        over = [column for one in places if len(one) == 1 for column in one if column is not None]
        filtered = rows.filter(call.get("filterArg", -1))
        if filtered is None or len(over) < len(places):
            return None
        row, condition = filtered
        if call.get("distinct") is True:
            of_row = [at for at, (_, _, columns) in buckets.items() if columns[row] is not None]
            if len(over) != 1 or len(of_row) != 1 or buckets[of_row[0]][0] != rows.expression(over[0]):
                return None
            seen[len(calls)] = of_row[0]
        calls.append({**call, "argList": over, "filterArg": condition})
    if not seen or len(keys) != len(kept):
        return None
    whole = _whole(final, reader, rows.base, [keys[at] for at in kept], calls)
    views = [{seen[number] for number in numbers} for numbers in distinct_views(whole)]
    if any(len(one) > 1 for one in views):
        return None
    of_views = tuple((at, buckets[at][1]) for one in views for at in one)
    copies = 1 if rows.expanded is None else len(rows.expanded)
    return SplitAggregate(whole, partial, final, tuple(kept), len(keys) + len(buckets), of_views, copies)


def _whole(final: PlanNode, reader: PlanNode, base: PlanNode, keys: Sequence[int], calls: Sequence[Any]) -> PlanNode:
    """Return the one node that a split aggregate is, and in two phases the local aggregate before it."""
    own = {name: reader.attributes.get(name) for name in ("needRetraction", "aggCallNeedRetractions")}
    attributes = {**final.attributes, **own, "grouping": list(keys), "aggCalls": list(calls)}
    attributes.pop("indexOfCountStar", None)  # Of the final aggregate, which has no COUNT(*).
    if final.kind == _GROUPS:
        return replace(final, attributes=attributes, sources=(base,))
    before = {**reader.attributes, "grouping": list(keys), "aggCalls": list(calls)}
    attributes |= {"grouping": list(range(len(keys))), "localAggInputRowType": base.attributes.get("outputType")}
    return replace(final, attributes=attributes, sources=(replace(reader, attributes=before, sources=(base,)),))


def _with_means(
    split: SplitAggregate, readers: Sequence[PlanNode]
) -> tuple[SplitAggregate, dict[int, dict[str, Any]]] | None:
    """Return a split aggregate with AVG where it has its sum and its number, and what the nodes that divide these are
    without that; None if they do something else with them."""
    calls, keys = split.whole.items("aggCalls"), len(split.whole.items("grouping"))
    arguments = row_type_types(_base(split.whole).attributes.get("outputType"))
    columns = {at: at for at in range(keys)}
    means: dict[tuple[int, int], tuple[int, str]] = {}
    made: list[Any] = []
    for at, call in enumerate(calls):
        if at and function_of(calls[at - 1]) == "SUM0":
            continue
        column = keys + len(made)
        if function_of(call) != "SUM0":
            columns[keys + at] = column
        elif at + 1 < len(calls) and _is_number_of(calls[at + 1], call):
            type_ = _type_of_mean(arguments[call["argList"][0]])
            if type_ is None:
                return None
            means[keys + at, keys + at + 1] = column, type_
        else:
            return None
        made.append(call)
    if not means:
        return split, {}
    division = _Division(columns, means, {})
    read = {
        one.id: {name: division.without(one.at(name)) for name in ("projection", "condition")}
        for one in readers
        if one.kind == CALC
    }
    if len(read) < len(readers) or division.uses_others or len(division.types) < len(means):
        return None
    for column, type_ in division.types.items():
        made[column - keys] = {**made[column - keys], "internalName": "$AVG$1", "type": type_}
    return replace(split, whole=_with_calls(split.whole, made)), read


def _with_calls(whole: PlanNode, calls: Sequence[Any]) -> PlanNode:
    """Return a node with other calls, and a local aggregate before it."""
    retracted = [whole.at("needRetraction") is True] * len(calls)
    (source,) = whole.sources
    own = source if source.kind == CALC else _with_calls(source, calls)
    attributes = {**whole.attributes, "aggCalls": list(calls), "aggCallNeedRetractions": retracted}
    return replace(whole, attributes=attributes, sources=(own,) if whole.kind != _LOCAL else whole.sources)


def _type_of_mean(column: Any) -> str | None:
    """Return the type of the AVG of a column; None if it is not made of the split one's sum."""
    type_ = parse_sql_type(column) if isinstance(column, str) else None
    if type_ is None or type_.kind not in _DIVIDED:
        return None
    is_decimal = type_.kind == "DECIMAL"
    return f"DECIMAL(38, {max(_LEAST_SCALE, type_.scale)})" if is_decimal else column.removesuffix(" NOT NULL")


@dataclass
class _Division:
    """Finds where sums are divided by their numbers.

    Attributes:
        columns: Column → its position where AVG is one column.
        means: Sum and number → the position of their AVG, and its type.
        types: The types of the AVG that were found, by their positions.
        uses_others: Whether something else is made of a sum or a number.
    """

    columns: Mapping[int, int]
    means: Mapping[tuple[int, int], tuple[int, str]]
    types: dict[int, str]
    uses_others: bool = False

    def without(self, expression: Any) -> Any:
        """Return an expression in which AVG is a column."""
        if isinstance(expression, list):
            return [self.without(one) for one in expression]
        if not isinstance(expression, dict):
            return expression
        position = _reference(expression)
        if position is not None:
            self.uses_others |= position not in self.columns
            return {**expression, "inputIndex": self.columns.get(position)}
        found = self._mean(expression)
        if found is None and _calls(expression, "$CAST$1", arguments=1):
            inner = self._mean(expression["operands"][0])
            # Whole numbers are divided as BIGINT.
            found = inner if inner is not None and _type_of(expression) == self.means[inner][1] else None
        elif found is not None and _type_of(expression) != self.means[found][1]:
            found = None
        if found is None:
            return {name: self.without(one) for name, one in expression.items()}
        column, _ = self.means[found]
        self.types[column] = expression["type"]
        return {"kind": "INPUT_REF", "inputIndex": column, "type": expression["type"]}

    def _mean(self, expression: Any) -> tuple[int, int] | None:
        """Return the sum and the number of which an expression is the AVG."""
        if not _calls(expression, "$IF$1", arguments=3):
            return None
        is_none, _, quotient = expression["operands"]
        if not _calls(is_none, "$=$1") or not _calls(quotient, "$/$1"):
            return None
        total, number = map(_reference, quotient["operands"])
        if total is None or number is None or _reference(is_none["operands"][0]) != number:
            return None
        return (total, number) if (total, number) in self.means else None


def _type_of(expression: Any) -> str:
    return str(expression.get("type")).removesuffix(" NOT NULL")


def _is_number_of(call: Any, total: Any) -> bool:
    """Whether a call is the COUNT of what another one adds up, so that they are an AVG."""
    parts = ("argList", "filterArg", "distinct")
    return function_of(call) == "COUNT" and all(call.get(name) == total.get(name) for name in parts)


def _are_final(final: PlanNode, reader: PlanNode) -> bool:
    """Whether the calls of an aggregate are those over the results of the calls of another one."""
    calls, width = reader.items("aggCalls"), len(reader.items("grouping"))
    finals = final.items("aggCalls")
    return len(calls) == len(finals) and all(
        _is_call(one)
        and _is_call(call)
        and is_built_in(one)
        and is_built_in(call)
        and _FINAL.get(function_of(call)) == function_of(one)
        and one.get("argList") == [width + at]
        and one.get("distinct") is not True
        and one.get("filterArg", -1) == -1
        for at, (call, one) in enumerate(zip(calls, finals, strict=True))
    )


def _is_call(call: Any) -> bool:
    """Whether a call is of columns by their positions."""
    if not isinstance(call, dict) or type(call.get("filterArg", -1)) is not int:
        return False
    over = call.get("argList") or []
    return isinstance(over, list) and _are_positions(over)


def _are_positions(found: Sequence[Any]) -> bool:
    return all(type(one) is int and one >= 0 for one in found)


def _times_to_live(node: PlanNode) -> list[bool]:
    """Return whether the states of a node have a time to live."""
    return [is_on(one.get("ttl")) for one in node.items("state") if isinstance(one, dict)]


def _below(node: PlanNode) -> PlanNode:
    """Return what a node with one input reads, whatever the exchanges are between."""
    (found,) = node.sources
    while found.kind == _EXCHANGE:
        (found,) = found.sources
    return found


@dataclass(frozen=True)
class _Rows:
    """The rows that a partial aggregate reads.

    Attributes:
        base: The Calc that adds the buckets.
        expanded: The columns of each row that is made of one of its rows: its position there, None for null; what
            filters compare for a number of the row. None where each row is there once.
        filters: The projection after that.
    """

    base: PlanNode
    expanded: Sequence[Any] | None
    filters: Sequence[Any]

    @classmethod
    def below(cls, reader: PlanNode) -> _Rows | None:
        """Return those that a node reads; None for others."""
        calc = _below(reader)
        if calc.kind != CALC:
            return None
        if calc.sources[0].kind != _EXPAND:
            return cls(calc, None, ())
        (expand,) = calc.sources
        base = _below(expand)
        is_plain = base.kind == CALC and calc.at("condition") is None
        rows = expand.items("projects")
        width = len(rows[0]) if rows and isinstance(rows[0], list) else -1
        is_plain &= all(
            isinstance(row, list) and len(row) == width and all(isinstance(cell, dict) for cell in row) for row in rows
        )
        return cls(base, rows, calc.items("projection")) if is_plain else None

    def expression(self, column: int) -> Any:
        """Return what a column of the base is."""
        projection = self.base.items("projection")
        return projection[column] if column < len(projection) else None

    def columns(self, position: int) -> tuple[int | None, ...]:
        """Return which column of the base one is in each row; None for null, and for anything else."""
        if self.expanded is None:
            return (position,)
        at = self._expanded_at(self.filters[position] if position < len(self.filters) else None)
        return tuple(None if at is None else _reference(one[at]) for one in self.expanded)

    def filter(self, position: int) -> tuple[int, int] | None:
        """Return of which row a filter is, by its number, and the column of the base that is true, too; -1 for none.

        None for any other filter.
        """
        if self.expanded is None:
            return 0, position
        filters = [self.filters[position]] if 0 <= position < len(self.filters) else []
        if filters and _calls(filters[0], "$AND$1"):
            filters = filters[0]["operands"]
        if not 0 < len(filters) <= 2 or not _calls(filters[0], "$=$1"):
            return None
        number, value = filters[0]["operands"]
        at, is_of = self._expanded_at(number), value.get("value")
        rows = [] if at is None else [row for row, one in enumerate(self.expanded) if one[at].get("value") == is_of]
        conditions = {self.columns_of(one) for one in filters[1:]} or {-1}
        (condition,) = conditions
        return None if len(rows) != 1 or condition is None else (rows[0], condition)

    def columns_of(self, expression: Any) -> int | None:
        """Return the column of the base that an expression after the rows are made is in all of them, else None."""
        at = self._expanded_at(expression)
        found = {None} if at is None or self.expanded is None else {_reference(one[at]) for one in self.expanded}
        return found.pop() if len(found) == 1 else None

    def _expanded_at(self, expression: Any) -> int | None:
        """Return the position in the expanded rows of what an expression after that is."""
        at = _reference(expression)
        return at if at is not None and self.expanded and at < len(self.expanded[0]) else None


def _bucket(expression: Any) -> tuple[Any, int] | None:
    """Return of what an expression is the bucket, and the number of buckets; None if it is none."""
    if not _calls(expression, "$MOD$1") or not _calls(expression["operands"][0], "$HASH_CODE$1", arguments=1):
        return None
    hashed, number = expression["operands"]
    count = number.get("value")
    return (hashed["operands"][0], count) if type(count) is int and count > 0 else None


def _calls(expression: Any, name: str, arguments: int = 2) -> bool:
    """Whether an expression is a call of a function, with so many arguments, all of which are expressions."""
    if not isinstance(expression, dict) or expression.get("internalName") != name:
        return False
    operands = expression.get("operands")
    return isinstance(operands, list) and len(operands) == arguments and all(isinstance(one, dict) for one in operands)


def _reference(expression: Any) -> int | None:
    """Return the position of the column that an expression is; None for anything else."""
    if not isinstance(expression, dict) or expression.get("kind") != "INPUT_REF":
        return None
    found = expression.get("inputIndex")
    return found if type(found) is int and found >= 0 else None
