"""Begin, complete and abort a write on the driver. ``_metadata`` is written last, and makes the files a snapshot.

Each write has a marker file (see ``staging``). A new write first removes the markers, then the files, of writes that
were killed; a write without its marker cannot complete. So at most one of several writes to a directory succeeds, but
for two that meet between the last look at the marker and the rename of ``_metadata``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stateproc.errors import InvalidOption, SnapshotError, Where, WriteFailed
from stateproc.metadata import SnapshotMetadata, read_metadata, walk_stream_handles
from stateproc.metadata.handles import KeyGroupsHandle, RelativeFileHandle, StreamHandle
from stateproc.metadata.writer import write_metadata
from stateproc.storage.layout import METADATA, run_of_file, run_of_marker
from stateproc.storage.store import Entry, StorePath
from stateproc.storage.uris import absolute, real_path, same_store, scheme_of
from stateproc.storage.writing import make_directory, publish, remove, remove_empty_directory, remove_quietly
from stateproc.writers.commit.staging import Staging, new_run

# What a caller adds to a commit: a check of the complete files before ``_metadata`` is written, and a manifest.

MANIFEST = "_stateproc_job.json"
"""The manifest of a job's run beside ``_metadata``. Flink reads no file that ``_metadata`` does not name."""


@dataclass(frozen=True)
class CommitHooks:
    """Functions that a commit calls when all state files are complete and the directory is no snapshot yet.

    Attributes:
        check: Receives the snapshot and where its files are; an error that it raises ends the write.
        manifest: Receives the bytes of ``_metadata`` and the write's run, returns the manifest, which is written
            before it: where a snapshot has no manifest that fits, a job did not write it.
    """

    check: Callable[[SnapshotMetadata, Staging], None] | None = None
    manifest: Callable[[bytes, str], bytes] | None = None


_MARKER_TEXT = (
    b"A write by stateproc is under way here, or was killed: then the files of its name are leftovers,\n"
    b"which the next write to this directory removes.\n"
)
_MOST_NAMES = 5


