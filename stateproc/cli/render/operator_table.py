"""Draw a table of operators and their states, with what a write does to each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

_ACTION_COLORS = {"added": "green", "replaced": "yellow", "changed": "yellow", "carried over": "dim", "dropped": "red"}


def operator_table(action_heading: str, number_headings: Sequence[str], rows: Iterable[Sequence[Text]]) -> Table:
    """Return the table.

    Args:
        action_heading: The heading of the actions.
        number_headings: The headings of the columns of numbers, which are the last ones.
        rows: The cells of each operator and of its states below it.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    for name in ("operator, state", action_heading, "changes"):
        table.add_column(name, overflow="fold")
    for name in number_headings:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def operator_cells(name: str, action: str, reasons: Sequence[str]) -> list[Text]:
    """Return the first three cells of an operator."""
    return [Text(name, "bold"), Text(action, _ACTION_COLORS[action]), Text(", ".join(reasons))]


def state_cells(
    name: str, kind: str, action: str, reasons: Sequence[str], operator_reasons: Sequence[str]
) -> list[Text]:
    """Return the first three cells of a state: of its reasons those that are not its operator's."""
    own = [reason for reason in reasons if reason not in operator_reasons]
    return [
        Text.assemble("  ", name, (f" {kind}", "dim")),
        Text(action, _ACTION_COLORS[action]),
        Text(", ".join(own)),
    ]


def restore_notes(notes: Sequence[str]) -> Iterator[Text]:
    """Yield what restoring needs, below a heading."""
    if notes:
        yield Text("\nto restore it", "bold")
    yield from (Text(f"  • {note}") for note in notes)
