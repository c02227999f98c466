"""Copy keyed state as raw entries, without decoding values.

The readers' splits provide the entries (`KeyedSplit.raw_entries`), in the form of canonical savepoints whichever
backend wrote them; here they become the batches that writers consume.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import RowBytes
from stateproc.errors import UnsupportedSnapshot, Where, not_found
from stateproc.keygroups.ranges import key_group_range
from stateproc.metadata.snapshot import OperatorEntry, SubtaskState
from stateproc.metadata.stream_handles import KeyGroupsHandle
from stateproc.model.operator import Operator
from stateproc.model.raw_keyed import RawKeyedPart, raw_keyed_parts
from stateproc.options import SPLIT_BYTES
from stateproc.readers.canonical.reader import CanonicalSplit
from stateproc.readers.key_group_blocks import KeyGroupRange
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.read_options import ReadOptions
from stateproc.readers.splits import KeyedSplit, SplitRequest, StateScan, split_ranges
from stateproc.readers.state_descriptor import TIMER_PREFIX, timer_state_name
from stateproc.readers.timers import RawTimerSplit
from stateproc.serializers.core.registry import load_plugins
from stateproc.writers.commit.staging import Staging
from stateproc.writers.formats.entry_batches import entry_batch, gather
from stateproc.writers.rewrite.merged_header import DOMAINS, timers_in_raw_state

Source: TypeAlias = KeyedSplit | RawTimerSplit


@dataclass(frozen=True)
class CarriedSplit:
    """Some key groups of one keyed state in one subtask's files, to be copied. Picklable.

    Attributes:
        source: The split that is read.
        state_id: The state's position in the header that is written.
        options: The snapshot's read options.
    """

    source: Source
    state_id: int
    options: ReadOptions

    @property
    def bytes(self) -> int:
        return self.source.bytes

    @property
    def key_groups(self) -> tuple[int, ...]:
        return self.source.key_groups

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read raw entries (RAW_ENTRIES) in stored order.

        Raises CorruptSnapshot, MissingFile; UnsupportedSnapshot where the end of a value cannot be determined from its
        bytes.
        """
        load_plugins(self.options.plugins)
        yield from raw_batches(self.source.raw_entries(), self.state_id)


def carried_splits(
    operator: Operator,
    state: str,
    state_id: int,
    *,
    key_groups: Iterable[int] | None = None,
    split_bytes: int = SPLIT_BYTES,
) -> list[CarriedSplit]:
    """Plan the splits of a keyed state.

    Args:
        state: A name of `carried_header`, also ``_timer_state/event_…`` of timers that are stored in raw keyed state.
        state_id: The state's position in the header that is written.
        key_groups: Only these key groups; None means all.
        split_bytes: Stored bytes per split, approximately.

    Raises:
        NotFound, UnsupportedSnapshot, CorruptSnapshot, MissingFile: The state cannot be read.
    """
    options = operator.options
    scan = StateScan(state, operator.display, operator.max_parallelism, options)
    request = SplitRequest(scan, None if key_groups is None else frozenset(key_groups), split_bytes)
    for file, error in operator.unreadable_keyed_files:
        if any(map(request.includes, file.handle.key_groups)):
            raise error
    unreadable = {id(file) for file, _ in operator.unreadable_keyed_files}
    known: dict[str, None] = {}
    sources: list[Source] = []
    for file in operator.keyed_files:
        names = [] if id(file) in unreadable or file.header is None else [info.name for info in file.header.states]
        known.update(dict.fromkeys(names))
        if state in names:
            sources += file.splits(request)
    if state.startswith(TIMER_PREFIX):
        for name, source in _raw_timer_sources(operator, request):
            known[name] = None
            if name == state:
                sources.append(source)
    if state not in known and not unreadable:
        raise not_found("keyed state", state, list(known), f"operator '{operator.display}'")
    return [CarriedSplit(source, state_id, options) for source in sources]


def _raw_timer_sources(operator: Operator, request: SplitRequest) -> Iterator[tuple[str, RawTimerSplit]]:
    """Yield (name of the priority queue, split) of the timers in raw keyed state."""
    for timers in timers_in_raw_state(operator):
        for service in timers.service_names:
            for _, event in DOMAINS:
                for split in timers.splits(
                    service, event, request.scan.options, request.key_groups, request.split_bytes
                ):
                    yield timer_state_name(service, event=event), split


def raw_batches(entries: Iterable[RawEntries], state_id: int) -> Iterator[pa.RecordBatch]:
    """Yield composite entries as batches of RAW_ENTRIES."""
    for chunk in entries:
        starts, ends, value_starts, value_ends = chunk.ranges
        if chunk.packed:
            first_value = int(value_starts[0]) if len(chunk) else 0
            keys = RowBytes(chunk.data, np.append(starts, ends[-1:]))
            values = RowBytes(chunk.data[first_value:], np.append(value_starts, value_ends[-1:]) - first_value)
        else:
            keys, values = gather(chunk.data, starts, ends), gather(chunk.data, value_starts, value_ends)
        if len(chunk):
            yield entry_batch(chunk.key_groups, state_id, keys, values)


