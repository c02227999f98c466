"""Decide whether a release, and a state backend, read the files of a snapshot: `_metadata`, state handles, tables.

Canonical savepoints of Flink 1.13 and later are restored by every backend, all else by the one that wrote it. Of a
changelog that is what is materialized; the log itself every backend replays. Measured with Flink 1.20 and 2.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stateproc.errors import InvalidOption
from stateproc.flink_versions import Release
from stateproc.metadata.handles import CANONICAL_TYPE, ChangelogHandle, IncrementalHandle, KeyedHandle, KeyGroupsHandle
from stateproc.metadata.snapshot_kind import first_reading_release
from stateproc.model.config_snapshots import ADVICE, FIRST_WITHOUT, config_snapshot_note, config_snapshot_states
from stateproc.model.operator import Operator
from stateproc.model.snapshot import SnapshotContents

_VERSION = "java.lang.IllegalArgumentException: Unrecognized checkpoint version number: {0}"
_CHECKSUM = "org.rocksdb.RocksDBException: unknown checksum type"
HASHMAP, ROCKSDB = BACKENDS = ("hashmap", "rocksdb")
"""State backends, as `state.backend.type` has them."""
_STATE = "org.apache.flink.runtime.state"
_OF_TABLES = (
    f"java.lang.IllegalStateException: Unexpected state handle type, expected one of: class {_STATE}."
    f"KeyGroupsStateHandle, but found: class {_STATE}.IncrementalRemoteKeyedStateHandle."
)
_OF_FULL = "java.lang.IllegalStateException: Unexpected key-group in restore."
_OF_HEAP = f"{_STATE}.BackendBuildingException: Caught unexpected exception."
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


def check_backend(name: str | None) -> str | None:
    """Return the name of a state backend. Raises InvalidOption for none."""
    if name is not None and name not in BACKENDS:
        raise InvalidOption(f"there is no state backend {name!r}", advice=f"give {' or '.join(BACKENDS)}")
    return name


def backend_obstacle(snapshot: SnapshotContents, operator: Operator, backend: str) -> Obstacle | None:
    """Return why a state backend does not restore the keyed state of an operator; None if it does."""
    layouts = {file.layout for file in operator.keyed_files}
    handles = (subtask.managed_keyed for subtask in operator.metadata.subtasks if subtask.managed_keyed is not None)
    for handle in (part for whole in handles for part in _restored(whole)):
        found = _of_another_backend(handle, layouts, backend)
        if found is not None:
            what, exception = found
            return Obstacle(
                f"its keyed state is {what}, which only the other state backend restores",
                exception,
                f"stateproc convert --to canonical {snapshot.path} TARGET, which both restore",
            )
    return None


def _restored(handle: KeyedHandle) -> Iterator[KeyedHandle]:
    """The handles that the backend itself restores: of a changelog those that are materialized."""
    if isinstance(handle, ChangelogHandle):
        for part in handle.materialized:
            yield from _restored(part)
    else:
        yield handle


def _of_another_backend(handle: KeyedHandle, layouts: set[str], backend: str) -> tuple[str, str] | None:
    if isinstance(handle, IncrementalHandle):
        return None if backend == ROCKSDB else ("a RocksDB database", _OF_TABLES)
    if not isinstance(handle, KeyGroupsHandle) or handle.type_byte == CANONICAL_TYPE:
        return None
    if "canonical" in layouts:
        return None if backend == ROCKSDB else ("that of RocksDB in a savepoint before Flink 1.13", _OF_FULL)
    return None if backend == HASHMAP else ("that of the hashmap backend", _OF_HEAP)
