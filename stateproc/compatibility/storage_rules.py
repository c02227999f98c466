"""Decide whether a release reads the files of a snapshot: `_metadata`, state handles, RocksDB's tables."""

from __future__ import annotations

from dataclasses import dataclass

from stateproc.flink_versions import Release
from stateproc.metadata.handles import IncrementalHandle, KeyGroupsHandle
from stateproc.metadata.snapshot_kind import first_reading_release
from stateproc.model.config_snapshots import ADVICE, FIRST_WITHOUT, config_snapshot_note, config_snapshot_states
from stateproc.model.operator import Operator
from stateproc.model.snapshot import SnapshotContents

_VERSION = "java.lang.IllegalArgumentException: Unrecognized checkpoint version number: {0}"
_CHECKSUM = "org.rocksdb.RocksDBException: unknown checksum type"
_HANDLE = "java.lang.IllegalStateException: Reading invalid KeyedStateHandle, type: {0}"


@dataclass(frozen=True)
class Obstacle:
    """Why a snapshot or an operator is refused, apart from types."""

    reason: str
    exception: str | None
    fix: str


def snapshot_obstacle(snapshot: SnapshotContents, release: Release) -> Obstacle | None:
    """Return why the release does not read the ``_metadata`` of a snapshot; None if it does."""
    version = snapshot.metadata.version
    if version <= release.metadata_version:
        return None
    return Obstacle(
        f"_metadata has version {version}, of Flink {snapshot.flink_versions}; Flink {release} reads up to version "
        f"{release.metadata_version}",
        _VERSION.format(version),
        f"stateproc upgrade --flink-version {release} {snapshot.path} TARGET",
    )


def operator_obstacle(snapshot: SnapshotContents, operator: Operator, release: Release) -> Obstacle | None:
    """Return why the release does not read the state files of an operator; None if it does."""
    for problem in operator.problems:
        place = f" [{problem.where}]" if str(problem.where) else ""
        return Obstacle(f"{problem.message}{place}", None, problem.advice or f"stateproc verify {snapshot.path}")
    if release >= FIRST_WITHOUT and (states := config_snapshot_states(operator)):
        return Obstacle(config_snapshot_note(states), None, ADVICE)
    for subtask in operator.metadata.subtasks:
        handle = subtask.managed_keyed
        if handle is None:
            continue
        if first_reading_release(handle) > release:
            kind = handle.type_byte if isinstance(handle, KeyGroupsHandle | IncrementalHandle) else "?"
            return Obstacle(
                f"its state handles are those of Flink {first_reading_release(handle)} and later",
                _HANDLE.format(kind),
                f"stateproc upgrade --flink-version {release} {snapshot.path} TARGET",
            )
    tables = any(file.databases for file in operator.keyed_files)
    if tables and not release.reads_tables_of(snapshot.metadata.version):
        return Obstacle(
            f"RocksDB of Flink {release} does not read the checksums of tables that Flink 2 writes",
            _CHECKSUM,
            f"stateproc upgrade --flink-version {release} {snapshot.path} TARGET",
        )
    return None
