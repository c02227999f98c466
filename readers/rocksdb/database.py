"""Find the files of one RocksDB database in a snapshot, and those that make up a column family.

    CURRENT            name of the MANIFEST and a line feed
    MANIFEST-NNNNNN    see `rocksdb.manifest`
    NNNNNN.sst         tables, see `rocksdb.table`; a table's properties name its column family, too
    OPTIONS-NNNNNN     not read

These are local names, which the handle maps to stored files of any name.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock

from stateproc.errors import CorruptSnapshot, MissingFile, UnsupportedSnapshot, Where
from stateproc.metadata.backend import KeyedHeader, read_keyed_header
from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.metadata.stream_handles import StreamHandle
from stateproc.readers.header_reader import MAX_HEADER, read_whole_header
from stateproc.readers.rocksdb.format import damaged
from stateproc.readers.rocksdb.key_ranges import EVERYTHING, KeySpan
from stateproc.readers.rocksdb.manifest import BYTEWISE, ColumnFamily, LiveFile, read_manifest
from stateproc.readers.rocksdb.table import table_properties
from stateproc.storage import ByteSource, FileSource, SnapshotLocation, open_handle
from stateproc.storage.ranges import request_pool

DEFAULT_FAMILY = "default"
"""RocksDB's own column family, in which Flink stores nothing."""
_MAX_MANIFEST = 1 << 29
_MAX_CURRENT = 1 << 12
_MOST_REMEMBERED, _MOST_FILES = 64, 4096
"""Databases, and live files of each, whose column families are kept. Planning a state, reading each of its splits, and
comparing it with the next checkpoint need them again; a job that runs for long has MANIFESTs of many thousand changes,
mostly of files that are gone. For a large database it does not matter."""


@dataclass(frozen=True)
class DatabaseFile:
    """A file of a database: local name (``000012.sst``, ``MANIFEST-000004``, ``CURRENT`` …) and bytes."""

    name: str
    source: ByteSource


@dataclass(frozen=True)
class SstFile:
    """A live sst file.

    Attributes:
        live: What the MANIFEST says of it; None where there is no MANIFEST.
        family: The column family to which it belongs by the MANIFEST.
    """

    source: ByteSource
    live: LiveFile | None
    family: str | None = None

    def overlaps(self, wanted: Sequence[KeySpan]) -> bool:
        """Whether it may hold keys, or tombstones of keys, of these spans."""
        return self.live is None or self.live.overlaps(wanted)


def needed(files: Sequence[DatabaseFile], tables: Iterable[SstFile]) -> tuple[DatabaseFile, ...]:
    """Return the files of these tables and the MANIFEST: what a task needs of a database's many files."""
    sources = {id(table.source) for table in tables}
    return tuple(file for file in files if id(file.source) in sources or file.name.startswith(("MANIFEST-", "CURRENT")))


def column_families(files: Sequence[DatabaseFile]) -> tuple[ColumnFamily, ...] | None:
    """The column families by the MANIFEST, or None if it is not among the files.

    Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile.
    """
    manifests = {file.name: file for file in files if file.name.startswith("MANIFEST-")}
    current = [file for file in files if file.name == "CURRENT"]
    if current:
        name = current[0].source.read_all(_MAX_CURRENT).decode("utf-8", "replace").strip()
        if name not in manifests:
            raise MissingFile(
                f"CURRENT names {name!r}, which is not among the snapshot's files",
                where=Where(file=current[0].source.name, offset=0),
                advice="the snapshot is incomplete; take it again or use an older one",
            )
        manifest = manifests[name]
    elif manifests:
        manifest = manifests[max(manifests)]
    else:
        return None
    data = manifest.source.read_all(_MAX_MANIFEST)
    return _parsed_manifest(data, manifest.source.name)


_remembered: OrderedDict[tuple[bytes, str], tuple[ColumnFamily, ...]] = OrderedDict()
_remembering = Lock()


def _parsed_manifest(data: bytes, file: str) -> tuple[ColumnFamily, ...]:
    """Return the column families by a MANIFEST, parsed once for equal bytes: a changed file is parsed again."""
    key = sha256(data).digest(), file
    with _remembering:
        known = _remembered.get(key)
        if known is not None:
            _remembered.move_to_end(key)
            return known
    found = read_manifest(data, file)
    if sum(len(family.files) for family in found) <= _MOST_FILES:
        with _remembering:
            found = _remembered.setdefault(key, found)
            if len(_remembered) > _MOST_REMEMBERED:
                _remembered.popitem(last=False)
    return found


def tables_of(files: Sequence[DatabaseFile]) -> dict[str, ByteSource]:
    """The sst files by their names."""
    return {file.name: file.source for file in files if file.name.endswith(".sst")}


def tables_by_state(files: Sequence[DatabaseFile], *, verify: bool = True) -> dict[str, list[SstFile]]:
    """The live sst files of every state by its name, without RocksDB's own column family ``default``.

    Without a MANIFEST the properties of each table are read. Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile.
    """
    families, tables = column_families(files), tables_of(files)
    if families is not None:
        names = (family.name for family in families if family.name != DEFAULT_FAMILY)
        return {name: live_files(families, files, tables, name) for name in names}
    found: dict[str, list[SstFile]] = {}
    for source in tables.values():
        family = table_properties(source, verify=verify).column_family
        found.setdefault(family or "", []).append(SstFile(source, None))
    return found


