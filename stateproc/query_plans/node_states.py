"""Say which states the operator of a node declares, with the types of keys and values, by the plan alone.

    group aggregate       accState: the accumulators, a row, per key of groups
    deduplicate           deduplicate-state: the row that is kept; of the first row by processing time only TRUE
    changelog normalize   deduplicate-state: the last row
    TopN, LIMIT           Top1-Rank-State: the first row; data-state-with-append: rows by their sort key, in lists
    join                  left-records, right-records, see below

The rows of a join's input are a value where the join's key contains a unique key of the input, values of a map where
the input has another unique key, else keys of a map with the number of their occurrences. Where a row is emitted
without a partner, too (LEFT, RIGHT, FULL, semi and anti joins), the number of its partners is beside it, in a tuple.

Sources: GroupAggFunction, DeduplicateFunctionBase, FastTop1Function, AppendOnlyTopNFunction, JoinRecordStateViews and
OuterJoinRecordStateViews of org.apache.flink.table.runtime.operators; JoinUtil.analyzeJoinInput.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from stateproc import types
from stateproc.errors import UnsupportedSnapshot, not_found
from stateproc.query_plans.aggregate_conversion import buffer_types, call_text
from stateproc.query_plans.join_types import OUTER
from stateproc.query_plans.node_definitions import is_on
from stateproc.query_plans.node_rules import NODE_RULES, accumulator_names, function_of, is_built_in, node_uids
from stateproc.query_plans.plan_file import CompiledPlan, PlanNode, row_type_names, row_type_types, unique_names
from stateproc.query_plans.row_conversion import column_type
from stateproc.serializers import Serializer
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.type_text import parse_sql_type

# What a key or a value consists of, as columns.

PROCTIME = "PROCTIME"
COUNT, ASSOCIATIONS, ROWS = "count", "associations", "rows"
"""Columns that are not those of the query: how often a row is there, how many partners it has, rows of one sort key."""


@dataclass(frozen=True)
class Record:
    """A row.

    Attributes:
        columns: The columns that it is made of.
        types: Their types.
        counted: The columns in which 0 stands for null: accumulators that begin with it, and stay null otherwise.
    """

    columns: tuple[str, ...]
    types: tuple[LogicalType, ...]
    counted: frozenset[str] = frozenset()

    @property
    def given(self) -> tuple[str | None, ...]:
        """The columns that rows give; None for a processing time, which is null in state."""
        return tuple(
            None if type_.attribute == PROCTIME else name for name, type_ in zip(self.columns, self.types, strict=True)
        )

    @property
    def serializer(self) -> Serializer:
        """RowDataSerializer."""
        return types.RowData([(f"f{at}", type_) for at, type_ in enumerate(self.types)])


@dataclass(frozen=True)
class Column:
    """A single column, never null; ``default``: what it is in rows that do not have it, and the least that it can be;
    None where rows need it."""

    name: str
    serializer: Serializer
    default: int | None = None


@dataclass(frozen=True)
class Always:
    """A value that is the same in all rows."""

    value: bool
    serializer: Serializer


@dataclass(frozen=True)
class Pair:
    """A Tuple2."""

    first: Part
    second: Part

    @property
    def serializer(self) -> Serializer:
        """TupleSerializer."""
        return types.Tuple(self.first.serializer, self.second.serializer)


Part: TypeAlias = "Record | Column | Always | Pair"


def columns_of(part: Part) -> tuple[str, ...]:
    """Return the columns that a part is made of."""
    if isinstance(part, Record):
        return tuple(name for name in part.given if name is not None)
    if isinstance(part, Pair):
        return (*columns_of(part.first), *columns_of(part.second))
    return (part.name,) if isinstance(part, Column) else ()


def defaults(part: Part) -> tuple[str, ...]:
    """Return the columns of a part that rows need not have."""
    if isinstance(part, Pair):
        return (*defaults(part.first), *defaults(part.second))
    return (part.name,) if isinstance(part, Column) and part.default is not None else ()


@dataclass(frozen=True)
class NodeState:
    """A state that the operator of a node declares.

    Attributes:
        name: Its name.
        key: The key, of the columns of the rows that fill this state.
        value: The value; of a map an entry's.
        map_key: The key of an entry; None of a value state.
        ttl: Whether it has a time to live; None where the plan does not say.
    """

    name: str
    key: Record
    value: Part
    map_key: Part | None = None
    ttl: bool | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that its rows need, each once."""
        parts = [self.key, *([] if self.map_key is None else [self.map_key]), self.value]
        return tuple(dict.fromkeys(name for part in parts for name in columns_of(part)))


