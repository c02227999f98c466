"""Describe how a connector writes one kind of object, and recognise bytes of that kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, reduce
from typing import Any

import pyarrow as pa

from stateproc.connectors.structures import Structure, merged, shown, written
from stateproc.errors import CorruptSnapshot
from stateproc.wire.cursor import Cursor
from stateproc.wire.output import Output

# SimpleVersionedSerialization: a version, then the bytes that some SimpleVersionedSerializer wrote.


@dataclass(frozen=True)
class Versioned:
    """The bytes of one object and the version of the serializer that wrote them; its class is not stored."""

    version: int
    payload: bytes


UNVERSIONED = -1
"""The version of values that are stored without one."""
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


def written_version(version: int, payload: bytes) -> bytes:
    """Encode as SimpleVersionedSerialization.writeVersionAndSerialize does: i32 version, i32 length, the bytes."""
    out = Output()
    out.i32(version)
    out.bytes32(payload)
    return bytes(out)


def coordinator_of(serde_version: int, enumerator_version: int, enumerator: bytes, assignments: bytes = b"") -> bytes:
    """Encode the state of a source's coordinator around its enumerator's; ``assignments`` follow in serde version 0."""
    out = Output()
    out.i32(serde_version)
    out.raw(written_version(enumerator_version, enumerator))
    out.raw(assignments)
    return bytes(out)


FormatRow = dict[str, Any]
"""One decoded object: column name → value, as `ConnectorFormat.arrow_type` declares them."""


class FormatRole(Enum):
    """Where a source or sink stores objects of a format."""

    SPLIT = "elements of a source's operator state `SourceReaderState`"
    ENUMERATOR = "a source's enumerator checkpoint, in the state of its operator coordinator"
    WRITER = "elements of a sink's operator state `writer_raw_states`, or `bucket-states` of StreamingFileSink"
    COMMITTABLE = "committables in a sink's operator state `streaming_committer_raw_states`"
    COMMITTER = "elements of `streaming_committer_raw_states` of committers with a layout of their own"
    COMPACTION = "elements of a FileSink's operator state `remaining_requests_raw_state`"
    MANIFESTS = "values of an Iceberg sink's operator state `iceberg-files-committer-state`"
    LEGACY_OFFSETS = "elements of the union state `offset-states` of DebeziumSourceFunction, without a version"
    RECOVERABLE = "what a file system needs to go on with a file, within the state of a FileSink"


WHOLE_SOURCE = ("table", "all tables")
"""Splits that are no splits: what an enumerator says of the whole source."""


@dataclass(frozen=True)
class Position:
    """Where a source continues in one split, in the connector's own words.

    Attributes:
        split: the split: topic and partition, shard, table chunk, file.
        kind: what the position is: offset, file:pos, LSN …
        position: where reading continues; None: unknown, or nothing was read yet.
        phase: "snapshot" or "streaming", with the chunks that are done; None where the connector has no phases.
        stops_at: where the split ends; None: nowhere.
        assigned: whether a reader has the split.
        topic, partition, offset, stopping_offset: the position of a Kafka partition as numbers.
    """

    split: str
    kind: str
    position: str | None
    phase: str | None = None
    stops_at: str | None = None
    assigned: bool = True
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    stopping_offset: int | None = None


@dataclass(frozen=True)
class Pending:
    """Something that a sink has written and not committed.

    Attributes:
        kind: file, manifest, transaction, XID, entry.
        name: what readers see after the commit: the target file, the transaction's id, the record's key.
        status: "to commit": a restore commits it; "in progress": a restore goes on with it; "buffered": a restore sends
            it; "to clean up": a restore deletes it.
        temporary: the file as it is now.
        bytes, files, rows: its size; None: unknown.
        upload_id: the multi-part upload of an object store.
        checkpoint_id: the checkpoint that it belongs to.
        bucket: the bucket or partition.
    """

    kind: str
    name: str
    status: str = "to commit"
    temporary: str | None = None
    bytes: int | None = None
    files: int | None = None
    rows: int | None = None
    upload_id: str | None = None
    checkpoint_id: int | None = None
    bucket: str | None = None


@dataclass(frozen=True)
class ConnectorFormat:
    """How a connector's SimpleVersionedSerializer writes objects, per version, and the columns they have.

    The class that wrote the bytes is not stored with them, so a format is recognised by structure: it must
    accept the bytes and consume them all.

    Attributes:
        name: the connector, and what distinguishes the format from others of the connector in the same role.
        role: where objects of the format are stored.
        structures: version of the SimpleVersionedSerializer → layout.
        positions: where the source continues, by a decoded split or enumerator.
        pending: what of a decoded writer state or committable is not committed.
        identifies: whether a row can be of this connector only. Some values, such as empty lists, are the same
            few bytes in several connectors.
        columns_of: the columns of given rows, where they depend on them.
        names: the connector that a row is of, where several share a format; None if the row does not say.
        moved: a decoded split or enumerator in which splits continue elsewhere, given some of the splits that
            ``positions`` names and a text for each; raises InvalidOption for texts that are no positions. Columns that
            are not stored may be those of before. None: positions cannot be set.
        cautions: what to know of a split whose position was set, each a clause after the split's name.
        renamed: a decoded split with the names that its classes have in newer releases of the connector; raises
            UnsupportedSnapshot for classes that are not known. None: no class is named in it.
    """

    name: str
    role: FormatRole
    structures: Mapping[int, Structure]
    positions: Callable[[FormatRow], Iterable[Position]] | None = None
    pending: Callable[[FormatRow], Iterable[Pending]] | None = None
    identifies: Callable[[FormatRow], bool] = lambda row: True
    columns_of: Callable[[Sequence[FormatRow]], pa.DataType] | None = None
    names: Callable[[FormatRow], str | None] | None = None
    moved: Callable[[FormatRow, Mapping[str, str]], FormatRow] | None = None
    cautions: Callable[[FormatRow], Iterable[str]] = lambda row: ()
    renamed: Callable[[FormatRow], FormatRow] | None = None

    @cached_property
    def arrow_type(self) -> pa.DataType:
        """The struct of columns: those of all versions."""
        return reduce(merged, (of.arrow_type for of in self.structures.values()))

    def read(self, item: Versioned, depth: int = 0) -> FormatRow | None:
        """Decode ``item``, which is nested ``depth`` levels deep; None if it has another format."""
        structure = self.structures.get(item.version)
        if structure is None:
            return None
        cursor = Cursor(item.payload)
        cursor.depth = depth
        try:
            row: FormatRow = structure.read(cursor)
            cursor.finish("the value")
        except CorruptSnapshot:
            return None
        return row

    def shown(self, row: FormatRow) -> FormatRow:
        """Return the columns of what `read` returned, as values for JSON except bytes."""
        values: FormatRow = shown(row, self.type_of([row]))
        return values

    def type_of(self, rows: Sequence[FormatRow]) -> pa.DataType:
        """Return the struct of columns of some rows."""
        return self.arrow_type if self.columns_of is None else self.columns_of(rows)

    def write(self, version: int, row: FormatRow) -> Versioned:
        """Encode what `read` returned."""
        return Versioned(version, written(self.structures[version], row))

    def read_all(self, items: Iterable[Versioned]) -> list[FormatRow] | None:
        """Decode ``items``; None unless every one of them has this format and one identifies it."""
        rows = []
        for item in items:
            row = self.read(item)
            if row is None:
                return None
            rows.append(row)
        return rows if any(self.identifies(row) for row in rows) else None
