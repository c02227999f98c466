"""``stateproc offsets``: print the Kafka offsets in a snapshot."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from stateproc.cli.arguments import open_snapshot
from stateproc.cli.exit_status import NO, YES
from stateproc.formats.kafka import COMMITTED, EARLIEST, LATEST
from stateproc.snapshot.snapshot import Snapshot
from stateproc.states.connector_state import opened_state
from stateproc.states.operator import Operator

SOURCE_STATE = "SourceReaderState"
_MARKERS = {LATEST: "latest", EARLIEST: "earliest", COMMITTED: "committed"}


def offsets_command(arguments: Namespace) -> int:
    """Print the offsets, sorted by operator, topic and partition; return the exit status."""
    snapshot = open_snapshot(arguments)
    rows = sorted(kafka_offsets(snapshot), key=lambda row: (row["operator"], row["topic"], row["partition"]))
    if not rows:
        print(_nothing(arguments.path), file=sys.stderr)
        return NO
    if arguments.json:
        for row in rows:
            print(json.dumps(row, ensure_ascii=False))
        return YES
    from stateproc.cli.render.terminal import show

    show(_table(rows))
    return YES


def _nothing(path: str) -> str:
    return (
        f"no Kafka offsets in this snapshot\n  → stateproc inspect {path} lists its states; FlinkKafkaConsumer "
        "stores them in the union state topic-partition-offset-states (stateproc read … --operator-state)"
    )


def kafka_offsets(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """Yield one row per Kafka split.

    Partitions that the coordinator has and no reader yet come without a subtask, with the offset of their enumerated
    split if there is one. Negative offsets are markers, see stateproc.formats.kafka.

    Yields:
        operator, subtask, topic, partition, offset (the first record that has not been read), stopping_offset.
    """
    for operator in snapshot.operators:
        assigned = set()
        for row in _reader_rows(operator):
            assigned.add((row["topic"], row["partition"]))
            yield row
        for row in _coordinator_rows(operator):
            if (row["topic"], row["partition"]) not in assigned:
                yield row


def _reader_rows(operator: Operator) -> Iterator[dict[str, Any]]:
    for state in operator.operator_states:
        if state.name != SOURCE_STATE:
            continue
        opened = opened_state(state)
        if "starting_offset" not in opened.schema().names:
            continue
        for item in opened.to_arrow().to_pylist():
            yield _row(operator, item, item["subtask"])


def _coordinator_rows(operator: Operator) -> Iterator[dict[str, Any]]:
    coordinator = operator.coordinator or {}
    decoded: Any = coordinator.get("decoded")
    if coordinator.get("format") != "kafka" or decoded is None:
        return
    for item in decoded["partitions"]:
        yield _row(operator, item, None)


def _row(operator: Operator, item: dict[str, Any], subtask: int | None) -> dict[str, Any]:
    return {
        "operator": operator.display,
        "topic": item["topic"],
        "partition": item["partition"],
        "offset": item["starting_offset"],
        "stopping_offset": item["stopping_offset"],
        "subtask": subtask,
    }


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
