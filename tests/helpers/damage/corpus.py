"""What is damaged: files of real Flink's snapshots, each with a way to read all that it holds."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from stateproc.errors import SnapshotError
from stateproc.metadata import SnapshotMetadata, read_metadata
from stateproc.metadata.backend import read_keyed_header
from stateproc.metadata.operator_handles import OperatorStreamHandle
from stateproc.metadata.snapshot import OperatorEntry, SubtaskState
from stateproc.metadata.stream_handles import (
    ByteStreamHandle,
    FileHandle,
    KeyGroupsHandle,
    RelativeFileHandle,
    SegmentHandle,
)
from stateproc.model.operator_state import operator_header
from stateproc.model.state import State
from stateproc.readers.changelog.log_segments import log_source
from stateproc.readers.header_reader import read_whole_header
from stateproc.readers.read_options import ReadOptions
from stateproc.readers.state_descriptor import StateDescriptor, header_states
from stateproc.serializers import LayoutContext, Undecodable
from stateproc.snapshot.snapshot import Snapshot
from stateproc.storage import SnapshotLocation, open_handle
from stateproc.storage.sources import InlineSource
from tests.helpers.fixtures import Fixture, fixtures

RELEASES = ("1.8", "1.20", "2.3")
CASES = (
    "tiny-hashmap-canonical-inline",
    "tiny-hashmap-checkpoint-inline",
    "tiny-hashmap-checkpoint-snappy",
    "tiny-rocksdb-canonical-heaptimers",
    "tiny-rocksdb-full-heaptimers",
    "operators-hashmap-canonical",
    "operators-hashmap-canonical-inline",
    "operators-hashmap-canonical-snappy",
    "edges-hashmap-canonical",
    "edges-hashmap-checkpoint",
    "sql-hashmap-canonical",
    "sql-hashmap-checkpoint",
    "windows-hashmap-checkpoint",
    "windows-rocksdb-canonical",
    "windows-rocksdb-canonical-snappy",
    "kafka-hashmap-checkpoint",
    "kitchen-hashmap-canonical-snappy",
)
_STREAMS = (ByteStreamHandle, FileHandle, RelativeFileHandle, SegmentHandle)
Rows = dict[str, Any]
"""State → its rows or its error."""


@dataclass(frozen=True)
class Target:
    """``data`` of one file; ``read`` reads everything in it, or in a damaged form of it.

    ``body``: where the file's data begin after its header. ``checked``: the data carry checksums.
    """

    name: str
    data: bytes
    read: Callable[[bytes], Rows]
    body: int = 0
    checked: bool = False
    read_all: Callable[[bytes], Rows] | None = None
    rebuilt: _Rebuilt | None = None

    @cached_property
    def all_rows(self) -> dict[str, str]:
        """State → its rows as text, undamaged."""
        assert self.read_all is not None
        return {name: repr(rows) for name, rows in self.read_all(self.data).items()}


def small_fixtures() -> Iterator[Fixture]:
    for fixture in fixtures():
        if fixture.path.parent.name in RELEASES and fixture.path.name in CASES:
            yield fixture


def metadata_targets() -> Iterator[Target]:
    """``_metadata`` of every small fixture, with the files beside it."""
    for fixture in small_fixtures():
        opened = fixture.open()
        with open(f"{fixture.snapshot}/_metadata", "rb") as file:
            data = file.read()

        def read(damaged: bytes, of: Snapshot = opened) -> Rows:
            metadata = read_metadata(damaged, file=of.location.metadata_uri)
            return read_states(Snapshot(of.location, metadata, of.options, ()), damaged)

        yield Target(f"{fixture.name}/_metadata", data, read)


def file_targets() -> Iterator[Target]:
    """Every state file of the small fixtures, each as the only one of its snapshot; equal contents once."""
    seen: set[bytes] = set()
    for fixture in small_fixtures():
        snapshot = fixture.open()
        for operator in snapshot.metadata.operators:
            for subtask in operator.subtasks:
                for target in _subtask_targets(fixture, snapshot, operator, subtask):
                    if target.data not in seen:
                        seen.add(target.data)
                        yield target


def _subtask_targets(
    fixture: Fixture, snapshot: Snapshot, operator: OperatorEntry, subtask: SubtaskState
) -> Iterator[Target]:
    for part in ("managed_keyed", "raw_keyed", "managed_operator"):
        handle = getattr(subtask, part)
        if not isinstance(handle, KeyGroupsHandle | OperatorStreamHandle):
            continue
        source = open_handle(handle.stream, snapshot.location)
        data = source.read_all(1 << 24)
        rebuilt = _Rebuilt(snapshot.location, snapshot.metadata, snapshot.options, operator, subtask, part, handle)
        name = f"{fixture.name}/{operator.operator_id[:6]}/{subtask.index}/{part}"
        offsets = (
            handle.offsets if isinstance(handle, KeyGroupsHandle) else [o for s in handle.states for o in s.offsets]
        )
        body = min((offset for offset in offsets if offset > 0), default=0)
        yield Target(
            name, data, rebuilt.read, body, "snappy" in fixture.name and part != "raw_keyed", rebuilt.read_all, rebuilt
        )


@dataclass(frozen=True)
class _Rebuilt:
    """A snapshot of one operator, one subtask and one handle, the bytes of whose stream are given."""

    location: SnapshotLocation
    metadata: SnapshotMetadata
    options: ReadOptions
    operator: OperatorEntry
    subtask: SubtaskState
    part: str
    handle: Any

    def read(self, data: bytes) -> Rows:
        return read_states(self.snapshot(data), data)

    def read_all(self, data: bytes) -> Rows:
        return read_states(self.snapshot(data), data, 1000)

    def snapshot(self, data: bytes) -> Snapshot:
        empty = SubtaskState(self.subtask.index)
        subtask = replace(empty, **{self.part: self.damaged(data)})
        operator = replace(self.operator, subtasks=(subtask,), coordinator=None)
        metadata = replace(self.metadata, operators=(operator,), master_states=())
        return Snapshot(self.location, metadata, self.options, ())

    def first_groups(self, name: str, data: bytes, most: int) -> Target:
        """The file's first key groups, ``most`` bytes of them or a little more, as a file of their own."""
        offsets = self.handle.offsets
        count = next((index for index, offset in enumerate(offsets) if offset > most), len(offsets))
        part = replace(self, handle=replace(self.handle, offsets=offsets[:count]))
        cut = data[: offsets[count]] if count < len(offsets) else data
        return Target(name, cut, part.read, read_all=part.read_all)

    def damaged(self, data: bytes) -> Any:
        """The handle with these bytes."""
        return replace(self.handle, stream=ByteStreamHandle("damaged", data))


