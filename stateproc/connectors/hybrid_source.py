"""HybridSource: sources one after another, whose splits and enumerators it wraps.

Source: HybridSourceSplitSerializer, HybridSourceEnumeratorStateSerializer, version 0.

    split         i32 index of the source, utf id, i32 version, bytes32 of the split in that version
    enumerator    i32 index of the source, i32 version, bytes32 of its enumerator in that version
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from stateproc.connectors.connector_format import ConnectorFormat, FormatRole, FormatRow, Position, Versioned
from stateproc.connectors.structures import BYTES, I32, UTF, Structure, checked, column, computed, hidden, record
from stateproc.errors import InvalidOption

_MOST_SOURCES, _HIGHEST_VERSION = 1000, 100
_FORMAT = "_format"
"""Row key of the wrapped value's format, None if it has none; its row is at the format's name."""

Formats = Callable[[], Sequence[ConnectorFormat]]


def _layout(name: str, *parts: Any) -> Structure:
    return record(
        column(name, checked(I32, lambda value: 0 <= value < _MOST_SOURCES, "the index of a source")),
        *parts,
        column("wrapped_version", checked(I32, lambda value: 0 <= value <= _HIGHEST_VERSION, "a version")),
        hidden("wrapped_bytes", BYTES),
        # Where its format is known, it is in the column of that format.
        computed("wrapped", pa.binary(), lambda row: row["wrapped_bytes"]),
    )


def _unwrapping(layout: Structure, formats: Formats) -> Structure:
    """Decode what is wrapped, by the first format that accepts it."""

    def read(cursor: Any) -> FormatRow:
        cursor.nested("hybrid sources")
        row: FormatRow = layout.read(cursor)
        row[_FORMAT] = None
        item = Versioned(row["wrapped_version"], row["wrapped_bytes"])
        for known in formats():
            found = known.read(item, cursor.depth)
            if found is not None:
                row[_FORMAT], row[known.name], row["wrapped"] = known, found, None
                break
        cursor.unnested()
        return row

    return Structure(layout.arrow_type, read, layout.write, layout.smallest)


def _columns(layout: Structure) -> Callable[[Sequence[FormatRow]], pa.DataType]:
    """Return the columns of the wrapper, and one per format in it, named after the connector."""

    def columns(rows: Sequence[FormatRow]) -> pa.DataType:
        formats = {known.name: known for row in rows if (known := row[_FORMAT]) is not None}
        inner = [
            pa.field(name, known.type_of([row[name] for row in rows if row[_FORMAT] is known]))
            for name, known in formats.items()
        ]
        return pa.struct([*layout.arrow_type, *inner])

    return columns


def _positions(index: str) -> Callable[[FormatRow], Iterable[Position]]:
    def positions(row: FormatRow) -> Iterator[Position]:
        known = row[_FORMAT]
        if known is None:
            yield Position(f"source {row[index]}: {row.get('split_id', 'its enumerator')}", "bytes", None)
        elif known.positions is not None:
            yield from known.positions(row[known.name])

    return positions


def _moved(row: FormatRow, wanted: Mapping[str, str]) -> FormatRow:
    """Move splits in what is wrapped. Raises InvalidOption."""
    known = row[_FORMAT]
    if known is not None and known.moved is None and known.role is FormatRole.ENUMERATOR:
        return row  # It keeps no positions that are set.
    if known is None or known.moved is None:
        name = "a source that is not known" if known is None else known.name
        raise InvalidOption(
            f"a HybridSource is at {name}, whose positions cannot be set",
            advice="stateproc offsets PATH shows where it continues",
        )
    return _wrapping(row, known.moved(row[known.name], wanted))


def _renamed(row: FormatRow) -> FormatRow:
    """Rename classes in what is wrapped. Raises UnsupportedSnapshot."""
    known = row[_FORMAT]
    return row if known is None or known.renamed is None else _wrapping(row, known.renamed(row[known.name]))


def _wrapping(row: FormatRow, inner: FormatRow) -> FormatRow:
    """Return the row around another wrapped value of its format."""
    known = row[_FORMAT]
    return {**row, known.name: inner, "wrapped_bytes": known.write(row["wrapped_version"], inner).payload}


def _cautions(row: FormatRow) -> Iterable[str]:
    known = row[_FORMAT]
    return () if known is None else known.cautions(row[known.name])


def _identifies(row: FormatRow) -> bool:
    known = row[_FORMAT]
    return known is not None and known.identifies(row[known.name])


def _is_id(text: str) -> bool:
    return text != "" and text.isprintable()


def split_format(formats: Formats) -> ConnectorFormat:
    """Return the format of splits that wrap those of ``formats``; others stay bytes."""
    layout = _layout("source_index", column("split_id", checked(UTF, _is_id, "the id of a split")))
    return ConnectorFormat(
        "hybrid",
        FormatRole.SPLIT,
        {0: _unwrapping(layout, formats)},
        positions=_positions("source_index"),
        moved=_moved,
        cautions=_cautions,
        renamed=_renamed,
        columns_of=_columns(layout),
    )


def enumerator_format(formats: Formats) -> ConnectorFormat:
    """Return the format of enumerators that wrap those of ``formats``."""
    layout = _layout("current_source_index")
    return ConnectorFormat(
        "hybrid",
        FormatRole.ENUMERATOR,
        {0: _unwrapping(layout, formats)},
        positions=_positions("current_source_index"),
        moved=_moved,
        identifies=_identifies,
        columns_of=_columns(layout),
    )
