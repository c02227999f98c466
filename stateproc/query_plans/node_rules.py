"""Which columns the states of each type of exec node contain: one row per type.

Sources: the classes of org.apache.flink.table.planner.plan.nodes.exec.stream (keys and row types that they pass to
operators, names of transformations) and the operators in org.apache.flink.table.runtime.operators (names of states).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stateproc.keygroups.operator_ids import operator_id
from stateproc.operator_names.uid_hashes import OF_CONNECTORS, SINK_TRANSFORMATION, TRANSFORMATIONS, sink_uids
from stateproc.query_plans.over_aggregates import OVER, is_bounded, over_calls
from stateproc.query_plans.plan_file import (
    CompiledPlan,
    PlanNode,
    invalid_plan,
    row_type_names,
    row_type_types,
    unique_names,
)
from stateproc.readers.state_names import Names, OperatorNames, Pair, StateNames, WindowNames

# Names of the fields of an accumulator row.
#
# Flink's planner stores one row per group: the buffers of each aggregate call one after another, a count of rows if
# inputs may be retracted and the query has no COUNT(*), then a view per set of columns that DISTINCT applies to
# (AggregateUtil, AggFunctionFactory). Data views are stored in states of their own; their fields in the row are always
# null.

ROW_COUNT = "row_count"

_BUFFERS: dict[str, tuple[str, ...]] = {
    "AVG": ("sum", "count"),
    "LISTAGG": ("delimiter", ""),
    "SINGLE_VALUE": ("", "count"),
    "RANK": ("", "order"),
}
"""Function → what its buffers hold, where it has several; the result itself is called as the aggregate call is."""
_RETRACTING: dict[str, tuple[str, ...]] = {"SUM": ("", "count"), "LISTAGG": ("",)}
"""Functions whose buffers differ where inputs may be retracted."""
_GENERATED = re.compile(r"(EXPR)?\$\w*|\w+\$\w*")
_FUNCTION = re.compile(r"\$+(.*?)\$\d+")


def accumulator_names(
    node: PlanNode,
    calls: Sequence[Any],
    arguments: Names,
    *,
    retracted: Sequence[Any] = (),
    count_rows: bool = False,
) -> Names:
    """Return the names of an accumulator's fields.

    Args:
        node: The node, for errors.
        calls: Its aggregate calls, JSON objects.
        arguments: The columns that the calls refer to.
        retracted: Of each call, whether its input may be retracted.
        count_rows: Whether Flink counts the rows of a group.
    """
    names: list[str] = []
    distinct: dict[tuple[str, ...], None] = {}
    counted = False
    for index, call in enumerate(calls):
        if not isinstance(call, dict):
            raise node.error("an aggregate call is no object")
        columns = node.chosen(arguments, call.get("argList") or [])
        function = function_of(call)
        is_distinct = call.get("distinct") is True and bool(columns)
        counted |= function == "COUNT" and not columns and not is_distinct and call.get("filterArg", -1) == -1
        name = call_name(call, function, columns)
        parts = buffer_names(function, retracted=index < len(retracted) and retracted[index] is True)
        names += [f"{name}_{part}" if part else name for part in parts]
        if is_distinct:
            distinct[columns] = None
    if count_rows and not counted:
        names.append(ROW_COUNT)
    names += ["distinct_" + "_".join(columns) for columns in distinct]
    return unique_names(names)


def call_columns(node: PlanNode) -> tuple[Names, list[Any]]:
    """Return the names and the types of what the calls are over; in two phases what the first reads.

    OVER has constants after the columns.
    """
    local = node.at("localAggInputRowType")
    own = node.sources[0].attributes.get("outputType") if local is None else local
    constants = [one if isinstance(one, dict) else {} for one in node.items("overSpec", "constants")]
    names = (*row_type_names(own), *(str(one.get("value")) for one in constants))
    return names, [*row_type_types(own), *(one.get("type") for one in constants)]


def aggregate_calls(node: PlanNode) -> list[Any]:
    """Return the calls whose buffers are in an accumulator, in their order.

    HOP windows count their rows, too, and so do groups of rows that may be taken back, and frames that rows leave.

    Whether the last row is gone is known by that count only, unless the query has it.
    """
    if node.kind == OVER:
        calls, counted = over_calls(node), is_bounded(node)
    else:
        calls = node.items("aggCalls")
        is_known = node.at("indexOfCountStar") not in (None, -1)  # One call adds up what COUNT(*) was before.
        counted = node.at("needRetraction") is True and not is_known
        counted |= node.at("windowing", "window", "type") == "HoppingWindow"
    return [*calls, _COUNT_ROWS] if counted and not any(map(counts_rows, calls)) else calls


def retracts(node: PlanNode, number: int, call: Any) -> bool:
    """Whether a call, of this number in `aggregate_calls`, has another accumulator because rows may be taken back."""
    calls = node.items("aggCallNeedRetractions")
    taken_back = is_bounded(node) if node.kind == OVER else number < len(calls) and calls[number] is True
    return taken_back and function_of(call) not in _RETRACT_ALIKE


_RETRACT_ALIKE = ("AVG", "COUNT", "SUM0")
"""Functions that take rows back from the accumulator that they have anyway."""


def counts_rows(call: Any) -> bool:
    """Whether a call is COUNT(*)."""
    if not is_built_in(call) or call.get("argList") or call.get("distinct") is True:
        return False
    return call.get("filterArg", -1) == -1 and function_of(call) == "COUNT"


def is_built_in(call: Any) -> bool:
    """Whether a call is of a function of Flink; one of the user may have its name."""
    return isinstance(call, dict) and isinstance(call.get("internalName"), str)


_COUNT_ROWS = {"internalName": "$COUNT$1", "argList": [], "filterArg": -1, "type": "BIGINT NOT NULL"}


def buffer_names(function: str, *, retracted: bool = False) -> tuple[str, ...]:
    """Return what the buffers of a function hold; "" for the result itself. ``retracted``: its input may be."""
    own = _RETRACTING.get(function) if retracted else None
    return own or _BUFFERS.get(function, ("",))


def function_of(call: Any) -> str:
    """Return the SQL name of a call's function; the last part of a user-defined function's name."""
    for key in ("internalName", "systemName", "catalogName", "name"):
        written = call.get(key)
        if isinstance(written, str):
            match = _FUNCTION.fullmatch(written)
            return (match[1] if match else written.rsplit(".", 1)[-1].strip("`")).upper()
    return "AGGREGATE"


def call_name(call: Any, function: str, columns: Names) -> str:
    """Return the name that the query gives to a call, or one of its function and columns where it gives none."""
    name = call.get("name")
    if isinstance(name, str) and name and not _GENERATED.fullmatch(name):
        return name
    return "_".join([function.removesuffix("0").lower(), *(item for item in columns if not _GENERATED.fullmatch(item))])


# Windows of a plan's nodes: what the namespaces of their states are.

_DURATION = re.compile(
    r"(?P<whole>-?)P(?:(?P<days>-?\d+)D)?"
    r"(?:T(?:(?P<hours>-?\d+)H)?(?:(?P<minutes>-?\d+)M)?(?:(?P<sign>-?)(?P<seconds>\d+)(?:\.(?P<fraction>\d{1,9}))?S)?)?"
)
_SLICE = ("slice_start", "slice_end")
PANES = WindowNames(*_SLICE)
"""What GROUP BY HOP(…) keeps its aggregates by; they have a start and an end, as its windows have."""
_ATTACHED = "WindowAttached"
_MAX_MILLIS = 1 << 62


def window_names(node: PlanNode, *path: str) -> WindowNames:
    """Return how the windows of a node are stored; ``path`` leads to its windowing strategy.

    Sessions have a start and an end. Of other windows the end is stored. Aggregates of HOP and CUMULATE windows are
    kept per slice, of which several make a window.
    """
    window, strategy = node.at(*path, "window"), node.at(*path, "strategy")
    window = window if isinstance(window, dict) else {}
    kind = window.get("type")
    if kind == "TumblingWindow":
        return WindowNames(size=window_millis(node, window, "size"))
    if kind == "HoppingWindow":
        size, slide = window_millis(node, window, "size"), window_millis(node, window, "slide")
        if strategy == _ATTACHED or slide == size:
            return WindowNames(size=size)
        return WindowNames(*_SLICE, size=math.gcd(size, slide))
    if kind == "CumulativeWindow":
        if strategy == _ATTACHED:
            size, offset = window_millis(node, window, "maxSize"), window.get("offset")
            return WindowNames(size=size, aligned=True, offset=window_millis(node, window, "offset") if offset else 0)
        return WindowNames(*_SLICE, size=window_millis(node, window, "step"))
    return WindowNames()


def window_millis(node: PlanNode, window: dict[str, Any], name: str) -> int:
    """Parse a java.time.Duration as its toString writes it (PT-8H, PT-0.5S), or a number of milliseconds."""
    written = window.get(name)
    if type(written) is int and 0 < abs(written) < _MAX_MILLIS:
        return written
    match = _DURATION.fullmatch(written) if isinstance(written, str) and len(written) < 80 else None
    if match is None:
        raise node.error(f"the window's {name} is {str(written)[:80]!r}")
    days, hours, minutes = (int(match[part] or 0) for part in ("days", "hours", "minutes"))
    below = int(match["seconds"] or 0) * 1000 + int((match["fraction"] or "0").ljust(3, "0")[:3])
    millis = ((days * 24 + hours) * 60 + minutes) * 60_000 + (-below if match["sign"] else below)
    millis = -millis if match["whole"] else millis
    if not (0 < millis < _MAX_MILLIS or name == "offset"):
        raise node.error(f"the window's {name} is {written!r}")
    return millis


@dataclass(frozen=True)
class NodeRule:
    """A type of node.

    Attributes:
        transformation: The name of its transformation that has state, which is part of the operator's uid.
        names: Returns the names of its states.
    """

    transformation: str
    names: Callable[[PlanNode], OperatorNames]


def _names(
    node: PlanNode,
    key: Names,
    *rows: Names,
    user_key: tuple[Names, ...] = (),
    pair: Pair | None = None,
    windows: WindowNames | None = None,
    states: Mapping[str, tuple[Names, ...]] | None = None,
) -> OperatorNames:
    """Return names for an operator: the key's, those of rows in all its states, and in ``states`` of some."""
    others = StateNames((key,), user_key, rows, pair, windows)
    own = tuple((name, replace(others, value=found)) for name, found in (states or {}).items())
    return OperatorNames(node.label, own, others)


