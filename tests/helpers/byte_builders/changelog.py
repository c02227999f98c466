"""Changelog handles put together by hand, from the format's description: header, declarations, changes, segments."""

from __future__ import annotations

from pathlib import Path

import cramjam

import stateproc
from stateproc.model.operator import Operator
from tests.helpers.byte_builders.metadata import (
    bytes32,
    changelog,
    i32,
    inline,
    key_groups,
    metadata,
    operator,
    subtask,
    utf,
)
from tests.helpers.byte_builders.serializers import BASE, composite, scalar, versioned

CLEAR, SET, SET_INTERNAL, ADD, MERGE_NS, ADD_ELEMENT, ADD_OR_UPDATE, REMOVE = range(8)
LONG, STRING = scalar("Long"), scalar("String")
VOID = versioned("org.apache.flink.runtime.state.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot", 3)
LIST = composite(BASE + "ListSerializerSnapshot", 1, STRING)
MAP = composite(BASE + "MapSerializerSnapshot", 1, STRING, LONG)
TTL = "org.apache.flink.runtime.state.ttl.TtlStateFactory$TtlSerializerSnapshot"
TIMER = composite("org.apache.flink.streaming.api.operators.TimerSerializerSnapshot", 2, STRING, VOID)


def fstr(text: str) -> bytes:
    """A StringValue of ASCII."""
    return bytes([len(text) + 1]) + text.encode()


def long(number: int) -> bytes:
    return number.to_bytes(8, "big", signed=True)


def strings(*texts: str) -> bytes:
    """By ListSerializer."""
    return i32(len(texts)) + b"".join(map(fstr, texts))


def state_info(name: str, kind: str, value: bytes, namespace: bytes = VOID) -> bytes:
    """StateMetaInfo of a keyed state, or of a queue if ``kind`` is ''."""
    serializers = {"VALUE_SERIALIZER": value, **({"NAMESPACE_SERIALIZER": namespace} if kind else {})}
    listed = b"".join(utf(key) + i32(2) + snapshot for key, snapshot in serializers.items())
    options = i32(1) + utf("KEYED_STATE_TYPE") + utf(kind) if kind else i32(0)
    return utf(name) + i32(0 if kind else 3) + options + i32(len(serializers)) + listed


def declared(number: int, info: bytes, *, queue: bool = False, settings: bytes = b"\0\0") -> tuple[int, bytes]:
    """A METADATA change. ``settings``: TTL and default value, each a mark and what follows it."""
    tail = number.to_bytes(2, "big") + (b"\x03" if queue else b"\0")
    return -1, b"\x08" + i32(7) + info + (b"" if queue else settings) + tail


def change(
    code: int, key: str, operand: bytes = b"", *, number: int = 0, namespace: bytes = b"\0", group: int = 5
) -> tuple[int, bytes]:
    """A change of a keyed state with String keys."""
    return group, bytes([code]) + number.to_bytes(2, "big") + fstr(key) + namespace + operand


def queue_change(code: int, operand: bytes, *, number: int = 0, group: int = 5) -> tuple[int, bytes]:
    return group, bytes([code]) + number.to_bytes(2, "big") + operand


def timer(timestamp: int, key: str) -> bytes:
    return ((timestamp ^ -(1 << 63)) & (1 << 64) - 1).to_bytes(8, "big") + fstr(key) + b"\0"


def header(*infos: bytes, key: bytes = STRING) -> bytes:
    return i32(6) + b"\0" + i32(2) + key + len(infos).to_bytes(2, "big") + b"".join(infos)


def empty_materialized(*infos: bytes) -> bytes:
    """A canonical handle of key groups 0 to 63 without entries, which declares the type of the key."""
    return key_groups(7, 0, [0] * 64, inline("materialized", header(*infos)))


def canonical(group: int, entries: list[tuple[bytes, bytes]], *infos: bytes) -> bytes:
    """A canonical handle with entries of state 0 in one key group; keys without prefix."""
    head = header(*infos)
    body = b"\0\0"
    for index, (key, value) in enumerate(entries):
        first = group | (0x80 if index == len(entries) - 1 else 0)
        body += bytes32(bytes([first]) + key) + bytes32(value)
    offsets = [len(head) if index == group else 0 for index in range(64)]
    return key_groups(7, 0, offsets, inline("materialized", head + body + b"\xff\xff"))


def heap(group: int, sections: list[tuple[int, int, bytes]], *infos: bytes) -> bytes:
    """A native heap handle; ``sections``: (state, entries, their bytes) of one key group; others hold none."""
    head, body = header(*infos), b""
    offsets = []
    for index in range(64):
        offsets.append(len(head) + len(body))
        body += i32(index)
        for state, count, entries in sections:
            own = index == group
            body += state.to_bytes(2, "big") + i32(count if own else 0) + (entries if own else b"")
    return key_groups(12, 0, offsets, inline("materialized", head + body), "heap-id")


def segment_content(changes: list[tuple[int, bytes]]) -> bytes:
    """What StateChangeFormat writes: blocks by key group, metadata first."""
    groups = sorted({group for group, _ in changes})
    blocks = b""
    for group in groups:
        own = [data for at, data in changes if at == group]
        blocks += i32(len(own), group) + b"".join(map(bytes32, own))
    return i32(len(groups)) + blocks


def log_file(path: Path, content: bytes, *, compressed: bool = False) -> str:
    """Write a changelog file; its name for a handle."""
    body = bytes(cramjam.snappy.compress(content)) if compressed else content
    path.write_bytes(bytes([compressed]) + body)
    return str(path)


def opened(directory: Path, materialized: list[bytes], log: list[bytes]) -> Operator:
    """The operator of a snapshot with this changelog handle, for key groups 0 to 63."""
    managed = changelog(14, materialized, log)
    directory.joinpath("_metadata").write_bytes(
        metadata(4, [operator(4, [subtask(4, 0, managed_keyed=managed)], parallelism=1)])
    )
    return stateproc.open(str(directory)).operators[0]
