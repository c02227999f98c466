"""Say what each node of a job's compiled plan computes: the lineage of its rows and columns, down to the tables.

A column is the column of a table, or an expression over such; rows are those of a table, filtered, watermarked,
grouped, joined. Numbers of nodes, positions and names of columns change with every edit of a query, and are no part of
it. Nodes of one definition hold the same state.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stateproc.query_plans.node_rules import aggregate_calls, counts_rows
from stateproc.query_plans.plan_file import CompiledPlan, PlanNode, row_type_types

SCAN, SINK = "stream-exec-table-source-scan", "stream-exec-sink"
JOIN = "stream-exec-join"
GROUPS, WINDOWS = "groups", "windows"
_GLOBAL = {"stream-exec-global-group-aggregate": GROUPS, "stream-exec-global-window-aggregate": WINDOWS}
AGGREGATES = {"stream-exec-group-aggregate": GROUPS, "stream-exec-window-aggregate": WINDOWS, **_GLOBAL}
"""Nodes whose state is a row of accumulators per group, or per group and window: in one phase, or after a local one,
which has no state."""
TABLES = {SCAN: ("scanTableSource", "table"), SINK: ("dynamicTableSink", "table")}
"""Nodes of tables, and where they say which one."""
_PLACES = (
    "connector", "topic", "topics", "topic-pattern", "path", "url", "hostname", "port", "database-name", "schema-name",
    "table-name", "database", "collection", "stream", "stream.arn", "slot.name", "service-url", "catalog-database",
    "catalog-table",
)  # fmt: skip
"""Options that say where the rows of a table are."""
_OF_CHANGES = ("debezium", "canal", "maxwell", "ogg")
"""Formats of rows that are changes."""
INSERTS_ONLY = frozenset(
    f"stream-exec-{name}"
    for name in """
    global-window-aggregate interval-join match temporal-sort window-aggregate window-deduplicate window-join
    window-rank window-table-function
    """.split()
)
"""Nodes that never take back a row that they returned."""
STATELESS = frozenset(
    f"stream-exec-{name}"
    for name in """
    async-calc calc correlate async-correlate drop-update-before exchange expand local-group-aggregate
    local-window-aggregate mini-batch-assigner python-async-calc python-calc python-correlate union values
    watermark-assigner ml-predict-table-function vector-search-table-function
    """.split()
)
_REF = "INPUT_REF"
_IGNORED = frozenset({"id", "type", "description", "inputProperties", "uid"})
TTL_OPTION = "table.exec.state.ttl"
_UID_OPTIONS = ("table.exec.uid.format", "table.exec.uid.generation")
_UNIQUE_KEYS = ("leftUpsertKeys", "rightUpsertKeys", "leftUniqueKeys", "rightUniqueKeys")
_OF_ONE_SIDE = ("SEMI", "ANTI")


@dataclass(frozen=True)
class Definition:
    """What a node computes: equal texts for what is equal.

    Attributes:
        rows: The rows that it returns, whatever columns they have.
        columns: Its columns, in their order.
        state: What its state holds.
        frame: What its state is, apart from the calls of an aggregate and the columns of rows that are kept; "" for
            nodes whose state is not converted.
        calls: The calls of an aggregate over groups, in the order of their accumulators.
        kept: The columns of the rows that its state keeps, of each input.
        arguments: What each call is over, apart from its function.
        local: What a local aggregate reads, over which the calls of the global one are.
    """

    rows: str
    columns: tuple[str, ...]
    state: str
    frame: str = ""
    calls: tuple[str, ...] = ()
    kept: tuple[tuple[str, ...], ...] = ()
    arguments: tuple[str, ...] = ()
    local: Definition | None = None


def definitions(plan: CompiledPlan) -> dict[int, Definition]:
    """Return what each node computes, by its number. Raises InvalidOption for a plan that is not as Flink writes it."""
    found: dict[int, Definition] = {}
    for node in in_order(plan):
        inputs = [found[source.id] for source in node.sources]
        define, number = _DEFINED.get(node.kind, (None, 0))
        try:
            made = None if define is None or len(inputs) != number else define(node, inputs)
            found[node.id] = _opaque(node, inputs) if made is None else made
        except RecursionError as error:
            raise node.error("an expression is too deep") from error
    return found


def in_order(plan: CompiledPlan) -> Iterator[PlanNode]:
    """Yield the nodes, each after those that it reads from."""
    seen: set[int] = set()
    for last in plan.nodes:
        waiting = [last]
        while waiting:
            node = waiting[-1]
            rest = [source for source in node.sources if source.id not in seen]
            if rest:
                waiting += rest
                continue
            waiting.pop()
            if node.id not in seen:
                seen.add(node.id)
                yield node


def stateful_before(plan: CompiledPlan) -> dict[int, tuple[PlanNode, ...]]:
    """Return the nearest nodes before each node that hold state, and sources, by the node's number."""
    found: dict[int, tuple[PlanNode, ...]] = {}
    for node in in_order(plan):
        each = [nearest_stateful(one, found) for one in node.sources]
        # A chain of nodes shares one tuple, so that a long one costs nothing.
        found[node.id] = each[0] if len(each) == 1 else tuple({one.id: one for many in each for one in many}.values())
    return found


