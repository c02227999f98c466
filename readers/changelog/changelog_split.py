"""Read some key groups of a state in a changelog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from stateproc.errors import UnsupportedSnapshot, Where
from stateproc.metadata.backend import KeyedHeader, StateMetaInfo
from stateproc.readers.changelog.change_blocks import ChangeBlock
from stateproc.readers.changelog.composite_keys import checked
from stateproc.readers.changelog.log_compaction import compacted_entries
from stateproc.readers.changelog.log_metadata import (
    ChangelogSource,
    DeclaredStateIds,
    changelog_header,
    is_described_by,
    read_declaration,
)
from stateproc.readers.changelog.log_segments import METADATA_GROUP, LogHandle, log_blocks
from stateproc.readers.changelog.records import records
from stateproc.readers.changelog.spill_buckets import Buckets
from stateproc.readers.keyed_file import KeyedFile
from stateproc.readers.materialized_files import open_materialized_file
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.splits import KeyedSplit
from stateproc.readers.state_descriptor import StateDescriptor, find_state, keyed_state
from stateproc.serializers.core.registry import load_plugins

_MATERIALIZED_IN_A_RUN = 4
"""Bytes that a stored byte of materialized entries takes while changes are applied to them."""


@dataclass(frozen=True)
class ChangelogSplit(KeyedSplit):
    """Some key groups of one state in a changelog. Every split reads the whole log.

    Attributes:
        stored_bytes: Their share of the stored bytes.
    """

    source: ChangelogSource
    groups: tuple[int, ...]
    stored_bytes: int

    @property
    def bytes(self) -> int:
        return self.stored_bytes

    @property
    def key_groups(self) -> tuple[int, ...]:
        return self.groups

    @property
    def origin(self) -> str:
        return self.source.name

    def declared(self) -> StateDescriptor | None:
        load_plugins(self.scan.options.plugins)
        header = changelog_header(self.source)
        state = None if header is None else find_state(header, self.scan.state)
        return None if state is None else replace(state, state_id=0)

    def raw_entries(self) -> Iterator[RawEntries]:
        """Read the state as it is after the changes; where there are none, as it was materialized.

        Raises CorruptSnapshot, MissingFile, UnsupportedSnapshot; InvalidOption if keys are not of the type that the
        user specified.
        """
        target = self.declared()
        if target is None:
            return
        with Buckets(self.groups) as buckets:
            self._collect(target, buckets)
            files = self.materialized(target)
            if buckets.count:
                yield from self._replayed(target, files, buckets)
                return
            for file in files:
                yield from file.split(self.scan, self.groups).raw_entries()

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read and decode the rows: without changes, as the wrapped backend's own split does."""
        target = self.declared()
        if target is None:
            return
        scan = self.scan
        with Buckets(self.groups) as buckets:
            self._collect(target, buckets)
            files = self.materialized(target)
            if buckets.count or scan.raw_keys:
                yield from scan.decoded(self._replayed(target, files, buckets), scan.named(target))
                return
            for file in files:
                yield from file.split(scan, self.groups).read()

    def _replayed(self, target: StateDescriptor, files: list[KeyedFile], buckets: Buckets) -> Iterator[RawEntries]:
        """Yield the state after the changes, run of key groups by run of key groups."""
        return self.checked(target, self._runs(target, files, buckets))

    def checked(self, target: StateDescriptor, entries: Iterable[RawEntries]) -> Iterator[RawEntries]:
        """Check that keys are of the type that the user specified, where nothing else specifies it."""
        if target.key is not self.source.key_type or target.kind.is_queue:
            return iter(entries)
        return checked(entries, target, self.scan.options.context, self.scan.max_parallelism, self.scan.operator)

    def _runs(self, target: StateDescriptor, files: list[KeyedFile], buckets: Buckets) -> Iterator[RawEntries]:
        stored = sum(file.handle.stored_bytes for file in files)
        per_group = stored // max(len(self.source.handle.key_groups), 1)
        for groups in buckets.runs(_MATERIALIZED_IN_A_RUN * per_group):
            materialized = (entries for file in files for entries in file.split(self.scan, groups).raw_entries())
            changes = records(buckets.taken(groups))
            yield from compacted_entries(target, materialized, changes, self.scan.options.context, self.origin)
            del changes

    def _collect(self, target: StateDescriptor, buckets: Buckets) -> None:
        """Collect the target's changes."""
        for block in self.changes(target, self.source.handle.non_materialized, DeclaredStateIds()):
            buckets.add(block)

    def changes(
        self, target: StateDescriptor, handles: Sequence[LogHandle], declared: DeclaredStateIds
    ) -> Iterator[ChangeBlock]:
        """Read the target's changes in parts of the log, in their order.

        Args:
            declared: The state ids declared before; an id is valid for the records after its declaration, until the
                next one.

        Raises CorruptSnapshot, MissingFile, UnsupportedSnapshot.
        """
        wanted = set(self.groups)
        for block in log_blocks(handles, self.source.location, wanted.__contains__):
            if block.key_group != METADATA_GROUP:
                own = declared.own(block)
                if len(own):
                    yield own
                continue
            for change in block.changes():
                state_id, info = read_declaration(change)
                declared.declare(state_id, own=info.name == target.name)
                if info.name == target.name:
                    self._check_same(target, info, None, change.file)

    def materialized(self, target: StateDescriptor) -> list[KeyedFile]:
        """Return the materialized files that contain the target."""
        files = []
        for handle in self.source.handle.materialized:
            file = open_materialized_file(handle, self.source.location, self.scan.max_parallelism)
            header = file.header
            assert header is not None
            for info, state in zip(header.states, file.states, strict=True):
                if info.name == target.name and isinstance(state, StateDescriptor):
                    self._check_same(target, info, header, self.origin)
                    files.append(file)
        return files

    def _check_same(
        self, target: StateDescriptor, info: StateMetaInfo, materialized: KeyedHeader | None, file: str
    ) -> None:
        """Raise UnsupportedSnapshot if the state's bytes were written by serializers that the target's are not."""
        if keyed_state(info, 0, target.key if materialized is None else materialized.key) == target:
            return
        whole = changelog_header(self.source)
        own = materialized or whole
        if whole is None or own is None or not is_described_by(whole, info, own.key, own.key_snapshot):
            raise UnsupportedSnapshot(
                "the state's serializer changed between what the changelog has materialized and what it logs",
                where=Where(file=file, operator=self.scan.operator, state=target.name),
                advice="open a checkpoint taken after the next materialization, or take a savepoint of the job",
            )
