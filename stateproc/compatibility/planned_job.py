"""Say what a SQL job declares, by its compiled plan, and whether its state is that of the old query.

Types alone do not say: SUM(a) and SUM(b) have one accumulator, and Flink restores the one as the other. So nodes of one
uid are compared by what they compute, if the plan of the old query is there, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from stateproc.compatibility.declared_job import KEY, KEYED, NAMESPACE, TIMERS, VALUE, DeclaredOperator, DeclaredState
from stateproc.compatibility.expected_job import as_stored, stored_serializers
from stateproc.errors import InvalidOption, UnsupportedSnapshot
from stateproc.keygroups.operator_ids import operator_id
from stateproc.query_plans.accumulator_types import FieldTypes, StateTypes
from stateproc.query_plans.node_definitions import Definition
from stateproc.query_plans.node_rules import node_uids
from stateproc.query_plans.plan_comparison import comparable
from stateproc.query_plans.plan_file import CompiledPlan, PlanNode
from stateproc.query_plans.plan_lineage import definitions
from stateproc.query_plans.plan_matching import matched_plans, stateful_operators
from stateproc.query_plans.plan_tables import TABLES, table_of, table_place
from stateproc.query_plans.state_types import OperatorTypes, operator_types
from stateproc.serializers import Serializer
from stateproc.serializers.java.collections import MapOf
from stateproc.serializers.runtime.streaming import Timer
from stateproc.serializers.runtime.ttl import TtlSerializer
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.serializers import RowData
from stateproc.types import RowData as row_data

_TYPES_ONLY = "its types fit; whether it is the state of the same query, only the old plan says: --from-plan"
_NOT_COMPARED = "{0}: the plan does not say which types its state has, so that they are not compared"
_BEGINS = "what it computes of the rows before the restore"
_OTHER_TIME = (
    "it has another time to live in the new plan, and what Flink does with that is not compared for such a node"
)
_TIME_TO_LIVE = (
    "whether it has a time to live is a setting of the job that its plan does not contain, so that it is not compared"
)
_LONGEST = 160


def planned_operators(
    plan: CompiledPlan, before: Sequence[DeclaredOperator], old_plan: CompiledPlan | None
) -> tuple[DeclaredOperator, ...]:
    """Return what the job of a plan declares.

    Args:
        plan: The plan of the job that restores the snapshot.
        before: What the snapshot declares. A time to live that the plan does not have, and states whose types it does
            not say, are taken to be the same.
        old_plan: The plan of the job that wrote the snapshot.

    Raises:
        InvalidOption: A plan is not as Flink writes it.
    """
    old = {operator.operator_id: operator for operator in before}
    meanings = None if old_plan is None else _Meanings(old_plan, plan)
    stateful = stateful_operators(plan)
    found = []
    for node in plan.nodes:
        for uid in node_uids(plan, node).values():
            known = old.get(operator_id(uid))
            if known is not None or uid in stateful:
                found.append(_operator(plan, node, uid, known, meanings, holds_state=uid in stateful))
    return tuple(found)


def moved_operators(old_plan: CompiledPlan, plan: CompiledPlan) -> dict[str, str]:
    """Return the operators that have another uid in the new plan: operator id in the old job → that uid."""
    try:
        moved = matched_plans(old_plan, plan, {}).operator_ids
    except InvalidOption:
        return {}  # Several nodes compute the same, so that nothing says which is which.
    return {before: uid for before, uid in moved.items() if before != operator_id(uid)}


def _operator(
    plan: CompiledPlan,
    node: PlanNode,
    uid: str,
    old: DeclaredOperator | None,
    meanings: _Meanings | None,
    *,
    holds_state: bool,
) -> DeclaredOperator:
    found = _types(plan, uid) if holds_state else None
    if found is not None:
        declared = _declared(found, DeclaredOperator(operator_id(uid), uid, node.label), old)
    elif old is not None:
        declared = replace(old, uid=uid, name=node.label, parallelism=None, max_parallelism=None)
    else:
        unknown_state = DeclaredState("its state", "unknown", KEYED, {})
        declared = DeclaredOperator(operator_id(uid), uid, node.label, states=(unknown_state,))
    unsaid = found is not None and old is not None and any(state.ttl is None for state in found.states)
    declared = replace(declared, begins=_BEGINS, not_compared=_TIME_TO_LIVE if unsaid else None)
    if meanings is not None:
        if node.kind in TABLES and not holds_state:
            return replace(declared, misread=meanings.other_table(node, uid))
        return replace(declared, misread=meanings.other_query(node, uid, types_known=found is not None))
    if found is None:
        return replace(declared, not_compared=_NOT_COMPARED.format(node.label) if holds_state else None)
    return replace(declared, not_compared=f"{_TYPES_ONLY}; {_TIME_TO_LIVE}" if unsaid else _TYPES_ONLY)


def _types(plan: CompiledPlan, uid: str) -> OperatorTypes | None:
    try:
        return operator_types(plan, uid)
    except (UnsupportedSnapshot, InvalidOption):  # States of another kind, or a type that is not known.
        return None


def _declared(found: OperatorTypes, operator: DeclaredOperator, old: DeclaredOperator | None) -> DeclaredOperator:
    """Return an operator with the states that its plan says, as the backend of the snapshot registers them.

    What the plan does not say is as it is in the snapshot: states of functions of the user, and operator state.
    """
    before = () if old is None else old.states
    known = {state.name: state for state in before if state.distribution == KEYED}
    declared = replace(
        operator, keys=(found.key,), states=tuple(_state(state, known.get(state.name)) for state in found.states)
    )
    if old is None:
        return declared
    named = {state.name for state in found.states}
    kept = [
        state
        for state in before
        if not state.is_keyed or (state.name not in named and (found.others or state.name in found.may_have))
    ]
    declared = as_stored(declared, old)
    states = [_timers(state, found) if state.distribution == TIMERS else state for state in declared.states]
    return replace(declared, states=(*states, *(state for state in kept if state.distribution != TIMERS)))


def _state(state: StateTypes, before: DeclaredState | None) -> DeclaredState:
    lives = _lives(before) if state.ttl is None else state.ttl
    types = {"value": _row_with(state.fields, before) if state.value is None else state.value}
    if state.map_key is not None:
        types["map_key"] = state.map_key
    stored = dict(stored_serializers(state.kind, KEYED, types, lives))
    return DeclaredState(state.name, state.kind, KEYED, {NAMESPACE: state.namespace, **stored})


def _row_with(fields: FieldTypes, before: DeclaredState | None) -> Serializer:
    """Return a row whose fields of types that the plan does not say are those of the snapshot."""
    value = None if before is None else before.serializers.get(VALUE)
    row = value.value if isinstance(value, TtlSerializer) else value
    if not isinstance(row, RowData) or len(row.types) != len(fields):
        return row_data([(f"f{at}", _UNKNOWN if type_ is None else type_) for at, type_ in enumerate(fields)])
    pairs = list(zip(row.types, fields, strict=True))
    if all(other is None or other == one for one, other in pairs):
        return row
    return replace(row, types=tuple(one if other is None else other for one, other in pairs))


_UNKNOWN = LogicalType("NULL")
"""Stands for a type that nothing says, of a row that has another number of fields, or is new."""


def _timers(state: DeclaredState, found: OperatorTypes) -> DeclaredState:
    """Return timers with the key and the namespace that the plan says; a job does not declare which it has."""
    name = state.name.removeprefix("processing_").removeprefix("event_")
    namespace = found.timers.get(name)
    if namespace is None:
        return state
    value = state.serializers.get(VALUE)
    if isinstance(value, Timer):
        return replace(state, serializers={VALUE: replace(value, key=found.key, namespace=namespace)})
    return replace(state, serializers={KEY: found.key, NAMESPACE: namespace})


def _lives(state: DeclaredState | None) -> bool:
    """Whether a state of the snapshot has a time to live."""
    value = None if state is None else state.serializers.get(VALUE)
    return isinstance(value.value if isinstance(value, MapOf) else value, TtlSerializer)


class _Meanings:
    """What the nodes of two plans compute, by the uids of their operators."""

    def __init__(self, old: CompiledPlan, new: CompiledPlan) -> None:
        self._old = {uid: node for node in old.nodes for uid in node_uids(old, node).values()}
        self._exact = [definitions(plan) for plan in (old, new)]
        self._timeless = [definitions(comparable(plan, types=False)) for plan in (old, new)]
        self._wide = [definitions(comparable(plan, types=True)) for plan in (old, new)]

    def other_table(self, node: PlanNode, uid: str) -> str | None:
        """Return why an operator of a source or sink has the state of another table; None if it has not."""
        old = self._old.get(uid)
        if old is None or table_place(old) == table_place(node):
            return None
        return f"it is the state of another table: {table_of(old)}, and {table_of(node)} in the new plan"

    def other_query(self, node: PlanNode, uid: str, *, types_known: bool) -> str | None:
        """Return why an operator has the state of another query; None if it has not, apart from its types.

        Args:
            node: The node of the new plan.
            types_known: Whether types, and times to live, of its state are compared beside this.
        """
        old = self._old.get(uid)
        if old is None or _is_same(self._exact, old, node):
            return None
        if _is_same(self._timeless, old, node):
            return None if types_known else _OTHER_TIME
        if types_known and _is_same(self._wide, old, node):
            return None
        return f"it is the state of another query: {_words(old, node)}"


def _is_same(known: Sequence[Mapping[int, Definition]], old: PlanNode, new: PlanNode) -> bool:
    return known[0][old.id].state == known[1][new.id].state


def _words(old: PlanNode, new: PlanNode) -> str:
    before, after = (str(node.at("description")) for node in (old, new))
    if before == after:
        return f"{new.label} is the same, and what it reads is not"
    return f"{_short(before)} before, {_short(after)} in the new plan"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
