"""SQL jobs by their CompiledPlan: the column names of their states, and what becomes of state when the query changes.

A plan is parsed to its nodes; a row per type of node says which columns the states of its operator contain; nodes are
matched with a snapshot's operators by the uids that Flink gives them. May import: operator_names, readers and below.
"""

from stateproc.query_plans.node_rules import QueryNames, query_names
from stateproc.query_plans.plan_file import CompiledPlan, PlanNode, read_plan

__all__ = ["CompiledPlan", "PlanNode", "QueryNames", "query_names", "read_plan"]