# The states of each type of node.


def node_states(plan: CompiledPlan, uid: str) -> tuple[NodeState, ...]:
    """Return the states of the operator with this uid.

    Raises:
        NotFound: The plan has no such operator.
        UnsupportedSnapshot: Its states are not known, or contain what rows do not give.
    """
    found = {own: (node, name) for node in plan.nodes for name, own in node_uids(plan, node).items()}
    if uid not in found:
        known = [own for own, (node, name) in found.items() if node.kind in _STATES and name == _stateful(node)]
        raise not_found("operator", uid, known, "the plan")
    node, name = found[uid]
    states = _STATES.get(node.kind)
    if states is None or name != _stateful(node):
        raise _unsupported(node, "its states are not filled from rows")
    if node.at("configuration", _ASYNC) == "true":
        raise _unsupported(node, f"with {_ASYNC} it has states of another kind")
    if plan.flink_version.startswith("1.15") and states is _rank:
        raise _unsupported(node, "Flink 1.15 has other states for it")
    return tuple(
        NodeState(state.name, state.key, state.value, state.map_key, _ttl(node, index))
        for index, state in enumerate(states(node))
    )


def _stateful(node: PlanNode) -> str | None:
    """Return which of a node's operators has state."""
    rule = NODE_RULES.get(node.kind)
    return None if rule is None else rule.transformation


_ASYNC = "table.exec.async-state.enabled"


def _ttl(node: PlanNode, index: int) -> bool | None:
    states = node.items("state")
    found = states[index].get("ttl") if index < len(states) and isinstance(states[index], dict) else None
    return None if found is None else is_on(found)


def _unsupported(node: PlanNode, why: str) -> UnsupportedSnapshot:
    return UnsupportedSnapshot(
        f"{node.label}: {why}",
        advice="let the operator begin without state, or let the job build it from its sources",
    )


def _input(node: PlanNode, index: int = 0) -> Record:
    """Return the rows that a node reads."""
    names = node.input(index)
    return _record(node, names, row_type_types(node.sources[index].attributes.get("outputType")))


def _record(node: PlanNode, names: Sequence[str], written: Sequence[Any]) -> Record:
    own = zip(names, written, strict=False)  # What is written as SQL ends with the row's own nullability.
    return Record(tuple(map(str, names)), tuple(column_type(node, name, type_) for name, type_ in own))


def _picked(node: PlanNode, rows: Record, positions: Any) -> Record:
    """Return those columns of rows whose positions are listed."""
    types_ = dict(zip(rows.columns, rows.types, strict=True))
    chosen = node.chosen(rows.columns, positions)
    return Record(chosen, tuple(types_[name] for name in chosen))


def _beside(rows: Record, name: str) -> str:
    """Return a name for a column beside those of the query: one that comes twice gets ``_1``."""
    return unique_names((*rows.columns, name))[-1]


def _group_aggregate(node: PlanNode) -> Iterable[NodeState]:
    rows, calls, retracted = _input(node), node.items("aggCalls"), node.items("aggCallNeedRetractions")
    count_rows = node.at("needRetraction") is True and node.at("indexOfCountStar") in (None, -1)
    arguments = node.at("localAggInputRowType")
    names = accumulator_names(
        node,
        calls,
        node.input() if arguments is None else row_type_names(arguments),
        retracted=retracted,
        count_rows=count_rows,
    )
    found: list[LogicalType] = []
    counted: list[bool] = []
    for index, call in enumerate(calls):
        own = index < len(retracted) and retracted[index] is True
        if not is_built_in(call) or call.get("distinct") is True or function_of(call) not in _KNOWN[own]:
            raise _unsupported(node, f"{call_text(node, call)} has an accumulator that is not filled from rows")
        buffers = buffer_types(node, call, retracts=own)
        found += buffers
        counted += [len(buffers) > 1 or function_of(call) in ("COUNT", "SUM0")] * len(buffers)
    if len(names) > len(found):
        found.append(parse_sql_type("BIGINT"))
        counted.append(True)
    key = _picked(node, rows, node.items("grouping"))
    own_names = unique_names((*key.columns, *map(str, names)))[len(key.columns) :]
    zero = frozenset(name for name, begins in zip(own_names, counted, strict=True) if begins)
    yield NodeState("accState", key, Record(own_names, tuple(found), zero))


