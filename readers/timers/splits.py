"""Splits of heap timers in raw keyed state."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import numbers_of, repeated_text
from stateproc.codec.byte_arrays import RowBytes, empty_row_bytes, row_bytes_of
from stateproc.codec.encoding.keys import composite_keys
from stateproc.metadata.handles import KeyGroupsHandle
from stateproc.readers.common.key_group_blocks import KeyGroupRange
from stateproc.readers.common.raw_entries import RawEntries
from stateproc.readers.common.read_options import ReadOptions
from stateproc.readers.common.splits import split_ranges
from stateproc.readers.common.state_names import StateNames
from stateproc.readers.heap.composite_entries import packed_entries
from stateproc.readers.timers.raw_timers import (
    LARGEST_GROUP,
    TimerService,
    raw_ranges,
    raw_timer_batches,
    raw_timer_bytes,
    timer_services,
)
from stateproc.serializers.core.plugins import load_plugins
from stateproc.storage import ByteSource, SnapshotLocation, open_handle

SERVICE = "service"
_SERVICE_BYTES = 64 << 20
"""Bytes of the services' names in one batch."""
_SIGN = np.int64(-(2**63))


@dataclass(frozen=True)
class RawTimers:
    """Raw keyed state of a subtask that contains timers."""

    source: ByteSource
    ranges: tuple[KeyGroupRange, ...]
    services: tuple[TimerService, ...]

    @property
    def service_names(self) -> tuple[str, ...]:
        """Return the names of the timer services, each once."""
        return tuple(dict.fromkeys(service.name for service in self.services))

    def within(self, key_groups: Collection[int]) -> RawTimers:
        """Return the timers of these key groups."""
        return replace(self, ranges=tuple(item for item in self.ranges if item.key_group in key_groups))

    def splits(
        self,
        service: str,
        event: bool,
        options: ReadOptions,
        key_groups: Collection[int] | None,
        split_bytes: int,
        names: StateNames | None = None,
    ) -> list[RawTimerSplit]:
        """Plan splits of one service's timers; of event time or of processing time.

        Args:
            service: The service's name.
            event: True for event time, False for processing time.
            options: The snapshot's read options.
            key_groups: Only these key groups; None means all.
            split_bytes: Stored bytes per split, approximately.
            names: Names for the fields of SQL keys, from the plan of the query.
        """
        ranges = [item for item in self.ranges if key_groups is None or item.key_group in key_groups]
        runs = split_ranges(ranges, split_bytes)
        return [RawTimerSplit(self.source, run, service, event, options, names) for run in runs]


def open_raw_timers(
    handle: KeyGroupsHandle, location: SnapshotLocation, largest: int = LARGEST_GROUP
) -> RawTimers | None:
    """Return the timers in a raw keyed handle; None if it contains something else.

    Args:
        handle: The raw keyed handle of a subtask.
        location: The snapshot.
        largest: Bytes of the largest key group that can be read.

    Raises:
        CorruptSnapshot, MissingFile: The file cannot be read.
        UnsupportedSnapshot: A key group with timers is too large, or of an unknown version.
    """
    source = open_handle(handle.stream, location)
    ranges = raw_ranges(handle, source.size)
    services = timer_services(source, ranges, largest)
    return RawTimers(source, tuple(ranges), services) if services else None


@dataclass(frozen=True)
class RawTimerSplit:
    """One service's timers in some key groups of a raw keyed file."""

    source: ByteSource
    ranges: tuple[KeyGroupRange, ...]
    service: str
    event: bool
    options: ReadOptions = field(repr=False)
    names: StateNames | None = field(default=None, repr=False)

    @property
    def bytes(self) -> int:
        return sum(item.stop - item.start for item in self.ranges)

    @property
    def key_groups(self) -> tuple[int, ...]:
        return tuple(item.key_group for item in self.ranges)

    def raw_entries(self) -> Iterator[RawEntries]:
        """Read the timers as entries of a priority queue, without decoding keys and namespaces.

        An entry's key is what TimerSerializer writes: the timestamp with its sign bit flipped, key, namespace.
        """
        tables = raw_timer_bytes(self.source, list(self.ranges), self.service, self.event, self.options.context)
        for key_group, table in tables:
            flipped = (numbers_of(table["timestamp"]) ^ _SIGN).astype(">i8")
            n = len(flipped)
            stamps = RowBytes(flipped.view(np.uint8), np.arange(0, 8 * n + 1, 8, dtype=np.int64))
            keys = composite_keys(stamps, row_bytes_of(table["key"]), row_bytes_of(table["namespace"]), False)
            groups = np.full(n, key_group, dtype=np.int32)
            yield packed_entries(groups, keys, empty_row_bytes(n), self.source.name)

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read the timers with their service's name. Raises CorruptSnapshot, MissingFile, UnsupportedSnapshot."""
        load_plugins(self.options.plugins)
        ranges, context = list(self.ranges), self.options.context
        batches = raw_timer_batches(self.source, ranges, self.service, self.event, context, self.names)
        for batch in batches:
            yield from with_service(batch, self.service)


def with_service(batch: pa.RecordBatch, service: str) -> Iterator[pa.RecordBatch]:
    """Append the column ``service``, in as many batches as keep it small whatever the length of the name."""
    rows = max(_SERVICE_BYTES // max(len(service.encode()), 1), 1)
    for start in range(0, len(batch), rows):
        part = batch.slice(start, rows)
        columns = [*part.columns, repeated_text(service, len(part))]
        yield pa.RecordBatch.from_arrays(columns, [*batch.schema.names, SERVICE])
