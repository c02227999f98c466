"""The table of backends: one row per type of keyed state handle, one per layout of entries.

To support another handle type, add a row here (and in ``materialized_backends`` if changelogs may contain it); to
support another layout, write its split and its `StateLayout` and let the handle's row choose it. Everything that
depends on the backend (headers, splits, raw entries, sizes) is read through these rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from stateproc.metadata.backend import KeyedHeader
from stateproc.metadata.handles import ChangelogHandle, FileChangelogHandle, IncrementalHandle, InMemoryChangelogHandle
from stateproc.readers.changelog.changed_entries import changelog_pair_scan
from stateproc.readers.changelog.changelog_split import (
    ChangelogSplit,
    changelog_handle,
    changelog_source,
    changelog_split,
)
from stateproc.readers.changelog.log_metadata import changelog_header, materialized_file
from stateproc.readers.keyed_file import HandleBackend, KeyedFile, SizeRequest, StateLayout, StateSizes
from stateproc.readers.materialized_backends import MATERIALIZED_BACKENDS
from stateproc.readers.splits import KeyedSplit, SplitRequest
from stateproc.readers.state_descriptor import KeyedState, StateKind

# The rows of changelogs in the table of backends.


def _header(file: KeyedFile) -> KeyedHeader | None:
    return changelog_header(changelog_source(file))


def _databases(file: KeyedFile) -> tuple[IncrementalHandle, ...]:
    known = [handle for handle in changelog_handle(file).materialized if type(handle) in MATERIALIZED_BACKENDS]
    parts = [materialized_file(handle, file.location) for handle in known]
    return tuple(handle for part in parts for handle in part.databases)


def _plan(file: KeyedFile, request: SplitRequest) -> list[KeyedSplit]:
    """Divide the key groups into splits of about the requested stored bytes, counting those of all states."""
    size, groups = file.data_bytes, list(changelog_handle(file).key_groups)
    parts = min(max(1, -(-size // max(request.split_bytes, 1))), max(len(groups), 1))
    bounds = [len(groups) * index // parts for index in range(parts + 1)]
    runs = [tuple(filter(request.includes, groups[start:stop])) for start, stop in pairwise(bounds)]
    source = changelog_source(file)
    return [ChangelogSplit(request.scan, source, run, size * len(run) // len(groups)) for run in runs if run]


def _sizes(file: KeyedFile, request: SizeRequest) -> StateSizes:
    return StateSizes(None, {})


def _stores_lengths(file: KeyedFile, state: KeyedState) -> bool:
    """Lists and maps are logged as a count and their items, which have no lengths."""
    if state.kind in (StateKind.LIST, StateKind.MAP):
        return False
    parts = (materialized_file(handle, file.location) for handle in changelog_handle(file).materialized)
    return all(part.stores_lengths(state) for part in parts)


CHANGELOG = StateLayout(
    name="changelog",
    splits=_plan,
    split=changelog_split,
    sizes=_sizes,
    reads_whole_files=True,
    stores_lengths=_stores_lengths,
    pair_scan=changelog_pair_scan,
)

CHANGELOG_BACKEND = HandleBackend(
    layout=lambda _: CHANGELOG,
    header=_header,
    data_bytes=lambda file: file.handle.stored_bytes,
    databases=_databases,
)


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
