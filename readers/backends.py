"""Open the keyed state of a subtask by the type of its handle in ``_metadata``.

To support another handle type, add a case here (in ``materialized_files`` if changelogs may contain it); to support
another layout of entries, write its split and its subclass of `KeyedFile`.
"""

from __future__ import annotations

from stateproc.metadata.keyed_handles import ChangelogHandle, FileChangelogHandle, InMemoryChangelogHandle, KeyedHandle
from stateproc.readers.changelog.changelog_file import ChangelogFile, DetachedSegments
from stateproc.readers.keyed_file import KeyedFile, SharedStates
from stateproc.readers.materialized_files import open_materialized_file
from stateproc.serializers import Serializer
from stateproc.storage import SnapshotLocation


def open_keyed_file(
    handle: KeyedHandle,
    location: SnapshotLocation,
    max_parallelism: int,
    subtask: int,
    shared: SharedStates,
    *,
    key_handles: tuple[KeyedHandle, ...] = (),
    key_type: Serializer | None = None,
) -> KeyedFile:
    """Return the file of a handle; reads nothing.

    Args:
        handle: The handle of a subtask.
        location: The snapshot that contains it.
        max_parallelism: The operator's number of key groups.
        subtask: The subtask's index.
        shared: Headers shared with the other subtasks' files.
        key_handles: For changelogs, materialized handles of other subtasks, whose headers contain the key's serializer.
        key_type: The key's serializer as the user specifies it, for changelogs that do not contain it.
    """
    if isinstance(handle, ChangelogHandle):
        return ChangelogFile(
            subtask, handle, location, max_parallelism, shared, key_handles=key_handles, key_type=key_type
        )
    if isinstance(handle, FileChangelogHandle | InMemoryChangelogHandle):
        return DetachedSegments(subtask, handle, location, max_parallelism, shared)
    return open_materialized_file(handle, location, max_parallelism, subtask, shared)
