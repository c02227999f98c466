"""Describe how a connector writes one kind of object, and recognise bytes of that kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from stateproc.errors import CorruptSnapshot
from stateproc.wire.cursor import Cursor

# SimpleVersionedSerialization: a version, then the bytes that some SimpleVersionedSerializer wrote.


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


FormatRow = dict[str, Any]
"""One decoded object: column name → value, as `ConnectorFormat.arrow_type` declares them."""


class FormatRole(Enum):
    """Where a source or sink stores objects of a format."""

    SPLIT = "elements of a source's operator state `SourceReaderState`"
    ENUMERATOR = "a source's enumerator checkpoint, in the state of its operator coordinator"
    WRITER = "elements of a sink's operator state `writer_raw_states`"
    COMMITTABLE = "committables in a sink's operator state `streaming_committer_raw_states`"


@dataclass(frozen=True)
class ConnectorFormat:
    """How a connector's SimpleVersionedSerializer writes objects, per version, and the columns they have.

    The class that wrote the bytes is not stored with them, so a format is recognised by structure: a reader must
    accept the bytes and consume them all. Readers raise CorruptSnapshot for bytes of another structure.

    Attributes:
        name: the connector, and what distinguishes the format from others of the connector in the same role.
        role: where objects of the format are stored.
        arrow_type: the struct of columns.
        readers: version of the SimpleVersionedSerializer → reader of one object.
    """

    name: str
    role: FormatRole
    arrow_type: pa.DataType
    readers: Mapping[int, Callable[[Cursor], FormatRow]]

    def read(self, item: Versioned) -> FormatRow | None:
        """Decode ``item``; None if it has another format."""
        reader = self.readers.get(item.version)
        if reader is None:
            return None
        cursor = Cursor(item.payload)
        try:
            row = reader(cursor)
            cursor.finish("the value")
        except CorruptSnapshot:
            return None
        return row

    def read_all(self, items: Iterable[Versioned]) -> list[FormatRow] | None:
        """Decode ``items``; None unless every one of them has this format."""
        rows = []
        for item in items:
            row = self.read(item)
            if row is None:
                return None
            rows.append(row)
        return rows
