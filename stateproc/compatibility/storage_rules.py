"""Decide whether a release, and a state backend, read the files of a snapshot: `_metadata`, state handles, tables.

Flink reads a file that `_metadata` names by a whole path at that path, and any other one beside `_metadata`.

Canonical savepoints of Flink 1.13 and later are restored by every backend, all else by the one that wrote it. Of a
changelog that is what is materialized; the log itself every backend replays. Measured with Flink 1.20 and 2.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from stateproc.errors import (
    CorruptSnapshot,
    InvalidOption,
    MisplacedFile,
    MissingFile,
    UnknownKeyType,
    UnsupportedSnapshot,
    UntrustedPath,
)
from stateproc.flink_versions import Release
from stateproc.metadata.keyed_handles import ChangelogHandle, IncrementalHandle, KeyedHandle
from stateproc.metadata.snapshot_kind import first_reading_release
from stateproc.metadata.stream_handles import (
    CANONICAL_TYPE,
    ByteStreamHandle,
    EmptySegmentHandle,
    KeyGroupsHandle,
    RelativeFileHandle,
)
from stateproc.metadata.walk import SEGMENT, StreamUse, walk_operator
from stateproc.model.config_snapshots import ADVICE, FIRST_WITHOUT, config_snapshot_note, config_snapshot_states
from stateproc.model.operator import Operator
from stateproc.model.snapshot import SnapshotContents
from stateproc.storage import FileSource, open_handle
from stateproc.storage.concurrency import map_in_order
from stateproc.storage.uris import join, normalize

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
_NO_FILE = "java.io.FileNotFoundException: {0}"
_AT_ONCE, _PER_TASK = 16, 64
"""Threads that look for files, and files that each looks for, one after another."""
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
    files = _files(operator)
    parts = [files[at : at + _PER_TASK] for at in range(0, len(files), _PER_TASK)]
    lost = next(filter(None, map_in_order(partial(_first_lost, operator), parts, _AT_ONCE)), None)
    if lost is not None:
        return lost
    for problem in operator.problems:
        if isinstance(problem, UnknownKeyType):  # Flink has the key's serializer from the job.
            continue
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


def _files(operator: Operator) -> list[StreamUse]:
    """The files of an operator, each once."""
    uses = {use.handle: use for use in walk_operator(operator.metadata)}
    return [use for handle, use in uses.items() if not isinstance(handle, ByteStreamHandle | EmptySegmentHandle)]


def _first_lost(operator: Operator, uses: Iterable[StreamUse]) -> Obstacle | None:
    return next(filter(None, (_lost(operator, use) for use in uses)), None)


def _lost(operator: Operator, use: StreamUse) -> Obstacle | None:
    """Return why Flink does not find a file, or not all of it. Where nothing here may look for it, nothing is known."""
    handle = use.handle
    try:
        source = open_handle(handle, operator.location, whole=use.role != SEGMENT)
        if not isinstance(source, FileSource):
            return None
        if use.role == SEGMENT:  # A handle counts the plain bytes of a compressed segment.
            source = replace(source, size=0)
        source.check_exists()
    except (MissingFile, CorruptSnapshot, UnsupportedSnapshot) as error:
        if isinstance(error, UnsupportedSnapshot | UntrustedPath) and not isinstance(error, MisplacedFile):
            return None
        reason, _, _ = str(error.at(operator=operator.display)).partition("\n")
        thrown = _NO_FILE.format(error.where.file) if isinstance(error, MissingFile) else None
        return Obstacle(reason, thrown, error.advice or "use another snapshot")
    if not isinstance(handle, RelativeFileHandle):
        return None
    beside = join(operator.location.directory_uri, handle.path)
    if normalize(source.name) == normalize(beside):
        return None
    return Obstacle(
        f"a file that Flink reads at {beside} is at {source.name}",
        _NO_FILE.format(beside),
        f"stateproc copy {operator.location.directory_uri} TARGET, which takes it along",
    )


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
