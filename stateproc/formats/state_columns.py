"""Which well-known format a state's values have: decided over all of them, then opened as columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from stateproc.errors import CorruptSnapshot
from stateproc.formats import sinks, sources
from stateproc.formats.connector_format import ConnectorFormat
from stateproc.formats.versioned import VERSIONED_TYPE, Versioned, unwrap

Items = Sequence[Versioned | None]


def split_columns(
    state_name: str, values: pa.Array | pa.ChunkedArray | Sequence[bytes | None]
) -> pa.StructArray | None:
    """The values (byte arrays) of a well-known operator state as a struct array of equal length.

    `SourceReaderState`: Kafka splits as topic, partition, starting_offset, stopping_offset (see
    `stateproc.formats.kafka` for negative offsets), FileSource splits. `writer_raw_states`: Kafka writers.
    `streaming_committer_raw_states`: lists of committables. Anything else in these states becomes version and
    payload. None for other states, and if one value does not hold versioned bytes: show the plain bytes.
    """
    if state_name not in WELL_KNOWN:
        return None
    plain = values.to_pylist() if isinstance(values, pa.Array | pa.ChunkedArray) else values
    try:
        items = [None if value is None else unwrap(value) for value in plain]
    except CorruptSnapshot:
        return None
    known = WELL_KNOWN[state_name](items) if any(item is not None for item in items) else None
    return _versioned(items) if known is None else known


def _one_of(formats: Sequence[ConnectorFormat]) -> Callable[[Items], pa.Array | None]:
    """The columns of the first format that all items have."""

    def columns(items: Items) -> pa.Array | None:
        for known in formats:
            rows = known.read_all(item for item in items if item is not None)
            if rows is not None:
                following = iter(rows)
                return pa.array([None if item is None else next(following) for item in items], known.arrow_type)
        return None

    return columns


def _versioned(items: Items) -> pa.Array:
    rows = [None if item is None else {"version": item.version, "payload": item.payload} for item in items]
    return pa.array(rows, VERSIONED_TYPE)


WELL_KNOWN: dict[str, Callable[[Items], pa.Array | None]] = {
    "SourceReaderState": _one_of(sources.SPLITS),
    "writer_raw_states": _one_of(sinks.WRITERS),
    "streaming_committer_raw_states": sinks.committer_columns,
}
"""Operator state name → the columns of its versioned values, or None if they are of no known format."""
