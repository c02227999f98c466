"""Match the nodes of a job's compiled plan with those of its changed query, by what they compute.

The numbers of nodes change with every edit, and so do positions and names of columns. A node is defined by the lineage
of its rows and columns, down to the tables: a column is the column of a table, or an expression over such; rows are
those of a table, filtered, watermarked, grouped. So nodes of one definition hold the same state. Sources and sinks are
matched by their tables.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stateproc.errors import InvalidOption, not_found
from stateproc.keygroups.operator_ids import operator_id
from stateproc.query_plans.node_rules import NODE_RULES, function_of, node_uids
from stateproc.query_plans.plan_file import CompiledPlan, PlanNode, row_type_types

_SCAN, _SINK = "stream-exec-table-source-scan", "stream-exec-sink"
_TABLES = {_SCAN: ("scanTableSource", "table"), _SINK: ("dynamicTableSink", "table")}
_OPERATORS = {_SCAN: "source", _SINK: "sink"}
_PLACES = (
    "connector", "topic", "topics", "topic-pattern", "path", "url", "hostname", "port", "database-name", "schema-name",
    "table-name", "database", "collection", "stream", "stream.arn", "slot.name", "service-url", "catalog-database",
    "catalog-table",
)  # fmt: skip
"""Options that say where the rows of a table are."""
_OF_CHANGES = ("debezium", "canal", "maxwell", "ogg")
"""Formats of rows that are changes."""
_INSERTS_ONLY = frozenset(
    f"stream-exec-{name}"
    for name in """
    global-window-aggregate interval-join match temporal-sort window-aggregate window-deduplicate window-join
    window-rank window-table-function
    """.split()
)
"""Nodes that never take back a row that they returned."""
MATERIALIZER = "upsert-materialize"
"""The transformation before a sink that keeps rows by its primary key."""
_AGGREGATE = "stream-exec-group-aggregate"
BUFFERS: Mapping[str, int] = {"COUNT": 1, "SUM": 1, "SUM0": 1, "MIN": 1, "MAX": 1, "AVG": 2}
"""Functions whose accumulators are values of their own, and how many they have."""
_REF = "INPUT_REF"
_IGNORED = frozenset({"id", "type", "description", "inputProperties", "uid"})
_TTL_OPTION, _UID_OPTIONS = "table.exec.state.ttl", ("table.exec.uid.format", "table.exec.uid.generation")
_STATELESS = frozenset(
    f"stream-exec-{name}"
    for name in """
    async-calc calc correlate async-correlate drop-update-before exchange expand local-group-aggregate
    local-window-aggregate mini-batch-assigner python-async-calc python-calc python-correlate union values
    watermark-assigner ml-predict-table-function vector-search-table-function
    """.split()
)


@dataclass(frozen=True)
class Definition:
    """What a node computes: equal texts for what is equal.

    Attributes:
        rows: The rows that it returns, whatever columns they have.
        columns: Its columns, in their order.
        state: What its state holds.
        calls: The calls of an aggregate over groups, in the order of their accumulators.
        groups: The groups of an aggregate and how it keeps them, whatever it computes of them.
    """

    rows: str
    columns: tuple[str, ...]
    state: str
    calls: tuple[str, ...] = ()
    groups: str = ""


def definitions(plan: CompiledPlan) -> dict[int, Definition]:
    """Return what each node computes, by its number. Raises InvalidOption for a plan that is not as Flink writes it."""
    found: dict[int, Definition] = {}
    for node in _in_order(plan):
        inputs = [found[source.id] for source in node.sources]
        define = _DEFINED.get(node.kind)
        try:
            made = None if define is None or len(inputs) > 1 else define(node, inputs)
            found[node.id] = _opaque(node, inputs) if made is None else made
        except RecursionError as error:
            raise node.error("an expression is too deep") from error
    return found


def _text(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _opaque(node: PlanNode, inputs: Sequence[Definition]) -> Definition:
    """Define a node by all of its attributes, which refer to columns by position, and all columns of its inputs."""
    state = _text(_own_definition(node), [[one.rows, *one.columns] for one in inputs])
    return Definition(state, tuple(_text(state, number) for number in range(len(node.columns))), state)


def _scan(node: PlanNode, inputs: Sequence[Definition]) -> Definition | None:
    """A table's columns have names. Which of them are read is no part of its rows.

    Other abilities, such as filters, refer to columns by positions, which the declared schema explains.
    """
    table = table_of(node)
    if table is None:
        return None
    abilities = [one for one in node.items(*_TABLES[_SCAN][:1], "abilities") if not _only_chooses_columns(one)]
    schema = _schema(node)
    if abilities and schema is None:
        schema = f"unknown {id(node)}"  # Equal to no other.
    rows = _text(_SCAN, _identity(node), abilities, schema if abilities else None)
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


def _identity(node: PlanNode) -> Any:
    """Return what makes a table another one: its name, and the options that say where its rows are."""
    options = node.at(*_TABLES[node.kind], "resolvedTable", "options")
    known = options if isinstance(options, dict) else {}
    return [table_of(node), {name: known[name] for name in _PLACES if name in known}]


def _has_changes(node: PlanNode) -> bool:
    """Whether a source is known to return changes and not only new rows."""
    options = node.at(*_TABLES[node.kind], "resolvedTable", "options")
    known = options if isinstance(options, dict) else {}
    formats = [str(value) for name, value in known.items() if str(name).endswith("format")]
    return str(known.get("connector")).endswith("-cdc") or any(one in text for text in formats for one in _OF_CHANGES)


def _schema(node: PlanNode) -> Any:
    return node.at(*_TABLES[node.kind], "resolvedTable", "schema")


def _declared_columns(node: PlanNode) -> list[dict[str, Any]]:
    columns = node.at(*_TABLES[node.kind], "resolvedTable", "schema", "columns")
    return [one for one in columns if isinstance(one, dict)] if isinstance(columns, list) else []


def _calc(node: PlanNode, inputs: Sequence[Definition]) -> Definition | None:
    if not inputs or not isinstance(node.at("projection"), list):
        return None
    (before,) = inputs
    columns = tuple(_column(node, expression, before) for expression in node.items("projection"))
    condition = node.at("condition")
    rows = before.rows if condition is None else _text("filter", before.rows, _over(node, condition, before))
    return Definition(rows, columns, _text(rows, columns))


def _watermark(node: PlanNode, inputs: Sequence[Definition]) -> Definition | None:
    if not inputs:
        return None
    (before,) = inputs
    time = _at(node, before, node.at("rowtimeFieldIndex"))
    rows = _text(node.kind, before.rows, time, _over(node, node.at("watermarkExpr"), before))
    return Definition(rows, before.columns, _text(rows, before.columns))


def _passing(node: PlanNode, inputs: Sequence[Definition]) -> Definition | None:
    """Rows with all of their columns, in another order, or of some kinds of changes only."""
    if not inputs:
        return None
    (before,) = inputs
    kind, version, attributes, settings = _own_definition(node)
    own = [kind, version, {name: value for name, value in attributes.items() if name != "outputType"}, settings]
    rows = before.rows if node.kind == "stream-exec-exchange" else _text(own, before.rows)
    return Definition(rows, before.columns, _text(rows, before.columns))


def _group_aggregate(node: PlanNode, inputs: Sequence[Definition]) -> Definition | None:
    """The state is a row of accumulators per group: of the calls in their order, over columns of the input."""
    calls = node.items("aggCalls")
    if not inputs or not all(isinstance(call, dict) for call in calls):
        return None
    (before,) = inputs
    keys = [_at(node, before, position) for position in node.items("grouping")]
    made = [_call(node, before, call) for call in calls]
    rows = _text(node.kind, before.rows, keys)
    _, version, attributes, settings = _own_definition(node)
    of_columns = {"grouping", "aggCalls", "outputType", "generateUpdateBefore"}
    rest = {name: value for name, value in attributes.items() if name not in of_columns}
    state = _text(rows, made, version, rest, settings)
    rest.pop("aggCallNeedRetractions", None)
    columns = (*keys, *(_text(rows, call) for call in made))
    return Definition(rows, columns, state, tuple(map(_text, made)), _text(rows, version, rest, settings))


def _call(node: PlanNode, before: Definition, call: Mapping[str, Any]) -> Any:
    """An aggregate call over columns; the name that the query gives to it is no part of it."""
    given = {name: value for name, value in call.items() if name != "name" or "internalName" not in call}
    filter_ = call.get("filterArg", -1)
    columns = [_at(node, before, position) for position in call.get("argList") or []]
    return {**given, "argList": columns, "filterArg": filter_ if filter_ == -1 else _at(node, before, filter_)}


def _column(node: PlanNode, expression: Any, before: Definition) -> str:
    if isinstance(expression, dict) and expression.get("kind") == _REF:
        return _at(node, before, expression.get("inputIndex"))
    return _text(_over(node, expression, before))


def _over(node: PlanNode, expression: Any, before: Definition) -> Any:
    """Return an expression with columns instead of their positions."""
    if isinstance(expression, dict):
        if expression.get("kind") == _REF:
            return {"column": _at(node, before, expression.get("inputIndex"))}
        return {name: _over(node, value, before) for name, value in expression.items()}
    return [_over(node, item, before) for item in expression] if isinstance(expression, list) else expression


def _at(node: PlanNode, before: Definition, position: Any) -> str:
    (found,) = node.chosen(before.columns, [position])
    return found


_DEFINED: Mapping[str, Callable[[PlanNode, Sequence[Definition]], Definition | None]] = {
    _SCAN: _scan,
    "stream-exec-calc": _calc,
    "stream-exec-watermark-assigner": _watermark,
    _AGGREGATE: _group_aggregate,
    **dict.fromkeys(
        ("stream-exec-exchange", "stream-exec-drop-update-before", "stream-exec-mini-batch-assigner"), _passing
    ),
}
"""Nodes whose columns are traced; others are defined by all that they are and read."""


def _in_order(plan: CompiledPlan) -> Iterator[PlanNode]:
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


def _own_definition(node: PlanNode) -> Any:
    """Return what a node computes of its inputs, as JSON."""
    attributes = {name: value for name, value in node.attributes.items() if name not in _IGNORED}
    version = 0 if node.kind == _SCAN else node.version
    if node.kind in _TABLES:
        table, place = _TABLES[node.kind], table_of(node)
        if place is not None:
            part = dict(node.at(table[0]))
            # A sink's rows are kept by its primary key, and the columns of a source are those that are declared.
            attributes[table[0]] = {**part, table[1]: [_identity(node), _schema(node)]}
    if "outputType" in attributes:
        attributes["outputType"] = row_type_types(attributes["outputType"])
    attributes["state"] = [_state(item) for item in node.items("state")]
    configuration = attributes.pop("configuration", None) or {}
    if not isinstance(configuration, dict):
        raise node.error("its configuration is no object")
    settings = {name: value for name, value in configuration.items() if name not in _UID_OPTIONS}
    if _TTL_OPTION in settings:
        settings[_TTL_OPTION] = _is_on(settings[_TTL_OPTION])
    return [node.kind, version, _without_call_names(attributes), settings]


def _state(item: Any) -> Any:
    """Return what of a state's settings decides about its layout: whether, not how long, it has a time to live."""
    if not isinstance(item, dict):
        return item
    return {**item, "ttl": _is_on(item.get("ttl"))}