@dataclass(frozen=True)
class _DamagedPart(_Rebuilt):
    """The same of a handle with many streams; ``path`` leads to the one."""

    path: tuple[str | int, ...]

    def damaged(self, data: bytes) -> Any:
        return _with(self.handle, self.path, data)


DATABASES = ("tiny-rocksdb-full", "tiny-rocksdb-full-heaptimers", "tiny-rocksdb-native", "tiny-rocksdb-changelog",
             "tiny-hashmap-changelog", "tiny-hashmap-changelog-memory", "windows-hashmap-changelog")  # fmt: skip


def part_targets() -> Iterator[Target]:
    """Every file of RocksDB databases (tables, MANIFEST, CURRENT, meta) and every segment of changelogs.

    Those of the first subtask of each operator; of changes held in memory, every sixteenth.
    """
    for fixture in fixtures():
        if fixture.path.parent.name in RELEASES[1:] and fixture.path.name in DATABASES:
            snapshot = fixture.open()
            for operator in snapshot.metadata.operators:
                for subtask in operator.subtasks[:1]:
                    yield from _part_targets(fixture, snapshot, operator, subtask)


def _part_targets(
    fixture: Fixture, snapshot: Snapshot, operator: OperatorEntry, subtask: SubtaskState
) -> Iterator[Target]:
    handle = subtask.managed_keyed
    if handle is None:
        return
    for path, stream in _streams(handle):
        if "changes" in path and path[-2] % 16:  # type: ignore[operator]
            continue
        source = log_source if "segments" in path else open_handle
        data = stream if isinstance(stream, bytes) else source(stream, snapshot.location).read_all(1 << 24)
        if not data:
            continue
        name = f"{fixture.name}/{operator.operator_id[:6]}/{'/'.join(map(str, path))}"
        damaged = _DamagedPart(
            snapshot.location, snapshot.metadata, snapshot.options, operator, subtask, "managed_keyed", handle, path
        )
        yield Target(name, data, damaged.read, 0, False, damaged.read_all)


