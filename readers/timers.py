"""Read heap timers beside RocksDB: raw keyed state of InternalTimerServiceSerializationProxy, and its splits.

A file without header; a key group at each offset of the handle that is not -1, big-endian:

    F1 CD 85 9F          magic number of VersionedIOWriteableReadable
    i32 version          2
    i32 number of services
        utf name, snapshot of the key serializer, snapshot of the namespace serializer
        i32 number, event-time timers
        i32 number, processing-time timers
    timer                key, namespace, i64 timestamp

As states of other files, timers are elements of priority queues: timestamp with the sign bit flipped, key, namespace.
See docs/formats/operator-state-and-timers.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.arrow_arrays import RowBytes, empty_row_bytes, numbers_of, repeated_text, row_bytes_of
from stateproc.codec.builder import Assembler, Builder
from stateproc.codec.encoding.keys import composite_keys
from stateproc.codec.layouts import Number
from stateproc.codec.layouts.strings import SerializedValue
from stateproc.codec.machine import Machine
from stateproc.errors import UnsupportedSnapshot, Where
from stateproc.metadata.stream_handles import KeyGroupsHandle
from stateproc.readers.error_context import placed
from stateproc.readers.heap.reader import packed_entries
from stateproc.readers.key_group_blocks import KeyGroupRange
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.read_options import ReadOptions
from stateproc.readers.row_schema import KEY_GROUP, key_group_array
from stateproc.readers.splits import split_ranges
from stateproc.readers.state_names import StateNames, renamed
from stateproc.serializers import LayoutContext, Serializer, read_versioned
from stateproc.serializers.core.registry import load_plugins
from stateproc.serializers.described_classes import described_classes
from stateproc.storage import ByteSource, SnapshotLocation, open_handle
from stateproc.wire import Cursor

MAGIC = bytes.fromhex("F1CD859F")
VERSION = 2
_NOT_WRITTEN = -1
LARGEST_GROUP = 1 << 30
"""A key group of raw timers is read as a whole; larger ones are refused."""


@dataclass(frozen=True)
class TimerService:
    """A timer service found in raw keyed state; the bytes of its serializers' snapshots, without proxy version."""

    name: str
    key: Serializer
    namespace: Serializer
    key_snapshot: bytes = field(default=b"", compare=False, repr=False)
    namespace_snapshot: bytes = field(default=b"", compare=False, repr=False)


def raw_ranges(handle: KeyGroupsHandle, size: int) -> list[KeyGroupRange]:
    """Where the key groups lie; they need not be in order, and those with offset -1 were not written."""
    present = sorted(
        (offset, handle.first_key_group + index) for index, offset in enumerate(handle.offsets) if offset >= 0
    )
    stops = [offset for offset, _ in present[1:]] + [size]
    return [KeyGroupRange(kg, start, max(start, stop)) for (start, kg), stop in zip(present, stops, strict=True)]


def timer_services(
    source: ByteSource, ranges: list[KeyGroupRange], largest: int = LARGEST_GROUP
) -> tuple[TimerService, ...]:
    """Return the services of the first key group that contains timers; () if the raw state is not timers.

    ``largest``: bytes of the largest key group that can be read.

    Raises:
        UnsupportedSnapshot: A key group with timers is larger, or of an unknown version.
        CorruptSnapshot, MissingFile: The file cannot be read.
    """
    for item in ranges:
        if item.stop - item.start < 12 or source.read(item.start, 4) != MAGIC:
            return ()
        check_sizes(source, ranges, largest)
        found = list(_services(source, item, LayoutContext()))
        if found:
            return tuple(service for service, _, _, _ in found)
    return ()


def check_sizes(source: ByteSource, ranges: list[KeyGroupRange], largest: int) -> None:
    """Raise UnsupportedSnapshot for a key group of more than ``largest`` bytes."""
    for item in ranges:
        size = item.stop - item.start
        if size > largest:
            raise UnsupportedSnapshot(
                f"the timers of key group {item.key_group} have {size} bytes, more than the {largest} that can be read "
                "at once",
                where=Where(file=source.name, offset=item.start),
                advice="take a canonical savepoint of the job with its timers in RocksDB "
                "(state.backend.rocksdb.timer-service.factory: ROCKSDB)",
            )


