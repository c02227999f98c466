"""Decode the values of operator states that sources and sinks keep, as columns of a known connector format."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from stateproc.errors import CorruptSnapshot
from stateproc.formats.connector_format import FormatRole
from stateproc.formats.registry import formats_of
from stateproc.formats.sinks import committer_columns
from stateproc.formats.versioned import VERSIONED_TYPE, Versioned, unwrap

_VersionedItems = Sequence[Versioned | None]


def connector_columns(
    state_name: str, values: pa.Array | pa.ChunkedArray | Sequence[bytes | None]
) -> pa.StructArray | None:
    """Decode the values of a connector's operator state to a struct array of equal length.

    Values of no known connector format become their version and payload.

    Args:
        state_name: the name of the operator state; see `CONNECTOR_STATES`.
        values: byte arrays, one per element.

    Returns:
        The columns, or None if the state is no connector state or one of its values holds no versioned bytes: then the
        bytes are all that is known.
    """
    if state_name not in CONNECTOR_STATES:
        return None
    plain = values.to_pylist() if isinstance(values, pa.Array | pa.ChunkedArray) else values
    try:
        items = [None if value is None else unwrap(value) for value in plain]
    except CorruptSnapshot:
        return None
    known = CONNECTOR_STATES[state_name](items) if any(item is not None for item in items) else None
    return _version_and_payload(items) if known is None else known


def _first_format(role: FormatRole) -> Callable[[_VersionedItems], pa.Array | None]:
    """Return a function that gives the columns of the first format that all items have."""

    def columns(items: _VersionedItems) -> pa.Array | None:
        for known in formats_of(role):
            rows = known.read_all(item for item in items if item is not None)
            if rows is not None:
                following = iter(rows)
                return pa.array([None if item is None else next(following) for item in items], known.arrow_type)
        return None

    return columns


def _version_and_payload(items: _VersionedItems) -> pa.Array:
    rows = [None if item is None else {"version": item.version, "payload": item.payload} for item in items]
    return pa.array(rows, VERSIONED_TYPE)


CONNECTOR_STATES: dict[str, Callable[[_VersionedItems], pa.Array | None]] = {
    "SourceReaderState": _first_format(FormatRole.SPLIT),
    "writer_raw_states": _first_format(FormatRole.WRITER),
    "streaming_committer_raw_states": committer_columns,
}
"""Operator state name → the columns of its versioned values, or None if they have no known format."""
