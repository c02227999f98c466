"""Describe how a connector writes one kind of object, and recognise bytes of that kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from stateproc.errors import CorruptSnapshot
from stateproc.formats.versioned import Versioned
from stateproc.wire.cursor import Cursor

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