def nearest_stateful(node: PlanNode, before: Mapping[int, tuple[PlanNode, ...]]) -> tuple[PlanNode, ...]:
    """Return the node if it holds state or is a source, else the nearest before it; ``before``: `stateful_before`."""
    return before[node.id] if node.kind in STATELESS else (node,)


def returns_changes(node: PlanNode) -> bool:
    """Whether a node with state, or a source, may take back rows that it returned."""
    return _has_changes(node) if node.kind == SCAN else node.kind not in INSERTS_ONLY


def source_of_changes(plan: CompiledPlan) -> dict[int, PlanNode]:
    """Return a source that returns changes with all of their columns and is before a node, by the node's number."""
    found: dict[int, PlanNode] = {}
    for node in in_order(plan):
        before = [found[one.id] for one in node.sources if one.id in found]
        if node.kind == SCAN and _has_changes(node):
            before.append(node)
        if before:
            found[node.id] = before[0]
    return found


# --- tables ----------------------------------------------------------------------------------------------


def table_of(node: PlanNode) -> str | None:
    """Return the table that a source reads or a sink writes; None for others, and for tables without a name."""
    if node.kind not in TABLES:
        return None
    found = node.at(*TABLES[node.kind], "identifier")
    return found if isinstance(found, str) else None


def table_place(node: PlanNode) -> str | None:
    """Return what makes a table another one: its name, and the options that say where its rows are."""
    return None if table_of(node) is None else json.dumps(_identity(node), sort_keys=True)


def table_schema(node: PlanNode) -> Any:
    """Return the declared schema of a table; None where the plan does not have it."""
    return node.at(*TABLES[node.kind], "resolvedTable", "schema")


def _identity(node: PlanNode) -> Any:
    known = _options(node)
    return [table_of(node), {name: known[name] for name in _PLACES if name in known}]


def _has_changes(node: PlanNode) -> bool:
    """Whether a source is known to return changes and not only new rows."""
    known = _options(node)
    formats = [str(value) for name, value in known.items() if str(name).endswith("format")]
    return str(known.get("connector")).endswith("-cdc") or any(one in text for text in formats for one in _OF_CHANGES)


def _options(node: PlanNode) -> dict[str, Any]:
    options = node.at(*TABLES[node.kind], "resolvedTable", "options")
    return options if isinstance(options, dict) else {}


# --- definitions -----------------------------------------------------------------------------------------