_KNOWN = (frozenset({"COUNT", "SUM", "SUM0", "MIN", "MAX", "AVG"}), frozenset({"COUNT", "SUM", "AVG"}))
"""Functions whose accumulators are columns: of rows that are only added, and of rows that are taken back, too."""


def _deduplicate(node: PlanNode) -> Iterable[NodeState]:
    rows = _input(node)
    key = _picked(node, rows, node.items("uniqueKeys"))
    first = node.at("keepLastRow") is False
    if first and node.at("isRowtime") is True:
        raise _unsupported(node, "the first row by its time waits for the watermark in some releases")
    yield NodeState("deduplicate-state", key, Always(True, types.BOOLEAN) if first else rows)


def _normalize(node: PlanNode) -> Iterable[NodeState]:
    rows = _input(node)
    if node.at("filterCondition") is not None:
        raise _unsupported(node, "it keeps only rows for which its filter is true")
    yield NodeState("deduplicate-state", _picked(node, rows, node.items("uniqueKeys")), rows)


def _rank(node: PlanNode) -> Iterable[NodeState]:
    rows = _input(node)
    key = _picked(node, rows, node.items("partition", "fields"))
    limits, strategy = node.at("rankRange"), node.at("rankStrategy", "type")
    if strategy != "AppendFast" or not isinstance(limits, dict) or limits.get("type") != "Constant":
        raise _unsupported(node, "of TopN only that with a constant range over rows that are only added is filled")
    if (limits.get("start"), limits.get("end")) == (1, 1):
        yield NodeState("Top1-Rank-State", key, rows)
        return
    fields = node.items("orderBy", "fields")
    sort_key = _picked(node, rows, [item.get("index") if isinstance(item, dict) else None for item in fields])
    # Arrays of structs are matched by the names of their fields.
    row = types.RowData(zip(rows.columns, rows.types, strict=True))
    yield NodeState("data-state-with-append", key, Column(_beside(rows, ROWS), types.List(row)), sort_key)


def _join(node: PlanNode) -> Iterable[NodeState]:
    kind = node.at("joinSpec", "joinType")
    if not isinstance(kind, str) or kind not in OUTER:
        raise _unsupported(node, f"a join of the type {kind!r}")
    # Both sides have the key of the left one.
    key_types = _picked(node, _input(node), node.items("joinSpec", "leftKeys")).types
    for index, side in enumerate(("left", "right")):
        rows = _input(node, index)
        key = Record(_picked(node, rows, node.items("joinSpec", f"{side}Keys")).columns, key_types)
        unique = [*node.items(f"{side}UpsertKeys"), *node.items(f"{side}UniqueKeys")]  # The latter in Flink 1.15.
        map_key, kept = _kept_by(rows, [_picked(node, rows, one) for one in unique], key)
        if OUTER[kind][index]:
            kept = Pair(kept, Column(_beside(rows, ASSOCIATIONS), types.INT))
        yield NodeState(f"{side}-records", key, kept, map_key)


def _kept_by(rows: Record, unique: Sequence[Record], key: Record) -> tuple[Part | None, Part]:
    """Return by what the rows of an input are found below the join's key, None if that is enough, and what is kept."""
    if not unique:
        return rows, Column(_beside(rows, COUNT), types.INT, default=1)
    if any(set(one.columns) <= set(key.columns) for one in unique):
        return None, rows
    return min(unique, key=lambda one: len(one.columns)), rows


_STATES: Mapping[str, Callable[[PlanNode], Iterable[NodeState]]] = {
    "stream-exec-group-aggregate": _group_aggregate,
    "stream-exec-global-group-aggregate": _group_aggregate,
    "stream-exec-deduplicate": _deduplicate,
    "stream-exec-changelog-normalize": _normalize,
    "stream-exec-rank": _rank,
    "stream-exec-sort-limit": _rank,
    "stream-exec-limit": _rank,
    "stream-exec-join": _join,
}
"""Type of node → its states."""
