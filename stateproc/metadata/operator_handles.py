"""Read and write operator state handles (org.apache.flink.runtime.state.OperatorStreamStateHandle)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from stateproc.errors import UnsupportedSnapshot
from stateproc.metadata.stream_handles import (
    TAKE_AGAIN,
    EmptySegmentHandle,
    SegmentHandle,
    StreamHandle,
    longs,
    refuse_type,
    required_stream_handle,
    size_of,
    write_longs,
    write_stream_handle,
)
from stateproc.wire.cursor import Cursor
from stateproc.wire.output import Output

DistributionMode: TypeAlias = Literal["SPLIT_DISTRIBUTE", "UNION", "BROADCAST"]

MODES: tuple[DistributionMode, ...] = ("SPLIT_DISTRIBUTE", "UNION", "BROADCAST")
"""OperatorStateHandle.Mode by ordinal."""


@dataclass(frozen=True, slots=True)
class StatePartition:
    """One state's elements in the stream: byte offsets of them (of the whole map, if BROADCAST)."""

    name: str
    mode: DistributionMode
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OperatorStreamHandle:
    """Types 4 and 17 (FileMergingOperatorStreamStateHandle, which adds the last three fields)."""

    type_byte: int
    states: tuple[StatePartition, ...]
    stream: StreamHandle
    task_owned_dir: str | None = None
    shared_dir: str | None = None
    is_empty: bool = False


OperatorHandle: TypeAlias = OperatorStreamHandle


def read_operator_handle(cursor: Cursor) -> OperatorHandle | None:
    """Read a type byte and its operator handle; None for type 0. Raises CorruptSnapshot, UnsupportedSnapshot."""
    at = cursor.pos
    kind = cursor.u8()
    if kind == 0:
        return None
    if kind not in (4, 17):
        refuse_type(cursor, kind, "operator state", at)
    states = tuple(_partition(cursor) for _ in range(cursor.count("operator states", 7)))
    if kind == 4:
        return OperatorStreamHandle(kind, states, required_stream_handle(cursor, "an operator state handle"))
    return _file_merging(cursor, states)


def _partition(cursor: Cursor) -> StatePartition:
    name = cursor.utf()
    at = cursor.pos
    mode = cursor.u8()
    if mode >= len(MODES):
        cursor.corrupt(f"unknown distribution mode {mode} of state '{name}'", at=at, advice=TAKE_AGAIN)
    count = cursor.count("element offsets", 8)
    return StatePartition(name, MODES[mode], longs(cursor, count, "element offsets"))


def _file_merging(cursor: Cursor, states: tuple[StatePartition, ...]) -> OperatorStreamHandle:
    task_owned_dir, shared_dir, is_empty = cursor.utf(), cursor.utf(), cursor.boolean()
    at = cursor.pos
    stream = required_stream_handle(cursor, "an operator state handle")
    if not isinstance(stream, SegmentHandle | EmptySegmentHandle):
        cursor.corrupt("file-merging operator state outside of a file segment", at=at, advice=TAKE_AGAIN)
    return OperatorStreamHandle(17, states, stream, task_owned_dir, shared_dir, is_empty)


def write_operator_handle(out: Output, handle: OperatorHandle) -> None:
    """Write what :func:`read_operator_handle` reads."""
    out.u8(handle.type_byte)
    out.i32(len(handle.states))
    for state in handle.states:
        out.utf(state.name)
        out.u8(MODES.index(state.mode))
        write_longs(out, state.offsets)
    if handle.type_byte == 17:
        out.utf(handle.task_owned_dir or "")
        out.utf(handle.shared_dir or "")
        out.boolean(handle.is_empty)
    write_stream_handle(out, handle.stream)


# Read and write handles of in-flight network buffers of unaligned checkpoints (ChannelStateHandleSerializerV1, V2).

Direction: TypeAlias = Literal["in", "out"]


@dataclass(frozen=True, slots=True)
class ChannelHandle:
    """Buffers of one channel: InputChannelStateHandle ("in") or ResultSubpartitionStateHandle ("out").

    ``group`` and ``channel`` are gate and channel index for "in", partition and subpartition index for "out".
    """

    direction: Direction
    subtask: int
    group: int
    channel: int
    offsets: tuple[int, ...]
    size: int
    stream: StreamHandle