# --- aggregates ------------------------------------------------------------------------------------------


def group_accumulators(node: PlanNode) -> Names:
    """Return the names of the accumulators of an aggregate over groups."""
    return accumulator_names(
        node,
        node.items("aggCalls"),
        call_columns(node)[0],
        retracted=node.items("aggCallNeedRetractions"),
        count_rows=node.at("needRetraction") is True and node.at("indexOfCountStar") in (None, -1),
    )


def _group_aggregate(node: PlanNode) -> OperatorNames:
    key = node.picked(node.input(), "grouping")
    return _names(node, key, states={"accState": (group_accumulators(node),)})


def _incremental_aggregate(node: PlanNode) -> OperatorNames:
    return _names(node, node.picked(node.input(), "partialAggGrouping"))


def _window_aggregate(node: PlanNode) -> OperatorNames:
    calls = node.items("aggCalls")
    accumulator = accumulator_names(
        node,
        calls,
        call_columns(node)[0],
        retracted=[node.at("needRetraction") is True] * len(calls),
        count_rows=len(aggregate_calls(node)) > len(calls),
    )
    return _windowed(node, accumulator, window_names(node, "windowing"))


def _group_window_aggregate(node: PlanNode) -> OperatorNames:
    calls, taken_back = node.items("aggCalls"), node.at("needRetraction") is True
    retracted = [taken_back] * len(calls)
    accumulator = accumulator_names(node, calls, node.input(), retracted=retracted, count_rows=taken_back)
    size, slide = (node.at("window", name) for name in ("size", "slide"))
    overlap = node.at("window", "kind") == "SLIDING" and size != slide
    return _windowed(node, accumulator, PANES if overlap else WindowNames())


