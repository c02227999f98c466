"""Decide what Flink's claim mode changes: who owns the files of a snapshot once a job has been restored from it.

The modes are those of Flink 1.15 and later (`execution.state-recovery.claim-mode`, before 1.20
`execution.savepoint-restore-mode`). Earlier releases restore as LEGACY does, which Flink 2.3 still has.

* NO_CLAIM, the default, begins with a full checkpoint. The changelog backend cannot take one, and the job fails.
* CLAIM gives the files to the job: Flink deletes them when its newer checkpoints do not need them, and all of them when
  the job has finished, whoever else needs them.
* LEGACY leaves the files to nobody, and goes on to use them.

Under CLAIM and LEGACY the checkpoints of a job name the tables of a native savepoint as if they were beside their own
`_metadata`, and are not restored (FLINK-39964). Measured with Flink 1.20 and 2.3, and but for changelogs with 1.19.

Full checkpoints, those of hashmap and of RocksDB without `incremental`, share no files: no mode changes anything.
"""

from __future__ import annotations

from collections.abc import Iterator

from stateproc.catalog.discovery import SnapshotDirectory, discover
from stateproc.catalog.file_references import FileReferences, file_references
from stateproc.catalog.listing import metadata_bytes
from stateproc.compatibility.storage_rules import Obstacle
from stateproc.compatibility.verdicts import Caution
from stateproc.errors import InvalidOption, SnapshotError
from stateproc.flink_versions import Release
from stateproc.html.units import some_of
from stateproc.metadata.keyed_handles import ChangelogHandle, FileChangelogHandle, IncrementalHandle, KeyedHandle
from stateproc.metadata.reader import read_metadata
from stateproc.metadata.snapshot_kind import CHECKPOINT, snapshot_kind
from stateproc.metadata.stream_handles import FileHandle, KeyGroupsHandle, SegmentHandle, StreamHandle
from stateproc.metadata.walk import relative_shared_files
from stateproc.model.snapshot import SnapshotContents
from stateproc.storage.uris import normalize, parent

NO_CLAIM, CLAIM, LEGACY = CLAIM_MODES = ("NO_CLAIM", "CLAIM", "LEGACY")
"""Claim modes, as Flink spells them."""
FIRST_WITH_MODES, FIRST_WITH_CLAIM_MODE = Release(1, 15), Release(1, 20)
"""The first release that has modes, and the first whose command line names them `-claimMode`."""
_NOT_FULL = (
    "java.lang.IllegalStateException: Configured state backend "
    "(org.apache.flink.state.changelog.ChangelogStateBackend) does not support enforcing a full snapshot. "
    "If you are restoring in NO_CLAIM mode, please consider choosing {0} mode."
)
_CHANGELOG = (
    "the job has a changelog, whose backend cannot take the full checkpoint that the claim mode NO_CLAIM begins with: "
    "the job fails at its first checkpoint"
)
_OFF = "state.changelog.enabled: false"
_SHOWN = 3


def check_claim_mode(mode: str | None, release: Release) -> str | None:
    """Return the claim mode. Raises InvalidOption for none, and for one that the release does not have."""
    if mode is None:
        return None
    if mode not in CLAIM_MODES:
        raise InvalidOption(f"there is no claim mode {mode!r}", advice=f"give {', '.join(CLAIM_MODES)}")
    if release < FIRST_WITH_MODES and mode != LEGACY:
        raise InvalidOption(
            f"Flink {release} has no claim modes, which came with Flink {FIRST_WITH_MODES}",
            advice=f"leave the claim mode out: Flink {release} restores as later releases do with LEGACY",
        )
    return mode


def claim_obstacle(job: SnapshotContents, release: Release, mode: str | None) -> Obstacle | None:
    """Return why the job fails under a claim mode; None if it does not, or no mode is given.

    Args:
        job: A snapshot of the job that restores: the one that is restored, where it is the same job.
        release: The release that the job runs on.
    """
    if mode != NO_CLAIM or not _has_changelog(job):
        return None
    modes = "CLAIM" if release >= FIRST_WITH_CLAIM_MODE else "either CLAIM or LEGACY restore"
    return Obstacle(_CHANGELOG, _NOT_FULL.format(modes), _without_changelog(release))