@dataclass(frozen=True, slots=True)
class ChannelOffsets:
    """One channel's buffers in a :class:`MergedChannelHandle`."""

    group: int
    channel: int
    size: int
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MergedChannelHandle:
    """Buffers of several channels of a subtask in one stream (since metadata V6)."""

    direction: Direction
    subtask: int
    size: int
    stream: StreamHandle
    channels: tuple[ChannelOffsets, ...]


ChannelStateHandle: TypeAlias = ChannelHandle | MergedChannelHandle

_TAGS: dict[int, tuple[Direction, bool]] = {
    1: ("in", False),
    2: ("out", False),
    3: ("in", True),
    4: ("out", True),
}
_TAG_OF = {kind: tag for tag, kind in _TAGS.items()}


def read_channel_handle(cursor: Cursor, version: int, direction: Direction) -> ChannelStateHandle:
    """Read one channel handle of metadata ``version``. Raises CorruptSnapshot, UnsupportedSnapshot."""
    if version < 6:
        return _plain(cursor, direction)
    at = cursor.pos
    tag = cursor.u8()
    if tag not in _TAGS:
        cursor.corrupt(f"unknown tag {tag} of a channel state handle", at=at, advice=TAKE_AGAIN)
    tagged_direction, merged = _TAGS[tag]
    if tagged_direction != direction:
        cursor.corrupt(f"channel state tagged '{tagged_direction}' among '{direction}'", at=at, advice=TAKE_AGAIN)
    return _merged(cursor, direction) if merged else _plain(cursor, direction)


def _plain(cursor: Cursor, direction: Direction) -> ChannelHandle:
    subtask, group, channel = cursor.i32(), cursor.i32(), cursor.i32()
    count = cursor.count("channel state offsets", 8)
    return ChannelHandle(
        direction=direction,
        subtask=subtask,
        group=group,
        channel=channel,
        offsets=longs(cursor, count, "channel state offsets"),
        size=size_of(cursor, "channel state size"),
        stream=required_stream_handle(cursor, "channel state"),
    )


def _merged(cursor: Cursor, direction: Direction) -> MergedChannelHandle:
    subtask = cursor.i32()
    size = size_of(cursor, "channel state size")
    stream = required_stream_handle(cursor, "channel state")
    length = cursor.count("bytes of channel offsets")
    inner = Cursor(cursor.data, file=cursor.file, base=cursor.base, pos=cursor.pos, end=cursor.pos + length)
    channels = tuple(_channel(inner) for _ in range(inner.count("channels", 20)))
    inner.finish("the channel offsets")
    cursor.pos = inner.pos
    return MergedChannelHandle(direction, subtask, size, stream, channels)


def _channel(cursor: Cursor) -> ChannelOffsets:
    group, channel = cursor.i32(), cursor.i32()
    size = size_of(cursor, "channel state size")
    count = cursor.count("channel state offsets", 8)
    return ChannelOffsets(group, channel, size, longs(cursor, count, "channel state offsets"))


def write_channel_handle(out: Output, handle: ChannelStateHandle, version: int) -> None:
    """Write what :func:`read_channel_handle` reads. Raises UnsupportedSnapshot for a merged handle below V6."""
    merged = isinstance(handle, MergedChannelHandle)
    if version >= 6:
        out.u8(_TAG_OF[handle.direction, merged])
    elif merged:
        raise UnsupportedSnapshot(
            f"merged channel state of subtask {handle.subtask} cannot be written to metadata of version {version}",
            advice="write for Flink 2.1 or newer, or take a savepoint, which has no records in flight",
        )
    out.i32(handle.subtask)
    if isinstance(handle, MergedChannelHandle):
        out.i64(handle.size)
        write_stream_handle(out, handle.stream)
        out.bytes32(_channels(handle.channels))
    else:
        out.i32(handle.group)
        out.i32(handle.channel)
        write_longs(out, handle.offsets)
        out.i64(handle.size)
        write_stream_handle(out, handle.stream)


def _channels(channels: tuple[ChannelOffsets, ...]) -> bytes:
    out = Output()
    out.i32(len(channels))
    for channel in channels:
        out.i32(channel.group)
        out.i32(channel.channel)
        out.i64(channel.size)
        write_longs(out, channel.offsets)
    return bytes(out)