def _text(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _opaque(node: PlanNode, inputs: Sequence[Definition]) -> Definition:
    """Define a node by all of its attributes, which refer to columns by position, and all columns of its inputs."""
    state = _text(own_definition(node), [[one.rows, *one.columns] for one in inputs])
    return Definition(state, tuple(_text(state, number) for number in range(len(node.columns))), state)


def _scan(node: PlanNode, inputs: Sequence[Definition]) -> Definition | None:
    """A table's columns have names. Which of them are read is no part of its rows.

    Other abilities, such as filters, refer to columns by positions, which the declared schema explains.
    """
    table = table_of(node)
    if table is None:
        return None
    abilities = [one for one in node.items(*TABLES[SCAN][:1], "abilities") if not _only_chooses_columns(one)]
    schema = table_schema(node)
    if abilities and schema is None:
        schema = f"unknown {id(node)}"  # Equal to no other.
    rows = _text(SCAN, _identity(node), abilities, schema if abilities else None)
    types = row_type_types(node.attributes.get("outputType"))
    declared = {str(one.get("name")): one for one in _declared_columns(node)}
    columns = tuple(
        _text(rows, name, type_, declared.get(name)) for name, type_ in zip(node.columns, types, strict=False)
    )
    return Definition(rows, columns, rows)


def _only_chooses_columns(ability: Any) -> bool:
    """Whether a source reads fewer columns of a table. Fields within columns have names that may be those of others."""
    if not isinstance(ability, dict) or ability.get("type") != "ProjectPushDown":
        return False
    fields = ability.get("projectedFields") or []
    return isinstance(fields, list) and all(isinstance(path, list) and len(path) == 1 for path in fields)


def _declared_columns(node: PlanNode) -> list[dict[str, Any]]:
    columns = node.at(*TABLES[node.kind], "resolvedTable", "schema", "columns")
    return [one for one in columns if isinstance(one, dict)] if isinstance(columns, list) else []


def _calc(node: PlanNode, inputs: Sequence[Definition]) -> Definition | None:
    if not isinstance(node.at("projection"), list):
        return None
    (before,) = inputs
    columns = tuple(_column(node, expression, before.columns) for expression in node.items("projection"))
    condition = node.at("condition")
    rows = before.rows if condition is None else _text("filter", before.rows, _over(node, condition, before.columns))
    return Definition(rows, columns, _text(rows, columns))


def _watermark(node: PlanNode, inputs: Sequence[Definition]) -> Definition:
    (before,) = inputs
    time = _at(node, before.columns, node.at("rowtimeFieldIndex"))
    rows = _text(node.kind, before.rows, time, _over(node, node.at("watermarkExpr"), before.columns))
    return Definition(rows, before.columns, _text(rows, before.columns))


def _passing(node: PlanNode, inputs: Sequence[Definition]) -> Definition:
    """Rows with all of their columns, in another order, or of some kinds of changes only."""
    (before,) = inputs
    kind, version, attributes, settings = own_definition(node)
    own = [kind, version, {name: value for name, value in attributes.items() if name != "outputType"}, settings]
    rows = before.rows if node.kind in _SAME_ROWS else _text(own, before.rows)
    return Definition(rows, before.columns, _text(rows, before.columns), local=before.local)


_SAME_ROWS = ("stream-exec-exchange", "stream-exec-mini-batch-assigner")


_OF_FUNCTION = ("internalName", "syntax", "type")
"""Parts of a call that say which function of its arguments it is."""


def _aggregate(node: PlanNode, inputs: Sequence[Definition]) -> Definition | None:
    """The state is a row of accumulators per group, of windows also per window: of the calls in their order, over
    columns of the input. In two phases it is that of the second, over columns of the input of the first."""
    calls, windows = aggregate_calls(node), node.items("namedWindowProperties")
    if not all(isinstance(one, dict) for one in (*calls, *windows)):
        return None
    (before,) = inputs
    grouped = (before, before.local) if node.kind in _GLOBAL else (_groups(node, before), before)
    groups, over = grouped
    if groups is None or over is None:
        return None
    keys = _all_at(node, groups.columns, node.items("grouping"))
    made = [_call(node, over.columns, call) for call in calls]
    rows = _text(groups.rows, keys, node.at("windowing", "window", "type"))
    rest = _rest(node, "grouping", "aggCalls", "generateUpdateBefore", "localAggInputRowType", *_OF_WINDOWS)
    state = _text(rows, made, rest)
    rest[1].pop("aggCallNeedRetractions", None)
    shown = [*made[: len(node.items("aggCalls"))], *(one.get("property") for one in windows)]
    columns = (*keys, *(_text(rows, one) for one in shown))
    arguments = tuple(_text({name: value for name, value in call.items() if name not in _OF_FUNCTION}) for call in made)
    return Definition(rows, columns, state, _text(rows, rest), tuple(map(_text, made)), arguments=arguments)


def _local_aggregate(node: PlanNode, inputs: Sequence[Definition]) -> Definition | None:
    """Return the groups with their accumulators of some rows, which the global aggregate merges."""
    (before,) = inputs
    groups, calls = _groups(node, before), aggregate_calls(node)
    if groups is None or not all(isinstance(call, dict) for call in calls):
        return None
    keys = _all_at(node, groups.columns, node.items("grouping"))
    made = _text(groups.rows, [_call(node, before.columns, call) for call in calls], _rest(node))
    columns = (*keys, *(_text(made, number) for number in range(len(node.columns) - len(keys))))
    return Definition(groups.rows, columns, made, local=before)


_OF_WINDOWS = ("windowing", "namedWindowProperties")
_WINDOW_COLUMNS = ("timeAttributeIndex", "windowStart", "windowEnd")


def _groups(node: PlanNode, before: Definition) -> Definition | None:
    """Return rows in groups, and in the windows that a node assigns or finds in their columns."""
    windowing = node.at("windowing")
    if AGGREGATES.get(node.kind.replace("local", "global")) == WINDOWS:
        window = node.at("windowing", "window")
        if not isinstance(window, dict) or node.at("windowing", "strategy") not in ("TimeAttribute", "WindowAttached"):
            return None
        places = {name: windowing[name] for name in _WINDOW_COLUMNS if name in windowing}
        sessions = {"partition_key_indices": _all_at(node, before.columns, window.get("partition_key_indices") or [])}
        traced = {name: at if at == -1 else _at(node, before.columns, at) for name, at in places.items()}
        windowing = {**windowing, **traced, "window": {**window, **sessions}}
    keys = _all_at(node, before.columns, node.items("grouping"))
    return Definition(_text("groups", before.rows, keys, windowing), before.columns, "")


def _join(node: PlanNode, inputs: Sequence[Definition]) -> Definition | None:
    """The state has the rows of both inputs, by a unique key of theirs or with their numbers."""
    spec = node.at("joinSpec")
    keys = {name: node.items(name) for name in _UNIQUE_KEYS if name in node.attributes}
    if not isinstance(spec, dict) or not all(isinstance(one, list) for many in keys.values() for one in many):
        return None
    left, right = inputs
    traced = {
        **spec,
        "leftKeys": _all_at(node, left.columns, node.items("joinSpec", "leftKeys")),
        "rightKeys": _all_at(node, right.columns, node.items("joinSpec", "rightKeys")),
        "nonEquiCondition": _over(node, spec.get("nonEquiCondition"), (*left.columns, *right.columns)),
    }
    rows = _text(node.kind, left.rows, right.rows, traced)
    unique = {
        name: [_all_at(node, (left if name.startswith("left") else right).columns, one) for one in many]
        for name, many in keys.items()
    }
    sides = inputs[:1] if spec.get("joinType") in _OF_ONE_SIDE else inputs
    columns = [_text(rows, side, column) for side, one in enumerate(sides) for column in one.columns]
    return _keeper(rows, columns, [unique, _rest(node, "joinSpec", *keys)], inputs)


def _unique_rows(node: PlanNode, inputs: Sequence[Definition]) -> Definition:
    """One row of each key: the first, the last, or the one that was changed last."""
    (before,) = inputs
    keys = _all_at(node, before.columns, node.items("uniqueKeys"))
    condition = _over(node, node.at("filterCondition"), before.columns)
    rest = _rest(node, "uniqueKeys", "filterCondition", *_of_changes_only(node))
    rows = _text(node.kind, before.rows, keys, condition, rest, _times(node, before))
    return _keeper(rows, [_text(rows, column) for column in before.columns], [], inputs)


def _of_changes_only(node: PlanNode) -> Iterator[str]:
    """Yield the attributes of a deduplication that decide how its changes are written, and not what it keeps.

    By processing time all that it keeps is rows (ProcTimeDeduplicateKeepLastRowFunction and …KeepFirstRowFunction),
    the last ones unless neither their INSERT nor what they replace is needed.
    """
    if node.at("isRowtime") is False:
        yield "outputInsertOnly"
        if node.at("keepLastRow") is False or node.at("configuration", _INSERTS_OPTION) == "true":
            yield "generateUpdateBefore"


_INSERTS_OPTION = "table.exec.deduplicate.insert-update-after-sensitive-enabled"


def _times(node: PlanNode, before: Definition) -> list[str]:
    """Return the columns that are times of rows, by which Flink decides what is first and last."""
    (source,) = node.sources
    types = row_type_types(source.attributes.get("outputType"))
    pairs = zip(before.columns, types, strict=False) if isinstance(types, list) else ()
    return [column for column, type_ in pairs if isinstance(type_, dict) and "kind" in type_]


def _rank(node: PlanNode, inputs: Sequence[Definition]) -> Definition | None:
    """The first rows of each partition, in the order of some columns."""
    (before,) = inputs
    parts = [node.at(name) for name in ("partition", "orderBy", "rankStrategy")]
    order = node.items("orderBy", "fields")
    if node.at("rankRange", "type") != "Constant" or not all(isinstance(one, dict | None) for one in [*parts, *order]):
        return None
    partition, by, strategy = ({} if one is None else one for one in parts)
    partition = {**partition, "fields": _all_at(node, before.columns, node.items("partition", "fields"))}
    ordered = {**by, "fields": [{**one, "index": _at(node, before.columns, one.get("index"))} for one in order if one]}
    rows = _text(node.kind, before.rows, partition, ordered, node.at("rankType"), node.at("rankRange"))
    keys = _all_at(node, before.columns, node.items("rankStrategy", "primaryKeys"))
    rest = _rest(node, "partition", "orderBy", "rankType", "rankRange", "rankStrategy")
    columns = [_text(rows, column) for column in before.columns]
    columns += [_text(rows, "number", number) for number in range(len(node.columns) - len(columns))]
    return _keeper(rows, columns, [{**strategy, "primaryKeys": keys}, rest], inputs)


def _keeper(rows: str, columns: Sequence[str], frame: Any, inputs: Sequence[Definition]) -> Definition:
    """Define a node whose state keeps rows of its inputs, with all of their columns."""
    kept = tuple(one.columns for one in inputs)
    made = _text(rows, frame)
    return Definition(rows, tuple(columns), _text(made, kept), made, kept=kept)


def _rest(node: PlanNode, *names: str) -> tuple[int, dict[str, Any], Any]:
    """Return a node's version, its attributes without those that name columns, and its settings."""
    _, version, attributes, settings = own_definition(node)
    return version, {name: value for name, value in attributes.items() if name not in (*names, "outputType")}, settings


def _call(node: PlanNode, before: Sequence[str], call: Mapping[str, Any]) -> Any:
    if counts_rows(call):
        return {"internalName": "COUNT(*)"}
    filter_ = call.get("filterArg", -1)
    columns = _all_at(node, before, call.get("argList") or [])
    filtered = filter_ if filter_ == -1 else _at(node, before, filter_)
    return {**_without_name(call), "argList": columns, "filterArg": filtered}


def _without_name(call: Any) -> Any:
    """Leave out the name that a query gives to an aggregate call, if its function has a name of its own."""
    if not isinstance(call, dict) or "internalName" not in call:
        return call
    return {name: value for name, value in call.items() if name != "name"}


def _column(node: PlanNode, expression: Any, before: Sequence[str]) -> str:
    if isinstance(expression, dict) and expression.get("kind") == _REF:
        return _at(node, before, expression.get("inputIndex"))
    return _text(_over(node, expression, before))


def _over(node: PlanNode, expression: Any, before: Sequence[str]) -> Any:
    """Return an expression with columns instead of their positions."""
    if isinstance(expression, dict):
        if expression.get("kind") == _REF:
            return {"column": _at(node, before, expression.get("inputIndex"))}
        # Flink 2 writes no operands where there are none.
        parts = {name: value for name, value in expression.items() if (name, value) != ("operands", [])}
        return {name: _over(node, value, before) for name, value in parts.items()}
    return [_over(node, item, before) for item in expression] if isinstance(expression, list) else expression


def _at(node: PlanNode, before: Sequence[str], position: Any) -> str:
    (found,) = _all_at(node, before, [position])
    return found


def _all_at(node: PlanNode, before: Sequence[str], positions: Any) -> tuple[str, ...]:
    return node.chosen(tuple(before), positions)


_RANKS = ("stream-exec-rank", "stream-exec-sort-limit", "stream-exec-limit")
_DEFINED: Mapping[str, tuple[Callable[[PlanNode, Sequence[Definition]], Definition | None], int]] = {
    SCAN: (_scan, 0),
    "stream-exec-calc": (_calc, 1),
    "stream-exec-watermark-assigner": (_watermark, 1),
    **dict.fromkeys(AGGREGATES, (_aggregate, 1)),
    **dict.fromkeys((name.replace("global", "local") for name in _GLOBAL), (_local_aggregate, 1)),
    JOIN: (_join, 2),
    **dict.fromkeys(("stream-exec-deduplicate", "stream-exec-changelog-normalize"), (_unique_rows, 1)),
    **dict.fromkeys(_RANKS, (_rank, 1)),
    **dict.fromkeys(
        ("stream-exec-exchange", "stream-exec-drop-update-before", "stream-exec-mini-batch-assigner"), (_passing, 1)
    ),
}
"""Nodes whose columns are traced, and the numbers of their inputs; others are defined by all that they are and read."""
TRACED = frozenset(_DEFINED)


def own_definition(node: PlanNode) -> Any:
    """Return what a node computes of its inputs, as JSON: its type, version, attributes and settings."""
    attributes = {name: value for name, value in node.attributes.items() if name not in _IGNORED}
    version = 0 if node.kind == SCAN else node.version
    if node.kind in TABLES:
        table = TABLES[node.kind]
        if table_of(node) is not None:
            # A sink's rows are kept by its primary key, and the columns of a source are those that are declared.
            attributes[table[0]] = {**node.at(table[0]), table[1]: [_identity(node), table_schema(node)]}
    if "outputType" in attributes:
        attributes["outputType"] = row_type_types(attributes["outputType"])
    attributes["state"] = [_state(item) for item in node.items("state")]
    configuration = attributes.pop("configuration", None) or {}
    if not isinstance(configuration, dict):
        raise node.error("its configuration is no object")
    settings = {name: value for name, value in configuration.items() if name not in _UID_OPTIONS}
    if TTL_OPTION in settings:
        settings[TTL_OPTION] = is_on(settings[TTL_OPTION])
    if isinstance(attributes.get("aggCalls"), list):
        attributes["aggCalls"] = [_without_name(call) for call in attributes["aggCalls"]]
    return [node.kind, version, attributes, settings]


def _state(item: Any) -> Any:
    """Return what of a state's settings decides about its layout: whether, not how long, it has a time to live."""
    if not isinstance(item, dict):
        return item
    return {**item, "ttl": is_on(item.get("ttl"))}


def is_on(ttl: Any) -> bool:
    """Return whether state has a time to live, by what a plan says, such as ``0 ms`` or ``1 d``."""
    return str(ttl or "0").strip().partition(" ")[0] not in ("", "0", "0ms", "0s")