class Commit:
    """One write to a directory, from ``begin`` to ``complete`` or ``abort``."""

    def __init__(self, staging: Staging, overwrite: bool, made_directory: bool, hooks: CommitHooks) -> None:
        self.staging, self._hooks = staging, hooks
        self._overwrite, self._made_directory = overwrite, made_directory
        self._manifest_written = False

    @classmethod
    def begin(
        cls,
        directory: StorePath,
        *,
        overwrite: bool = False,
        sources: Sequence[str] = (),
        hooks: CommitHooks | None = None,
    ) -> Commit:
        """Begin to write a snapshot to a directory. Files of writes that were killed are removed.

        Args:
            directory: it is created if it does not exist.
            overwrite: replace an existing snapshot, once the new one is complete.
            sources: directories of snapshots that are read.
            hooks: what is called before the snapshot is complete.

        Raises:
            InvalidOption: the directory contains a snapshot or other files, or is a source or inside of one.
            WriteFailed: the directory cannot be written.
        """
        exists = _checked(directory, sources)
        staging = Staging(directory, new_run())
        if exists:
            _refuse_taken(staging, overwrite)
            _clean(staging, overwrite)
        make_directory(directory)
        publish(staging.marker, _MARKER_TEXT, staging.temporary)
        return cls(staging, overwrite, not exists, hooks or CommitHooks())

    def complete(self, metadata: SnapshotMetadata, version: int) -> tuple[str, ...]:
        """Write ``_metadata``, which completes the snapshot.

        Args:
            metadata: the snapshot.
            version: of ``_metadata``.

        Returns:
            Names of obsolete files that could not be removed; they do no harm.

        Raises:
            WriteFailed: the directory has no new snapshot then; one that was there before stays.
        """
        staging = self.staging
        data, again = _read_back(metadata, version, staging)
        if self._hooks.check is not None:
            self._hooks.check(again, staging)
        entries = {entry.name: entry for entry in staging.directory.entries()}
        staging.check_under_way()
        self._check_files(again, entries)
        if not self._overwrite and METADATA in entries:
            raise WriteFailed(
                "another write has completed a snapshot here meanwhile",
                where=Where(file=staging.metadata.uri),
                advice="give another path; what this write left is removed with abort, or by the next one",
            )
        before = _relative_files(_metadata_at(staging)) if METADATA in entries else frozenset()
        manifest = self._hooks.manifest
        if manifest is not None:
            self._manifest_written = True
            publish(staging.directory / MANIFEST, manifest(data, staging.run), staging.temporary)
        publish(staging.metadata, data, staging.temporary)
        self._withdraw_if_over(data)
        # First, so that an attempt of a task that ends from now on finds the write over and removes its file itself.
        marker = staging.marker.name
        left = [] if self._removed(marker) else [marker]
        kept, names = _relative_files(again), self._names_now() or entries
        stale = [name for name in names if (run_of_file(name) == staging.run or name in before) and name not in kept]
        if manifest is None and MANIFEST in entries:
            stale.append(MANIFEST)  # of the snapshot that was replaced
        return (*(name for name in stale if not self._removed(name)), *left)

    def abort(self) -> None:
        """End the write, remove its files, and its directory if the write created it. Raises nothing.

        A running task notices that its write is over and removes its file itself.
        """
        staging = self.staging
        remove_quietly(staging.marker)
        self._removed(staging.temporary)
        try:
            entries = staging.directory.entries()
            leftovers = [name for name in _leftovers(staging, entries) if run_of_file(name) == staging.run]
        except SnapshotError:
            return
        if self._manifest_written and not any(entry.name == METADATA for entry in entries):
            leftovers.append(MANIFEST)
        for name in leftovers:
            self._removed(name)
        if self._made_directory:
            remove_empty_directory(staging.directory)

    def _removed(self, name: str) -> bool:
        return remove_quietly(self.staging.directory / name)

    def _names_now(self) -> list[str]:
        """Names of the files in the directory; none if it cannot be listed."""
        try:
            entries = self.staging.directory.entries()
        except SnapshotError:
            return []
        return [entry.name for entry in entries]

    def _check_files(self, metadata: SnapshotMetadata, entries: Mapping[str, Entry]) -> None:
        """Raise WriteFailed unless every file that handles name exists with their length."""
        for use in walk_stream_handles(metadata):
            handle = _file_of(use.handle)
            if handle is None:
                continue
            status = entries[handle.path].status() if handle.path in entries else None
            if status is None or status.size != handle.size:
                found = "is missing" if status is None else f"has {status.size} bytes instead of {handle.size}"
                raise WriteFailed(
                    f"a file of the snapshot {found}",
                    where=Where(file=str(self.staging.directory / handle.path), operator=use.operator.operator_id),
                    advice="something else changes this directory; run the write again",
                )

    def _withdraw_if_over(self, data: bytes) -> None:
        """Remove ``_metadata`` again if another write has taken over the directory, which removes the marker first."""
        staging = self.staging
        if staging.under_way:
            return
        if staging.metadata.read_range(0, len(data) + 1) == data:
            remove(staging.metadata)
        staging.check_under_way()


def finish_killed(directory: StorePath, run: str) -> None:
    """Remove what a write has left that was killed between ``_metadata`` and its end.

    Files of other writes stay while their markers are there: these may be under way.

    Args:
        directory: the directory of the complete snapshot.
        run: the write's run, as `CommitHooks.manifest` received it.

    Raises:
        WriteFailed: a file cannot be removed.
    """
    staging = Staging(directory, run)
    remove(staging.marker)
    remove(directory / staging.temporary)
    # A write begins with its marker and ends with _metadata. In this order, files whose write has ended meanwhile are
    # those that _metadata names.
    before = _entries(staging)
    under_way = {run_of_marker(entry.name) for entry in _entries(staging)}
    for name in _leftovers(staging, before):
        if run_of_file(name) not in under_way:
            remove(directory / name)


def check_target(directory: StorePath, *, overwrite: bool, sources: Sequence[str]) -> bool:
    """Check whether a snapshot can be written to a directory, without a change to it; arguments as of `Commit.begin`.

    Returns:
        Whether the directory contains a snapshot that would be replaced.

    Raises:
        InvalidOption: the directory contains a snapshot or other files, or is a source or inside of one.
    """
    if not _checked(directory, sources):
        return False
    staging = Staging(directory, "")
    _refuse_taken(staging, overwrite)
    return staging.metadata.exists()


def _checked(directory: StorePath, sources: Sequence[str]) -> bool:
    """Return whether the directory exists. Raises InvalidOption for a source, or for a file."""
    for source in sources:
        _refuse_source(directory.uri, source)
    status = directory.status()
    if status is not None and not status.is_directory:
        raise InvalidOption("the path is a file, not a directory", where=Where(file=directory.uri))
    return status is not None


