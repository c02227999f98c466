"""Open the materialized part of a changelog handle: handles of the backend that the changelog wraps."""

from __future__ import annotations

from stateproc.errors import UnsupportedSnapshot
from stateproc.metadata.handles import KeyedHandle
from stateproc.readers.keyed_file import KeyedFile
from stateproc.readers.materialized_backends import MATERIALIZED_BACKENDS
from stateproc.storage import SnapshotLocation


def materialized_file(handle: KeyedHandle, location: SnapshotLocation, max_parallelism: int = 0) -> KeyedFile:
    """Return the file of one materialized handle.

    Args:
        handle: One of ``ChangelogHandle.materialized``.
        location: The snapshot.
        max_parallelism: The operator's number of key groups; not needed to read the header only.

    Raises:
        UnsupportedSnapshot: Changelogs do not contain handles of this type.
    """
    if type(handle) not in MATERIALIZED_BACKENDS:
        raise UnsupportedSnapshot(f"a changelog whose materialized part is a {type(handle).__name__}")
    return KeyedFile(0, handle, location, max_parallelism, MATERIALIZED_BACKENDS)
