"""Splits of keyed state in changelog handles: one subtask's materialized part and log, cut at key groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pyarrow as pa

from stateproc.errors import UnsupportedSnapshot, Where
from stateproc.metadata.backend import StateMetaInfo
from stateproc.metadata.handles import (
    ChangelogHandle,
    FileChangelogHandle,
    IncrementalHandle,
    KeyedHandle,
    KeyGroupsHandle,
)
from stateproc.options import SPLIT_BYTES
from stateproc.readers.changelog.key_type_check import checked
from stateproc.readers.changelog.log_compaction import latest
from stateproc.readers.changelog.log_metadata import Declared, changelog_header, read_declaration
from stateproc.readers.changelog.materialized import Materialized, materialized_header
from stateproc.readers.changelog.records import records
from stateproc.readers.changelog.segments import METADATA_GROUP, log_blocks
from stateproc.readers.changelog.spill_buckets import Buckets
from stateproc.readers.common.entry_decoder import decode_entries
from stateproc.readers.common.raw_entries import RawEntries
from stateproc.readers.common.read_options import ReadOptions
from stateproc.readers.common.state_descriptor import KeyedState, keyed_state
from stateproc.serializers import Serializer
from stateproc.serializers.core.plugins import load_plugins
from stateproc.storage import SnapshotLocation


@dataclass(frozen=True)
class ChangelogSplit:
    """Some key groups of one state in a changelog handle. ``raw_keys``: see decode_entries. ``relatives``,
    ``told_key``: see changelog_header."""

    handle: ChangelogHandle = field(repr=False)
    location: SnapshotLocation
    key_groups: tuple[int, ...]
    bytes: int
    max_parallelism: int
    state: str
    operator: str
    options: ReadOptions = field(repr=False)
    flatten: bool = False
    raw_keys: bool = False
    relatives: tuple[KeyedHandle, ...] = field(default=(), repr=False)
    told_key: Serializer | None = field(default=None, repr=False)

    @property
    def place(self) -> str:
        return f"{self.location.metadata_uri} (changelog {self.handle.handle_id})"

    @property
    def composite(self) -> bool:
        return True

    def only(self, key_group: int) -> ChangelogSplit:
        return replace(self, key_groups=tuple(group for group in self.key_groups if group == key_group))

    def of_state(self, state: str) -> ChangelogSplit:
        return replace(self, state=state, flatten=False)

    def read(self) -> Iterator[pa.RecordBatch]:
        """The rows. Raises CorruptSnapshot, MissingFile, UnsupportedSnapshot; InvalidOption if keys are not of the type
        that the user told."""
        target = self._target()
        if target is None:
            return
        ctx, groups = self.options.context, self.key_groups
        with Buckets(groups) as buckets:
            self._collect(target, buckets)
            parts = list(self._materialized(target))
            if buckets.count or self.raw_keys:
                entries = self._replayed(target, parts, buckets)
                yield from decode_entries(entries, target, ctx, flatten=self.flatten, raw_keys=self.raw_keys)
            else:
                for part in parts:
                    yield from part.batches(set(groups), ctx, flatten=self.flatten)

    def contents(self) -> Iterator[RawEntries | Materialized]:
        """The state as it is after the log, not decoded: entries; its materialized parts where the log is silent.

        Raises CorruptSnapshot, MissingFile, UnsupportedSnapshot; InvalidOption as `read` does.
        """
        target = self._target()
        if target is None:
            return
        with Buckets(self.key_groups) as buckets:
            self._collect(target, buckets)
            parts = list(self._materialized(target))
            yield from self._replayed(target, parts, buckets) if buckets.count else parts

    def _target(self) -> KeyedState | None:
        load_plugins(self.options.plugins)
        header = changelog_header(self.handle, self.location, self.relatives, self.told_key)
        states = [] if header is None else [keyed_state(info, 0, header.key) for info in header.states]
        return next((item for item in states if item is not None and item.name == self.state), None)

    def _replayed(self, target: KeyedState, parts: list[Materialized], buckets: Buckets) -> Iterator[RawEntries]:
        """The state as it is after the log, run of key groups by run of key groups."""
        entries = self._runs(target, parts, buckets)
        if target.key is not self.told_key or target.kind.is_queue:
            return entries
        return checked(entries, target, self.options.context, self.max_parallelism, self.operator)

    def _runs(self, target: KeyedState, parts: list[Materialized], buckets: Buckets) -> Iterator[RawEntries]:
        more = sum(materialized_bytes(part.handle) for part in parts) // max(len(self.handle.key_groups), 1)
        ctx = self.options.context
        for groups, changes in buckets.runs(more):
            found = records(changes)
            materialized = (item for part in parts for item in part.contents(set(groups), ctx))
            yield from latest(target, materialized, found, ctx, self.place)

    def _collect(self, target: KeyedState, buckets: Buckets) -> None:
        """The target's changes. State ids hold for the records behind their declaration, until the next one."""
        declared = Declared()
        wanted = set(self.key_groups)
        for block in log_blocks(self.handle.non_materialized, self.location, wanted.__contains__):
            if block.key_group != METADATA_GROUP:
                own = declared.own(block)
                if len(own):
                    buckets.add(own)
                continue
            for change in block.changes():
                state_id, info = read_declaration(change)
                declared.declare(state_id, own=info.name == target.name)
                if info.name == target.name:
                    self._check_same(target, info, target.key, change.file)

    def _materialized(self, target: KeyedState) -> Iterator[Materialized]:
        """The target in each of the inner backend's handles that has it."""
        for inner in self.handle.materialized:
            header = materialized_header(inner, self.location)
            states = [keyed_state(info, index, header.key) or info.name for index, info in enumerate(header.states)]
            for info, own in zip(header.states, states, strict=True):
                if info.name == target.name and isinstance(own, KeyedState):
                    self._check_same(target, info, header.key, self.place)
                    yield Materialized(
                        inner, self.location, header, states, own, self.max_parallelism, self.options.verify
                    )

    def _check_same(self, target: KeyedState, info: StateMetaInfo, key: Serializer, file: str) -> None:
        """Bytes of one state can be put together only if one serializer wrote them."""
        if keyed_state(info, 0, key) != replace(target, state_id=0):
            raise UnsupportedSnapshot(
                "the state's serializer changed between what the changelog has materialized and what it logs",
                where=Where(file=file, operator=self.operator, state=target.name),
                advice="open a checkpoint taken after the next materialization, or take a savepoint of the job",
            )


