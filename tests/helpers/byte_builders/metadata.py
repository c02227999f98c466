"""A writer of ``_metadata`` bytes for tests, made from the format's description and not from the reader."""

from __future__ import annotations

import struct

NULL_PROPERTIES = bytes.fromhex("aced000570")
RUNTIME = "org.apache.flink.runtime.checkpoint."


def i32(*values: int) -> bytes:
    return struct.pack(f">{len(values)}i", *values)


def i64(*values: int) -> bytes:
    return struct.pack(f">{len(values)}q", *values)


def utf(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">H", len(raw)) + raw


def bytes32(raw: bytes) -> bytes:
    return i32(len(raw)) + raw


def inline(name: str, data: bytes) -> bytes:
    return b"\x01" + utf(name) + bytes32(data)


def file(path: str, size: int) -> bytes:
    return b"\x02" + i64(size) + utf(path)


def relative(path: str, size: int) -> bytes:
    return b"\x06" + utf(path) + i64(size)


def segment(path: str, start: int, size: int, scope: int, logical: str) -> bytes:
    return b"\x0f" + i64(start, size) + i32(scope) + utf(path) + utf(logical)


EMPTY_SEGMENT = b"\x10"


def key_groups(kind: int, first: int, offsets: list[int], stream: bytes, handle_id: str = "") -> bytes:
    tail = utf(handle_id) if kind == 12 else b""
    return bytes([kind]) + i32(first, len(offsets)) + i64(*offsets) + stream + tail


def named(files: list[tuple[str, bytes]]) -> bytes:
    return i32(len(files)) + b"".join(utf(name) + stream for name, stream in files)


def incremental(kind: int, meta: bytes, shared: list[tuple[str, bytes]], private: list[tuple[str, bytes]]) -> bytes:
    size, tail = (i64(999), utf("inc-id")) if kind == 11 else (b"", b"")
    head = bytes([kind]) + i64(42) + utf("backend-uuid") + i32(0, 64)
    return head + size + meta + named(shared) + named(private) + tail


def in_memory_changelog(changes: list[tuple[int, bytes]]) -> bytes:
    body = b"".join(i32(group) + bytes32(change) for group, change in changes)
    return b"\x09" + i32(0, 64) + i64(3, 5) + i32(len(changes)) + body + utf("mem-id")


def file_changelog(kind: int, segments: list[tuple[int, bytes]]) -> bytes:
    body = b"".join(i64(offset) + stream for offset, stream in segments)
    tail = utf("filesystem") if kind == 13 else b""
    return bytes([kind]) + i32(0, 64) + i32(len(segments)) + body + i64(70, 71) + utf("log-id") + tail


def changelog(kind: int, materialized: list[bytes], non_materialized: list[bytes]) -> bytes:
    return (
        bytes([kind])
        + i32(0, 64)
        + i64(80)
        + i32(len(materialized))
        + b"".join(materialized)
        + i32(len(non_materialized))
        + b"".join(non_materialized)
        + i64(6)
        + (i64(17) if kind == 14 else b"")
        + utf("changelog-id")
    )


def operator_handle(
    states: list[tuple[str, int, list[int]]], stream: bytes, merging: tuple[str, str, bool] | None = None
) -> bytes:
    body = b"".join(utf(n) + bytes([mode]) + i32(len(o)) + i64(*o) for n, mode, o in states)
    dirs = utf(merging[0]) + utf(merging[1]) + bytes([merging[2]]) if merging else b""
    return (b"\x11" if merging else b"\x04") + i32(len(states)) + body + dirs + stream


def channel(version: int, tag: int, subtask: int, a: int, b: int, offsets: list[int], stream: bytes) -> bytes:
    head = bytes([tag]) if version >= 6 else b""
    return head + i32(subtask, a, b, len(offsets)) + i64(*offsets) + i64(500) + stream


def merged_channel(tag: int, subtask: int, stream: bytes, parts: list[tuple[int, int, list[int]]]) -> bytes:
    body = b"".join(i32(a, b) + i64(9) + i32(len(o)) + i64(*o) for a, b, o in parts)
    return bytes([tag]) + i32(subtask) + i64(600) + stream + bytes32(i32(len(parts)) + body)


def subtask(
    version: int,
    index: int,
    managed_operator: bytes = b"",
    raw_operator: bytes = b"",
    managed_keyed: bytes = b"\0",
    raw_keyed: bytes = b"\0",
    channels_in: tuple[bytes, ...] = (),
    channels_out: tuple[bytes, ...] = (),
    reused_from: int | None = None,
) -> bytes:
    legacy = i64(123) + i32(0) if version == 2 else b""
    operators = b"".join(i32(1) + handle if handle else i32(0) for handle in (managed_operator, raw_operator))
    channels = b"".join(i32(len(some)) + b"".join(some) for some in (channels_in, channels_out))
    reference = b"" if version < 7 else b"\0" if reused_from is None else b"\1" + i64(reused_from)
    handles = operators + managed_keyed + raw_keyed
    return i32(index) + legacy + handles + (channels if version >= 3 else b"") + reference


def operator(
    version: int,
    subtasks: list[bytes] | None,
    *,
    operator_id: bytes = bytes(range(16)),
    parallelism: int = 4,
    max_parallelism: int = 128,
    name: str = "",
    uid: str = "",
    coordinator: bytes = b"\0",
) -> bytes:
    names = utf(name) + utf(uid) if version >= 5 else b""
    after = i32(1) if version == 2 else coordinator
    listed = i32(-1) if subtasks is None else i32(len(subtasks)) + b"".join(subtasks)
    return names + operator_id + i32(parallelism, max_parallelism) + after + listed


def master_state(version: int, name: str, payload: bytes) -> bytes:
    return struct.pack(">I", 0xC96B1696) + bytes32(i32(version) + utf(name) + bytes32(payload))


def metadata(
    version: int,
    operators: list[bytes],
    *,
    checkpoint_id: int = 7,
    master_states: tuple[bytes, ...] = (),
    properties: bytes = NULL_PROPERTIES,
) -> bytes:
    return (
        struct.pack(">Ii", 0x4960672D, version)
        + i64(checkpoint_id)
        + i32(len(master_states))
        + b"".join(master_states)
        + i32(len(operators))
        + b"".join(operators)
        + (properties if version >= 4 else b"")
    )


def java_class(name: str, flags: int, fields: bytes, parent: bytes = b"\x70") -> bytes:
    return b"\x72" + utf(name) + i64(1) + bytes([flags]) + fields + b"\x78" + parent


def savepoint_properties(savepoint_format: str) -> bytes:
    """CheckpointProperties(forced=true, unclaimed=false, SavepointType("Savepoint", format))."""

    def obj_field(name: str, java_type: str) -> bytes:
        return b"L" + utf(name) + b"\x74" + utf(java_type)

    enum = java_class("java.lang.Enum", 0x12, b"\0\0")
    outer = b"Z" + utf("forced") + b"Z" + utf("unclaimed") + obj_field("checkpointType", "LX;")
    kind = obj_field("formatType", "LY;") + obj_field("name", "Ljava/lang/String;")
    return (
        bytes.fromhex("aced0005")
        + b"\x73"
        + java_class(RUNTIME + "CheckpointProperties", 2, b"\0\3" + outer)
        + b"\1\0"
        + b"\x73"
        + java_class(RUNTIME + "SavepointType", 2, b"\0\2" + kind)
        + b"\x7e"
        + java_class("org.apache.flink.core.execution.SavepointFormatType", 0x12, b"\0\0", enum)
        + b"\x74"
        + utf(savepoint_format)
        + b"\x74"
        + utf("Savepoint")
    )