def _is_on(ttl: Any) -> bool:
    return str(ttl or "0").strip().partition(" ")[0] not in ("", "0", "0ms", "0s")


def _without_call_names(attributes: dict[str, Any]) -> dict[str, Any]:
    """Leave out the names that the query gives to aggregate calls, whose functions have names of their own."""
    calls = attributes.get("aggCalls")
    if not isinstance(calls, list):
        return attributes
    plain = [
        {name: value for name, value in call.items() if name != "name" or "internalName" not in call}
        if isinstance(call, dict)
        else call
        for call in calls
    ]
    return {**attributes, "aggCalls": plain}


def table_of(node: PlanNode) -> str | None:
    """Return the table that a source reads or a sink writes; None for others, and for tables without a name."""
    if node.kind not in _TABLES:
        return None
    found = node.at(*_TABLES[node.kind], "identifier")
    return found if isinstance(found, str) else None


@dataclass(frozen=True)
class Pair:
    """Nodes that hold the same state.

    Attributes:
        old: The node of the old plan.
        new: The node of the new plan.
        by_table: Whether only their tables are the same: what is before a sink computes something else.
        kept: Of an aggregate with other calls, for each call of the new node that of the old one, None for a new call.
            None where state stays as it is.
        mapped: Whether the user said so.
    """

    old: PlanNode
    new: PlanNode
    by_table: bool = False
    kept: tuple[int | None, ...] | None = None
    mapped: bool = False


