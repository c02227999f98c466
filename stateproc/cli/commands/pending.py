"""``stateproc pending``: print what the sinks of a snapshot have written and not committed."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from typing import Any

from rich.table import Table
from rich.text import Text

from stateproc.cli.arguments import open_snapshot
from stateproc.cli.exit_status import NO, YES
from stateproc.cli.terminal import show, text_table
from stateproc.reports.pending import sorted_pending, summary

_NUMBERS = ("bytes", "rows")


def pending_command(arguments: Namespace) -> int:
    """Print what is pending, sorted by operator, checkpoint and name; return the exit status."""
    rows = sorted_pending(open_snapshot(arguments).operators)
    if not rows:
        print(
            "nothing is pending in this snapshot: no sink has written something that is not committed\n  → "
            f"stateproc inspect {arguments.path} lists its states",
            file=sys.stderr,
        )
        return NO
    if arguments.json:
        for row in rows:
            print(json.dumps(row, ensure_ascii=False))
        return YES
    show(_table(rows))
    print(f"{summary(rows)}\n  → a job that restores this snapshot commits what is to commit")
    return YES


def _table(rows: list[dict[str, Any]]) -> Table:
    table = text_table("operator", "sink", numbers=("checkpoint",))
    for name in ("status", "what"):
        table.add_column(name, overflow="fold")
    numbers = [name for name in _NUMBERS if any(row[name] is not None for row in rows)]
    for name in numbers:
        table.add_column(name, justify="right")
    for row in rows:
        what = Text(f"{row['kind']} ", "dim") + Text(row["name"], "bold")
        for name in ("temporary", "upload_id"):
            if row[name] is not None:
                what += Text(f"\n{name.replace('_', ' ')} {row[name]}", "dim")
        table.add_row(
            Text(row["operator"]),
            Text(row["connector"] or "not known"),
            Text("–" if row["checkpoint_id"] is None else str(row["checkpoint_id"])),
            Text(row["status"]),
            what,
            *(Text("–" if row[name] is None else f"{row[name]:,}") for name in numbers),
        )
    return table
