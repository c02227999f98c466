"""Read a job's operators and their parallelism from what Flink prints of a job.

    GET /jobs/<id>         {"vertices": [{"id": 32 hex digits, "name", "parallelism", "maxParallelism"}, …], "plan": …}
    GET /jobs/<id>/plan    {"plan": {"nodes": [{"id": 32 hex digits, "description", "parallelism"}, …]}}
    getExecutionPlan()     {"nodes": [{"id": 3, "type": "Map", "contents": "Map", "parallelism": 2}, …]}

A vertex has the id of its first operator; those that are chained to it only their names in its name or description.
Nodes of an execution plan have names only. Snapshots of Flink 2 and later know the names of operators.

Sources: JobDetailsInfo, JobPlanInfo, JsonPlanGenerator, JSONGenerator.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stateproc.compatibility.declared_job import DeclaredOperator
from stateproc.errors import InvalidOption, Where

_ID = re.compile(r"[0-9a-f]{32}")
_CHAINED = re.compile(r"<br\s*/?>|\s->\s|\n")
_BRANCHES = re.compile(r",\s|[()]")
"""What separates chained operators in the name or the description of a vertex: after one another, and side by side."""
_BRANCH = re.compile(r"^[\s:+|-]*-\s")
_MAX_BYTES = 64 << 20
_ADVICE = "give what Flink's REST API returns for /jobs/<id>, or what getExecutionPlan() returns"
_NOT_FOUND = (
    "it is not found in the job graph by its id, and by no name: it is chained to another operator, or the job does "
    "not have it, which a snapshot of the job (--like) would say"
)


@dataclass(frozen=True)
class JobVertex:
    """A vertex of a job graph, or a node of an execution plan.

    Attributes:
        operator_id: The id of its first operator; None in an execution plan.
        names: The names of its operators, with those of tasks that consist of several.
        parallelism: The number of its subtasks.
        max_parallelism: The number of its key groups; None where the file does not have it.
    """

    operator_id: str | None
    names: frozenset[str]
    parallelism: int
    max_parallelism: int | None


def read_job_graph(path: str) -> tuple[JobVertex, ...]:
    """Read the vertices of a job. Raises InvalidOption for a file that is no such thing."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        value = json.loads(data) if len(data) <= _MAX_BYTES else None
    except (OSError, ValueError, RecursionError) as error:
        raise _invalid(path, str(error)) from error
    found = tuple(_vertices(value))
    if not found:
        raise _invalid(path, "it has no vertices with a parallelism")
    return found


def _invalid(path: str, why: str) -> InvalidOption:
    return InvalidOption(f"the job graph cannot be read: {why}", where=Where(file=path), advice=_ADVICE)


def _vertices(value: Any) -> Iterator[JobVertex]:
    """Yield the vertices, those of ``/jobs/<id>`` rather than the nodes of its plan, which lack max parallelism."""
    if not isinstance(value, dict):
        return
    plan = value.get("plan")
    for place in (value.get("vertices"), plan.get("nodes") if isinstance(plan, dict) else None, value.get("nodes")):
        found = [vertex for item in place if (vertex := _vertex(item))] if isinstance(place, list) else []
        if found:
            yield from found
            return


def _vertex(item: Any) -> JobVertex | None:
    if not isinstance(item, dict) or not _is_count(item.get("parallelism")):
        return None
    own, most = item.get("id"), item.get("maxParallelism")
    texts = [item[key] for key in ("name", "description", "type", "contents") if isinstance(item.get(key), str)]
    return JobVertex(
        own if isinstance(own, str) and _ID.fullmatch(own) else None,
        frozenset(name for text in texts for name in _names(text)),
        item["parallelism"],
        most if _is_count(most) else None,
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _names(text: str) -> Iterator[str]:
    whole = html.unescape(text)
    chained = [_BRANCH.sub("", part) for part in _CHAINED.split(whole)]
    branches = [part for one in chained for part in _BRANCHES.split(one)]
    yield from (name for part in (whole, *chained, *branches) if (name := part.strip()))


def with_job_graph(operators: Iterable[DeclaredOperator], vertices: Sequence[JobVertex]) -> list[DeclaredOperator]:
    """Return the operators with the parallelism that they have in a job graph.

    One whose name is known, and not in the graph either, is left out: the job does not have it. One without a known
    name, or whose name several vertices have, says that it is not compared.
    """
    by_id = {vertex.operator_id: vertex for vertex in vertices if vertex.operator_id is not None}
    by_name: dict[str, list[JobVertex]] = {}
    for vertex in vertices:
        for name in vertex.names:
            by_name.setdefault(name, []).append(vertex)
    found = []
    for one in operators:
        own, named = by_id.get(one.operator_id), by_name.get(one.name, []) if one.name else []
        if own is not None or named or not one.name:
            found.append(_placed(one, own, named, vertices))
    return found


def _placed(
    operator: DeclaredOperator, by_id: JobVertex | None, by_name: Sequence[JobVertex], vertices: Sequence[JobVertex]
) -> DeclaredOperator:
    if by_id is None and len(by_name) != 1:
        return replace(operator, parallelism=None, max_parallelism=None, not_compared=_NOT_FOUND)
    vertex = by_id or by_name[0]
    # A node of an execution plan is one operator.
    number = None if vertex.operator_id is None else vertices.index(vertex)
    return replace(operator, parallelism=vertex.parallelism, max_parallelism=vertex.max_parallelism, vertex=number)
