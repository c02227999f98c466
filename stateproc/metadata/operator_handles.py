"""Read and write operator state handles (org.apache.flink.runtime.state.OperatorStreamStateHandle)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from stateproc.metadata.stream_handles import (
    TAKE_AGAIN,
    EmptySegmentHandle,
    SegmentHandle,
    StreamHandle,
    longs,
    refuse_type,
    required_stream_handle,
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
