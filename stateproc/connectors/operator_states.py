"""Decode the values of operator states that sources and sinks keep, as columns of a known connector format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from stateproc.connectors.connector_format import (
    UNVERSIONED,
    VERSIONED_TYPE,
    ConnectorFormat,
    FormatRole,
    FormatRow,
    Versioned,
    read_versioned,
    read_versioned_list,
    unwrap,
)
from stateproc.connectors.iceberg import MANIFESTS as _MANIFESTS
from stateproc.connectors.registry import formats_of
from stateproc.errors import CorruptSnapshot
from stateproc.wire.cursor import Cursor

# Decode the committables that a sink's committer (FLIP-143, FLIP-191) keeps until their commit.

_VersionedItems = Sequence[Versioned | None]

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


@dataclass(frozen=True)
class Decoded:
    """Values of an operator state in the format that all of them have.

    Attributes:
        rows: a row per value, None for null.
    """

    format: ConnectorFormat
    rows: list[FormatRow | None]


@dataclass(frozen=True)
class Committers:
    """Elements of Flink's committers.

    Attributes:
        rows: per element its version and committables, None for null.
        format: the format of all committables, None if it is not known or there are none.
    """

    rows: list[FormatRow | None]
    format: ConnectorFormat | None


def read_committers(items: _VersionedItems) -> Committers | None:
    """Decode elements of `streaming_committer_raw_states`: version, and committables with the columns of their format.

    Returns:
        The committers, or None if the elements have another format: other committers use the state's name, too.
    """
    try:
        rows = [None if item is None else read_committer(item) for item in items]
    except CorruptSnapshot:
        return None
    requests = [request for row in rows if row is not None for request in row["committables"]]
    decoded = decoded_items(FormatRole.COMMITTABLE, [Versioned(row["version"], row["payload"]) for row in requests])
    if decoded is None:
        return Committers(rows, None)
    for request, columns in zip(requests, decoded.rows, strict=True):
        assert columns is not None
        # The committable's own columns of these names are the same, or are said by the committer.
        request.update({name: value for name, value in columns.items() if name not in request})
    return Committers(rows, decoded.format)


def committer_columns(items: _VersionedItems) -> pa.Array | None:
    """Decode elements of `streaming_committer_raw_states` to structs of the version and the list of committables.

    Returns:
        The structs, or None if they have no known format.
    """
    committers = read_committers(items)
    if committers is None:
        return _columns(decoded_items(FormatRole.COMMITTER, items))
    fields = list(_REQUEST_TYPE)
    if committers.format is not None:
        fields += [field for field in committers.format.arrow_type if field.name not in _REQUEST_TYPE.names]
    return pa.array(
        committers.rows, pa.struct([("version", pa.int32()), ("committables", pa.list_(pa.struct(fields)))])
    )


def decoded_items(role: FormatRole, items: _VersionedItems) -> Decoded | None:
    """Decode by the first format of a role that all items have."""
    present = [item for item in items if item is not None]
    if not present:
        return None
    for known in formats_of(role):
        rows = known.read_all(present)
        if rows is not None:
            following = iter(rows)
            return Decoded(known, [None if item is None else next(following) for item in items])
    return None


def _columns(decoded: Decoded | None) -> pa.Array | None:
    if decoded is None:
        return None
    rows = [row for row in decoded.rows if row is not None]
    return pa.array(decoded.rows, decoded.format.type_of(rows))


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


Values: TypeAlias = pa.Array | pa.ChunkedArray | Sequence[Any]


def connector_columns(state_name: str, values: Values) -> pa.StructArray | None:
    """Decode the values of a connector's operator state to a struct array of equal length.

    Values of no known connector format become their version and payload.

    Args:
        state_name: the name of the operator state; see `CONNECTOR_STATES`.
        values: one per element: bytes, or what the state's own type gives.

    Returns:
        The columns, or None if the state is no connector state or one of its values holds no versioned bytes: then the
        bytes are all that is known.
    """
    state = CONNECTOR_STATES.get(state_name)
    if state is None:
        return None
    plain = values.to_pylist() if isinstance(values, pa.Array | pa.ChunkedArray) else list(values)
    if state.columns is not None:
        return state.columns(plain)
    items = versioned_items(state_name, plain)
    if items is None:
        return None
    known = committer_columns(items) if state.role is None else _columns(decoded_items(state.role, items))
    if known is None and state.versioned:
        rows = [None if item is None else {"version": item.version, "payload": item.payload} for item in items]
        known = pa.array(rows, VERSIONED_TYPE)
    return known


def versioned_items(state_name: str, values: Sequence[bytes | None]) -> list[Versioned | None] | None:
    """Return the versioned bytes of a state's elements, None if one of them is something else."""
    if not CONNECTOR_STATES[state_name].versioned:
        return [None if value is None else Versioned(UNVERSIONED, value) for value in values]
    try:
        return [None if value is None else unwrap(value) for value in values]
    except CorruptSnapshot:
        return None


