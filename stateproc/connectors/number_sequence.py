"""NumberSequenceSource and DataGeneratorSource: splits of a range of numbers, and the enumerator's remaining splits.

Source: SplitSerializer and CheckpointSerializer, version 1, of org.apache.flink.api.connector.source.lib.
NumberSequenceSource.
"""

from __future__ import annotations

import pyarrow as pa

from stateproc.connectors.connector_format import ConnectorFormat, FormatRole, FormatRow
from stateproc.wire.cursor import Cursor

_MIN_SPLIT_BYTES = 18


def read_split(cursor: Cursor) -> FormatRow:
    """Read a split: utf id (a decimal number), i64 next number, i64 last number (inclusive)."""
    at = cursor.pos
    split_id, start, end = cursor.utf(), cursor.i64(), cursor.i64()
    if not (split_id.isascii() and split_id.isdecimal()) or start > end:
        cursor.corrupt(f"no split of a number sequence: '{split_id[:40]}', {start} to {end}", at=at)
    return {"split_id": split_id, "from": start, "to": end}


def read_enumerator(cursor: Cursor) -> FormatRow:
    """Read the splits that no reader has yet: i32 count, splits."""
    splits = [read_split(cursor) for _ in range(cursor.count("splits", _MIN_SPLIT_BYTES))]
    # Four zero bytes could be any source's.
    if not splits:
        cursor.corrupt("no split that identifies a number sequence")
    return {"splits": splits}


_COLUMNS = pa.struct([("split_id", pa.string()), ("from", pa.int64()), ("to", pa.int64())])

SPLIT = ConnectorFormat("number sequence", FormatRole.SPLIT, _COLUMNS, {1: read_split})
ENUMERATOR = ConnectorFormat(
    "number sequence", FormatRole.ENUMERATOR, pa.struct([("splits", pa.list_(_COLUMNS))]), {1: read_enumerator}
)
