"""Draw a table of operators and their states, with what a write does to each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich import box
from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from stateproc.cli.terminal import bar, sparkline, text_table
from stateproc.html.units import counted, human_bytes

_ACTION_COLORS = {"added": "green", "replaced": "yellow", "changed": "yellow", "carried over": "dim", "dropped": "red"}


def operator_table(action_heading: str, number_headings: Sequence[str], rows: Iterable[Sequence[Text]]) -> Table:
    """Return the table.

    Args:
        number_headings: The headings of the columns of numbers, which are the last ones.
        rows: The cells of each operator and of its states below it.
    """
    table = text_table("operator, state", action_heading, "changes", numbers=number_headings)
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


# Show operators in one line each: those of ``inspect --summary``, and those without state.

_BAR, _SKEW = 5, 10
_COLUMNS = ("par.", "states", "entries", "bytes", "share", "key groups", "max")
_LEFT_ALIGNED = ("share", "key groups")
_SHORT_HASH = 8
"""Digits of a hash in a list; they select the operator if no other hash begins with them."""


def short_name(operator: dict[str, Any]) -> str:
    """Return the uid, else the name or label with the beginning of the hash."""
    if operator["uid"]:
        return str(operator["uid"])
    name = operator["name"] or operator["label"]
    digits = operator["uid_hash"][:_SHORT_HASH]
    return f"{digits} {name}" if name else digits


def stateless_line(operators: Sequence[dict[str, Any]]) -> Text:
    """Return one line, cut at the width of the terminal, that names operators without state."""
    text = Text(f"{counted(len(operators), 'operator')} without state: ", "dim", no_wrap=True, overflow="ellipsis")
    return text.append(", ".join(map(short_name, operators)))


def summary_table(operators: Iterable[dict[str, Any]], total_bytes: int) -> Table:
    """Return a table of one line per operator: name, parallelism, states, entries, bytes, share and skew."""
    rows = [_cells(operator, total_bytes) for operator in operators]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    # Names are cut where the terminal is narrow, numbers are not.
    table.add_column("operator")
    for place, name in enumerate(_COLUMNS, start=1):
        width = max((row[place].cell_len for row in rows), default=0)
        justify: JustifyMethod = "left" if name in _LEFT_ALIGNED else "right"
        table.add_column(name, justify=justify, no_wrap=True, min_width=max(width, len(name)))
    for row in rows:
        table.add_row(*row)
    return table


def _cells(operator: dict[str, Any], total_bytes: int) -> list[Text]:
    share = operator["bytes"] / total_bytes if total_bytes else 0.0
    known = [state["entries"] for state in operator["states"] if state["entries"] is not None]
    # Of some states the number is not known.
    more = "+" if len(known) < len(operator["states"]) else ""
    columns, ratio = _skew(operator)
    name = Text(short_name(operator), "bold" if operator["uid"] else "")
    if operator["unreadable_states"] or operator["problems"]:
        name = Text("✗ ", "red").append_text(name)
    name.no_wrap, name.overflow = True, "ellipsis"
    return [
        name,
        Text(str(operator["parallelism"])),
        Text(str(len(operator["states"]))),
        Text(f"{sum(known):,}{more}" if known else "–"),
        Text(human_bytes(operator["bytes"])),
        Text(bar(share, _BAR), "green"),
        Text(columns, "cyan"),
        Text(ratio),
    ]


def _skew(operator: dict[str, Any]) -> tuple[str, str]:
    """Return the bytes of key groups as columns, and the largest as a multiple of the mean."""
    sizes = operator["key_group_bytes"]
    if len(sizes) < 2 or not sum(sizes.values()):
        return "", ""
    line = [sizes.get(key_group, 0) for key_group in range(operator["max_parallelism"])]
    # Native heap files have a few bytes for every key group, with or without keys.
    empty = min(line) if "heap" in operator["layouts"] else 0
    ratio = max(line) * len(sizes) / sum(line)
    return sparkline([size - empty for size in line], _SKEW), f"{ratio:.1f}×"