@dataclass(frozen=True)
class PlanMatch:
    """Which nodes of two plans hold the same state.

    Attributes:
        old: The plan of the job that wrote the snapshot.
        new: The plan of the job that will restore it.
        pairs: The nodes that hold the same state.
    """

    old: CompiledPlan
    new: CompiledPlan
    pairs: Sequence[Pair]

    @property
    def operator_ids(self) -> dict[str, str]:
        """The uids of the operators of matched nodes: operator id in the old job → uid in the new one."""
        found: dict[str, str] = {}
        for pair in self.pairs:
            uids = node_uids(self.new, pair.new)
            for transformation, uid in node_uids(self.old, pair.old).items():
                if transformation in uids and not (pair.by_table and transformation == MATERIALIZER):
                    found[operator_id(uid)] = uids[transformation]
        return found

    @property
    def ended(self) -> list[PlanNode]:
        """Nodes of the old plan without a counterpart, whose operators may hold state."""
        known = {pair.old.id for pair in self.pairs}
        return [node for node in self.old.nodes if node.id not in known and node.kind not in _STATELESS]

    @property
    def new_sources(self) -> list[PlanNode]:
        """Sources of the new plan that no source of the old one is."""
        known = {pair.new.id for pair in self.pairs}
        return [node for node in self.new.nodes if node.id not in known and node.kind == _SCAN]

    @property
    def stateful(self) -> dict[str, PlanNode]:
        """The uids of operators of the new plan that may hold state, of sinks the materializers; and their nodes."""
        found: dict[str, PlanNode] = {}
        for node in self.new.nodes:
            if node.kind == _SINK:
                if node.at("requireUpsertMaterialize") is True:
                    found[node_uids(self.new, node)[MATERIALIZER]] = node
            elif node.kind not in _STATELESS and node.kind != _SCAN:
                found[main_uid(self.new, node)] = node
        return found

    def without(self, uids: Collection[str]) -> PlanMatch:
        """Return the match if operators of the new plan begin without state; what counts on them begins so as well.

        Raises InvalidOption for a node that a user mapped, and that counts on one that begins.
        """
        stateful = self.stateful
        begun = {stateful[uid].id for uid in uids if uid in stateful}
        pairs = {pair.new.id: pair for pair in self.pairs}
        before = _stateful_before(self.new)
        for node in _in_order(self.new):
            pair = pairs.get(node.id)
            if pair is None or node.kind == _SCAN:
                continue
            waits = [one for one in before[node.id] if one.kind != _SCAN and one.id not in pairs]
            if not waits and node.id not in begun:
                continue
            if node.kind == _SINK:
                pairs[node.id] = replace(pair, by_table=True)
            elif waits and pair.mapped:
                raise InvalidOption(
                    f"{main_uid(self.new, node)} ({node.label}) cannot go on: {waits[0].label} before it begins "
                    "without state, and would return again what is counted",
                    advice=f"let it begin as well: --empty {main_uid(self.new, node)}, without --map",
                )
            else:
                del pairs[node.id]
        return PlanMatch(self.old, self.new, tuple(pairs.values()))

    @property
    def contradictions(self) -> Iterator[tuple[str, PlanNode, PlanNode]]:
        """Yield the operators that begin without state after a node that goes on and takes back what they never saw:
        the uid, its node, and that other node."""
        known, before = {pair.new.id for pair in self.pairs}, _stateful_before(self.new)
        for uid, node in self.empty.items():
            for other in before[node.id]:
                if other.kind == _SCAN:
                    retracts = node.at("needRetraction") is True or _has_changes(other)
                else:
                    retracts = other.kind not in _INSERTS_ONLY
                if other.id in known and retracts:
                    yield uid, node, other

    @property
    def empty(self) -> dict[str, PlanNode]:
        """The uids of the operators of the new plan that hold state and would start empty, and their nodes."""
        found: dict[str, PlanNode] = {}
        known = {pair.new.id: pair.by_table for pair in self.pairs}
        for uid, node in self.stateful.items():
            if known.get(node.id, True) if node.kind == _SINK else node.id not in known:
                found[uid] = node
        return found


