"""``stateproc classes``: list the user classes that a snapshot mentions."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stateproc.cli.arguments import open_snapshot
from stateproc.cli.exit_status import YES
from stateproc.cli.terminal import print_json, show, text_table, without_controls
from stateproc.verification.class_mentions import (
    ClassUse,
    MentionedClass,
    Readability,
    class_skeleton,
    mentioned_classes,
    open_uses,
    outer_field_of,
)


def classes_command(arguments: Namespace) -> int:
    """Print the classes as a table or JSON, or the skeleton of their descriptions; return the exit status."""
    snapshot = open_snapshot(arguments)
    operators = [snapshot.operator(uid) for uid in arguments.uid] or list(snapshot.operators)
    found = mentioned_classes(operators)
    problems = [str(problem) for operator in operators for problem in operator.problems]
    skeleton = class_skeleton(found, outer_field=outer_field_of(operators))
    unnamed = open_uses(operators)
    if arguments.skeleton:
        print_json(skeleton)
    elif arguments.json:
        classes = [item.to_dict() for item in found]
        of_values = [use.to_dict() for use in unnamed]
        print_json(
            {
                "path": snapshot.path,
                "classes": classes,
                "skeleton": skeleton,
                "classes_in_values": of_values,
                "problems": problems,
            }
        )
    else:
        show(classes_view(found, problems, unnamed))
    return YES


# Show the user classes of a snapshot: a table, and what to do with those that cannot be read.

_COLORS = {
    Readability.READABLE: "green",
    Readability.IN_VALUES: "dim",
    Readability.IF_DESCRIBED: "yellow",
    Readability.IF_PARSED: "yellow",
    Readability.NOT: "red",
}
_MOST_USES, _OF_ID = 3, 8
_ID = re.compile(r"[0-9a-f]{32}")
_ALL_KNOWN = ": all states are of types of Java, Scala and Flink"


def classes_view(classes: Sequence[MentionedClass], problems: Sequence[str], unnamed: Sequence[ClassUse] = ()) -> Group:
    """Return the classes as something that rich can print; ``unnamed``: where values name classes that are not here."""
    parts: list[RenderableType] = []
    if classes:
        parts.append(_table(classes))
        parts += _advice(classes)
    else:
        sure = not (unnamed or problems)
        parts.append(Text(f"no user classes{_ALL_KNOWN if sure else ' in the headers of states'}"))
    if unnamed:
        shown = _uses(unnamed).replace("\n", ", ")
        text = f"values of {shown} may be of further classes: stateproc verify finds those that need a description"
        parts.append(Text.assemble(("→ ", "yellow"), without_controls(text)))
    parts += [Text.assemble(("✗ ", "red"), without_controls(problem)) for problem in problems]
    return Group(*parts)


def _table(classes: Sequence[MentionedClass]) -> Table:
    table = text_table("class")
    table.add_column("written by", no_wrap=True)
    table.add_column("where", overflow="fold")
    table.add_column("", overflow="fold")
    for item in classes:
        table.add_row(
            Text(without_controls(item.class_name), "bold"),
            item.serializer,
            Text(without_controls(_uses(item.uses), keep_lines=True), "dim"),
            Text(item.readability.value, _COLORS[item.readability]),
        )
    return table


def _uses(uses: Sequence[ClassUse]) -> str:
    shown = [f"{_operator(use.operator)}.{use.state} ({use.role})" for use in uses[:_MOST_USES]]
    more = len(uses) - len(shown)
    return "\n".join([*shown, *([f"and {more} more"] if more else [])])


def _operator(display: str) -> str:
    """Return an operator's uid, or the beginning of its id."""
    return display[:_OF_ID] + "…" if _ID.fullmatch(display) else display


def _advice(classes: Sequence[MentionedClass]) -> list[RenderableType]:
    """Return what to do, one line for all classes that need the same."""
    by_advice: dict[str, list[str]] = {}
    for item in classes:
        if item.advice and item.readability is not Readability.READABLE:
            by_advice.setdefault(item.advice, []).append(item.class_name)
    lines: list[RenderableType] = []
    for advice, names in by_advice.items():
        lines.append(Text.assemble(("→ ", "yellow"), without_controls(f"{', '.join(names)}: {advice}")))
    if any(item.readability is Readability.IF_DESCRIBED for item in classes):
        lines.append(Text("→ --skeleton prints the JSON to complete", "dim"))
    return lines
