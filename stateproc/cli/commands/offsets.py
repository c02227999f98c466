"""``stateproc offsets``: print the Kafka offsets in a snapshot."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from stateproc.cli.arguments import open_snapshot
from stateproc.cli.exit_status import NO, YES
from stateproc.connectors.kafka import COMMITTED, EARLIEST, LATEST
from stateproc.reports.kafka_offsets import consumers, kafka_offsets

_MARKERS = {LATEST: "latest", EARLIEST: "earliest", COMMITTED: "committed"}


def offsets_command(arguments: Namespace) -> int:
    """Print the offsets, sorted by operator, topic and partition; return the exit status."""
    snapshot = open_snapshot(arguments)
    rows = sorted(kafka_offsets(snapshot.operators), key=lambda row: (row["operator"], row["topic"], row["partition"]))
    if not rows:
        print(_nothing(arguments.path), file=sys.stderr)
        return NO
    if arguments.json:
        for row in rows:
            print(json.dumps(row, ensure_ascii=False))
        return YES
    from stateproc.cli.terminal import show

    show(_table(rows))
    old = consumers(snapshot.operators)
    if old:
        print(
            f"{', '.join(old)}: FlinkKafkaConsumer, whose state holds the last record read (offset - 1)",
            file=sys.stderr,
        )
    return YES


def _nothing(path: str) -> str:
    return (
        f"no Kafka offsets in this snapshot: no operator has the state of a KafkaSource or a FlinkKafkaConsumer\n  → "
        f"stateproc inspect {path} lists its states"
    )


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    for name in ("operator", "topic"):
        table.add_column(name, overflow="fold")
    for name in ("partition", "offset", "stopping at", "subtask"):
        table.add_column(name, justify="right")
    for row in rows:
        subtask = Text("not assigned", "dim") if row["subtask"] is None else Text(str(row["subtask"]))
        cells = (str(row["partition"]), _offset(row["offset"]), _offset(row["stopping_offset"]))
        table.add_row(Text(row["operator"]), Text(row["topic"], "bold"), *cells, subtask)
    return table


def _offset(offset: int | None) -> str:
    return "–" if offset is None else _MARKERS.get(offset, str(offset))
