"""Read a CompiledPlan: the JSON that Flink 1.15 and later write for a query."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from stateproc.errors import InvalidOption
from stateproc.readers.state_names import ColumnName, Names
from stateproc.storage.store import StorePath

_Chosen = TypeVar("_Chosen")

# The error for a plan that cannot be used.

_ADVICE = "give the file that CompiledPlan.writeToFile or COMPILE PLAN wrote for the job (Flink 1.15 or later)"


def invalid_plan(problem: str, advice: str = _ADVICE) -> InvalidOption:
    """Return the error for a plan that is not one, or not of this snapshot."""
    return InvalidOption(f"the query plan cannot be used: {problem}", advice=advice)


# Find the field names of a ROW type as a compiled plan writes it: in SQL, or as a JSON object.

_MAX_FIELDS = 100_000
_NAME = re.compile(r"`((?:[^`]|``)*)`\s+")
_TOKEN = re.compile(r"`(?:[^`]|``)*`|'(?:[^']|'')*'|[<>(),]|[^`'<>(),]+")


def row_type_names(written: Any) -> Names:
    """Return the names of a row type's fields, each once: a name that comes again gets ``_1``.

    Args:
        written: ``ROW<`a` BIGINT, `b` STRING> NOT NULL`` or ``{"type": "ROW", "fields": [{"name": "a", …}, …]}``.

    Raises:
        InvalidOption: It is not a row type.
    """
    if isinstance(written, str):
        return unique_names(ColumnName.of(name, type_) for name, type_ in _fields_in_sql(written))
    fields = written.get("fields") if isinstance(written, dict) and written.get("type") == "ROW" else None
    if not isinstance(fields, list):
        raise invalid_plan(f"a row type was expected where it has {_short(written)}")
    if not all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in fields):
        raise invalid_plan(f"a field without a name in {_short(written)}")
    return unique_names(ColumnName.of(item["name"], item.get("fieldType")) for item in fields)


def _fields_in_sql(text: str) -> Iterator[tuple[str, str]]:
    """Yield names and types of the outermost fields; nested rows are at a deeper level of angle brackets."""
    if not text.startswith("ROW<"):
        raise invalid_plan(f"a row type was expected where it has {_short(text)}")
    at, count = len("ROW<"), 0
    while text[at : at + 1] != ">":
        match = _NAME.match(text, at)
        if match is None or count >= _MAX_FIELDS:
            raise invalid_plan(f"the row type {_short(text)} cannot be parsed at character {at}")
        at, count = _end_of_field(text, match.end()), count + 1
        yield match[1].replace("``", "`"), text[match.end() : at]
        if text[at : at + 1] == ",":
            at += len(", ")


def _end_of_field(text: str, at: int) -> int:
    """Return the position of the comma or bracket that ends the field whose type begins at ``at``."""
    depth = 0
    while True:
        token = _TOKEN.match(text, at)
        if token is None:
            raise invalid_plan(f"the row type {_short(text)} ends within a field")
        found = token[0]
        if depth == 0 and found in ",>":
            return at
        depth += (found in "<(") - (found in ">)")
        at = token.end()


def row_type_types(written: Any) -> Any:
    """Return the types of a row type's fields, without their names; what is no row type as it is."""
    if isinstance(written, str) and written.startswith("ROW<"):
        return [*(type_ for _, type_ in _fields_in_sql(written)), written[written.rindex(">") :]]
    fields = written.get("fields") if isinstance(written, dict) and written.get("type") == "ROW" else None
    if not isinstance(fields, list):
        return written
    return [item.get("fieldType") if isinstance(item, dict) else item for item in fields]


def unique_names(names: Any) -> Names:
    """Return the names with ``_1``, ``_2``, … after those that came before."""
    found: dict[str, None] = {}
    for name in names:
        candidate, number = name, 0
        while candidate in found:
            number += 1
            candidate = f"{name}_{number}"
            if isinstance(name, ColumnName):
                candidate = ColumnName(candidate)
                candidate.family = name.family
        found[candidate] = None
    return tuple(found)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


# A compiled plan as its nodes: what each computes, with the columns that it reads and returns.


@dataclass(frozen=True)
class PlanNode:
    """One exec node of a plan. Properties raise InvalidOption where the plan is not as Flink writes it.

    Attributes:
        id: Its number in the plan.
        kind: Its type without the version: ``stream-exec-join``.
        version: The version of its type.
        attributes: The JSON object.
        sources: The nodes whose rows it reads, in the order of its inputs.
    """

    id: int
    kind: str
    version: int
    attributes: Mapping[str, Any] = field(repr=False)
    sources: tuple[PlanNode, ...] = field(repr=False)

    @property
    def label(self) -> str:
        """The node as Flink names its operator: ``GroupAggregate[6]``."""
        words = self.kind.removeprefix("stream-exec-").split("-")
        return "".join(word.capitalize() for word in words) + f"[{self.id}]"

    @cached_property
    def columns(self) -> Names:
        """The names of the columns that it returns."""
        return row_type_names(self.attributes.get("outputType"))

    def input(self, index: int = 0) -> Names:
        """Return the names of an input's columns."""
        if index >= len(self.sources):
            raise self.error(f"it has {len(self.sources)} inputs")
        return self.sources[index].columns

    def at(self, *path: str) -> Any:
        """Return the value at a path of names, None where there is none."""
        value: Any = self.attributes
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    def items(self, *path: str) -> list[Any]:
        """Return the list at a path of names, an empty one where there is none."""
        value = self.at(*path)
        if value is not None and not isinstance(value, list):
            raise self.error(f"{'.'.join(path)} is no list")
        return value or []

    def picked(self, names: Names, *path: str) -> Names:
        """Return those of ``names`` whose positions are listed at a path."""
        return self.chosen(names, self.items(*path))

    def chosen(self, names: Sequence[_Chosen], positions: Any) -> tuple[_Chosen, ...]:
        """Return the names, or what else columns have, at the positions of a list."""
        if not isinstance(positions, list):
            raise self.error(f"positions of columns are {str(positions)[:80]!r}")
        found = []
        for position in positions:
            if type(position) is not int or not 0 <= position < len(names):
                raise self.error(f"it refers to column {position!r} of {len(names)}")
            found.append(names[position])
        return tuple(found)

    def types(self, index: int = 0) -> Any:
        """Return the types of an input's columns as the plan has them: `row_type_types`."""
        return row_type_types(self.sources[index].attributes.get("outputType"))

    def time_at(self, position: Any) -> str | None:
        """Return which time of rows a column of its first input is, ROWTIME or PROCTIME; None of any other column."""
        types = self.types() if self.sources else None
        if not isinstance(types, list) or type(position) is not int or not 0 <= position < len(types):
            return None
        return types[position].get("kind") if isinstance(types[position], dict) else None

    def error(self, problem: str) -> Exception:
        """Return the error for something in this node."""
        return invalid_plan(f"node {self.id} ({self.kind}): {problem}")


@dataclass(frozen=True)
class CompiledPlan:
    """A plan: the Flink release that compiled it, and its nodes."""

    flink_version: str
    nodes: Sequence[PlanNode]


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
            stored = StorePath(path, storage_options or {})
            size = status.size if (status := stored.status()) is not None else 0
            data = b"" if size > MAX_BYTES else stored.read_range(0, size)
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