def materialized_bytes(handle: KeyedHandle) -> int:
    """Stored bytes of a materialized part."""
    if isinstance(handle, IncrementalHandle):
        return sum(stream.size for _, stream in (*handle.shared, *handle.private))
    return handle.size if isinstance(handle, KeyGroupsHandle) else 0


def changelog_bytes(handle: ChangelogHandle) -> int:
    """Stored bytes of the materialized part and the log."""
    log = sum(
        max(part.size, 0) if isinstance(part, FileChangelogHandle) else sum(len(data) for _, data in part.changes)
        for part in handle.non_materialized
    )
    return log + sum(map(materialized_bytes, handle.materialized))


def changelog_splits(
    handle: ChangelogHandle,
    location: SnapshotLocation,
    *,
    state: str,
    operator: str,
    max_parallelism: int,
    options: ReadOptions,
    key_groups: Iterable[int] | None = None,
    split_bytes: int = SPLIT_BYTES,
    flatten: bool = False,
    raw_keys: bool = False,
    relatives: tuple[KeyedHandle, ...] = (),
    told_key: Serializer | None = None,
) -> list[ChangelogSplit]:
    """Splits of about ``split_bytes`` stored bytes of all states; each passes over the whole log."""
    wanted = None if key_groups is None else set(key_groups)
    size = changelog_bytes(handle)
    groups = list(handle.key_groups)
    parts = min(max(1, -(-size // max(split_bytes, 1))), max(len(groups), 1))
    bounds = [len(groups) * index // parts for index in range(parts + 1)]
    splits = []
    for start, stop in pairwise(bounds):
        run = tuple(group for group in groups[start:stop] if wanted is None or group in wanted)
        if run:
            splits.append(
                ChangelogSplit(
                    handle=handle,
                    location=location,
                    key_groups=run,
                    bytes=size * len(run) // len(groups),
                    max_parallelism=max_parallelism,
                    state=state,
                    operator=operator,
                    options=options,
                    flatten=flatten,
                    raw_keys=raw_keys,
                    relatives=relatives,
                    told_key=told_key,
                )
            )
    return splits
