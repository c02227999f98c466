"""The table of backends: one row per type of keyed state handle, one per layout of entries.

To support another handle type, add a row here (and in ``materialized_backends`` if changelogs may contain it); to
support another layout, write its split and its `StateLayout` and let the handle's row choose it. Everything that
depends on the backend (headers, splits, raw entries, sizes) is read through these rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from stateproc.metadata.handles import ChangelogHandle, FileChangelogHandle, InMemoryChangelogHandle
from stateproc.readers.changelog.splits import CHANGELOG, CHANGELOG_BACKEND
from stateproc.readers.keyed_file import HandleBackend
from stateproc.readers.materialized_backends import MATERIALIZED_BACKENDS

DETACHED_SEGMENTS = HandleBackend(
    layout=lambda _: CHANGELOG,
    header=lambda _: None,
    data_bytes=lambda _: 0,
    unreadable=(
        "there are segments of a changelog without the changelog handle that they belong to",
        "Flink writes them inside of changelog handles only; take the snapshot again or use a copy",
    ),
)


class _Backends(dict[type, HandleBackend]):
    """The table as an object that is pickled by its name: files in splits refer to it, and rows contain functions."""

    def __reduce__(self) -> str:
        return "BACKENDS"


BACKENDS: Mapping[type, HandleBackend] = _Backends(
    {
        **MATERIALIZED_BACKENDS,
        ChangelogHandle: CHANGELOG_BACKEND,
        FileChangelogHandle: DETACHED_SEGMENTS,
        InMemoryChangelogHandle: DETACHED_SEGMENTS,
    }
)
