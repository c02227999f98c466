"""Read and write the headers of state files, which list the registered states and their serializers.

Keyed: org.apache.flink.runtime.state.KeyedBackendSerializationProxy; operator:
org.apache.flink.runtime.state.OperatorBackendSerializationProxy; both hold StateMetaInfoSnapshots
(org.apache.flink.runtime.state.metainfo.StateMetaInfoSnapshotReadersWriters).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stateproc.errors import InvalidOption, SnapshotError, Where
from stateproc.serializers import PROXY_VERSION, Serializer, UnknownSnapshotClass, UnreadablePayload, read_proxied
from stateproc.wire import Cursor, Output

KEY_VALUE, OPERATOR, BROADCAST = "KEY_VALUE", "OPERATOR", "BROADCAST"
PRIORITY_QUEUE, KEY_VALUE_V2 = "PRIORITY_QUEUE", "KEY_VALUE_V2"
DISTRIBUTION_MODE = "OPERATOR_STATE_DISTRIBUTION_MODE"
"""The option that distinguishes list, union and broadcast state (StateMetaInfoSnapshot.CommonOptionsKeys)."""
_BACKEND_TYPES = (KEY_VALUE, OPERATOR, BROADCAST, PRIORITY_QUEUE, KEY_VALUE_V2)
# org.apache.flink.runtime.state.metainfo.StateMetaInfoSnapshot.CommonSerializerKeys.
_SERIALIZER_KEYS = frozenset({"KEY_SERIALIZER", "NAMESPACE_SERIALIZER", "VALUE_SERIALIZER", "USER_KEY_SERIALIZER"})
_KEYED_VERSION = 6
_MAX_STATES = 0x7FFF
_OLD = "restore the snapshot once in Flink 1.8–1.16 and take a savepoint there"


@dataclass(frozen=True)
class StateMetaInfo:
    """One registered state: name, backend type, options, serializers by Flink's key (VALUE_SERIALIZER …).

    ``snapshots`` are the bytes of the serializers' snapshots (with proxy version) by the same keys, in file order.
    """

    name: str
    backend_type: str
    options: Mapping[str, str] = field(hash=False)
    serializers: Mapping[str, Serializer] = field(hash=False)
    snapshots: Mapping[str, bytes] = field(default_factory=dict, hash=False, compare=False, repr=False)

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
    """The header of keyed state; a state's position in ``states`` is its id in the data.

    ``key_snapshot``: the bytes of the key serializer's snapshot, with proxy version; empty if not read from a file.
    """

    version: int
    compressed: bool
    key: Serializer
    states: tuple[StateMetaInfo, ...]
    key_snapshot: bytes = field(default=b"", compare=False, repr=False)


@dataclass(frozen=True)
class OperatorHeader:
    """The header of operator state: list (and union) states, broadcast states."""

    version: int
    compressed: bool
    states: tuple[StateMetaInfo, ...]
    broadcast: tuple[StateMetaInfo, ...]


def read_keyed_header(cursor: Cursor) -> KeyedHeader:
    """Read the keyed header at the cursor. Raises CorruptSnapshot, UnsupportedSnapshot."""
    at = cursor.pos
    version = cursor.i32()
    if version in (3, 4, 5):
        cursor.unsupported(f"keyed state of header version {version}, of Flink 1.6 or older", at=at, advice=_OLD)
    if version != _KEYED_VERSION:
        cursor.corrupt(f"no header of keyed state: version {version} where {_KEYED_VERSION} is expected", at=at)
    compressed = cursor.boolean()
    key, key_snapshot = _proxied(cursor)
    states = tuple(read_state_meta_info(cursor) for _ in range(cursor.u16()))
    return KeyedHeader(version, compressed, key, states, key_snapshot)


def write_keyed_header(key_snapshot: bytes, states: Sequence[StateMetaInfo], *, compressed: bool) -> bytes:
    """Write what :func:`read_keyed_header` reads, in version 6, which all releases since 1.7 write.

    ``key_snapshot`` is the key serializer's snapshot with proxy version. Raises InvalidOption for states without
    ``snapshots``, and for more than 32,767 states.
    """
    out = Output()
    out.i32(_KEYED_VERSION)
    out.boolean(compressed)
    out.raw(key_snapshot)
    _write_states(out, states)
    return bytes(out)


def read_operator_header(cursor: Cursor) -> OperatorHeader:
    """Read the operator state header at the cursor. Raises CorruptSnapshot, UnsupportedSnapshot."""
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


def write_operator_header(
    states: Sequence[StateMetaInfo], broadcast: Sequence[StateMetaInfo], *, version: int, compressed: bool
) -> bytes:
    """Write what :func:`read_operator_header` reads: version 6 since Flink 1.18, 5 before.

    ``Release.operator_header_version`` is the version of a Flink release.

    Raises InvalidOption for another version, for compression before version 6, for states without ``snapshots``.
    """
    if version not in (5, 6) or (compressed and version < 6):
        raise InvalidOption(
            f"operator state of header version {version} cannot be written{' compressed' if compressed else ''}",
            advice="version 5 is for Flink before 1.18 and without compression, 6 for 1.18 and newer",
        )
    out = Output()
    out.i32(version)
    if version >= 6:
        out.boolean(compressed)
    _write_states(out, states)
    _write_states(out, broadcast)
    return bytes(out)


def read_state_meta_info(cursor: Cursor) -> StateMetaInfo:
    """Read one StateMetaInfoSnapshot: name, type ordinal, options, serializers."""
    name = cursor.utf()
    at = cursor.pos
    ordinal = cursor.i32()
    if not 0 <= ordinal < len(_BACKEND_TYPES):
        cursor.corrupt(f"state {name!r} has the unknown backend type {ordinal}", at=at)
    options = {cursor.utf(): cursor.utf() for _ in range(cursor.count("state options", 4))}
    read = {_serializer_key(cursor): _state_serializer(cursor) for _ in range(cursor.count("state serializers", 12))}
    serializers = {key: serializer for key, (serializer, _) in read.items()}
    snapshots = {key: raw for key, (_, raw) in read.items()}
    return StateMetaInfo(name, _BACKEND_TYPES[ordinal], options, serializers, snapshots)


def _serializer_key(cursor: Cursor) -> str:
    """Read the key that names a serializer's role.

    After a payload whose size was assumed, only a key that Flink writes confirms the assumption: a nested class name
    could otherwise pass for a key, and the state's own serializers would be lost.
    """
    at = cursor.pos
    key = cursor.utf()
    if cursor.assumed_sizes and key not in _SERIALIZER_KEYS:
        cursor.corrupt(f"a serializer for {key!r}", at=at)
    return key


def write_state_meta_info(out: Output, state: StateMetaInfo) -> None:
    """Write what :func:`read_state_meta_info` reads; serializers are written as their ``snapshots`` bytes."""
    if set(state.snapshots) != set(state.serializers):
        raise InvalidOption(
            f"the state '{state.name}' has serializers without the bytes of their snapshots",
            where=Where(state=state.name),
            advice="give StateMetaInfo.snapshots the bytes of each serializer's snapshot, with its proxy version",
        )
    out.utf(state.name)
    out.i32(_BACKEND_TYPES.index(state.backend_type))
    out.i32(len(state.options))
    for key, value in state.options.items():
        out.utf(key)
        out.utf(value)
    out.i32(len(state.snapshots))
    for key, snapshot in state.snapshots.items():
        out.utf(key)
        out.raw(snapshot)


def _write_states(out: Output, states: Sequence[StateMetaInfo]) -> None:
    if len(states) > _MAX_STATES:
        raise InvalidOption(
            f"{len(states)} states where a header holds {_MAX_STATES} at most",
            advice="spread the states over several operators",
        )
    out.u16(len(states))
    for state in states:
        write_state_meta_info(out, state)


def _state_serializer(cursor: Cursor) -> tuple[Serializer, bytes]:
    """Read as `_proxied`; raise UnreadablePayload for a bad snapshot if the caller can find its end by other means."""
    at = cursor.pos
    try:
        return _proxied(cursor)
    except UnknownSnapshotClass:
        raise
    except SnapshotError as error:
        if cursor.reasons is None:
            raise
        head = Cursor(cursor.data, file=cursor.file, base=cursor.base, pos=at, end=cursor.end)
        if head.i32() != PROXY_VERSION:
            raise
        head.utf()
        head.i32()
        raise UnreadablePayload(head.pos, error) from error


def _proxied(cursor: Cursor) -> tuple[Serializer, bytes]:
    """Read a serializer; return it with the bytes of its snapshot, proxy version included."""
    at = cursor.pos
    serializer = read_proxied(cursor)
    return serializer, bytes(cursor.data[at : cursor.pos])
