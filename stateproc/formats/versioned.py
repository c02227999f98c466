"""SimpleVersionedSerialization: a version, then the bytes that some SimpleVersionedSerializer wrote."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from stateproc.wire.cursor import Cursor


@dataclass(frozen=True)
class Versioned:
    """The bytes of one object and the version of the serializer that wrote them; its class is not stored."""

    version: int
    payload: bytes


VERSIONED_TYPE = pa.struct([("version", pa.int32()), ("payload", pa.binary())])


def read_versioned(cursor: Cursor) -> Versioned:
    """i32 version, bytes32 (writeVersionAndSerialize). Versions are never negative."""
    return Versioned(read_version(cursor), cursor.bytes32())


def read_versioned_list(cursor: Cursor) -> list[Versioned]:
    """i32 version, i32 n, n x bytes32 (writeVersionAndSerializeList)."""
    version = read_version(cursor)
    return [Versioned(version, cursor.bytes32()) for _ in range(cursor.count("versioned items", 4))]


def read_version(cursor: Cursor) -> int:
    at = cursor.pos
    version = cursor.i32()
    if version < 0:
        cursor.corrupt(f"negative serializer version {version}", at=at)
    return version


def unwrap(data: bytes, *, file: str = "<bytes>") -> Versioned:
    """The versioned bytes that ``data`` is wholly made of. Raises CorruptSnapshot if it is not."""
    cursor = Cursor(data, file=file)
    versioned = read_versioned(cursor)
    cursor.finish("versioned bytes")
    return versioned
