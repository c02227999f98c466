"""Show the report of ``inspect --rocksdb``: per operator a table of its states."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stateproc.cli.render.bars import human_bytes

_MOSTLY_DEAD = 0.5
_LEFT_ALIGNED = ("files", "compression", "keys from", "to")
_COLUMNS = ("files", "bytes", "entries", "deleted", "operands", "raw", "live", "compression", "keys from", "to")
_DATE = len("2026-01-31")


def rocksdb_view(report: dict[str, Any]) -> Group:
    """Return the report as something that rich can print."""
    parts: list[RenderableType] = [_head(report)]
    for operator in report["operators"]:
        title = Text(operator["uid"] or operator["uid_hash"], "bold")
        name = operator["name"] or operator["label"]
        if name and name != operator["uid"]:
            title.append(f"  {name}", "italic")
        lines: list[RenderableType] = []
        if operator["states"]:
            lines.append(_states(operator["states"], compared=report["since"] is not None))
        lines += [Text.assemble(("✗ ", "red"), problem) for problem in operator["problems"]]
        parts += [Text(), title, Padding(Group(*lines), (0, 0, 0, 2))]
    return Group(*parts)


def _head(report: dict[str, Any]) -> Text:
    text = Text.assemble((f"checkpoint {report['checkpoint_id']}", "bold"), f"  {report['path']}")
    if report["since"] is not None:
        text.append(f"\nsince {report['since_checkpoint_id']}  {report['since']}")
    return text


def _states(states: list[dict[str, Any]], *, compared: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    table.add_column("state", overflow="fold")
    for name in (*(("new",) if compared else ()), *_COLUMNS):
        table.add_column(name, justify="left" if name in _LEFT_ALIGNED else "right", no_wrap=True)
    for state in states:
        new = [_new(state)] if compared else []
        table.add_row(Text(state["state"], "bold"), *new, *_cells(state))
    return table


def _new(state: dict[str, Any]) -> Text:
    if not state["new_files"]:
        return Text("–", "dim")
    return Text(f"{state['new_files']:,}, {human_bytes(state['new_bytes'])}", "yellow")


def _cells(state: dict[str, Any]) -> list[Text]:
    deleted = f"{state['deletions']:,}"
    if state["range_deletions"]:
        deleted += f" + {state['range_deletions']:,} ranges"
    live = state["live_ratio"]
    return [
        _files(state),
        Text(human_bytes(state["bytes"])),
        Text(f"{state['entries']:,}"),
        Text(deleted),
        Text(f"{state['merge_operands']:,}"),
        Text(human_bytes(state["raw_key_bytes"] + state["raw_value_bytes"])),
        Text("–") if live is None else Text(f"{live:.0%}", "green" if live > _MOSTLY_DEAD else "red"),
        Text(", ".join(state["compressions"]) or "–"),
        Text((state["oldest_key_time"] or "–")[:_DATE]),
        Text((state["newest_key_time"] or "–")[:_DATE]),
    ]


def _files(state: dict[str, Any]) -> Text:
    """Return the number of files, in all and per level."""
    text = Text(f"{state['files']:,}")
    levels = " ".join(f"L{level}:{files}" for level, files in state["levels"].items())
    return text.append(f"  {levels}", "dim") if levels else text