def _windowed(node: PlanNode, accumulator: Names, windows: WindowNames) -> OperatorNames:
    key = node.picked(node.input(), "grouping")
    return _names(node, key, windows=windows, states={"window-aggs": (accumulator,)})


def _over_aggregate(node: PlanNode) -> OperatorNames:
    rows, groups = node.input(), node.items("overSpec", "groups")
    group = groups[0] if groups and isinstance(groups[0], dict) else {}
    calls = group.get("aggCalls")
    calls = calls if isinstance(calls, list) else []
    # Rows leave a frame that has a beginning, so that its aggregates are retracted.
    bounded = is_bounded(node)
    accumulator = accumulator_names(
        node, calls, over_arguments(node), retracted=[bounded] * len(calls), count_rows=bounded
    )
    key = (node.picked(rows, "overSpec", "partition", "fields"),)
    sort_key = _sort_key(node, rows, "orderBy", group)
    # Rows in the order of a column that is no time: by the ids that Flink gives them, in lists by their sort key.
    by = ("id",) if group.get("isRows") is True else sort_key
    states = (
        ("accState", StateNames(key, value=(accumulator,))),
        ("accMapState", StateNames(key, (by,), (accumulator,))),
        ("sortedListState", StateNames(key, value=(sort_key,), pair=("sort_key", "ids"))),
    )
    return OperatorNames(node.label, states, StateNames(key, value=(rows,)))


