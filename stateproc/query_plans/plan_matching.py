"""Match the nodes of a plan with the operators of a snapshot."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from stateproc.keygroups.operator_ids import operator_id
from stateproc.operator_names.uid_hashes import SINK_TRANSFORMATION, TRANSFORMATIONS, sink_uids
from stateproc.query_plans.node_rules import NODE_RULES
from stateproc.query_plans.plan_file import CompiledPlan, PlanNode, invalid_plan
from stateproc.readers.state_names import OperatorNames

_FORMATS = ("<id>_<transformation>", "<id>_<type>_<version>_<transformation>")
"""The default of table.exec.uid.format since Flink 1.16, and that of 1.15."""
_FORMAT_OPTION = "table.exec.uid.format"
_PROCESS = "process"


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
        plan: The plan.
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


def _generated_uids(node: PlanNode, transformation: str) -> Iterator[str]:
    own = node.at("configuration", _FORMAT_OPTION)
    kind, version = node.kind, str(node.version)
    for form in (own,) if isinstance(own, str) else _FORMATS:
        uid = form.replace("<id>", str(node.id)).replace("<type>", kind).replace("<version>", version)
        yield uid.replace("<transformation>", transformation)
