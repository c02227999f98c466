"""Read operator state files: list, union and broadcast state of one subtask.

A file (org.apache.flink.runtime.state.DefaultOperatorStateBackendSnapshotStrategy), big-endian:

    header               `stateproc.metadata.backend.read_operator_header`
    list and union       an element by its serializer, at each offset of the handle
    broadcast            i32 number, entries of key and value, at the only offset of the handle

Elements have no lengths: one ends where the next one of any state begins. Of several at one offset all but the last are
empty. Compressed, a snappy frame begins at each offset. See docs/formats/operator-state-and-timers.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import add

import numpy as np
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.codec.layouts import Counted, StructLayout
from stateproc.codec.machine import ValueDecoder
from stateproc.errors import CorruptSnapshot, Where
from stateproc.metadata.backend import OperatorHeader, StateMetaInfo
from stateproc.metadata.operator_handles import OperatorStreamHandle, StatePartition
from stateproc.readers.entry_programs import known_or_bytes
from stateproc.readers.error_context import placed
from stateproc.readers.key_group_blocks import decompress_frames, whole_frames
from stateproc.serializers import LayoutContext
from stateproc.serializers.described_classes import described_classes
from stateproc.storage import ByteSource

# Operator state: list, union and broadcast states of one subtask's file.
#
# Format: org.apache.flink.runtime.state.DefaultOperatorStateBackendSnapshotStrategy. List elements are stored one
# after another, each at an offset of the handle; a broadcast state is one i32 count and so many keys and values.

_READ_AT_ONCE = 16 << 20


def element_ranges(
    handle: OperatorStreamHandle, partition: StatePartition, source: ByteSource, info: StateMetaInfo | None = None
) -> Longs:
    """Start and stop of every element of ``partition`` in the file, in order: int64 [elements, 2].

    Of elements at the same offset all but the last are empty. Elements of a type without bytes (see ``info``, from
    the header) have the offset of whatever another state wrote next.
    """
    serializer = None if info is None or partition.mode == "BROADCAST" else info.value_serializer
    offsets = np.array(partition.offsets, dtype=np.int64)
    wrong = (offsets < 0) | (offsets > source.size)
    if partition.mode == "BROADCAST":
        wrong |= offsets == source.size
    if wrong.any():
        offset = int(offsets[wrong][-1])
        raise CorruptSnapshot(
            f"an element of state '{partition.name}' begins at byte {offset} of {source.size}",
            where=Where(file=source.name, offset=max(0, offset), state=partition.name),
            advice="the offsets in _metadata do not fit the file: one of the two is damaged",
        )
    if serializer is not None and serializer.length == 0:
        return np.stack([offsets, offsets], axis=1)
    others = [np.array(other.offsets, dtype=np.int64) for other in handle.states]
    edges = np.sort(np.concatenate([*others, np.array([source.size, source.size + 1])]))
    stops = edges[np.searchsorted(edges, offsets, side="right")]
    # The last of equal offsets has the bytes; at the file's end there are none.
    order = np.argsort(offsets, kind="stable")
    ascending = offsets[order]
    filled = np.ones(len(offsets), dtype=np.bool_)
    filled[order[:-1][ascending[1:] == ascending[:-1]]] = False
    filled &= offsets < source.size
    return np.stack([offsets, np.where(filled, stops, offsets)], axis=1)


def list_elements(
    source: ByteSource, ranges: Longs, info: StateMetaInfo, ctx: LayoutContext, compressed: bool
) -> Iterator[pa.Array]:
    """The elements of a list or union state, in order, in bounded pieces."""
    serializer = info.value_serializer
    if serializer is None:
        raise CorruptSnapshot(f"state '{info.name}' has no value serializer", where=Where(file=source.name, offset=0))
    decoder, described = (
        ValueDecoder(known_or_bytes(serializer, ctx).layout(ctx)),
        described_classes((serializer,), ctx),
    )
    for data, starts, stops, file_at in element_chunks(source, ranges, compressed):
        with placed(source.name, partial(add, file_at), info.name, described):
            yield decoder.decode(data, starts, stops)


def broadcast_entries(
    source: ByteSource, ranges: Longs, info: StateMetaInfo, ctx: LayoutContext, compressed: bool
) -> Iterator[pa.StructArray]:
    """The entries of a broadcast state as structs of key and value."""
    key, value = info.key_serializer, info.value_serializer
    if key is None or value is None:
        where = Where(file=source.name, offset=0, state=info.name)
        raise CorruptSnapshot(f"broadcast state '{info.name}' lacks a serializer", where=where)
    layout = Counted(StructLayout((("key", key.layout(ctx.inner)), ("value", value.layout(ctx.inner)))))
    decoder, described = ValueDecoder(layout), described_classes((key, value), ctx)
    for data, starts, stops, file_at in element_chunks(source, ranges, compressed):
        with placed(source.name, partial(add, file_at), info.name, described):
            yield decoder.decode(data, starts, stops).values


def element_chunks(
    source: ByteSource, ranges: Longs, compressed: bool
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, int]]:
    """(bytes, starts, stops, file offset) of neighbouring elements in ``ranges``, about 16 MB at a time."""
    if compressed:
        for row in range(len(ranges)):
            start, stop = ranges[row].tolist()
            raw = source.read(start, stop - start)
            if whole_frames(raw, source.name, start) != len(raw):
                raise CorruptSnapshot("a compressed element is cut off", where=Where(file=source.name, offset=start))
            plain = np.frombuffer(decompress_frames(raw, source.name, start), dtype=np.uint8)
            yield plain, np.zeros(1, np.int64), np.array([len(plain)], np.int64), start
        return
    starts, stops = np.ascontiguousarray(ranges[:, 0]), np.ascontiguousarray(ranges[:, 1])
    gaps = np.flatnonzero(starts[1:] != stops[:-1]) + 1
    index = 0
    for end in [*gaps.tolist(), len(ranges)] if len(ranges) else []:
        while index < end:
            first = int(starts[index])
            fits = int(np.searchsorted(stops[index:end], first + _READ_AT_ONCE, side="right"))
            last = index + max(fits, 1)
            data = np.frombuffer(source.read(first, int(stops[last - 1]) - first), dtype=np.uint8)
            yield data, starts[index:last] - first, stops[index:last] - first, first
            index = last


def state_info(header: OperatorHeader, partition: StatePartition) -> StateMetaInfo | None:
    """The header's entry for a partition of the handle."""
    group = header.broadcast if partition.mode == "BROADCAST" else header.states
    return next((info for info in group if info.name == partition.name), None)