def over_arguments(node: PlanNode) -> Names:
    """Return the names of what calls of OVER refer to: the columns, then constants."""
    constants = (f"constant_{n}" for n in range(len(node.items("overSpec", "constants"))))
    return unique_names((*node.input(), *constants))


# --- joins -----------------------------------------------------------------------------------------------


def _sides(node: PlanNode, left: str, right: str, *spec: str, pair: Pair | None = None) -> OperatorNames:
    """Names for a join with a state for rows of the left and one for rows of the right input."""
    key = node.picked(node.input(0), *spec, "leftKeys")
    states = []
    for side, (state, name) in enumerate(((left, "left"), (right, "right"))):
        rows = node.input(side)
        # Flink 1.15 calls them unique keys.
        keys = [*node.items(f"{name}UpsertKeys"), *node.items(f"{name}UniqueKeys")]
        unique = [node.chosen(rows, item) for item in keys if isinstance(item, list)]
        user_key = (*_shorter(unique, rows), rows)
        states.append((state, StateNames((key,), user_key, (rows,), pair, _join_windows(node))))
    return OperatorNames(node.label, tuple(states), StateNames((key,), windows=_join_windows(node)))


def _shorter(unique: list[Names], rows: Names) -> tuple[Names, ...]:
    return tuple(names for names in sorted(unique, key=len) if 0 < len(names) < len(rows))


def _join_windows(node: PlanNode) -> WindowNames | None:
    return window_names(node, "leftWindowing") if node.at("leftWindowing") is not None else None


def _regular_join(node: PlanNode) -> OperatorNames:
    return _sides(node, "left-records", "right-records", "joinSpec", pair=("record", "associations"))


def _multi_join(node: PlanNode) -> OperatorNames:
    """Rows of each input in a state of its own, under a key that is unique among them (MultiJoinStateViews).

    It is a unique key of the input, or the whole row; of all inputs but the first it is a part of a larger key, whose
    other part is what the input is joined by, or it is left out where the joined columns contain it.
    """
    key, states = (node.chosen(node.input(), multi_join_key(node)),), []
    for index, (joined, own, is_unique) in enumerate(multi_join_keys(node)):
        rows = node.input(index)
        if index and own:
            parts = ("join_key", "unique_key" if is_unique else "record")
            names = StateNames(key, (parts,), (rows,), user_key_parts=((), node.chosen(rows, [*own])))
        else:
            names = StateNames(key, (node.chosen(rows, [*joined, *own]),), (rows,))
        states.append((f"multi-join-input-{index}", names))
    return OperatorNames(node.label, tuple(states), StateNames(key))


