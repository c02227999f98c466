"""Decode the state of operator coordinators of FLIP-27 sources: the enumerator's checkpoint."""

from __future__ import annotations

from typing import Any

from stateproc.connectors.connector_format import FormatRole, Versioned, read_versioned
from stateproc.connectors.registry import formats_of
from stateproc.errors import CorruptSnapshot
from stateproc.wire.cursor import Cursor

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
