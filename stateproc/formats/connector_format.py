"""A format: what one kind of versioned bytes looks like, and whether given bytes are of that kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stateproc.errors import CorruptSnapshot
from stateproc.formats.versioned import Versioned
from stateproc.wire.cursor import Cursor

Row = dict[str, Any]


@dataclass(frozen=True)
class ConnectorFormat:
    """Readers by serializer version, and the columns they give.

    The class that wrote the bytes is not stored with them, so a format is recognised by structure: a reader
    must accept the bytes and consume them all. Readers raise CorruptSnapshot for what does not fit.
    """

    name: str
    arrow_type: pa.DataType
    readers: Mapping[int, Callable[[Cursor], Row]]

    def read(self, item: Versioned) -> Row | None:
        """The row of ``item``, or None if it is something else."""
        reader = self.readers.get(item.version)
        return None if reader is None else whole(reader, item.payload)

    def read_all(self, items: Iterable[Versioned]) -> list[Row] | None:
        """The rows of ``items``, or None unless every one of them fits."""
        rows = []
        for item in items:
            row = self.read(item)
            if row is None:
                return None
            rows.append(row)
        return rows


def whole(reader: Callable[[Cursor], Row], data: bytes) -> Row | None:
    """What ``reader`` makes of ``data``, or None unless it fits and consumes all of it."""
    cursor = Cursor(data)
    try:
        row = reader(cursor)
        cursor.finish("the value")
    except CorruptSnapshot:
        return None
    return row