def decoded_elements(state_name: str, values: Sequence[bytes | None]) -> Decoded | None:
    """Decode the elements of a state other than a committer's; None if their format is not known."""
    items = versioned_items(state_name, values)
    role = CONNECTOR_STATES[state_name].role
    return None if items is None or role is None else decoded_items(role, items)


_CHECKPOINTS = pa.list_(pa.struct([("checkpoint_id", pa.int64()), *_MANIFESTS.arrow_type]))


def manifests_by_checkpoint(value: Sequence[tuple[int, bytes]]) -> list[FormatRow] | None:
    """Decode an element of `iceberg-files-committer-state`; None if a value of it has another format."""
    rows = []
    for checkpoint_id, data in value:
        try:
            item = unwrap(data)
        except CorruptSnapshot:
            return None
        row = _MANIFESTS.read(item)
        if row is None:
            return None
        rows.append({"checkpoint_id": checkpoint_id, **row})
    return rows


def _iceberg_columns(values: Sequence[Any]) -> pa.Array | None:
    rows: list[FormatRow | None] = []
    for value in values:
        checkpoints = None if value is None else manifests_by_checkpoint(value)
        if value is not None and checkpoints is None:
            return None
        rows.append(None if value is None else {"checkpoints": checkpoints})
    return pa.array(rows, pa.struct([("checkpoints", _CHECKPOINTS)]))


@dataclass(frozen=True)
class ConnectorState:
    """An operator state that connectors use.

    Attributes:
        role: what its elements are; None: committers.
        value_type: the type of its elements, as the state declares it.
        versioned: whether the bytes begin with a version.
        columns: what decodes elements of another type than bytes.
    """

    role: FormatRole | None
    value_type: str = "byte[]"
    versioned: bool = True
    columns: Callable[[Sequence[Any]], pa.Array | None] | None = None


SOURCE_STATE, COMMITTER_STATE = "SourceReaderState", "streaming_committer_raw_states"
ICEBERG_STATE = "iceberg-files-committer-state"
CONNECTOR_STATES: dict[str, ConnectorState] = {
    SOURCE_STATE: ConnectorState(FormatRole.SPLIT),
    "writer_raw_states": ConnectorState(FormatRole.WRITER),
    "bucket-states": ConnectorState(FormatRole.WRITER),
    COMMITTER_STATE: ConnectorState(None),
    "remaining_compact_commit_raw_state": ConnectorState(FormatRole.COMMITTABLE),
    "remaining_requests_raw_state": ConnectorState(FormatRole.COMPACTION),
    "offset-states": ConnectorState(FormatRole.LEGACY_OFFSETS, versioned=False),
    ICEBERG_STATE: ConnectorState(FormatRole.MANIFESTS, "SortedMap<Long, byte[]>", columns=_iceberg_columns),
}
"""Operator state name → what connectors keep in it."""


