"""NumberSequenceSource and DataGeneratorSource: splits of a range of numbers, and the enumerator's remaining splits.

Source: SplitSerializer and CheckpointSerializer, version 1, of org.apache.flink.api.connector.source.lib.
NumberSequenceSource.
"""

from __future__ import annotations

from collections.abc import Iterator

from stateproc.connectors.connector_format import ConnectorFormat, FormatRole, FormatRow, Position
from stateproc.connectors.structures import I64, UTF, checked, column, listed, record

_SPLIT = checked(
    record(
        column("split_id", checked(UTF, lambda value: value.isascii() and value.isdecimal(), "the number of a split")),
        column("from", I64),
        column("to", I64),
    ),
    # A range that was read to its end begins after it.
    lambda row: row["from"] <= row["to"] + 1,
    "a split of a number sequence",
)
"""utf id (a decimal number), i64 next number, i64 last number (inclusive)."""


def _positions(row: FormatRow, *, assigned: bool = True) -> Iterator[Position]:
    yield Position(row["split_id"], "number", str(row["from"]), stops_at=str(row["to"]), assigned=assigned)


def _enumerator_positions(row: FormatRow) -> Iterator[Position]:
    for split in row["splits"]:
        yield from _positions(split, assigned=False)


SPLIT = ConnectorFormat("number sequence", FormatRole.SPLIT, {1: _SPLIT}, positions=_positions)
ENUMERATOR = ConnectorFormat(
    "number sequence",
    FormatRole.ENUMERATOR,
    {1: record(column("splits", listed(_SPLIT)))},
    positions=_enumerator_positions,
    identifies=lambda row: bool(row["splits"]),
)
"""The splits that no reader has yet."""