def multi_join_key(node: PlanNode) -> Any:
    """Return the positions of the columns of a multi-join's key in its first input."""
    properties = node.items("inputProperties")
    distribution = properties[0].get("requiredDistribution") if properties and isinstance(properties[0], dict) else None
    return distribution.get("keys") if isinstance(distribution, dict) else None


def multi_join_keys(node: PlanNode) -> Iterator[tuple[Sequence[int], Sequence[int], bool]]:
    """Yield by which columns a multi-join finds the rows of each input below its key, by their positions.

    They are those that the input is joined by, none of the first; a unique key, or all of its columns where it has no
    unique key, as is said beside, and nothing where the former contain one.
    """
    unique_keys = node.items("inputUniqueKeys")
    for index in range(len(node.sources)):
        pairs, columns = node.items("joinAttributeMap", str(index)), range(len(node.input(index)))
        joined = node.chosen(columns, [one.get("rightFieldIndex") if isinstance(one, dict) else None for one in pairs])
        keys = unique_keys[index] if index < len(unique_keys) and isinstance(unique_keys[index], list) else []
        unique = [node.chosen(columns, item) for item in keys]
        is_contained = index > 0 and any(set(item) <= set(joined) for item in unique)
        own = () if is_contained else min(unique, key=len, default=columns)
        yield list(dict.fromkeys(joined)) if index else (), own, bool(unique)


def _interval_join(node: PlanNode) -> OperatorNames:
    path = ("intervalJoinSpec", "joinSpec")
    return _sides(node, "IntervalJoinLeftCache", "IntervalJoinRightCache", *path, pair=("record", "joined"))


def _temporal_join(node: PlanNode) -> OperatorNames:
    return _sides(node, "left", "right", "joinSpec")


def _lateral_snapshot_join(node: PlanNode) -> OperatorNames:
    """Rows of the right input with their numbers; its changes by row time; rows of the left that wait, by number.

    LateralSnapshotJoinOperator of Flink 2.4: from its sources, not compared with a release.
    """
    key = (node.picked(node.input(0), "joinSpec", "leftKeys"),)
    left, right = node.input(0), node.input(1)
    states = (
        ("build-table", StateNames(key, (right,))),
        ("build-change-buffer", StateNames(key, (), (right,))),
        ("probe-buffer", StateNames(key, (), (left,))),
        *((name, StateNames(key)) for name in ("buffered-at-wm", "probe-buffer-seq", "ttl-expiry")),
    )
    return OperatorNames(node.label, states, StateNames(key))


# --- operators that keep rows of their input -------------------------------------------------------------


def _deduplicate(node: PlanNode) -> OperatorNames:
    return _names(node, node.picked(node.input(), "uniqueKeys"), node.input())


def _rank(node: PlanNode) -> OperatorNames:
    rows = node.input()
    sort_key = _sort_key(node, rows, "orderBy")
    row_key = node.picked(rows, "rankStrategy", "primaryKeys")
    is_update = node.at("rankStrategy", "type") == "UpdateFast"
    user_key = (row_key if is_update else sort_key,)
    key = node.picked(rows, "partition", "fields")
    return _names(node, key, rows, user_key=user_key, pair=("record", "inner_rank"), states={"sorted-map": (sort_key,)})


def _sort_key(node: PlanNode, rows: Names, name: str, attributes: Mapping[str, Any] | None = None) -> Names:
    """Return the columns of a sort specification, an attribute of the node or of an object in it."""
    found = node.at(name) if attributes is None else attributes.get(name)
    fields = found.get("fields") if isinstance(found, dict) else None
    fields = fields if isinstance(fields, list) else []
    return node.chosen(rows, [item.get("index") if isinstance(item, dict) else None for item in fields])


def _window_rank(node: PlanNode) -> OperatorNames:
    rows = node.input()
    key = node.picked(rows, "partitionSpec", "fields")
    user_key = (_sort_key(node, rows, "sortSpec"),)
    return _names(node, key, rows, user_key=user_key, windows=window_names(node, "windowing"))


def _window_deduplicate(node: PlanNode) -> OperatorNames:
    key = node.picked(node.input(), "partitionKeys")
    return _names(node, key, node.input(), windows=window_names(node, "windowing"))