# Decode the state of operator coordinators of FLIP-27 sources: the enumerator's checkpoint.

_SERDE_VERSIONS = (0, 1)


def read_coordinator(data: bytes, file: str = "<bytes>", *, connector: str | None = None) -> dict[str, Any]:
    """Decode the state of an operator coordinator.

    Args:
        data: the coordinator's state. Only that of sources is decoded.
        file: the file's name for errors.
        connector: the name of the format of the readers' splits, which distinguishes enumerators that
            do not identify themselves, such as those without splits.

    Returns:
        ``kind``: "source" (SourceCoordinatorSerdeUtils) or "bytes", then with ``data`` only. A source has
        ``serde_version``, ``enumerator_version`` and ``enumerator`` (bytes), ``format`` and ``decoded`` (None if the
        enumerator's format is not known), and ``assignments``: the bytes that serde version 0 wrote after it.
    """
    found = source_coordinator(data, file)
    if found is None:
        return {"kind": "bytes", "data": bytes(data)}
    name, decoded = _decode(found.enumerator, connector)
    return {
        "kind": "source",
        "serde_version": found.serde_version,
        "enumerator_version": found.enumerator.version,
        "enumerator": found.enumerator.payload,
        "format": name,
        "decoded": decoded,
        "assignments": found.assignments,
    }


@dataclass(frozen=True)
class SourceCoordinator:
    """The state of a source's coordinator. ``assignments``: what serde version 0 wrote after the enumerator's."""

    serde_version: int
    enumerator: Versioned
    assignments: bytes


def source_coordinator(data: bytes, file: str = "<bytes>") -> SourceCoordinator | None:
    """Read the state of a source's coordinator; None if it is that of another operator."""
    cursor = Cursor(data, file=file)
    try:
        serde_version = cursor.i32()
        if serde_version not in _SERDE_VERSIONS:
            return None
        enumerator = read_versioned(cursor)
        rest = bytes(cursor.take(cursor.remaining)) if serde_version == 0 else b""
        cursor.finish("the enumerator's checkpoint")
    except CorruptSnapshot:
        return None
    return SourceCoordinator(serde_version, enumerator, rest)


def reader_connector(values: Sequence[bytes | None]) -> str | None:
    """Return the name of the format of elements of `SourceReaderState`, None if it is not known."""
    decoded = decoded_elements(SOURCE_STATE, values)
    return None if decoded is None else decoded.format.name


def _decode(enumerator: Versioned, connector: str | None) -> tuple[str | None, dict[str, Any] | None]:
    found = enumerator_format(enumerator, connector)
    return (None, None) if found is None else (found[0].name, found[0].shown(found[1]))


def read_enumerator(data: bytes | None, connector: str | None) -> tuple[ConnectorFormat, FormatRow] | None:
    """Return the format and the row of the enumerator in a coordinator's state; None if it is not known."""
    found = None if data is None else source_coordinator(data)
    return None if found is None else enumerator_format(found.enumerator, connector)


def likely_enumerator(data: bytes) -> tuple[ConnectorFormat, FormatRow] | None:
    """Return the only format that accepts an enumerator that does not identify itself; None if not one does."""
    coordinator = source_coordinator(data)
    if coordinator is None:
        return None
    rows = [(known, known.read(coordinator.enumerator)) for known in formats_of(FormatRole.ENUMERATOR)]
    found = [(known, row) for known, row in rows if row is not None]
    return found[0] if len(found) == 1 else None


def enumerator_format(enumerator: Versioned, connector: str | None) -> tuple[ConnectorFormat, FormatRow] | None:
    """Return the format of an enumerator and its row; see `read_coordinator`."""
    for known in formats_of(FormatRole.ENUMERATOR):
        row = known.read(enumerator)
        if row is not None and (known.identifies(row) or known.name == connector):
            return known, row
    return None
