"""Show what differs between two snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stateproc.cli.render.bars import human_bytes
from stateproc.cli.render.rows_table import cell
from stateproc.diff.change_rows import KEY_COLUMNS, ChangeCounts
from stateproc.diff.snapshot_diff import OperatorDifference, SnapshotComparison, StateDifference
from stateproc.diff.structure import PropertyChange

_MARKS = {
    "added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow"), "equal": ("=", "dim"),
    "not comparable": ("?", "magenta"), "unreadable": ("!", "bold red"),
    "insert": ("+", "green"), "delete": ("-", "red"), "update": ("~", "yellow"),
}  # fmt: skip
_LONGEST = 300


def diff_view(
    found: SnapshotComparison,
    shown: Mapping[tuple[str, str], Sequence[dict[str, Any]]],
    kinds: tuple[str, str],
    *,
    summary: bool = False,
) -> Group:
    """Return a comparison as something that rich can print.

    Args:
        found: The comparison.
        shown: The changes to be shown, by operator id and state.
        kinds: What the two snapshots are.
        summary: One line per operator.
    """
    parts: list[RenderableType] = [
        Text.assemble(("- ", "red"), (kinds[0], "dim"), f"  {found.left}"),
        Text.assemble(("+ ", "green"), (kinds[1], "dim"), f"  {found.right}"),
    ]
    if summary:
        parts += [Text(), _summary(found)]
    else:
        for operator in found.operators:
            parts += _operator(operator, shown)
        parts += _equal_operators(found)
    parts += [Text(), _verdict(found)]
    return Group(*parts)


def _mark(status: str) -> Text:
    sign, style = _MARKS[status]
    return Text(sign, style)


def _heading(operator: OperatorDifference) -> Text:
    text = _mark(operator.status) + Text(f" {operator.display}", "bold")
    if operator.name and operator.name != operator.uid:
        text.append(f"  {operator.name}", "italic")
    if operator.status in ("added", "removed"):
        text.append(f"  {operator.status}", _MARKS[operator.status][1])
    return text


def _is_shown(operator: OperatorDifference) -> bool:
    states = any(state.status != "equal" or state.properties for state in operator.states)
    return bool(operator.is_different or operator.properties or operator.problems or states)


def _operator(
    operator: OperatorDifference, shown: Mapping[tuple[str, str], Sequence[dict[str, Any]]]
) -> list[RenderableType]:
    if not _is_shown(operator):
        return []
    lines: list[RenderableType] = [_property(item) for item in operator.properties]
    lines += [Text(f"! {problem}", "red") for problem in operator.problems]
    states = [state for state in operator.states if state.status != "equal" or state.properties]
    if states:
        lines.append(_states(states))
    for state in states:
        lines += _state_lines(state)
        changes = shown.get((operator.operator_id, state.name))
        if changes:
            lines.append(_changes(state, changes))
    equal = len(operator.states) - len(states)
    if equal and operator.states:
        lines.append(Text(f"{_counted(equal, 'state')} equal", "dim"))
    return [Text(), _heading(operator), Padding(Group(*lines), (0, 0, 0, 2))]


def _states(states: Sequence[StateDifference]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    table.add_column("state", style="bold", overflow="fold")
    table.add_column("kind", style="dim", no_wrap=True)
    for heading in ("added", "removed", "changed", "equal", "bytes"):
        table.add_column(heading, justify="right", no_wrap=True)
    for state in states:
        kind = "" if state.kind == state.name else state.kind
        table.add_row(_mark(state.status), cell(state.name), kind, *_numbers(state.counts))
    return table


def _numbers(counts: ChangeCounts | None) -> list[Text]:
    if counts is None:
        return [Text("–", "dim")] * 5
    changes = ((counts.inserted, "+", "green"), (counts.deleted, "-", "red"), (counts.updated, "~", "yellow"))
    found = [Text(f"{sign}{number:,}", style) if number else Text("0", "dim") for number, sign, style in changes]
    found.append(Text(f"{counts.equal:,}"))
    if counts.left_bytes is None or counts.right_bytes is None:
        return [*found, Text("–", "dim")]
    before, after = human_bytes(counts.left_bytes), human_bytes(counts.right_bytes)
    return [*found, Text(after if before == after else f"{before} → {after}")]


def _property(item: PropertyChange) -> Text:
    if item.left is None and item.right is None:
        return Text(f"{item.name} differs", "dim")
    text = Text(f"{item.name}: ", "dim" if item.layout else "yellow")
    text.append(_short(item.left), "red")
    text.append(" → ")
    text.append(_short(item.right), "green")
    return text


def _short(value: Any) -> str:
    text = "none" if value is None else "yes" if value is True else "no" if value is False else str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _state_lines(state: StateDifference) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for item in state.properties:
        lines.append(Text(f"{state.name}  ", "bold") + _property(item))
    if state.problem is not None:
        lines.append(Text(f"{state.name}  ", "bold") + Text(str(state.problem), "red"))
    return lines


def _changes(state: StateDifference, changes: Sequence[dict[str, Any]]) -> Table:
    counts = state.counts
    rest = 0 if counts is None else counts.changed - len(changes)
    caption = f"{rest:,} more in {state.name}" if rest else None
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, title=Text(state.name, "bold"), title_justify="left",
        caption=caption, caption_justify="left", caption_style="dim",
    )  # fmt: skip
    # Timers and elements of operator states have no value besides what identifies them.
    names = [name for name in changes[0] if name in ("change", *KEY_COLUMNS) or any(item[name] for item in changes)]
    for name in names:
        style = {"before": "red", "after": "green"}.get(name, "")
        table.add_column("" if name == "change" else name, style=style, overflow="fold")
    for change in changes:
        table.add_row(_mark(change["change"]), *(_value(change[name]) for name in names[1:]))
    return table


def _value(value: Any) -> Text:
    return Text('""', "dim") if value == "" else cell(value)


def _equal_operators(found: SnapshotComparison) -> list[RenderableType]:
    equal = [operator for operator in found.operators if not _is_shown(operator)]
    if not equal or len(equal) == len(found.operators):
        return []
    return [Text(), Text(f"= {_counted(len(equal), 'operator')} equal", "dim")]


def _summary(found: SnapshotComparison) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("", "operator"):
        table.add_column(name, overflow="fold")
    table.add_column("states", no_wrap=True)
    for name in ("added", "removed", "changed", "equal"):
        table.add_column(name, justify="right")
    for operator in found.operators:
        total, differing = ChangeCounts(), 0
        for state in operator.states:
            total += state.counts or ChangeCounts()
            differing += state.status != "equal"
        states = f"{differing} of {len(operator.states)} differ" if operator.states else "–"
        table.add_row(_mark(operator.status), Text(operator.display, "bold"), states, *_numbers(total)[:4])
    return table


def _verdict(found: SnapshotComparison) -> Text:
    total = found.counts
    if found.equal:
        return Text(f"equal: {_counted(total.right, 'entry', 'entries')} in {_states_of(found)}", "bold green")
    numbers = f"{total.inserted:,} added, {total.deleted:,} removed, {total.updated:,} changed, {total.equal:,} equal"
    if found.is_readable:
        return Text(f"different: {numbers}", "bold yellow")
    failed = sum(state.status == "unreadable" for operator in found.operators for state in operator.states)
    text = f"not everything could be read ({_counted(failed, 'state')}); of the rest: {numbers}"
    return Text(text, "bold red")


def _states_of(found: SnapshotComparison) -> str:
    states = sum(len(operator.states) for operator in found.operators)
    return f"{_counted(states, 'state')} of {_counted(len(found.operators), 'operator')}"


def _counted(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
