"""Begin, complete and abort a write on the driver. ``_metadata`` is written last, and makes the files a snapshot.

Each write has a marker file (see ``staging``). A write begins with its own marker, then takes the directory over: it
removes the markers of other writes, which were killed or are under way, then looks for a snapshot. A write whose marker
is gone cannot complete, so that of several writes to a directory one succeeds, or each replaces the one before:

- where stores rename, ``_metadata`` is written under another name, then the marker looked for, then the file renamed.
  Who takes over removes the marker, then that file: the rename fails unless it came first. Files of other writes are
  removed as soon as their markers are, so that the disk has space for the new ones.
- on S3, ``_metadata`` is written on the condition that what was there before the last look at the marker still is.
  Files of other writes are removed when this one is complete: until then one of them may become so.
- on other object stores the marker is looked for again after ``_metadata`` was written, which is removed if it is
  gone. Two writes that meet in this moment may both be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stateproc.errors import InvalidOption, SnapshotError, Where, WriteFailed
from stateproc.metadata import SnapshotMetadata, read_metadata, walk_stream_handles
from stateproc.metadata.stream_handles import KeyGroupsHandle, RelativeFileHandle, StreamHandle
from stateproc.metadata.writer import write_metadata
from stateproc.storage.layout import METADATA, run_of_file, run_of_marker
from stateproc.storage.store import Entry, StorePath
from stateproc.storage.uris import absolute, real_path, same_store, scheme_of
from stateproc.storage.writing import (
    file_version,
    make_directory,
    publish_over,
    remove,
    remove_empty_directory,
    remove_quietly,
    rename,
    renames,
    write_file,
)
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
        self._manifest: bytes | None = None
        """What this write has written as its manifest."""
        self._taken_over: frozenset[str] = frozenset()
        """Runs of writes that cannot complete any more once this one has."""

    @classmethod
    def begin(
        cls,
        directory: StorePath,
        *,
        overwrite: bool = False,
        sources: Sequence[str] = (),
        hooks: CommitHooks | None = None,
    ) -> Commit:
        """Begin to write a snapshot to a directory. Writes that were killed or are under way there cannot complete.

        Args:
            directory: it is created if it does not exist.
            overwrite: replace an existing snapshot, once the new one is complete.
            sources: directories of snapshots that are read.
            hooks: what is called before the snapshot is complete.

        Raises:
            InvalidOption: the directory contains a snapshot or other files, or is a source or inside of one.
            WriteFailed: the directory cannot be written, or another write began at the same moment and goes on.
        """
        exists = _checked(directory, sources)
        staging = Staging(directory, new_run())
        earlier = _runs_of_markers(_entries(staging)) if exists else frozenset()
        if exists:
            _refuse_taken(staging, overwrite)
        make_directory(directory)
        commit = cls(staging, overwrite, not exists, hooks or CommitHooks())
        try:
            write_file(staging.marker, _MARKER_TEXT)
            commit._take_over(earlier)
        except SnapshotError:
            commit.abort()
            raise
        return commit

    def _take_over(self, earlier: frozenset[str]) -> None:
        """End other writes: their markers first, then what would become ``_metadata``, then, where it is safe, files.

        ``earlier``: runs whose markers were there before this write's own. Of those that began meanwhile, one goes on.
        """
        staging = self.staging
        runs = _runs_of_markers(_entries(staging))
        if staging.run not in runs:
            staging.check_under_way()
        if any(run > staging.run for run in runs - earlier):
            raise WriteFailed(
                "another write to this directory began at the same moment, and goes on",
                where=Where(file=staging.directory_uri),
                advice="run one write at a time to a directory",
            )
        for run in sorted(runs - {staging.run}):
            other = Staging(staging.directory, run)
            remove(other.marker)
            remove(other.unfinished)
        _refuse_taken(staging, self._overwrite)
        leftovers = _ended_leftovers(staging)
        self._taken_over = frozenset(filter(None, map(run_of_file, leftovers)))
        if renames(staging.directory):
            for name in leftovers:
                remove(staging.directory / name)

    def complete(self, metadata: SnapshotMetadata, version: int) -> tuple[str, ...]:
        """Write ``_metadata``, which completes the snapshot.

        Returns:
            Names of obsolete files that could not be removed; they do no harm.

        Raises:
            WriteFailed: the directory has no new snapshot then; one that was there before stays.
        """
        staging = self.staging
        data, again = _read_back(metadata, version, staging)
        if self._hooks.check is not None:
            self._hooks.check(again, staging)
        version_before = file_version(staging.metadata)
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
        manifest_before = _manifest_at(staging)
        if self._hooks.manifest is not None:
            self._manifest = self._hooks.manifest(data, staging.run)
            self._publish(MANIFEST, self._manifest)
        # A store that does not know the condition has written nothing.
        if version_before is None or not publish_over(staging.metadata, data, version_before):
            self._publish(METADATA, data)
            if not renames(staging.directory):
                self._withdraw_if_over(data)
        # First, so that an attempt of a task that ends from now on finds the write over and removes its file itself.
        marker = staging.marker.name
        left = [] if self._removed(marker) else [marker]
        kept, names = _relative_files(again), self._names_now() or entries
        over = {staging.run, *self._taken_over}
        stale = [name for name in names if (run_of_file(name) in over or name in before) and name not in kept]
        if self._manifest is None and self._is_manifest(manifest_before):
            stale.append(MANIFEST)  # of the snapshot that was replaced
        return (*(name for name in stale if not self._removed(name)), *left)

    def _publish(self, name: str, data: bytes) -> None:
        """Write a file atomically, where stores rename only while no other write has taken over. Raises WriteFailed."""
        staging = self.staging
        if not renames(staging.directory):
            write_file(staging.directory / name, data)
            return
        try:
            write_file(staging.unfinished, data)
            staging.check_under_way()
            rename(staging.unfinished, staging.directory / name)
        except WriteFailed:
            staging.check_under_way()  # then this is the reason
            raise

    def abort(self) -> None:
        """End the write, remove its files, and its directory if the write created it. Raises nothing.

        A running task notices that its write is over and removes its file itself.
        """
        staging = self.staging
        remove_quietly(staging.marker)
        remove_quietly(staging.unfinished)
        try:
            entries = staging.directory.entries()
            leftovers = [name for name in _leftovers(staging, entries) if run_of_file(name) == staging.run]
        except SnapshotError:
            return
        if all(entry.name != METADATA for entry in entries) and self._is_manifest(self._manifest):
            leftovers.append(MANIFEST)
        for name in leftovers:
            self._removed(name)
        if self._made_directory:
            remove_empty_directory(staging.directory)

    def _is_manifest(self, manifest: bytes | None) -> bool:
        """Return whether the manifest in the directory is this one, and not that of a write that has taken over."""
        try:
            return manifest is not None and _manifest_at(self.staging) == manifest
        except SnapshotError:
            return False

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
        """Remove ``_metadata`` again if another write has taken over the directory."""
        staging = self.staging
        if staging.under_way:
            return
        if staging.metadata.read_range(0, len(data) + 1) == data:
            remove(staging.metadata)
        staging.check_under_way()


def finish_killed(directory: StorePath, run: str) -> None:
    """Remove what a write has left that was killed between ``_metadata`` and its end.

    Files of other writes stay while their markers are there: these may be under way.

    Raises:
        WriteFailed: a file cannot be removed.
    """
    staging = Staging(directory, run)
    remove(staging.marker)
    remove(staging.unfinished)
    for name in _ended_leftovers(staging):
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


def _runs_of_markers(entries: Iterable[Entry]) -> frozenset[str]:
    return frozenset(filter(None, (run_of_marker(entry.name) for entry in entries)))


def _entries(staging: Staging) -> list[Entry]:
    """The files in the directory; none if it is gone: on object stores it ends with its last file."""
    return staging.directory.entries() if staging.directory.exists() else []


def _leftovers(staging: Staging, entries: Sequence[Entry]) -> list[str]:
    """State files among entries that the existing ``_metadata`` does not name; none if it cannot be read."""
    found = _metadata_at(staging)
    if found is None and staging.metadata.exists(fresh=True):
        return []
    kept = _relative_files(found)
    return [entry.name for entry in entries if run_of_file(entry.name) is not None and entry.name not in kept]


def _ended_leftovers(staging: Staging) -> list[str]:
    """State files that the existing ``_metadata`` does not name, of writes that have ended.

    A write begins with its marker and ends with ``_metadata``. So the files are listed first, then the markers, and
    ``_metadata`` is read last: it names the files of a write that has ended meanwhile.
    """
    before = _entries(staging)
    under_way = _runs_of_markers(_entries(staging))
    return [name for name in _leftovers(staging, before) if run_of_file(name) not in under_way]


def _metadata_at(staging: Staging) -> SnapshotMetadata | None:
    """The existing snapshot; None if it cannot be read."""
    status = staging.metadata.status()
    if status is None:
        return None
    try:
        return read_metadata(staging.metadata.read_range(0, status.size), file=staging.metadata.uri)
    except SnapshotError:
        return None


def _manifest_at(staging: Staging) -> bytes | None:
    """The manifest in the directory; None if there is none."""
    path = staging.directory / MANIFEST
    status = path.status()
    return None if status is None else path.read_range(0, status.size)


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
