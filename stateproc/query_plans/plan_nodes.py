"""A compiled plan as its nodes: what each computes, with the columns that it reads and returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from stateproc.query_plans.plan_errors import invalid_plan
from stateproc.query_plans.row_type_names import row_type_names
from stateproc.readers.state_names import Names


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

    def chosen(self, names: Names, positions: Any) -> Names:
        """Return the names at the positions of a list."""
        if not isinstance(positions, list):
            raise self.error(f"positions of columns are {str(positions)[:80]!r}")
        found = []
        for position in positions:
            if type(position) is not int or not 0 <= position < len(names):
                raise self.error(f"it refers to column {position!r} of {len(names)}")
            found.append(names[position])
        return tuple(found)

    def error(self, problem: str) -> Exception:
        """Return the error for something in this node."""
        return invalid_plan(f"node {self.id} ({self.kind}): {problem}")


@dataclass(frozen=True)
class CompiledPlan:
    """A plan: the Flink release that compiled it, and its nodes."""

    flink_version: str
    nodes: Sequence[PlanNode]
