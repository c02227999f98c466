"""The materialized part of a changelog handle: entries of the inner backend, all in the composite form."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.builder import Builder
from stateproc.errors import UnsupportedSnapshot
from stateproc.keygroups.ranges import prefix_width
from stateproc.metadata.backend import KeyedHeader, read_keyed_header
from stateproc.metadata.handles import IncrementalHandle, KeyedHandle, KeyGroupsHandle
from stateproc.readers.canonical.reader import canonical_entries
from stateproc.readers.changelog.operations import Raw, items_of, pairs_of, value_of
from stateproc.readers.common.entry_decoder import decode_entries
from stateproc.readers.common.entry_programs import Columns, EntryProgram
from stateproc.readers.common.header_reader import MAX_HEADER, read_whole_header
from stateproc.readers.common.key_group_blocks import KeyGroupRange, group_ranges
from stateproc.readers.common.layout_detection import is_canonical
from stateproc.readers.common.raw_entries import RawEntries
from stateproc.readers.common.state_descriptor import KeyedState, StateKind
from stateproc.readers.heap.reader import heap_batches, heap_entries
from stateproc.readers.rocksdb.db_iterator import rocksdb_entries
from stateproc.readers.rocksdb.open_database import database_files
from stateproc.readers.rocksdb.splits import runs_of
from stateproc.serializers import LayoutContext
from stateproc.storage import ByteSource, SnapshotLocation, open_handle


def materialized_header(handle: KeyedHandle, location: SnapshotLocation) -> KeyedHeader:
    """The header of one of the inner backend's handles. Raises CorruptSnapshot, MissingFile, UnsupportedSnapshot."""
    if isinstance(handle, IncrementalHandle):
        meta = open_handle(handle.meta, location)
        return read_whole_header(meta.read_all(MAX_HEADER), meta.name, read_keyed_header)
    source, ranges = _key_groups_file(handle, location)
    size = ranges[0].start if ranges else source.size
    return read_whole_header(source.read(0, min(size, MAX_HEADER)), source.name, read_keyed_header)


def _key_groups_file(handle: KeyedHandle, location: SnapshotLocation) -> tuple[ByteSource, list[KeyGroupRange]]:
    if not isinstance(handle, KeyGroupsHandle):
        raise UnsupportedSnapshot(f"a changelog whose materialized part is a {type(handle).__name__}")
    source = open_handle(handle.stream, location)
    return source, group_ranges(handle.first_key_group, handle.offsets, source.size, source.name)


@dataclass(frozen=True)
class Materialized:
    """One state in one of the inner backend's handles. ``states``: of the handle's own header, by id."""

    handle: KeyedHandle
    location: SnapshotLocation
    header: KeyedHeader
    states: Sequence[KeyedState | str]
    target: KeyedState
    max_parallelism: int
    verify: bool = True

    def batches(self, groups: Collection[int], ctx: LayoutContext, *, flatten: bool) -> Iterator[pa.RecordBatch]:
        """The state's rows in these key groups as they were when it was materialized."""
        entries = self.composite_entries(groups)
        if entries is not None:
            yield from decode_entries(entries, self.target, ctx, flatten=flatten)
            return
        source, ranges = self._ranges(groups)
        compressed = self.header.compressed
        yield from heap_batches(source, ranges, self.states, self.target, ctx, compressed=compressed, flatten=flatten)

    def contents(self, groups: Collection[int], ctx: LayoutContext) -> Iterator[RawEntries | Columns]:
        """The state in these key groups: composite entries, or what `heap_columns` gives of native heap files."""
        composite = self.composite_entries(groups)
        yield from self.heap_columns(groups, ctx) if composite is None else composite

    def heap_columns(self, groups: Collection[int], ctx: LayoutContext) -> Iterator[Columns]:
        """The state's entries in these key groups of a native heap file, as the bytes of `raw_program`."""
        source, ranges = self._ranges(groups)
        program, compressed = raw_program(self.target, ctx), self.header.compressed
        yield from heap_entries(source, ranges, self.states, self.target, ctx, program, dict, compressed=compressed)

    def composite_entries(self, groups: Collection[int]) -> Iterator[RawEntries] | None:
        """Entries of RocksDB and of canonical files; None for native heap files."""
        prefix = prefix_width(self.max_parallelism)
        if isinstance(self.handle, IncrementalHandle):
            return _rocksdb(self.handle, self.location, self.target.name, groups, prefix, self.verify)
        source, ranges = _key_groups_file(self.handle, self.location)
        assert isinstance(self.handle, KeyGroupsHandle)
        if not is_canonical(self.handle.type_byte, self.handle.offsets, source, tuple(ranges)):
            return None
        return canonical_entries(
            source,
            [item for item in ranges if item.key_group in groups],
            compressed=self.header.compressed,
            prefix=prefix,
            state_id=self.target.state_id,
            n_states=len(self.states),
        )

    def _ranges(self, groups: Collection[int]) -> tuple[ByteSource, list[KeyGroupRange]]:
        source, ranges = _key_groups_file(self.handle, self.location)
        return source, [item for item in ranges if item.key_group in groups]


def _rocksdb(
    handle: IncrementalHandle,
    location: SnapshotLocation,
    state: str,
    groups: Collection[int],
    prefix: int,
    verify: bool,
) -> Iterator[RawEntries]:
    files = database_files(handle, location)
    runs = runs_of(sorted(set(groups).intersection(handle.key_groups)))
    yield from rocksdb_entries(files, state, runs, prefix, verify=verify)


def raw_program(state: KeyedState, ctx: LayoutContext) -> EntryProgram:
    """A program that takes native heap entries apart into bytes: namespace, key, value (items, pairs); of timers
    the value only."""
    scope = () if state.kind.is_queue else (("namespace", state.namespace), ("key", state.key))
    layouts = {name: Raw(serializer.layout(ctx.inner)) for name, serializer in scope}
    value = {StateKind.LIST: items_of, StateKind.MAP: pairs_of}.get(state.kind, value_of)
    b = Builder()
    columns = {name: layout.emit(b, False) for name, layout in layouts.items()}
    columns["value"] = value(state, ctx).emit(b, False)
    b.op(ops.ROW_END)
    return EntryProgram(b.build(), columns, -1, None)
