"""Decode the values of operator states that sources and sinks keep, as columns of a known connector format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from stateproc.connectors.connector_format import (
    VERSIONED_TYPE,
    FormatRole,
    FormatRow,
    Versioned,
    read_versioned,
    read_versioned_list,
    unwrap,
)
from stateproc.connectors.registry import formats_of
from stateproc.errors import CorruptSnapshot
from stateproc.wire.cursor import Cursor

# Decode the committables that a sink's committer (FLIP-143, FLIP-191) keeps until their commit.

MAGIC = 0xB91F252C
REQUEST_STATES = ("RECEIVED", "RETRY", "FAILED", "COMMITTED")
"""CommitRequestState, by ordinal."""

_NEWEST_CHECKPOINT_VERSION, _NEWEST_SUBTASK_VERSION = 1, 2

_REQUEST_TYPE = pa.struct(
    [
        ("checkpoint_id", pa.int64()),
        ("subtask", pa.int32()),
        ("retries", pa.int32()),
        ("request_state", pa.string()),
        *VERSIONED_TYPE,
    ]
)


def committer_columns(items: Sequence[Versioned | None]) -> pa.Array | None:
    """Decode elements of `streaming_committer_raw_states` to structs of the version and the list of committables.

    Committables of a known format have its columns besides ``version`` and ``payload``.

    Returns:
        The structs, or None if the elements have another format: other committers use the state's name, too.
    """
    try:
        rows = [None if item is None else read_committer(item) for item in items]
    except CorruptSnapshot:
        return None
    requests = [request for row in rows if row is not None for request in row["committables"]]
    payloads = [Versioned(request["version"], request["payload"]) for request in requests]
    request_type = _REQUEST_TYPE
    for known in formats_of(FormatRole.COMMITTABLE):
        decoded = known.read_all(payloads) if payloads else None
        if decoded is not None:
            request_type = pa.struct([*_REQUEST_TYPE, *known.arrow_type])
            for request, columns in zip(requests, decoded, strict=True):
                request.update(columns)
            break
    return pa.array(rows, pa.struct([("version", pa.int32()), ("committables", pa.list_(request_type))]))


def read_committer(item: Versioned) -> FormatRow:
    """Read what CommittableCollectorSerializer (version 2, since 1.15) or StreamingCommitterStateSerializer (1) writes.

    Raises:
        CorruptSnapshot: ``item`` has another format.
    """
    cursor = Cursor(item.payload)
    if cursor.i32() & 0xFFFFFFFF != MAGIC:
        cursor.corrupt("no committer state: its magic number is missing", at=0)
    if item.version == 1:
        requests = [_request(committable) for committable in read_versioned_list(cursor)]
    elif item.version == 2:
        requests = [request for checkpoint in read_versioned_list(cursor) for request in _read_checkpoint(checkpoint)]
    else:
        cursor.corrupt(f"committer state of version {item.version}", at=0)
    cursor.finish("the committer's state")
    return {"version": item.version, "committables": requests}


def _read_checkpoint(item: Versioned) -> list[FormatRow]:
    cursor = _known(item, _NEWEST_CHECKPOINT_VERSION)
    checkpoint_id = cursor.i64()
    if item.version >= 1:
        cursor.i32()  # number of subtasks
    requests = [
        {**request, "checkpoint_id": checkpoint_id}
        for subtask in read_versioned_list(cursor)
        for request in _read_subtask(subtask)
    ]
    cursor.finish("a checkpoint's committables")
    return requests


def _read_subtask(item: Versioned) -> list[FormatRow]:
    cursor = _known(item, _NEWEST_SUBTASK_VERSION)
    subtask = cursor.i32() if item.version >= 1 else None
    requests = [{**_read_request(request), "subtask": subtask} for request in read_versioned_list(cursor)]
    # Counts of committables, drained (not since version 2) and failed.
    cursor.take(8 if item.version >= 2 else 12)
    cursor.finish("a subtask's committables")
    return requests


def _read_request(item: Versioned) -> FormatRow:
    cursor = _known(item, 0)
    committable = read_versioned(cursor)
    retries, state = cursor.i32(), cursor.i32()
    if not 0 <= state < len(REQUEST_STATES):
        cursor.corrupt(f"commit request state {state}")
    cursor.finish("a commit request")
    return {**_request(committable), "retries": retries, "request_state": REQUEST_STATES[state]}


def _request(committable: Versioned) -> FormatRow:
    return {"version": committable.version, "payload": committable.payload}


def _known(item: Versioned, newest: int) -> Cursor:
    cursor = Cursor(item.payload)
    if item.version > newest:
        cursor.corrupt(f"committables of version {item.version}, where {newest} is the newest known")
    return cursor


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


# Decode the state of operator coordinators of FLIP-27 sources: the enumerator's checkpoint.

_SERDE_VERSIONS = (0, 1)


def read_coordinator(data: bytes, file: str = "<bytes>") -> dict[str, Any]:
    """Decode the state of an operator coordinator.

    Args:
        data: the coordinator's state. Only that of sources is decoded.
        file: the file's name for errors.

    Returns:
        ``kind``: "source" (SourceCoordinatorSerdeUtils) or "bytes", then with ``data`` only. A source has
        ``serde_version``, ``enumerator_version`` and ``enumerator`` (bytes), ``format`` and ``decoded`` (None if the
        enumerator's format is not known), and ``assignments``: the bytes that serde version 0 wrote after it.
    """
    cursor = Cursor(data, file=file)
    try:
        serde_version, enumerator, rest = _read_source(cursor)
    except CorruptSnapshot:
        return {"kind": "bytes", "data": bytes(data)}
    name, decoded = _decode(enumerator)
    return {
        "kind": "source",
        "serde_version": serde_version,
        "enumerator_version": enumerator.version,
        "enumerator": enumerator.payload,
        "format": name,
        "decoded": decoded,
        "assignments": rest,
    }


def _read_source(cursor: Cursor) -> tuple[int, Versioned, bytes]:
    serde_version = cursor.i32()
    if serde_version not in _SERDE_VERSIONS:
        cursor.corrupt(f"no source coordinator of serde version {serde_version}", at=0)
    enumerator = read_versioned(cursor)
    rest = bytes(cursor.take(cursor.remaining)) if serde_version == 0 else b""
    cursor.finish("the enumerator's checkpoint")
    return serde_version, enumerator, rest


def _decode(enumerator: Versioned) -> tuple[str | None, dict[str, Any] | None]:
    for known in formats_of(FormatRole.ENUMERATOR):
        row = known.read(enumerator)
        if row is not None:
            return known.name, row
    return None, None