def _window_table_function(node: PlanNode) -> OperatorNames:
    key = node.picked(node.input(), "windowing", "window", "partition_key_indices")
    return _names(node, key, node.input(), windows=window_names(node, "windowing"))


def _temporal_sort(node: PlanNode) -> OperatorNames:
    return _names(node, (), node.input())


def _match(node: PlanNode) -> OperatorNames:
    return _names(node, node.picked(node.input(), "matchSpec", "partition", "fields"), node.input())


def _process_table_function(node: PlanNode) -> OperatorNames:
    """The rows that wait to be sorted; what the function's own states contain only its class knows."""
    operands = [item for item in node.items("functionCall", "operands") if isinstance(item, dict)]
    tables = [item for item in operands if item.get("kind") == "TABLE_ARG_CALL"]
    if not tables:
        return OperatorNames(node.label)
    inputs = [row_type_names(table.get("type")) for table in tables]
    key = (node.chosen(inputs[0], tables[0].get("partitionKeys")),)
    states = [(f"input-sort-buffer-data-{n}", StateNames(key, value=(rows,))) for n, rows in enumerate(inputs)]
    return OperatorNames(node.label, tuple(states), StateNames(key))


def _sink(node: PlanNode) -> OperatorNames:
    """The materializer before a sink, whose columns are the sink's.

    Columns of metadata come after the others, in the order of the connector (DynamicSinkUtils); version 1 of the node
    stores rows without them.
    """
    schema = ("dynamicTableSink", "table", "resolvedTable", "schema")
    columns = [item for item in node.items(*schema, "columns") if isinstance(item, dict) and "expression" not in item]
    physical = unique_names(str(item.get("name")) for item in columns if item.get("kind") != "METADATA")
    rows = unique_names((*physical, *node.input()[len(physical) :]))
    if len(rows) != len(node.input()):
        rows = node.input()
    primary = node.items(*schema, "primaryKey", "columns")
    return _names(node, tuple(str(name) for name in primary), rows, physical, user_key=(rows,))


NODE_RULES: Mapping[str, NodeRule] = {
    "stream-exec-group-aggregate": NodeRule("group-aggregate", _group_aggregate),
    "stream-exec-global-group-aggregate": NodeRule("global-group-aggregate", _group_aggregate),
    "stream-exec-incremental-group-aggregate": NodeRule("incremental-group-aggregate", _incremental_aggregate),
    "stream-exec-group-table-aggregate": NodeRule("group-table-aggregate", _group_aggregate),
    "stream-exec-window-aggregate": NodeRule("window-aggregate", _window_aggregate),
    "stream-exec-global-window-aggregate": NodeRule("global-window-aggregate", _window_aggregate),
    "stream-exec-group-window-aggregate": NodeRule("group-window-aggregate", _group_window_aggregate),
    "stream-exec-over-aggregate": NodeRule("over-aggregate", _over_aggregate),
    "stream-exec-join": NodeRule("join", _regular_join),
    "stream-exec-multi-join": NodeRule("multi-join", _multi_join),
    "stream-exec-interval-join": NodeRule("interval-join", _interval_join),
    "stream-exec-temporal-join": NodeRule("temporal-join", _temporal_join),
    "stream-exec-lateral-snapshot-join": NodeRule("lateral-snapshot-join", _lateral_snapshot_join),
    "stream-exec-window-join": NodeRule("window-join", _regular_join),
    "stream-exec-deduplicate": NodeRule("deduplicate", _deduplicate),
    "stream-exec-changelog-normalize": NodeRule("changelog-normalize", _deduplicate),
    "stream-exec-rank": NodeRule("rank", _rank),
    "stream-exec-sort-limit": NodeRule("rank", _rank),
    "stream-exec-limit": NodeRule("rank", _rank),
    "stream-exec-window-rank": NodeRule("window-rank", _window_rank),
    "stream-exec-window-deduplicate": NodeRule("window-deduplicate", _window_deduplicate),
    "stream-exec-window-table-function": NodeRule("window", _window_table_function),
    "stream-exec-temporal-sort": NodeRule("temporal-sort", _temporal_sort),
    "stream-exec-match": NodeRule("match", _match),
    "stream-exec-process-table-function": NodeRule("process", _process_table_function),
    "stream-exec-sink": NodeRule("upsert-materialize", _sink),
}
"""A node's type → what its states contain. The states of other nodes keep the names of their fields."""


