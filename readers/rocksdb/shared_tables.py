"""Which tables of a state two databases have in common: files that incremental checkpoints share."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from stateproc.metadata.handles import (
    ByteStreamHandle,
    FileHandle,
    IncrementalHandle,
    KeyGroupsHandle,
    RelativeFileHandle,
    SegmentHandle,
    StreamHandle,
)
from stateproc.readers.rocksdb.database import DatabaseFile, SstFile, family_files
from stateproc.readers.rocksdb.key_ranges import EVERYTHING, KeySpan
from stateproc.storage import SnapshotLocation


@dataclass(frozen=True)
class DatabaseOfState:
    """A database and the state of it that is read.

    Attributes:
        files: The database's files.
        identities: Where each file is stored, by its local name; see ``stored_files``.
        state: The state's name.
    """

    files: tuple[DatabaseFile, ...]
    identities: dict[str, Hashable]
    state: str

    def tables(self, wanted: Sequence[KeySpan] = EVERYTHING, *, verify: bool = True) -> list[SstFile]:
        """Return the state's tables that may have keys of these spans.

        Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile.
        """
        return family_files(self.files, self.state, wanted, verify=verify)


def stored_files(handle: IncrementalHandle, location: SnapshotLocation) -> dict[str, Hashable]:
    """Return what identifies each file of a database, by its local name: equal ones are the same file.

    A checkpoint refers to the files that it shares with earlier ones as these do, also after a restore: by path and
    size, or by the bytes themselves. Local names may change.
    """
    return {name: stored_identity(stream, location) for name, stream in (*handle.shared, *handle.private)}


def stored_identity(stream: StreamHandle, location: SnapshotLocation) -> Hashable:
    """Return what identifies a stored file, or a part of one; equal ones are the same."""
    match stream:
        case KeyGroupsHandle():
            return stored_identity(stream.stream, location)
        case FileHandle():
            return stream.path, stream.size
        case SegmentHandle():
            return stream.path, stream.start, stream.size
        case RelativeFileHandle():
            return location.directory_uri, stream.path, stream.size
        case ByteStreamHandle():
            return stream.name, stream.data
        case _:
            return object()  # of no other file


@dataclass(frozen=True)
class PairedTables:
    """The tables of one state in two databases.

    Attributes:
        own: Of each side the tables that the other one does not have.
        shared: The tables that both have, as each side's MANIFEST lists them.
    """

    own: tuple[tuple[SstFile, ...], tuple[SstFile, ...]]
    shared: tuple[tuple[SstFile, SstFile], ...]

    def within(self, wanted: Sequence[KeySpan]) -> PairedTables:
        """Return the tables that may have keys, or tombstones of keys, of these spans."""
        one, two = (tuple(sst for sst in side if sst.overlaps(wanted)) for side in self.own)
        return PairedTables((one, two), tuple(pair for pair in self.shared if pair[0].overlaps(wanted)))

    @property
    def own_bytes(self) -> int:
        """The stored bytes of tables that one side has."""
        return sum(sst.source.size for side in self.own for sst in side)

    @property
    def shared_bytes(self) -> int:
        """The stored bytes of tables that both have, counted once."""
        return sum(sst.source.size for sst, _ in self.shared)


def paired_tables(
    left: DatabaseOfState, right: DatabaseOfState, wanted: Sequence[KeySpan] = EVERYTHING, *, verify: bool = True
) -> PairedTables | None:
    """Find out which tables both databases have; None if a MANIFEST is not there.

    A table counts as shared if it is the same file and both MANIFESTs give it the same bounds and the same largest
    sequence number: bounds limit its range tombstones, and entries of ingested files have that sequence number.

    Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile.
    """
    tables = [side.tables(wanted, verify=verify) for side in (left, right)]
    if any(sst.live is None for side in tables for sst in side):
        return None
    known = [_bystored_identity(side, found) for side, found in zip((left, right), tables, strict=True)]
    common = known[0].keys() & known[1].keys()
    shared = tuple((known[0][key], known[1][key]) for key in known[0] if key in common)
    both = {id(sst) for pair in shared for sst in pair}
    own = [tuple(sst for sst in side if id(sst) not in both) for side in tables]
    return PairedTables((own[0], own[1]), shared)


def _bystored_identity(database: DatabaseOfState, tables: Iterable[SstFile]) -> dict[Hashable, SstFile]:
    """Return tables by what makes them equal; without those that a database lists twice."""
    found: dict[Hashable, SstFile] = {}
    repeated = set()
    for sst in tables:
        live = sst.live
        assert live is not None
        key = database.identities.get(live.name, object()), live.smallest, live.largest, live.largest_sequence
        if key in found:
            repeated.add(key)
        found[key] = sst
    return {key: sst for key, sst in found.items() if key not in repeated}
