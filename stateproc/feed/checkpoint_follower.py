"""Follow the checkpoints below roots: which are new, and whether those of a batch are still there."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stateproc.catalog.discovery import SnapshotDirectory, discover
from stateproc.catalog.entries import utc_time
from stateproc.errors import CorruptSnapshot, LostCheckpoint, MissingFile
from stateproc.feed.changes import FeedSnapshots, open_below
from stateproc.feed.commits import CommitLog, FeedCommit, check_history, ranges_text, version_of
from stateproc.feed.streams import StreamOffset
from stateproc.options import BY_NAME
from stateproc.snapshot.snapshot import Snapshot
from stateproc.storage.layout import METADATA
from stateproc.storage.store import FileStatus, StorePath, is_absent

ADVICE = (
    "let Flink keep more of them (execution.checkpointing.num-retained), so that the stream has time to read them. "
    "Option failOnDataLoss=false goes on with the oldest that is left"
)
_OPEN_AT_A_TIME = 8
_log = logging.getLogger("stateproc")


@dataclass(frozen=True)
class BatchPlan:
    """The snapshots that a batch compares.

    Attributes:
        found: The snapshots with their commits.
        reset: Whether the state that changes would begin with is lost: what is known of the state is void, and
            everything in the first snapshot is inserted.
    """

    found: FeedSnapshots
    reset: bool = False


@dataclass
class CheckpointFollower:
    """Find the completed checkpoints of a job as they appear.

    Attributes:
        roots: Directories of checkpoints and savepoints; some may not exist yet.
        opening: Keyword arguments of `stateproc.open`.
        starting_checkpoint: Changes begin after it; None: everything in the newest is inserted first.
        ending_checkpoint: Nothing after it is read.
        fail_on_data_loss: Whether checkpoints that were deleted before they were read are an error.
    """

    roots: tuple[str, ...]
    opening: Mapping[str, Any] = field(repr=False)
    starting_checkpoint: int | None = None
    ending_checkpoint: int | None = None
    fail_on_data_loss: bool = True
    _opened: OrderedDict[str, Snapshot] = field(default_factory=OrderedDict, repr=False)
    _versions: dict[tuple[str, FileStatus | None], int] = field(default_factory=dict, repr=False)
    _skipped: set[str] = field(default_factory=set, repr=False)

    def initial(self) -> StreamOffset:
        """Return the position at which a new stream begins.

        Raises:
            NotFound: There is no completed checkpoint of the id to start after.
            SnapshotError: A root cannot be listed.
        """
        if self.starting_checkpoint is None:
            return StreamOffset(None)
        log = CommitLog(self.roots, tuple(self._commits()))
        return StreamOffset(log.between(self.starting_checkpoint, self.starting_checkpoint)[0])

    def latest(
        self, start: StreamOffset, most: int | None = None, newest: StreamOffset | None = None
    ) -> StreamOffset | None:
        """Return the position after the checkpoints that were completed since another; None if there are none.

        Args:
            start: The other position.
            most: At most so many checkpoints; None for all.
            newest: Nothing after this position counts.

        Raises:
            InvalidOption: Two new checkpoints have the same id.
            SnapshotError: A root cannot be listed.
        """
        found = self._new_since(start, None if newest is None else newest.version)
        if not found:
            return None
        if start.commit is None:
            check_history([item for item in found if item.version == found[-1].version])
            found = found[-1:]
        check_history(found)
        steps = tuple(found[:most])
        return StreamOffset(steps[-1], steps)

    def plan(self, start: StreamOffset, end: StreamOffset) -> BatchPlan:
        """Open the snapshots of a batch.

        Raises:
            LostCheckpoint: One of them was deleted, and that is an error, or nothing later is left.
            SnapshotError: One cannot be opened.
        """
        steps = _steps(start, end)
        chain = list(steps) if start.commit is None else [start.commit, *steps]
        kept = {commit.path: snapshot for commit in chain if (snapshot := self._reopened(commit.path)) is not None}
        lost = [commit for commit in chain if commit.path not in kept]
        if lost and self.fail_on_data_loss:
            raise lost_checkpoints(lost, self.roots)
        reset = bool(lost) and (chain[0] in lost or chain[-1] in lost)
        if reset:
            # Of the states before, and of what an earlier attempt has passed on of this batch, nothing is known.
            chain = [commit for commit in steps if commit.path in kept] if chain[-1] not in lost else []
            chain = chain or self._oldest_after(end, lost)
            kept = {commit.path: kept.get(commit.path) or self._open(commit.path) for commit in chain}
            _log.warning(
                "%s; the stream goes on with all rows of checkpoint %d", _deleted(lost, self.roots), chain[0].version
            )
        elif lost:
            chain = [commit for commit in chain if commit.path in kept]
            _log.warning(
                "%s; the stream goes on with the changes from checkpoint %d to those left",
                _deleted(lost, self.roots),
                chain[0].version,
            )
        found = FeedSnapshots(tuple(kept[commit.path] for commit in chain), tuple(chain), reset or start.commit is None)
        return BatchPlan(found, reset)

    def plan_states(self, start: StreamOffset, end: StreamOffset) -> BatchPlan:
        """Open the snapshots of a batch of whole states; those before the batch are not needed.

        Raises:
            LostCheckpoint: One of them was deleted, and that is an error.
            SnapshotError: One cannot be opened.
        """
        steps = _steps(start, end)
        found = [(step, self._reopened(step.path)) for step in steps]
        lost = [step for step, snapshot in found if snapshot is None]
        if lost and self.fail_on_data_loss:
            raise lost_checkpoints(lost, self.roots)
        if lost:
            _log.warning("%s; the stream goes on without them", _deleted(lost, self.roots))
        kept = [(step, snapshot) for step, snapshot in found if snapshot is not None]
        return BatchPlan(FeedSnapshots(tuple(item[1] for item in kept), tuple(item[0] for item in kept), True))

    def everything(self) -> StreamOffset:
        """Return the position after all completed checkpoints, for a start that is not known."""
        steps = tuple(self._new_since(StreamOffset(FeedCommit(-1, None, "")), None))
        return StreamOffset(steps[-1], steps) if steps else StreamOffset(None)

    def forget(self) -> None:
        """Open snapshots anew from now on."""
        self._opened.clear()

    def _new_since(self, start: StreamOffset, newest: int | None) -> list[FeedCommit]:
        """Return complete checkpoints after a position, by version; those that cannot be parsed are left out.

        Before the first position these are only the newest, of which there may be several with one id.
        """
        ending = min((item for item in (newest, self.ending_checkpoint) if item is not None), default=None)
        wanted = [
            item
            for item in self._commits()
            if item.version > start.version and (ending is None or item.version <= ending)
        ]
        if start.commit is None:
            last = next((item for item in reversed(wanted) if self._is_complete(item.path)), None)
            return [item for item in wanted if last is not None and item.version == last.version]
        return [item for item in wanted if self._is_complete(item.path)]

    def _commits(self) -> list[FeedCommit]:
        """Return all checkpoints with a ``_metadata``, by version."""
        present = [root for root in self.roots if StorePath.of(root, self._storage).exists(fresh=True)]
        # Savepoints may be taken later: a root that does not exist is an error only if there is no other.
        found = discover(present or self.roots, self._storage)
        if found.failures:
            raise found.failures[0][1]
        versions = [(item, self._version(item)) for item in found.complete]
        commits = [
            FeedCommit(version, utc_time(item.metadata.modified if item.metadata else None), item.uri)
            for item, version in versions
            if version is not None
        ]
        return sorted(commits, key=lambda commit: (commit.version, commit.path))

    def _version(self, item: SnapshotDirectory) -> int | None:
        known = (item.uri, item.metadata)
        try:
            if known not in self._versions:
                self._versions[known] = version_of(item)
            return self._versions[known]
        except MissingFile as error:
            if not is_absent(error):
                raise
            return None
        except CorruptSnapshot as error:
            self._skip(item.uri, error)
            return None

    def _is_complete(self, path: str) -> bool:
        """Whether the ``_metadata`` is there and has been written to its end."""
        try:
            self._open(path)
        except MissingFile as error:
            if not is_absent(error):
                raise
            return False
        except CorruptSnapshot as error:
            self._skip(path, error)
            return False
        return True

    def _skip(self, path: str, error: CorruptSnapshot) -> None:
        if path not in self._skipped:
            self._skipped.add(path)
            _log.warning("%s is being written or damaged; the stream does not read it yet: %s", path, error.message)

    def _reopened(self, path: str) -> Snapshot | None:
        """Return a snapshot that is still there; None for one that was deleted."""
        if (StorePath(path, self._storage) / METADATA).file_status() is None:
            self._opened.pop(path, None)
            return None
        try:
            return self._open(path)
        except MissingFile as error:
            if is_absent(error):
                return None
            raise

    def _open(self, path: str) -> Snapshot:
        if path not in self._opened:
            self._opened[path] = open_below(self.roots, path, self.opening)
            while len(self._opened) > _OPEN_AT_A_TIME:
                self._opened.popitem(last=False)
        self._opened.move_to_end(path)
        return self._opened[path]

    def _oldest_after(self, end: StreamOffset, lost: Sequence[FeedCommit]) -> list[FeedCommit]:
        """Return the oldest checkpoint that is left after a position. Raises LostCheckpoint if there is none."""
        later = self._new_since(end, None)
        if not later:
            raise lost_checkpoints(lost, self.roots)
        return later[:1]

    @property
    def _storage(self) -> dict[str, Any]:
        return BY_NAME["storage_options"].value(self.opening.get("storage_options")) or {}


def _steps(start: StreamOffset, end: StreamOffset) -> tuple[FeedCommit, ...]:
    """Return the checkpoints that a batch reads; if nothing was read before, these are all rows of the last."""
    return end.steps[-1:] if start.commit is None else tuple(item for item in end.steps if item.version > start.version)


def lost_checkpoints(lost: Sequence[FeedCommit], roots: Sequence[str]) -> LostCheckpoint:
    """Return the error for checkpoints that were deleted before they were read."""
    return LostCheckpoint(_deleted(lost, roots), advice=ADVICE)


def _deleted(lost: Sequence[FeedCommit], roots: Sequence[str]) -> str:
    versions = sorted(commit.version for commit in lost)
    ids, were = ("checkpoint", "was") if len(versions) == 1 else ("checkpoints", "were")
    return (
        f"{ids} {ranges_text(versions)} below {', '.join(roots)} {were} deleted before the stream had read the changes"
    )