def matched_plans(old: CompiledPlan, new: CompiledPlan, given: Mapping[str, str]) -> PlanMatch:
    """Match the nodes of two plans.

    Args:
        old: The plan of the job that wrote the snapshot.
        new: The plan of the job that will restore it.
        given: uid of an operator of the old job → uid in the new one, for nodes that definitions do not match. What
            they do themselves, and the types of their inputs, have to be the same.

    Raises:
        NotFound: A plan has no operator of a given uid.
        InvalidOption: Nodes that were given do not hold the same state, or several nodes have one definition.
    """
    texts = [definitions(plan) for plan in (old, new)]
    pairs = [replace(_given_pair(old, new, *uids, texts), mapped=True) for uids in given.items()]
    pairs += _paired(old, new, pairs, lambda side, node: texts[side][node.id].state, by_table=False)
    pairs += _paired(old, new, pairs, lambda _, node: _place(node), by_table=True)
    pairs += _converted(old, new, pairs, texts)
    unknown = [pair.new.kind == _SINK and _schema(pair.new) is None for pair in pairs]
    pairs = [replace(pair, by_table=pair.by_table or sink) for pair, sink in zip(pairs, unknown, strict=True)]
    return PlanMatch(old, new, tuple(pairs)).without(())


def _place(node: PlanNode) -> str | None:
    return None if table_of(node) is None else json.dumps(_identity(node), sort_keys=True)


