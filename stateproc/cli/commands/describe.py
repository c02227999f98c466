"""``stateproc describe``: show the types of states in Flink, Arrow and Spark, and what conversion loses."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stateproc.cli.arguments import open_snapshot, option_values
from stateproc.cli.exit_status import YES
from stateproc.cli.terminal import print_json, show, text_table
from stateproc.compatibility.declared_job import declared_operators
from stateproc.compatibility.expected_job import expectation
from stateproc.errors import NotFound
from stateproc.html.units import counted
from stateproc.model.description import DescribedType, StateDescription
from stateproc.model.operator import Operator
from stateproc.model.state import State
from stateproc.options import SELECT_OPTIONS, Interface
from stateproc.snapshot.selection import StateSelection, select_operator, select_state


def describe_command(arguments: Namespace) -> int:
    """Print descriptions of states, as text or as JSON; return the exit status."""
    selection = StateSelection.of(option_values(arguments, SELECT_OPTIONS), Interface.CLI)
    snapshot = open_snapshot(arguments, arguments.temporal or "micros")
    if arguments.expect:
        print(expectation(declared_operators(snapshot)), end="")
        return YES
    operator = select_operator(snapshot, selection)
    described = [state.describe() for state in _states(operator, selection)]
    if arguments.json:
        report = {
            "path": snapshot.path,
            "uid": operator.uid,
            "uid_hash": operator.operator_id,
            "name": operator.name,
            "label": operator.label,
            "states": [item.to_dict() for item in described],
        }
        print_json(report)
        return YES
    show(description_view(operator, described))
    return YES


def _states(operator: Operator, selection: StateSelection) -> Sequence[State]:
    if selection.state is None and selection.timers is None and selection.operator_state is None:
        if not operator.states:
            if operator.problems:
                raise operator.problems[0]
            raise NotFound(f"operator '{operator.display}' has no states")
        return operator.states
    return (select_state(operator, selection),)


# Show descriptions of states: per state a table of its types, as a tree.

_NESTED = re.compile(r"<.*>", re.DOTALL)


def description_view(operator: Operator, states: Sequence[StateDescription]) -> Group:
    """Return the descriptions as something that rich can print."""
    title = Text(operator.uid or operator.operator_id, "bold")
    name = operator.name or operator.label
    if name and name != operator.uid:
        title.append(f"  {name}", "italic")
    if operator.uid:
        title.append(f"  {operator.operator_id}", "dim")
    parts: list[RenderableType] = [title]
    for state in states:
        lines: list[RenderableType] = [Text(_storage(state), "dim")]
        if state.types:
            lines.append(_types(state.types))
        lines += _notes(state)
        parts += [Text(), _state_line(state), Padding(Group(*lines), (0, 0, 0, 2))]
    return Group(*parts)


def _state_line(state: StateDescription) -> Text:
    kind = state.kind if state.distribution in ("keyed", "broadcast") else f"{state.distribution} {state.kind}"
    text = Text.assemble((state.name, "bold"), "  ", (kind, "cyan"))
    return text.append("  ttl", "yellow") if state.ttl else text


def _storage(state: StateDescription) -> str:
    storage = state.storage
    facts = [" and ".join(storage.layouts)] if storage.layouts else []
    facts += [f"in {counted(len(storage.subtasks), 'file')}"] if storage.subtasks else []
    facts += ["compressed with snappy"] if storage.compressed else []
    if state.distribution == "keyed":
        facts.append(counted(state.max_parallelism, "key group"))
    if storage.serializer:
        facts.append(_serializer(storage.serializer, storage.version))
    return " · ".join(facts)


def _types(nodes: Sequence[DescribedType]) -> Table:
    table = text_table("", "Flink", "serializer", "Arrow", "Spark", padding=(0, 1, 0, 0))
    for node in nodes:
        for guides, item in _rows(node):
            table.add_row(
                Text.assemble((guides, "dim"), (item.name, "bold")),
                Text(_flink_type(item)),
                Text(_serializer(item.serializer, item.version), "dim"),
                Text(_head(item, item.arrow)) if item.arrow else Text("✗", "red"),
                Text(_head(item, item.spark)) if item.spark else Text("✗", "red"),
            )
    return table


def _rows(node: DescribedType, before: str = "", guide: str = "") -> Iterator[tuple[str, DescribedType]]:
    """Yield the node and its parts, each with the lines that draw the tree."""
    yield before + guide, node
    inside = before + {"": "", "├ ": "│ ", "└ ": "  "}[guide]
    for place, part in enumerate(node.fields):
        yield from _rows(part, inside, "└ " if place == len(node.fields) - 1 else "├ ")


def _head(node: DescribedType, type_: str) -> str:
    """Return a type without those parts that are rows of their own."""
    return _NESTED.sub("<…>", type_) if node.fields else type_


def _flink_type(node: DescribedType) -> str:
    """Return the type with the package of its class."""
    if node.type.startswith("? "):
        return "unknown"
    name = node.java_class
    if name is not None and node.type.endswith(_short_class(name)):
        return node.type.removesuffix(_short_class(name)) + name
    return _head(node, node.type)


def _serializer(name: str | None, version: int | None) -> str:
    """Return a serializer's class and the version of its snapshot, e.g. ``PojoSerializer v2``."""
    if name is None:
        return ""
    # The snapshot's class is often nested in the serializer's, and then perhaps called just "Snapshot".
    short = next(part for part in reversed(re.split(r"[.$]", name)) if part != "Snapshot").removesuffix("Snapshot")
    return short if version is None else f"{short} v{version}"


def _short_class(name: str) -> str:
    """Return a class without package and enclosing class."""
    return re.split(r"[.$]", name)[-1]


def _notes(state: StateDescription) -> list[Text]:
    lines = []
    changes: dict[str, list[str]] = {}
    for node in state.types:
        for path, change in _changes(node, node.name):
            changes.setdefault(change, []).append(path)
    for change, paths in changes.items():
        lines.append(Text.assemble(("△ ", "yellow"), (", ".join(paths), "bold"), f": {change}"))
    if state.ttl:
        lines.append(Text("time to live: when a value was last used is in the column last_access", "dim"))
    if state.storage.variants > 1:
        lines.append(Text(f"its files describe it in {state.storage.variants} ways; the first is shown", "yellow"))
    if state.problem:
        lines.append(Text.assemble(("✗ ", "red"), state.problem))
    return lines


def _changes(node: DescribedType, path: str) -> Iterator[tuple[str, str]]:
    for change in node.changes:
        yield path, change
    for part in node.fields:
        yield from _changes(part, f"{path}.{part.name}")
