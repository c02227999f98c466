"""Read a CompiledPlan: the JSON that Flink 1.15 and later write for a query."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stateproc.query_plans.plan_errors import invalid_plan
from stateproc.query_plans.plan_nodes import CompiledPlan, PlanNode
from stateproc.storage.filesystem import kind_of, read_range

MAX_BYTES = 256 << 20
MAX_NODES = 100_000
_TYPE = re.compile(r"([a-z0-9-]{1,200})_([0-9]{1,6})")


def read_plan(given: Any, storage_options: Mapping[str, Any] | None = None) -> CompiledPlan:
    """Read a plan.

    Args:
        given: The path or URI of the file, its text, or the parsed JSON.
        storage_options: Keyword arguments of the fsspec file system, for a URI.

    Raises:
        InvalidOption: There is no such file, or it is not a compiled plan.
    """
    if isinstance(given, CompiledPlan):
        return given
    if isinstance(given, str) and given.lstrip().startswith("{"):
        given = _parsed(given)
    elif isinstance(given, (str, os.PathLike)):
        given = _parsed(_text(os.fspath(given), storage_options))
    if not isinstance(given, Mapping):
        raise invalid_plan("it is no JSON object")
    return CompiledPlan(str(given.get("flinkVersion")), _nodes(given))


def _text(path: str, storage_options: Mapping[str, Any] | None) -> str:
    try:
        if "://" not in path:
            file = Path(path)
            size = file.stat().st_size
            data = b"" if size > MAX_BYTES else file.read_bytes()
        else:
            size = (kind_of(path, storage_options or {}) or ("", 0))[1]
            data = b"" if size > MAX_BYTES else read_range(path, 0, size, storage_options or {})
        if size > MAX_BYTES:
            raise invalid_plan(f"{path} has {size} bytes, which no plan has")
        return data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise invalid_plan(f"{path} cannot be read: {error}") from error


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise invalid_plan(f"it is not JSON ({error})") from error


def _nodes(plan: Mapping[str, Any]) -> tuple[PlanNode, ...]:
    """Return the nodes, each after those that it reads from."""
    written, edges = plan.get("nodes"), plan.get("edges")
    if not isinstance(written, list) or not isinstance(edges, list) or not written:
        raise invalid_plan("it has no 'nodes' and 'edges'")
    if len(written) > MAX_NODES or len(edges) > MAX_NODES:
        raise invalid_plan(f"it has {len(written)} nodes and {len(edges)} edges, which no plan has")
    by_id: dict[int, Mapping[str, Any]] = {}
    for item in written:
        number = item.get("id") if isinstance(item, dict) else None
        if type(number) is not int or number < 0 or number in by_id:
            raise invalid_plan(f"a node with the id {number!r}, which is no number or that of another")
        by_id[number] = item
    sources = _sources(edges, by_id)
    made: dict[int, PlanNode] = {}
    for number in _in_order(sources):
        kind, version = _type_of(by_id[number])
        made[number] = PlanNode(number, kind, version, by_id[number], tuple(made[item] for item in sources[number]))
    return tuple(made[number] for number in by_id)


def _sources(edges: list[Any], by_id: Mapping[int, Any]) -> dict[int, list[int]]:
    """Return the ids of each node's inputs, in the order of the edges, which is the order of the inputs."""
    sources: dict[int, list[int]] = {number: [] for number in by_id}
    for edge in edges:
        source, target = (edge.get(name) if isinstance(edge, dict) else None for name in ("source", "target"))
        if type(source) is not int or type(target) is not int or source not in by_id or target not in by_id:
            raise invalid_plan(f"an edge from node {source!r} to node {target!r}, of which one does not exist")
        sources[target].append(source)
    return sources


def _in_order(sources: Mapping[int, list[int]]) -> list[int]:
    """Return the ids, each after its sources (Kahn's algorithm, as plans may be deeper than Python's stack)."""
    waiting = {number: len(found) for number, found in sources.items()}
    targets: dict[int, list[int]] = {number: [] for number in sources}
    for number, found in sources.items():
        for source in found:
            targets[source].append(number)
    order = [number for number, n in waiting.items() if not n]
    for number in order:
        for target in targets[number]:
            waiting[target] -= 1
            if not waiting[target]:
                order.append(target)
    if len(order) < len(sources):
        raise invalid_plan("its nodes form a circle")
    return order


def _type_of(node: Mapping[str, Any]) -> tuple[str, int]:
    match = _TYPE.fullmatch(node["type"]) if isinstance(node.get("type"), str) else None
    if match is None:
        raise invalid_plan(f"node {node['id']} has the type {str(node.get('type'))[:80]!r}, which Flink does not have")
    return match[1], int(match[2])
