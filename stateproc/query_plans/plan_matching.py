"""Match the nodes of a job's compiled plan with those of its changed query, by what they compute.

A node's definition is its type, its attributes and the definitions of its inputs, down to the tables. The numbers of
nodes, which change with every edit, descriptions and names of columns are no part of it. So nodes of one definition
hold the same state. Sources and sinks are matched by their tables.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stateproc.errors import InvalidOption, not_found
from stateproc.keygroups.operator_ids import operator_id
from stateproc.query_plans.node_rules import NODE_RULES, node_uids
from stateproc.query_plans.plan_file import CompiledPlan, PlanNode, row_type_types

_SCAN, _SINK = "stream-exec-table-source-scan", "stream-exec-sink"
_TABLES = {_SCAN: ("scanTableSource", "table"), _SINK: ("dynamicTableSink", "table")}
_OPERATORS = {_SCAN: "source", _SINK: "sink"}
MATERIALIZER = "upsert-materialize"
"""The transformation before a sink that keeps rows by its primary key."""
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


def definitions(plan: CompiledPlan) -> dict[int, str]:
    """Return what each node computes, by its number: equal texts for equal definitions."""
    found: dict[int, str] = {}
    for node in _in_order(plan):
        inputs = [found[source.id] for source in node.sources]
        written = json.dumps([_own_definition(node), inputs], sort_keys=True)
        found[node.id] = hashlib.sha256(written.encode()).hexdigest()
    return found


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
            attributes[table[0]] = {**part, table[1]: place}
    if "outputType" in attributes:
        attributes["outputType"] = row_type_types(attributes["outputType"])
    attributes["state"] = [_state(item) for item in node.items("state")]
    configuration = attributes.pop("configuration", None) or {}
    settings = {name: value for name, value in dict(configuration).items() if name not in _UID_OPTIONS}
    if _TTL_OPTION in settings:
        settings[_TTL_OPTION] = _is_on(settings[_TTL_OPTION])
    return [node.kind, version, _without_call_names(attributes), settings]


def _state(item: Any) -> Any:
    """Return what of a state's settings decides about its layout: whether, not how long, it has a time to live."""
    if not isinstance(item, dict):
        return item
    return {**item, "ttl": _is_on(item.get("ttl"))}


def _is_on(ttl: Any) -> bool:
    return str(ttl or "0").split()[0] not in ("0", "0ms", "0s")


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
    """

    old: PlanNode
    new: PlanNode
    by_table: bool = False


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
    def empty(self) -> dict[str, PlanNode]:
        """The uids of the operators of the new plan that hold state and would start empty, and their nodes."""
        found: dict[str, PlanNode] = {}
        known = {pair.new.id: pair.by_table for pair in self.pairs}
        for node in self.new.nodes:
            if node.kind == _SINK:
                materializes = node.at("requireUpsertMaterialize") is True and known.get(node.id, True)
                found |= {node_uids(self.new, node)[MATERIALIZER]: node} if materializes else {}
            elif node.id not in known and node.kind not in _STATELESS and node.kind != _SCAN:
                found[main_uid(self.new, node)] = node
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
    pairs = [_given_pair(old, new, *uids) for uids in given.items()]
    texts = [definitions(plan) for plan in (old, new)]
    pairs += _paired(old, new, pairs, lambda side, node: texts[side][node.id], by_table=False)
    pairs += _paired(old, new, pairs, lambda _, node: table_of(node), by_table=True)
    return PlanMatch(old, new, tuple(pairs))


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


def _given_pair(old: CompiledPlan, new: CompiledPlan, before: str, after: str) -> Pair:
    one, two = node_of_uid(old, before), node_of_uid(new, after)
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