def _streams(item: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """(where it stands, stream handle or bytes) of all there are in a handle."""
    if isinstance(item, (*_STREAMS, bytes)):
        yield path, item
    elif isinstance(item, tuple):
        for index, inner in enumerate(item):
            yield from _streams(inner, (*path, index))
    elif is_dataclass(item):
        for part in fields(item):
            yield from _streams(getattr(item, part.name), (*path, part.name))


def _with(item: Any, path: tuple[str | int, ...], data: bytes) -> Any:
    """Return the handle with ``data`` instead of one of its streams."""
    if not path:
        return data if isinstance(item, bytes) else ByteStreamHandle("damaged", data)
    first, rest = path[0], path[1:]
    if isinstance(first, int):
        return (*item[:first], _with(item[first], rest, data), *item[first + 1 :])
    return replace(item, **{first: _with(getattr(item, first), rest, data)})


def header_targets() -> Iterator[Target]:
    """The headers of the files, with the types of all their states."""
    for target in file_targets():
        if 0 < target.body < len(target.data) and "/raw_keyed" not in target.name:
            yield replace(
                target, data=target.data[: target.body], name=target.name + " header", read=_header_reader(target)
            )


def _header_reader(target: Target) -> Callable[[bytes], Rows]:
    keyed = target.name.endswith("managed_keyed")

    def read(data: bytes) -> Rows:
        if not keyed:
            header = operator_header(InlineSource(target.name, data), len(data))
            infos = [info.value_serializer for info in (*header.states, *header.broadcast)]
            serializers = [serializer for serializer in infos if serializer is not None]
        else:
            states = header_states(read_whole_header(data, target.name, read_keyed_header))
            serializers = [state.value for state in states if isinstance(state, StateDescriptor)]
        for serializer in serializers:
            try:
                _ = serializer.layout(LayoutContext()).arrow_type
            except Undecodable:
                continue  # says which class, and has no place of its own
        return {}

    return read


def read_states(snapshot: Snapshot, data: bytes, most: int = 1) -> Rows:
    """List all states; read ``most`` of them, chosen by the bytes. Errors of a state replace its rows."""
    found: Rows = {}
    views: list[State] = []
    for operator in snapshot.operators:
        found |= {f"{operator.operator_id} problem {i}": error for i, error in enumerate(operator.problems)}
        try:
            views += operator.states
            _ = operator.coordinator
        except SnapshotError as error:
            found[operator.operator_id] = error
    start = zlib.crc32(data) % len(views) if views else 0
    for view in (views[start:] + views[:start])[:most]:
        name = f"{view.operator.operator_id}.{view.name}.{view.kind}"
        try:
            found[name] = [row for batch in view.batches() for row in _plain(batch)]
        except SnapshotError as error:
            found[name] = error
    return found


def _plain(batch: pa.RecordBatch) -> list[Any]:
    """Rows as Python values; as text where Python has none, such as dates after the year 9999."""
    try:
        return batch.to_pylist()
    except OverflowError:
        return [repr(column) for column in batch.columns]
