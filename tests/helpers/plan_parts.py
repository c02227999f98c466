"""Parts of compiled plans: what is tried of one node needs none of the hundreds beside it."""

from __future__ import annotations

from typing import Any


def with_inputs(plan: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a plan that a node reads from, and that node, as it is given."""
    known, edges = {node["id"]}, list[dict[str, Any]]()
    for edge in reversed(plan["edges"]):
        if edge["target"] in known:
            known.add(edge["source"])
            edges.append(edge)
    nodes = [node if one["id"] == node["id"] else one for one in plan["nodes"] if one["id"] in known]
    return {**plan, "nodes": nodes, "edges": edges[::-1]}