def _refuse_source(directory: str, source: str) -> None:
    """Raise InvalidOption for a target that is a source, inside of one, or around one (a checkpoint's root)."""
    target, read = _real(directory), _real(absolute(source))
    if read.startswith(target.rstrip("/") + "/"):
        raise InvalidOption(
            f"the snapshot would be written to a directory that holds one it is made from: {read}",
            where=Where(file=directory),
            advice="write to a directory of its own; whoever removes or replaces it later must not meet the old one",
        )
    if target == read or target.startswith(read.rstrip("/") + "/"):
        raise InvalidOption(
            "the snapshot would be written onto one that it is made from, or into its directory",
            where=Where(file=directory),
            advice="write to another directory; the old snapshot can be removed when the new one is restored",
        )


def _real(uri: str) -> str:
    return real_path(uri) if scheme_of(uri) == "file" else same_store(uri)


def _refuse_taken(staging: Staging, overwrite: bool) -> None:
    if overwrite:
        return
    names = [entry.name for entry in _entries(staging)]
    if METADATA in names:
        raise InvalidOption(
            "a snapshot is here already",
            where=Where(file=staging.directory_uri),
            advice="write to another path, or with mode 'overwrite' to replace it",
        )
    own = (name for name in names if name != MANIFEST)
    others = [name for name in own if run_of_file(name) is None and run_of_marker(name) is None]
    if others:
        shown = ", ".join(others[:_MOST_NAMES]) + (" …" if len(others) > _MOST_NAMES else "")
        raise InvalidOption(
            f"the directory holds other files: {shown}",
            where=Where(file=staging.directory_uri),
            advice="give a directory that is empty or not there yet",
        )


def _clean(staging: Staging, overwrite: bool) -> None:
    """Remove leftovers: markers first, so that their writes cannot complete any more, then files."""
    for entry in _entries(staging):
        if run_of_marker(entry.name) is not None:
            remove(entry.path)
    _refuse_taken(staging, overwrite)
    for name in _leftovers(staging, _entries(staging)):
        remove(staging.directory / name)


def _entries(staging: Staging) -> list[Entry]:
    """The files in the directory; none if it is gone: on object stores it ends with its last file."""
    return staging.directory.entries() if staging.directory.exists() else []


def _leftovers(staging: Staging, entries: Sequence[Entry]) -> list[str]:
    """State files that the existing ``_metadata`` does not name; none if it cannot be read."""
    names = [entry.name for entry in entries]
    found = _metadata_at(staging) if METADATA in names else None
    if METADATA in names and found is None:
        return []
    kept = _relative_files(found)
    return [name for name in names if run_of_file(name) is not None and name not in kept]


def _metadata_at(staging: Staging) -> SnapshotMetadata | None:
    """The existing snapshot; None if it cannot be read."""
    status = staging.metadata.status()
    if status is None:
        return None
    try:
        return read_metadata(staging.metadata.read_range(0, status.size), file=staging.metadata.uri)
    except SnapshotError:
        return None


def _relative_files(metadata: SnapshotMetadata | None) -> frozenset[str]:
    """Names of the files in a snapshot's own directory."""
    if metadata is None:
        return frozenset()
    handles: Iterable[RelativeFileHandle | None] = (_file_of(use.handle) for use in walk_stream_handles(metadata))
    return frozenset(handle.path for handle in handles if handle is not None)


def _file_of(handle: StreamHandle) -> RelativeFileHandle | None:
    while isinstance(handle, KeyGroupsHandle):
        handle = handle.stream
    return handle if isinstance(handle, RelativeFileHandle) else None


def _read_back(metadata: SnapshotMetadata, version: int, staging: Staging) -> tuple[bytes, SnapshotMetadata]:
    """The bytes of ``_metadata``, and the snapshot read back from them. Raises WriteFailed if it differs."""
    data, where = write_metadata(metadata, version), Where(file=staging.metadata.uri)
    try:
        again = read_metadata(data, file=staging.metadata.uri)
    except SnapshotError as error:
        raise WriteFailed(f"the snapshot would be none: {error.message}", where=where) from error
    same = again.operators == _as_written(metadata, version) and again.master_states == metadata.master_states
    if not same or write_metadata(again, version) != data:
        raise WriteFailed("the metadata read back differ from what was written", where=where)
    return data, again


def _as_written(metadata: SnapshotMetadata, version: int) -> tuple[Any, ...]:
    """The operators as a file of this version contains them."""
    if version >= 5:
        return metadata.operators
    return tuple(replace(operator, name=None, uid=None) for operator in metadata.operators)