def raw_timer_batches(
    source: ByteSource,
    ranges: list[KeyGroupRange],
    service: str,
    event: bool,
    ctx: LayoutContext,
    names: StateNames | None = None,
) -> Iterator[pa.RecordBatch]:
    """The timers of one service and time domain: key_group, timestamp, key, [namespace]."""
    for item in ranges:
        for found, is_event, rows, table in _services(source, item, ctx, names=names):
            if found.name == service and is_event == event and rows:
                columns = {KEY_GROUP: key_group_array(np.full(rows, item.key_group, np.int32)), **table}
                if found.namespace.type_name == "VoidNamespace":
                    del columns["namespace"]
                yield pa.RecordBatch.from_pydict(columns)


def raw_timer_bytes(
    source: ByteSource, ranges: list[KeyGroupRange], service: str, event: bool, ctx: LayoutContext
) -> Iterator[tuple[int, dict[str, pa.Array]]]:
    """(key group, timers) of one service and time domain: timestamp int64, key and namespace as bytes."""
    for item in ranges:
        for found, is_event, rows, table in _services(source, item, ctx, raw=True):
            if found.name == service and is_event == event and rows:
                yield item.key_group, table


def _services(
    source: ByteSource, item: KeyGroupRange, ctx: LayoutContext, *, raw: bool = False, names: StateNames | None = None
) -> Iterator[tuple[TimerService, bool, int, dict[str, pa.Array]]]:
    """Every service of a key group, event timers then processing timers, decoded or (``raw``) cut into bytes."""
    data = source.read(item.start, item.stop - item.start)
    cursor = Cursor(data, file=source.name, base=item.start)
    if bytes(cursor.take(4, "the timers' magic number")) != MAGIC:
        cursor.corrupt("raw keyed state does not begin as timers do", at=0)
    version = cursor.i32()
    if version != VERSION:
        cursor.unsupported(f"raw timers of version {version}", advice="timers of Flink 1.8 to 2.x have version 2")
    content = np.frombuffer(data, dtype=np.uint8)
    for _ in range(cursor.count("timer services", 14)):
        service = named_service(_service(cursor), names)
        machine, columns = _timer_program(service, ctx, raw)
        described = described_classes((service.key, service.namespace), ctx)
        for is_event in (True, False):
            n = cursor.count("timers", 8)
            with placed(source.name, lambda position: item.start + position, described=described):
                rows, pos = machine.run_stream(content, cursor.pos, len(content), n)
                more = rows
                while more and rows < n:
                    more, pos = machine.run_stream(content, pos, len(content), n - rows, append=True)
                    rows += more
                if rows < n:
                    cursor.corrupt(f"{n} timers are announced, {rows} are there")
                taken = machine.decoded()
                table = {name: assemble(taken) for name, assemble in columns.items()}
            cursor.pos = pos
            yield service, is_event, n, table
    if cursor.remaining:
        cursor.corrupt(f"{cursor.remaining} bytes are left after the last timer of a key group")


def named_service(service: TimerService, names: StateNames | None) -> TimerService:
    """Return a service with the names of a plan for the fields of its keys and for its windows."""
    if names is None:
        return service
    return replace(service, key=renamed(service.key, names.key), namespace=names.namespace(service.namespace))


def _service(cursor: Cursor) -> TimerService:
    name, at = cursor.utf(), cursor.pos
    key, middle = read_versioned(cursor), cursor.pos
    namespace = read_versioned(cursor)
    return TimerService(name, key, namespace, bytes(cursor.data[at:middle]), bytes(cursor.data[middle : cursor.pos]))


def _timer_program(service: TimerService, ctx: LayoutContext, raw: bool) -> tuple[Machine, dict[str, Assembler]]:
    b = Builder()
    scope = [service.key.layout(ctx.inner), service.namespace.layout(ctx.inner)]
    key, namespace = ((SerializedValue(layout) if raw else layout).emit(b, False) for layout in scope)
    timestamp = Number(pa.int64()).emit(b, False)
    b.op(ops.ROW_END)
    return Machine(b.build()), {"timestamp": timestamp, "key": key, "namespace": namespace}


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

    ``largest``: bytes of the largest key group that can be read.

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
