"""MongoSource: splits of collections, and its enumerator.

Source: MongoSourceSplitSerializer, MongoSourceEnumStateSerializer, version 0.

split         i32 1, utf id, utf database, utf collection, utf min, utf max, utf hint (JSON), i32 records read
enumerator    n x utf collection to split, n x utf collection split already, n x split, n x (utf id, assigned split),
bool initialized
"""

from __future__ import annotations

from collections.abc import Iterator

from stateproc.connectors.connector_format import ConnectorFormat, FormatRole, FormatRow, Position
from stateproc.connectors.structures import COUNT, FLAG, I32, UTF, checked, column, constant, listed, record

_JSON = checked(UTF, lambda value: value.startswith("{") and value.endswith("}"), "a JSON document")
_SPLIT = record(
    constant(I32, 1, "the kind of a scan split"),
    column("split_id", UTF),
    column("database", UTF),
    column("collection", UTF),
    column("min", _JSON),
    column("max", _JSON),
    column("hint", _JSON),
    column("offset", COUNT),
)


def _positions(row: FormatRow, *, assigned: bool = True) -> Iterator[Position]:
    yield Position(
        row["split_id"], "records read from", f"{row['min']} + {row['offset']}", stops_at=row["max"], assigned=assigned
    )


def _enumerator_positions(row: FormatRow) -> Iterator[Position]:
    for split in row["remaining_splits"]:
        yield from _positions(split, assigned=False)


def _identifies(row: FormatRow) -> bool:
    return bool(row["remaining_splits"] or row["assigned_splits"])


SPLIT = ConnectorFormat("mongodb", FormatRole.SPLIT, {0: _SPLIT}, positions=_positions)
ENUMERATOR = ConnectorFormat(
    "mongodb",
    FormatRole.ENUMERATOR,
    {
        0: record(
            column("remaining_collections", listed(UTF)),
            column("already_processed_collections", listed(UTF)),
            column("remaining_splits", listed(_SPLIT)),
            column("assigned_splits", listed(record(column("split_id", UTF), column("split", _SPLIT)))),
            column("initialized", FLAG),
        )
    },
    positions=_enumerator_positions,
    identifies=_identifies,
)
