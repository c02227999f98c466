"""Keyed state carried over as raw entries: no value is decoded, what can stay as it lies stays as it lies.

Canonical files and RocksDB hold entries in the canonical form already; changelogs are replayed into it; native heap
snapshots and heap timers are cut into it, see carrying_heap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from stateproc.errors import not_found
from stateproc.keygroups.ranges import prefix_width
from stateproc.metadata.handles import ChangelogHandle, IncrementalHandle
from stateproc.options import SPLIT_BYTES
from stateproc.readers.canonical.reader import canonical_entries
from stateproc.readers.changelog.splits import ChangelogSplit, changelog_splits
from stateproc.readers.common.raw_entries import RawEntries
from stateproc.readers.common.state_descriptor import TIMER_PREFIX, timer_state_name
from stateproc.readers.rocksdb.db_iterator import rocksdb_entries
from stateproc.readers.rocksdb.splits import RocksDbSplit, rocksdb_splits
from stateproc.serializers.core.plugins import load_plugins
from stateproc.snapshot.operator import Operator
from stateproc.snapshot.splits import KeyGroupSplit, cut, keyed_header
from stateproc.snapshot.subtask_files import KeyedFile
from stateproc.snapshot.timers import RawTimerSplit
from stateproc.writers.formats.common.byte_gather import entry_batch, gathered
from stateproc.writers.rewrite.heap_to_canonical import canonical_batches, heap_batches, raw_timer_entries
from stateproc.writers.rewrite.merged_header import DOMAINS, timers_in_raw_state

Source: TypeAlias = KeyGroupSplit | RocksDbSplit | ChangelogSplit | RawTimerSplit


@dataclass(frozen=True)
class CarriedSplit:
    """Some key groups of one keyed state in one subtask's files. Picklable."""

    source: Source
    state_id: int

    @property
    def bytes(self) -> int:
        return self.source.bytes

    @property
    def key_groups(self) -> tuple[int, ...]:
        return self.source.key_groups

    def read(self) -> Iterator[pa.RecordBatch]:
        """Raw entries (RAW_ENTRIES), in the order in which they are stored.

        Raises CorruptSnapshot, MissingFile; UnsupportedSnapshot where bytes alone do not tell where values end.
        """
        load_plugins(self.source.options.plugins)
        source, state_id = self.source, self.state_id
        if isinstance(source, RawTimerSplit):
            yield from raw_timer_entries(source, state_id)
        elif isinstance(source, ChangelogSplit):
            yield from _changelog(source, state_id)
        elif isinstance(source, RocksDbSplit):
            width = prefix_width(source.max_parallelism)
            entries = rocksdb_entries(source.files, source.state, source.ranges, width, verify=source.options.verify)
            yield from carried_batches(entries, state_id)
        elif source.canonical:
            yield from carried_batches(_canonical(source), state_id)
        else:
            yield from heap_batches(source, state_id)


def carried_splits(
    operator: Operator,
    state: str,
    state_id: int,
    *,
    key_groups: Iterable[int] | None = None,
    split_bytes: int = SPLIT_BYTES,
) -> list[CarriedSplit]:
    """The parts of a keyed state, of about ``split_bytes`` stored bytes each; of these key groups only if given.

    state: a name of `carried_header`, also ``_timer_state/event_…`` of timers that lie in raw keyed state. state_id:
    what the entries shall say, the position in the header that is written. Raises NotFound, UnsupportedSnapshot,
    CorruptSnapshot, MissingFile.
    """
    wanted = None if key_groups is None else frozenset(key_groups)
    for file, error in operator.unreadable_keyed_files:
        if wanted is None or not wanted.isdisjoint(file.handle.key_groups):
            raise error
    unreadable = {id(file) for file, _ in operator.unreadable_keyed_files}
    known: dict[str, None] = {}
    sources: list[Source] = []
    for file in operator.keyed_files:
        names = [] if id(file) in unreadable or file.header is None else [info.name for info in file.header.states]
        known.update(dict.fromkeys(names))
        if state in names:
            sources += _sources(file, operator, state, wanted, split_bytes)
    if state.startswith(TIMER_PREFIX):
        for name, source in _raw_timer_sources(operator, wanted, split_bytes):
            known[name] = None
            if name == state:
                sources.append(source)
    if state not in known and not unreadable:
        raise not_found("keyed state", state, list(known), f"operator '{operator.display}'")
    return [CarriedSplit(source, state_id) for source in sources]


def _sources(
    file: KeyedFile, operator: Operator, state: str, wanted: frozenset[int] | None, split_bytes: int
) -> Sequence[Source]:
    """The splits of one subtask's file."""
    file.check_readable(operator.display, state)
    options = operator.options
    if isinstance(file.handle, IncrementalHandle):
        return rocksdb_splits(
            file.handle, file.location, state=state, operator=operator.display, options=options, key_groups=wanted,
            max_parallelism=file.max_parallelism, split_bytes=split_bytes,
        )  # fmt: skip
    if isinstance(file.handle, ChangelogHandle):
        return changelog_splits(
            file.handle, file.location, state=state, operator=operator.display, options=options, key_groups=wanted,
            max_parallelism=file.max_parallelism, split_bytes=split_bytes, relatives=file.relatives,
            told_key=file.told_key,
        )  # fmt: skip
    ranges = [item for item in file.ranges if wanted is None or item.key_group in wanted]
    return [
        KeyGroupSplit(
            file.source, file.header_size, run, file.canonical, file.max_parallelism, state, operator.display, options
        )
        for run in cut(ranges, split_bytes)
    ]


def _raw_timer_sources(
    operator: Operator, wanted: frozenset[int] | None, split_bytes: int
) -> Iterator[tuple[str, RawTimerSplit]]:
    """(name of the priority queue, split) of the timers in raw keyed state."""
    for timers in timers_in_raw_state(operator):
        ranges = [item for item in timers.ranges if wanted is None or item.key_group in wanted]
        for service in dict.fromkeys(service.name for service in timers.services):
            for _, event in DOMAINS:
                for run in cut(ranges, split_bytes):
                    split = RawTimerSplit(timers.source, run, service, event, operator.options)
                    yield timer_state_name(service, event=event), split


def _canonical(split: KeyGroupSplit) -> Iterator[RawEntries]:
    header = keyed_header(split.source, split.header_size)
    names = [info.name for info in header.states]
    return canonical_entries(
        split.source, split.ranges, compressed=header.compressed, prefix=prefix_width(split.max_parallelism),
        state_id=names.index(split.state), n_states=len(names),
    )  # fmt: skip


def _changelog(split: ChangelogSplit, state_id: int) -> Iterator[pa.RecordBatch]:
    groups = frozenset(split.key_groups)
    for part in split.contents():
        if isinstance(part, RawEntries):
            yield from carried_batches([part], state_id)
            continue
        entries = part.composite_entries(groups)
        if entries is not None:
            yield from carried_batches(entries, state_id)
            continue
        for columns in part.heap_columns(groups, split.options.context):
            yield from canonical_batches(columns, part.target, state_id)


def carried_batches(entries: Iterable[RawEntries], state_id: int) -> Iterator[pa.RecordBatch]:
    """Composite entries as batches: their bytes brought together."""
    for chunk in entries:
        starts, ends, value_starts, value_ends = chunk.ranges
        keys, values = gathered(chunk.data, starts, ends), gathered(chunk.data, value_starts, value_ends)
        yield entry_batch(chunk.key_groups, state_id, keys, values)