# Match the nodes of a plan with the operators of a snapshot.

_FORMATS = ("<id>_<transformation>", "<id>_<type>_<version>_<transformation>")
"""The default of table.exec.uid.format since Flink 1.16, and that of 1.15."""
_FORMAT_OPTION = "table.exec.uid.format"
_PROCESS = "process"
_WITH_CONNECTORS = frozenset({"stream-exec-table-source-scan", "stream-exec-sink"})


@dataclass(frozen=True)
class QueryNames:
    """What a plan says of a snapshot's operators.

    Attributes:
        operators: Operator id → the names for its states.
        uids: Operator id → the uid that the plan gives it.
    """

    operators: Mapping[str, OperatorNames]
    uids: Mapping[str, str]


def query_names(plan: CompiledPlan, operator_ids: Collection[str]) -> QueryNames:
    """Find the operators of a snapshot that a plan describes, and the names for their states.

    Args:
        operator_ids: The ids of the snapshot's operators.

    Raises:
        InvalidOption: No operator belongs to the plan.
    """
    known = set(operator_ids)
    found: dict[str, OperatorNames] = {}
    uids: dict[str, str] = {}
    for node in plan.nodes:
        rule = NODE_RULES.get(node.kind)
        for transformation, uid in _uids(node):
            hashed = operator_id(uid)
            if hashed in known:
                uids[hashed] = uid
                if rule and rule.transformation == transformation:
                    found[hashed] = rule.names(node)
    if not uids:
        raise invalid_plan(
            f"none of the snapshot's {len(known)} operators is one of its {len(plan.nodes)} nodes",
            "give the plan that this job was started from: only jobs of EXECUTE PLAN, or with "
            "table.exec.uid.generation: ALWAYS, have operators that a plan knows",
        )
    return QueryNames(found, uids)


def _uids(node: PlanNode) -> Iterator[tuple[str, str]]:
    """Yield the node's transformations, each with the uids that Flink may have given to it."""
    for transformation in TRANSFORMATIONS.get(node.kind.removeprefix("stream-exec-"), ()):
        for uid in _generated_uids(node, transformation):
            yield transformation, uid
            if transformation == SINK_TRANSFORMATION:
                yield from ((transformation, committer) for committer in sink_uids(uid))
    # A call of a process table function has a uid of its own.
    given = node.at("uid")
    if isinstance(given, str):
        yield _PROCESS, given


def node_uids(plan: CompiledPlan, node: PlanNode) -> dict[str, str]:
    """Return the uids of a node's operators, by what they are: a transformation, or a committer of a sink.

    Which of the operators exist depends on the query.
    """
    default = _FORMATS[plan.flink_version.startswith("1.15")]
    own = node.at("configuration", _FORMAT_OPTION)
    form = own if isinstance(own, str) else default
    found: dict[str, str] = {}
    for transformation in TRANSFORMATIONS.get(node.kind.removeprefix("stream-exec-"), ()):
        uid = _uid(form, node, transformation)
        found[transformation] = uid
        if transformation == SINK_TRANSFORMATION:
            found["committer"], found["global committer"] = sink_uids(uid)
    if node.kind in _WITH_CONNECTORS:
        found |= {name: _uid(form, node, name) for name in OF_CONNECTORS}
    given = node.at("uid")
    return {**found, _PROCESS: given} if isinstance(given, str) else found


def _generated_uids(node: PlanNode, transformation: str) -> Iterator[str]:
    own = node.at("configuration", _FORMAT_OPTION)
    for form in (own,) if isinstance(own, str) else _FORMATS:
        yield _uid(form, node, transformation)


def _uid(form: str, node: PlanNode, transformation: str) -> str:
    uid = form.replace("<id>", str(node.id)).replace("<type>", node.kind).replace("<version>", str(node.version))
    return uid.replace("<transformation>", transformation)