# Copy several states in one pass: a canonical file stores them one after another within each key group.


@dataclass(frozen=True)
class CarriedTogether:
    """Some key groups of several states in one subtask's canonical file, which is read once. Picklable.

    Attributes:
        source: The split of any of the states.
        states: (name, position in the header that is written) of each state.
    """

    source: CanonicalSplit
    states: tuple[tuple[str, int], ...]

    @property
    def bytes(self) -> int:
        return self.source.bytes

    @property
    def key_groups(self) -> tuple[int, ...]:
        return self.source.key_groups

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read raw entries (RAW_ENTRIES), each batch of one state. Raises CorruptSnapshot, MissingFile."""
        load_plugins(self.source.scan.options.plugins)
        for state_id, chunk in self.source.raw_entries_of(dict(self.states)):
            yield from raw_batches([chunk], state_id)


def together(splits: Iterable[CarriedSplit], split_bytes: int = SPLIT_BYTES) -> list[CarriedSplit | CarriedTogether]:
    """Combine splits of the same key groups of a canonical file, into splits of about ``split_bytes`` bytes."""
    by_file: dict[tuple[object, ...], list[CarriedSplit]] = {}
    for number, split in enumerate(splits):
        by_file.setdefault(_shared_key(split, number), []).append(split)
    return [part for same in by_file.values() for part in (_combined(same, split_bytes) if len(same) > 1 else same)]


def _shared_key(split: CarriedSplit, number: int) -> tuple[object, ...]:
    """Return what splits that can be read together have in common."""
    source = split.source
    if not isinstance(source, CanonicalSplit):
        return (number,)
    return source.origin, source.header_size, source.ranges


def _combined(splits: list[CarriedSplit], split_bytes: int) -> list[CarriedTogether]:
    sources = [split.source for split in splits if isinstance(split.source, CanonicalSplit)]
    first = sources[0]
    assert all(replace(source, scan=first.scan) == first for source in sources)
    states = tuple((source.scan.state, split.state_id) for source, split in zip(sources, splits, strict=True))
    return [CarriedTogether(replace(first, ranges=run), states) for run in split_ranges(first.ranges, split_bytes)]


# Carry raw keyed state of an operator's own over, key group by key group, for another number of subtasks.
#
# Bytes stay as they are: Flink gives each key group's stream to the subtask that has the key group
# (org.apache.flink.runtime.state.KeyGroupsStateHandle). A subtask's file has its key groups one after another.

_AT_ONCE = 8 << 20
_NOT_WRITTEN = -1
_TYPE = 3
"""KeyGroupsStateHandle without an id, which all releases read."""


def refuse_other_key_groups(operator: Operator, max_parallelism: int) -> None:
    """Raise UnsupportedSnapshot if raw keyed state would have to be divided into other key groups."""
    if max_parallelism == operator.max_parallelism or not any(raw_keyed_parts(operator)):
        return
    uid, number = operator.display, operator.max_parallelism
    raise UnsupportedSnapshot(
        "raw keyed state that is no timers: only the operator knows which keys its bytes belong to, and so which of "
        f"{max_parallelism} key groups",
        where=Where(file=operator.location.metadata_uri, operator=uid),
        advice=f"leave the operator's max parallelism as it is: --operator-max-parallelism {uid}={number}, "
        f"with_max_parallelism({number}, {uid!r}); or leave the operator out: remove_operator({uid!r})",
    )


def redistributed_raw_keyed(
    operator: Operator, carried: OperatorEntry, parallelism: int, staging: Staging
) -> OperatorEntry:
    """Return ``carried`` with the operator's raw keyed state for ``parallelism`` subtasks, and write its files.

    Raises CorruptSnapshot, MissingFile, WriteFailed.
    """
    parts = list(raw_keyed_parts(operator))
    if not parts:
        return carried
    subtasks = {subtask.index: subtask for subtask in carried.subtasks}
    pieces = {item.key_group: (part, item) for part in parts for item in part.ranges}
    for index in range(parallelism):
        handle = _written(key_group_range(operator.max_parallelism, parallelism, index), pieces, staging)
        if handle is not None:
            subtasks[index] = replace(subtasks.get(index, SubtaskState(index)), raw_keyed=handle)
    return replace(carried, subtasks=tuple(subtasks[index] for index in sorted(subtasks)))


def _written(
    groups: range, pieces: dict[int, tuple[RawKeyedPart, KeyGroupRange]], staging: Staging
) -> KeyGroupsHandle | None:
    """Write the bytes of these key groups into a file and return its handle; None if there are none."""
    if not any(group in pieces for group in groups):
        return None
    offsets, at = [], 0
    with staging.new_file() as file:
        for group in groups:
            if group not in pieces:
                offsets.append(_NOT_WRITTEN)
                continue
            part, item = pieces[group]
            offsets.append(at)
            at += item.stop - item.start
            for start in range(item.start, item.stop, _AT_ONCE):
                file.write(part.source.read(start, min(_AT_ONCE, item.stop - start)))
        return KeyGroupsHandle(_TYPE, groups.start, tuple(offsets), file.close())