def _stateful_before(plan: CompiledPlan) -> dict[int, tuple[PlanNode, ...]]:
    """Return the nearest nodes before each node that hold state, and sources, by the node's number."""
    found: dict[int, tuple[PlanNode, ...]] = {}
    for node in _in_order(plan):
        each = [found[one.id] if one.kind in _STATELESS else (one,) for one in node.sources]
        # A chain of nodes shares one tuple, so that a long one costs nothing.
        found[node.id] = each[0] if len(each) == 1 else tuple({one.id: one for many in each for one in many}.values())
    return found


def _converted(
    old: CompiledPlan, new: CompiledPlan, found: Sequence[Pair], texts: Sequence[Mapping[int, Definition]]
) -> list[Pair]:
    """Return the pairs of aggregates over the same groups, which share calls; none where several have those groups."""
    taken = [{pair.old.id for pair in found}, {pair.new.id for pair in found}]
    groups: list[dict[str, list[PlanNode]]] = [{}, {}]
    for side, plan in enumerate((old, new)):
        for node in plan.nodes:
            if node.id not in taken[side] and node.kind == _AGGREGATE and is_convertible(node):
                groups[side].setdefault(texts[side][node.id].groups, []).append(node)
    both = ((nodes, groups[1].get(rows, [])) for rows, nodes in groups[0].items())
    made = [_conversion(one[0], two[0], texts) for one, two in both if len(one) == len(two) == 1]
    return [pair for pair in made if any(source is not None for source in pair.kept or ())]