def check_exist(tables: Sequence[SstFile]) -> None:
    """Check that files exist and have their lengths. Raises CorruptSnapshot, MissingFile."""
    sources = [table.source for table in tables if isinstance(table.source, FileSource)]
    with request_pool(sources) as pool:
        for _ in pool.map(FileSource.check_exists, sources):
            pass


def family_files(
    files: Sequence[DatabaseFile], state: str, wanted: Sequence[KeySpan] = EVERYTHING, *, verify: bool = True
) -> list[SstFile]:
    """The live sst files of the column family of ``state`` that may hold keys of these spans; no others need be there.

    Without a MANIFEST they are found by their properties. Raises CorruptSnapshot, UnsupportedSnapshot,
    MissingFile.
    """
    families, tables = column_families(files), tables_of(files)
    if families is None:
        return [SstFile(source, None) for source in tables.values() if _family_of_table(source, verify=verify) == state]
    return live_files(families, files, tables, state, wanted)


def live_files(
    families: Sequence[ColumnFamily],
    files: Sequence[DatabaseFile],
    tables: Mapping[str, ByteSource],
    state: str,
    wanted: Sequence[KeySpan] = EVERYTHING,
) -> list[SstFile]:
    """As `family_files`, by the MANIFEST's ``families``; ``tables``: the sst files by their names."""
    family = next((family for family in families if family.name == state), None)
    if family is None:
        raise CorruptSnapshot(
            "the database has no column family of this name",
            where=Where(file=_manifest_name(files), offset=0, state=state),
            advice="the header and the database do not belong together; use another copy of the snapshot",
        )
    if family.comparator not in BYTEWISE:
        raise UnsupportedSnapshot(
            f"a column family ordered by {family.comparator}",
            where=Where(file=_manifest_name(files), offset=0, state=state),
            advice="take the comparator out of the job's factory of options: Flink's own savepoints need keys in order",
        )
    return [
        SstFile(_live_source(live, tables, files, state), live, state) for live in family.files if live.overlaps(wanted)
    ]


def _family_of_table(source: ByteSource, *, verify: bool) -> str:
    """The column family that a table says it belongs to."""
    family = table_properties(source, verify=verify).column_family
    if family is None:
        raise damaged(source.name, 0, "a table without a column family, in a database without a MANIFEST")
    return family


def _live_source(
    live: LiveFile, tables: Mapping[str, ByteSource], files: Sequence[DatabaseFile], state: str
) -> ByteSource:
    source = tables.get(live.name)
    if source is None:
        raise MissingFile(
            f"the MANIFEST lists {live.name}, which is not among the snapshot's files",
            where=Where(file=_manifest_name(files), offset=0, state=state),
            advice="the snapshot is incomplete; take it again or use an older one",
        )
    if source.size != live.size:
        raise CorruptSnapshot(
            f"{live.name} has {source.size} bytes where the MANIFEST says {live.size}",
            where=Where(file=source.name, offset=min(source.size, live.size), state=state),
            advice="the file was replaced or cut off; restore it from a copy or take the snapshot again",
        )
    return source


def _manifest_name(files: Sequence[DatabaseFile]) -> str | None:
    return next((file.source.name for file in files if file.name.startswith("MANIFEST-")), None)


# From an incremental handle to its header and its database's files.
#
# Format: org.apache.flink.runtime.state.IncrementalRemoteKeyedStateHandle, as RocksIncrementalSnapshotStrategy
# and RocksNativeFullSnapshotStrategy (and ForSt's counterparts) write it.

_NO_NAME = re.compile(r"[/\\\x00]|^\.{0,2}$")
"""Not the local name of a file: a database that RocksDB opens is made of files of these names."""


@dataclass(frozen=True)
class RocksDbDatabase:
    """One subtask's database: header, the key groups it answers for, and its files."""

    header: KeyedHeader
    key_groups: range
    files: tuple[DatabaseFile, ...]


def database_files(handle: IncrementalHandle, location: SnapshotLocation) -> tuple[DatabaseFile, ...]:
    """The files of the handle's database, still untouched. Raises CorruptSnapshot, UnsupportedSnapshot."""
    handles: dict[str, StreamHandle] = {}
    for name, stream in (*handle.shared, *handle.private):
        if _NO_NAME.search(name):
            raise CorruptSnapshot(
                f"{name!r} is no name of a RocksDB file",
                where=Where(file=location.metadata_uri, offset=handle.offset),
                advice="Flink writes plain names only; do not trust this snapshot",
            )
        if handles.setdefault(name, stream) != stream:
            raise CorruptSnapshot(
                f"two files of one database have the local name {name!r}",
                where=Where(file=location.metadata_uri, offset=handle.offset),
                advice="_metadata is damaged; use a copy or take the snapshot again",
            )
    return tuple(DatabaseFile(name, open_handle(stream, location)) for name, stream in handles.items())


def open_database(handle: IncrementalHandle, location: SnapshotLocation) -> RocksDbDatabase:
    """Read the header and find the files. Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile."""
    meta = open_handle(handle.meta, location)
    header = read_whole_header(meta.read_all(MAX_HEADER), meta.name, read_keyed_header)
    return RocksDbDatabase(header, handle.key_groups, database_files(handle, location))
