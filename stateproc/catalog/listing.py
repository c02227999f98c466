"""List the snapshots below directories: discover them, read each ``_metadata`` once, find out what they share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from stateproc.catalog.discovery import Discovery, SnapshotDirectory, discover
from stateproc.catalog.entries import CatalogEntry, JobGroup, grouped, utc_time
from stateproc.catalog.file_references import FileReferences, file_id, file_references
from stateproc.errors import CorruptSnapshot, MissingFile, SnapshotError, Where
from stateproc.metadata import SnapshotMetadata, read_metadata, snapshot_kind
from stateproc.metadata.reader import MOST_BYTES
from stateproc.metadata.snapshot_kind import CHECKPOINT, SAVEPOINT_OR_CHECKPOINT
from stateproc.metadata.walk import relative_shared_files
from stateproc.storage.concurrency import REQUESTS_AT_ONCE, read_in_order
from stateproc.storage.layout import CHECKPOINT_NAME, JOB_NAME, METADATA, SAVEPOINT_NAME
from stateproc.storage.store import StorePath, is_absent
from stateproc.storage.uris import basename, parent, same_store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Count the files of a claimed native savepoint where they are: checkpoints name them as if they were their own.
#
# See storage/claimed_files.py. A checkpoint with such handles has its directory listed once; what is not there belongs
# to the snapshot below the roots that has a file of this name, if there is one.


@dataclass(frozen=True)
class SnapshotFiles:
    """The files of one snapshot.

    Attributes:
        directory: Where the snapshot is.
        references: The files as its handles name them.
        absent: Relative paths, with their bytes, that its directory does not have.
    """

    directory: str
    references: FileReferences
    absent: Mapping[str, int]


def absent_files(metadata: SnapshotMetadata, directory: StorePath) -> dict[str, int]:
    """Return shared files that a checkpoint names beside its ``_metadata`` and that are not there, with their bytes.

    Args:
        metadata: The contents of its ``_metadata``.
        directory: Where the checkpoint is.
    """
    if CHECKPOINT_NAME.fullmatch(directory.name) is None:
        return {}
    named = {handle.path: handle.size for handle in relative_shared_files(metadata.operators)}
    if not named:
        return {}
    try:
        present = {entry.name for entry in directory.entries()}
    except SnapshotError:
        return {}  # sizes are those that the handles name
    return {path: size for path, size in named.items() if path not in present}


def with_claimed_files(snapshots: Sequence[SnapshotFiles]) -> list[FileReferences]:
    """Return the references of all snapshots, each file where it is; those that are nowhere are left out."""
    found = []
    for one in snapshots:
        if not one.absent:
            found.append(one.references)
            continue
        moved: dict[int, int | None] = {}
        for path in one.absent:
            own = file_id(same_store(one.directory), path)
            moved[own] = next((place for place in _places(path, snapshots)), None)
        found.append(one.references.moved(moved))
    return found


def _places(path: str, snapshots: Sequence[SnapshotFiles]) -> list[int]:
    """Return the ids of the files of this relative path that are in the directory of one of the snapshots."""
    return [
        place
        for other in snapshots
        if path not in other.absent and other.references.has(place := file_id(same_store(other.directory), path))
    ]


_LOCAL_THREADS = 2
"""More threads that read local files save no time, but take a quarter more CPU by competing for the interpreter."""
SAVEPOINT = "savepoint"
"""The kind of a savepoint whose format is not known."""


@dataclass(frozen=True)
class SnapshotCatalog:
    """The snapshots below directories.

    Attributes:
        groups: All snapshots, and directories that cannot be listed, by job; the newest job is last.
        discovery: The directories that were found.
        needed_names: Hashes of the names of all files that complete snapshots use, sorted.
    """

    groups: tuple[JobGroup, ...]
    discovery: Discovery
    needed_names: NDArray[np.int64] = field(repr=False)

    @property
    def entries(self) -> list[CatalogEntry]:
        """All entries, in the order of the groups."""
        return [entry for group in self.groups for entry in group.entries]


def ls(root: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None) -> list[CatalogEntry]:
    """List all savepoints and checkpoints below a directory.

    Args:
        root: The directory, of any storage that fsspec knows.
        storage_options: Keyword arguments of the fsspec file system.

    Returns:
        The entries, grouped by job, sorted by time. A ``_metadata`` that cannot be read gives an entry that says why.

    Raises:
        MissingFile: The directory does not exist or cannot be listed.
        InvalidOption: It is a file, or the storage options do not fit.
    """
    return catalog_of(discover([root], storage_options)).entries


def catalog_of(discovery: Discovery, advance: Callable[[int], None] = lambda _: None) -> SnapshotCatalog:
    """Read the ``_metadata`` of what was discovered.

    Args:
        discovery: The snapshots' directories.
        advance: Called with the number of bytes that were read.
    """
    entries = [_incomplete_entry(item) for item in discovery.incomplete]
    entries += [
        CatalogEntry(path, "unreadable", problem=f"this directory cannot be listed: {error.message}")
        for path, error in discovery.failures
    ]
    complete: list[tuple[CatalogEntry, SnapshotFiles]] = []
    for item, data in _read_all(discovery.complete):
        advance(item.metadata_bytes)
        try:
            if not isinstance(data, bytes):
                raise data
            metadata = read_metadata(data, file=item.metadata_uri)
            references = file_references(metadata, item.uri, discovery.roots)
            files = SnapshotFiles(item.uri, references, absent_files(metadata, item.directory))
        except SnapshotError as error:
            if not (isinstance(error, MissingFile) and is_absent(error)):  # else removed meanwhile
                at = "" if error.where.offset is None else f" [byte {error.where.offset}]"
                entries.append(replace(_named_entry(item), status="unreadable", problem=error.message + at))
            continue
        complete.append((_entry(item, metadata), files))
    in_place = with_claimed_files([files for _, files in complete])
    sized, needed = _with_sizes([(entry, own) for (entry, _), own in zip(complete, in_place, strict=True)])
    return SnapshotCatalog(grouped([*entries, *sized]), discovery, needed)


def _read_all(
    items: Sequence[SnapshotDirectory],
) -> Iterator[tuple[SnapshotDirectory, bytes | SnapshotError]]:
    def read(item: SnapshotDirectory) -> Iterator[tuple[SnapshotDirectory, bytes | SnapshotError]]:
        try:
            yield item, metadata_bytes(item)
        except SnapshotError as error:
            yield item, error

    def size_of(result: tuple[SnapshotDirectory, bytes | SnapshotError]) -> int:
        return len(result[1]) if isinstance(result[1], bytes) else 0

    is_local = all(item.directory.is_local for item in items)
    return read_in_order(items, read, _LOCAL_THREADS if is_local else REQUESTS_AT_ONCE, at_once=True, size_of=size_of)


def metadata_bytes(item: SnapshotDirectory) -> bytes:
    """Read the ``_metadata`` of a snapshot. Raises SnapshotError."""
    size = item.metadata_bytes
    if size > MOST_BYTES:
        where = Where(file=item.metadata_uri)
        raise CorruptSnapshot(f"{size} bytes, which no _metadata has", where=where)
    return (item.directory / METADATA).read_range(0, size)


def _named_entry(item: SnapshotDirectory) -> CatalogEntry:
    """What the path of a snapshot says."""
    checkpoint = CHECKPOINT_NAME.fullmatch(item.name)
    savepoint = SAVEPOINT_NAME.fullmatch(item.name)
    above = basename(parent(item.uri))
    return CatalogEntry(
        item.uri,
        "complete" if item.metadata is not None else "incomplete",
        kind=CHECKPOINT if checkpoint else SAVEPOINT if savepoint else None,
        job_id=above if JOB_NAME.fullmatch(above) else None,
        job_id_prefix=savepoint[1] if savepoint else None,
        checkpoint_id=int(checkpoint[1]) if checkpoint else None,
        completed_at=utc_time(item.metadata.modified) if item.metadata is not None else None,
    )


def _incomplete_entry(item: SnapshotDirectory) -> CatalogEntry:
    return replace(
        _named_entry(item),
        files=item.listed_files,
        own_bytes=item.listed_bytes,
        shared_bytes=0,
        last_write=utc_time(item.last_write),
    )


def _entry(item: SnapshotDirectory, metadata: SnapshotMetadata) -> CatalogEntry:
    named = _named_entry(item)
    kind = snapshot_kind(metadata)
    return replace(
        named,
        kind=named.kind or kind if kind == SAVEPOINT_OR_CHECKPOINT else kind,
        checkpoint_id=metadata.checkpoint_id,
        own_bytes=item.metadata_bytes,
    )


def _with_sizes(
    referenced: Sequence[tuple[CatalogEntry, FileReferences]],
) -> tuple[list[CatalogEntry], NDArray[np.int64]]:
    """Add the bytes that each snapshot shares with others; return the hashes of all needed names, too."""
    import numpy as np  # Lazy: start-up.

    nothing = np.empty(0, np.int64)
    files, uses = np.unique(np.concatenate([nothing, *(item.ids for _, item in referenced)]), return_counts=True)
    entries = []
    for entry, references in referenced:
        shared = uses[np.searchsorted(files, references.ids)] > 1
        shared_bytes = int(references.sizes[shared].sum())
        own_bytes = (entry.own_bytes or 0) + int(references.sizes.sum()) - shared_bytes
        entries.append(replace(entry, files=len(shared), own_bytes=own_bytes, shared_bytes=shared_bytes))
    return entries, np.unique(np.concatenate([nothing, *(item.names for _, item in referenced)]))