def claim_cautions(
    snapshot: SnapshotContents, job: SnapshotContents, release: Release, mode: str | None
) -> Iterator[Caution]:
    """Yield what a claim mode does to the snapshot, to others and to the job's checkpoints after the restore.

    The arguments are those of `claim_obstacle`, with the snapshot that is restored. Without a mode the default is
    meant: it only matters where it fails.
    """
    if mode is None and release >= FIRST_WITH_MODES and _has_changelog(job):
        yield Caution(f"Flink's default: {_CHANGELOG}", _without_changelog(release))
    if mode not in (CLAIM, LEGACY):
        return
    off = f", with the changelog off ({_OFF})" if _has_changelog(job) else ""
    instead = f"restore with {_option(release)} NO_CLAIM{off}"
    if snapshot_kind(snapshot.metadata) != CHECKPOINT and next(
        relative_shared_files(snapshot.metadata.operators), None
    ):
        yield Caution(
            f"after {mode}, incremental checkpoints of the job name tables of this savepoint as if they were beside "
            "their own _metadata, and Flink does not restore them (FLINK-39964)",
            instead,
        )
    elif _has_shared_files(snapshot) and mode == LEGACY:
        yield Caution(
            "after LEGACY, checkpoints of the job go on to need files of this one, which Flink never deletes",
            f"keep the directory {parent(snapshot.location.directory_uri)}, or {instead}",
        )
    elif _has_shared_files(snapshot):
        # A canonical copy: of a native one the checkpoints could not be restored.
        copied = f"; or claim a copy: stateproc convert --to canonical {snapshot.path} TARGET"
        yield from _of_claimed_files(snapshot, instead if _has_changelog(job) else instead + copied)


def _of_claimed_files(snapshot: SnapshotContents, fix: str) -> Iterator[Caution]:
    try:
        sharing = list(_checkpoints_that_share(snapshot))
    except SnapshotError as error:
        yield Caution(
            "after CLAIM, Flink deletes files of this checkpoint; whether other checkpoints need them is not known: "
            f"{error.message}",
            fix,
        )
        return
    if sharing:
        yield Caution(
            f"after CLAIM, Flink deletes files of this checkpoint that {some_of(sharing, _SHOWN)} beside it "
            f"{_need(sharing)}, too: at the latest when the job has finished",
            fix,
        )


def _need(names: list[str]) -> str:
    return "needs" if len(names) == 1 else "need"


def _option(release: Release) -> str:
    return "-claimMode" if release >= FIRST_WITH_CLAIM_MODE else "-restoreMode"


def _without_changelog(release: Release) -> str:
    return f"restore with {_option(release)} CLAIM, or turn the changelog off ({_OFF})"


def _keyed_handles(snapshot: SnapshotContents) -> Iterator[KeyedHandle]:
    for operator in snapshot.metadata.operators:
        for subtask in operator.subtasks:
            if subtask.managed_keyed is not None:
                yield subtask.managed_keyed


def _has_changelog(snapshot: SnapshotContents) -> bool:
    return any(isinstance(handle, ChangelogHandle) for handle in _keyed_handles(snapshot))


def _has_shared_files(snapshot: SnapshotContents) -> bool:
    """Return whether other checkpoints may use its files: those of RocksDB's tables and of changelogs."""
    streams = (stream for handle in _keyed_handles(snapshot) for stream in _shared_streams(handle))
    return any(isinstance(stream, FileHandle | SegmentHandle) for stream in streams)


def _shared_streams(handle: KeyedHandle) -> Iterator[StreamHandle]:
    if isinstance(handle, IncrementalHandle):
        yield from (stream for _, stream in handle.shared)
    elif isinstance(handle, ChangelogHandle):
        for part in handle.materialized:
            yield from [part.stream] if isinstance(part, KeyGroupsHandle) else _shared_streams(part)
        for log in handle.non_materialized:
            yield from (stream for _, stream in log.segments) if isinstance(log, FileChangelogHandle) else ()


def _checkpoints_that_share(snapshot: SnapshotContents) -> Iterator[str]:
    """Yield the names of the checkpoints in the same directory that use files of a checkpoint. Raises SnapshotError."""
    own_uri = normalize(snapshot.location.directory_uri)
    found = discover([parent(snapshot.location.directory_uri)], snapshot.location.metadata.options)
    beside = [item for item in found.complete if parent(normalize(item.uri)) == parent(own_uri)]
    own = next((_references(item, found.roots) for item in beside if normalize(item.uri) == own_uri), None)
    if own is None:
        return
    for item in beside:
        if normalize(item.uri) != own_uri and any(map(own.has, _references(item, found.roots).ids.tolist())):
            yield item.name


def _references(item: SnapshotDirectory, roots: tuple[str, ...]) -> FileReferences:
    return file_references(read_metadata(metadata_bytes(item), file=item.metadata_uri), item.uri, roots)
