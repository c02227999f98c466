"""``stateproc offsets``: print where the sources of a snapshot continue."""

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
from stateproc.connectors.connector_format import WHOLE_SOURCE
from stateproc.reports.source_positions import consumers, sorted_positions, unknown_sources

_OPTIONAL = ("phase", "stops_at")
"""Columns that are left out where no row has a value."""


def offsets_command(arguments: Namespace) -> int:
    """Print the positions, sorted by operator and split; return the exit status."""
    snapshot = open_snapshot(arguments)
    rows = sorted_positions(snapshot.operators)
    unknown = unknown_sources(snapshot.operators)
    if unknown:
        print(
            f"{', '.join(unknown)}: splits of a connector that is not known\n  → stateproc read {arguments.path} --uid "
            f"{unknown[0]} --operator-state SourceReaderState shows their bytes",
            file=sys.stderr,
        )
    if not rows:
        if not unknown:
            print(
                f"no source positions in this snapshot: no operator has the state of a source that is known\n  → "
                f"stateproc inspect {arguments.path} lists its states",
                file=sys.stderr,
            )
        return NO
    if arguments.json:
        for row in rows:
            print(json.dumps(row, ensure_ascii=False))
        return YES
    show(_table(rows))
    old = consumers(snapshot.operators)
    if old:
        print(
            f"{', '.join(old)}: FlinkKafkaConsumer, whose state holds the last record read (offset - 1)",
            file=sys.stderr,
        )
    return YES


def _table(rows: list[dict[str, Any]]) -> Table:
    shown = [name for name in _OPTIONAL if any(row[name] is not None for row in rows)]
    names = ("operator", "source", "split", "position", *(name.replace("_", " ") for name in shown))
    table = text_table(*names, numbers=("subtask",))
    for row in rows:
        nobody = Text("–" if row["split"] in WHOLE_SOURCE else "not assigned", "dim")
        subtask = nobody if row["subtask"] is None else Text(str(row["subtask"]))
        position = Text(f"{row['kind']} ", "dim") + Text("–" if row["position"] is None else row["position"], "bold")
        more = [Text("–" if row[name] is None else row[name]) for name in shown]
        table.add_row(Text(row["operator"]), Text(row["connector"]), Text(row["split"]), position, *more, subtask)
    return table
