"""Headers of state files: which states there are and how they are serialized.

Keyed: org.apache.flink.runtime.state.KeyedBackendSerializationProxy; operator:
org.apache.flink.runtime.state.OperatorBackendSerializationProxy; both hold StateMetaInfoSnapshots
(org.apache.flink.runtime.state.metainfo.StateMetaInfoSnapshotReadersWriters).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stateproc.serializers import Serializer, read_proxied
from stateproc.wire import Cursor

KEY_VALUE, OPERATOR, BROADCAST, PRIORITY_QUEUE, KEY_VALUE_V2 = (
    "KEY_VALUE", "OPERATOR", "BROADCAST", "PRIORITY_QUEUE", "KEY_VALUE_V2",
)  # fmt: skip
_BACKEND_TYPES = (KEY_VALUE, OPERATOR, BROADCAST, PRIORITY_QUEUE, KEY_VALUE_V2)
_OLD = "restore the snapshot once in Flink 1.8–1.16 and take a savepoint there"


@dataclass(frozen=True)
class StateMetaInfo:
    """One registered state: name, backend type, options, serializers by Flink's key (VALUE_SERIALIZER …)."""

    name: str
    backend_type: str
    options: Mapping[str, str] = field(hash=False)
    serializers: Mapping[str, Serializer] = field(hash=False)

    @property
    def key_serializer(self) -> Serializer | None:
        return self.serializers.get("KEY_SERIALIZER")

    @property
    def namespace_serializer(self) -> Serializer | None:
        return self.serializers.get("NAMESPACE_SERIALIZER")

    @property
    def value_serializer(self) -> Serializer | None:
        return self.serializers.get("VALUE_SERIALIZER")


@dataclass(frozen=True)
class KeyedHeader:
    """The header of keyed state; a state's position in ``states`` is its id in the data."""

    version: int
    compressed: bool
    key: Serializer
    states: tuple[StateMetaInfo, ...]


@dataclass(frozen=True)
class OperatorHeader:
    """The header of operator state: list (and union) states, broadcast states."""

    version: int
    compressed: bool
    states: tuple[StateMetaInfo, ...]
    broadcast: tuple[StateMetaInfo, ...]


def read_keyed_header(cursor: Cursor) -> KeyedHeader:
    """The keyed header at the cursor. Raises CorruptSnapshot, UnsupportedSnapshot."""
    at = cursor.pos
    version = cursor.i32()
    if version in (3, 4, 5):
        cursor.unsupported(f"keyed state of header version {version}, of Flink 1.6 or older", at=at, advice=_OLD)
    if version != 6:
        cursor.corrupt(f"no header of keyed state: version {version} where 6 is expected", at=at)
    compressed = cursor.boolean()
    key = read_proxied(cursor)
    states = tuple(read_state_meta_info(cursor) for _ in range(cursor.u16()))
    return KeyedHeader(version, compressed, key, states)


def read_operator_header(cursor: Cursor) -> OperatorHeader:
    """The operator state header at the cursor. Raises CorruptSnapshot, UnsupportedSnapshot."""
    at = cursor.pos
    version = cursor.i32()
    if version in (1, 2, 3, 4):
        cursor.unsupported(f"operator state of header version {version}, of Flink 1.6 or older", at=at, advice=_OLD)
    if version not in (5, 6):
        cursor.corrupt(f"no header of operator state: version {version} where 5 or 6 is expected", at=at)
    compressed = cursor.boolean() if version >= 6 else False
    states = tuple(read_state_meta_info(cursor) for _ in range(cursor.u16()))
    broadcast = tuple(read_state_meta_info(cursor) for _ in range(cursor.u16()))
    return OperatorHeader(version, compressed, states, broadcast)


def read_state_meta_info(cursor: Cursor) -> StateMetaInfo:
    """One StateMetaInfoSnapshot: name, type ordinal, options, serializers."""
    name = cursor.utf()
    at = cursor.pos
    ordinal = cursor.i32()
    if not 0 <= ordinal < len(_BACKEND_TYPES):
        cursor.corrupt(f"state {name!r} has the unknown backend type {ordinal}", at=at)
    options = {cursor.utf(): cursor.utf() for _ in range(cursor.count("state options", 4))}
    serializers = {cursor.utf(): read_proxied(cursor) for _ in range(cursor.count("state serializers", 12))}
    return StateMetaInfo(name, _BACKEND_TYPES[ordinal], options, serializers)
