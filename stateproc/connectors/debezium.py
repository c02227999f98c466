"""DebeziumSourceFunction: the CDC source of Flink 1.x before FLIP-27 (Db2, older MySQL, Postgres, Oracle).

Union state `offset-states`: the JSON that DebeziumOffsetSerializer writes, {"sourcePartition": {…}, "sourceOffset":
{…}}, without a version. Union state `history-records-states` is Debezium's history of table definitions, JSON as
String.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from stateproc.connectors.cdc_offsets import described_offset
from stateproc.connectors.connector_format import UNVERSIONED, ConnectorFormat, FormatRole, FormatRow, Position
from stateproc.connectors.structures import checked, computed_columns, hidden, record, rest

_PARTS = {"source_partition": "sourcePartition", "source_offset": "sourceOffset"}


def _parsed(data: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(data)
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        return None
    is_offset = isinstance(found, dict) and all(isinstance(found.get(key), dict) for key in _PARTS.values())
    return found if is_offset else None


def _columns(row: FormatRow) -> FormatRow:
    found = _parsed(row["json"]) or {}
    return {name: json.dumps(found.get(key), ensure_ascii=False) for name, key in _PARTS.items()}


def _positions(row: FormatRow) -> Iterator[Position]:
    partition, offset = (json.loads(row[name]) for name in _PARTS)
    texts = [(key, None if value is None else str(value)) for key, value in offset.items()]
    kind, position = described_offset(texts)
    split = ", ".join(f"{key} {value}" for key, value in partition.items())
    phase = "snapshot" if offset.get("snapshot") not in (None, False, "false", "last") else "streaming"
    yield Position(split, kind, position, phase)


OFFSETS = ConnectorFormat(
    "debezium",
    FormatRole.LEGACY_OFFSETS,
    {
        UNVERSIONED: record(
            hidden("json", checked(rest(), lambda data: _parsed(data) is not None, "an offset of Debezium")),
            computed_columns(dict.fromkeys(_PARTS, pa.string()), _columns),
        )
    },
    positions=_positions,
)