def _conversion(one: PlanNode, two: PlanNode, texts: Sequence[Mapping[int, Definition]]) -> Pair:
    before, after = texts[0][one.id].calls, texts[1][two.id].calls
    return Pair(one, two, kept=tuple(before.index(call) if call in before else None for call in after))


def is_convertible(node: PlanNode) -> bool:
    """Whether the accumulators of an aggregate are values of their own, without views of many and without a count of
    rows that are retracted."""
    calls = node.items("aggCalls")
    retracted = node.at("needRetraction") is True or any(one is True for one in node.items("aggCallNeedRetractions"))
    plain = all(isinstance(call, dict) and not call.get("distinct") for call in calls)
    return bool(calls) and plain and not retracted and all(function_of(call) in BUFFERS for call in calls)


def _paired(
    old: CompiledPlan,
    new: CompiledPlan,
    found: Sequence[Pair],
    of: Callable[[int, PlanNode], str | None],
    by_table: bool,
) -> list[Pair]:
    """Return the pairs of other nodes for which a function gives the same. Raises InvalidOption for several of one."""
    taken = [{pair.old.id for pair in found}, {pair.new.id for pair in found}]
    groups: list[dict[tuple[str, str], list[PlanNode]]] = [{}, {}]
    for side, plan in enumerate((old, new)):
        for node in plan.nodes:
            text = None if node.id in taken[side] or node.kind in _STATELESS else of(side, node)
            if text is not None:
                groups[side].setdefault((node.kind, text), []).append(node)
    made: list[Pair] = []
    for place, nodes in groups[0].items():
        others = groups[1].get(place, [])
        if len(nodes) == len(others) == 1:
            made.append(Pair(nodes[0], others[0], by_table))
        elif others:
            raise _ambiguous(old, nodes)
    return made


def _given_pair(
    old: CompiledPlan, new: CompiledPlan, before: str, after: str, texts: Sequence[Mapping[int, Definition]]
) -> Pair:
    one, two = node_of_uid(old, before), node_of_uid(new, after)
    if one.kind == two.kind == _AGGREGATE and texts[0][one.id].groups == texts[1][two.id].groups:
        if texts[0][one.id].state == texts[1][two.id].state:
            return Pair(one, two)
        if is_convertible(one) and is_convertible(two):
            return _conversion(one, two, texts)
    if _own_definition(one) != _own_definition(two) or _input_types(one) != _input_types(two):
        raise InvalidOption(
            f"{one.label} ({before}) and {two.label} ({after}) compute something else, or of other columns: the state "
            "of one is not that of the other",
            advice="let the new one start empty (--empty), and its results begin with the restore",
        )
    return Pair(one, two)


def _input_types(node: PlanNode) -> list[Any]:
    return [row_type_types(source.attributes.get("outputType")) for source in node.sources]


def node_of_uid(plan: CompiledPlan, uid: str) -> PlanNode:
    """Return the node with an operator of a uid. Raises NotFound."""
    known = {found: node for node in plan.nodes for found in node_uids(plan, node).values()}
    if uid not in known:
        stateful = [name for name, node in known.items() if node.kind in NODE_RULES or node.kind in _TABLES]
        raise not_found("operator in the plan with uid", uid, stateful)
    return known[uid]


def _ambiguous(plan: CompiledPlan, nodes: Sequence[PlanNode]) -> InvalidOption:
    shown = ", ".join(main_uid(plan, node) for node in nodes)
    return InvalidOption(
        f"several operators compute the same, or read or write one table: {shown}",
        advice="say which is which: --map OLD-UID=NEW-UID",
    )


def main_uid(plan: CompiledPlan, node: PlanNode) -> str:
    """Return the uid of the operator of a node that holds its state; of a source or sink that of itself."""
    uids = node_uids(plan, node)
    rule = NODE_RULES.get(node.kind)
    names = (_OPERATORS.get(node.kind), None if rule is None else rule.transformation)
    return next((uids[name] for name in names if name in uids), next(iter(uids.values()), node.label))
