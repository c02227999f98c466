"""Say what each node of a job's compiled plan computes: the lineage of its rows and columns, down to the tables.

A column is the column of a table, or an expression over such; rows are those of a table, filtered, watermarked,
grouped, joined. Numbers of nodes, positions and names of columns change with every edit of a query, and are no part of
it. Nodes of one definition hold the same state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stateproc.query_plans.node_definitions import Definition, definition, holds_rows
from stateproc.query_plans.over_aggregates import OVER, over_time
from stateproc.query_plans.plan_file import CompiledPlan, PlanNode
from stateproc.query_plans.plan_tables import SCAN, has_changes

INSERTS_ONLY = frozenset(
    f"stream-exec-{name}"
    for name in """
    global-window-aggregate interval-join match temporal-sort window-aggregate window-deduplicate window-join
    window-rank window-table-function
    """.split()
)
"""Nodes that never take back a row that they returned."""
_WINDOWS_OF_ROWS = "stream-exec-window-table-function"
STATELESS = frozenset(
    f"stream-exec-{name}"
    for name in """
    async-calc calc correlate async-correlate drop-update-before exchange expand local-group-aggregate
    local-window-aggregate mini-batch-assigner python-async-calc python-calc python-correlate union values
    watermark-assigner ml-predict-table-function vector-search-table-function
    """.split()
)


def definitions(plan: CompiledPlan) -> dict[int, Definition]:
    """Return what each node computes, by its number. Raises InvalidOption for a plan that is not as Flink writes it."""
    found: dict[int, Definition] = {}
    for node in in_order(plan):
        found[node.id] = definition(node, [found[source.id] for source in node.sources])
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
    return before[node.id] if is_stateless(node) else (node,)


def is_stateless(node: PlanNode) -> bool:
    """Whether a node holds no state."""
    return node.kind in STATELESS or (node.kind == _WINDOWS_OF_ROWS and not holds_rows(node))


def returns_changes(node: PlanNode) -> bool:
    """Whether a node with state, or a source, may take back rows that it returned."""
    if node.kind == OVER:
        return over_time(node) is None
    return has_changes(node) if node.kind == SCAN else node.kind not in INSERTS_ONLY


def source_of_changes(plan: CompiledPlan) -> dict[int, PlanNode]:
    """Return a source that returns changes with all of their columns and is before a node, by the node's number."""
    found: dict[int, PlanNode] = {}
    for node in in_order(plan):
        before = [found[one.id] for one in node.sources if one.id in found]
        if node.kind == SCAN and has_changes(node):
            before.append(node)
        if before:
            found[node.id] = before[0]
    return found
