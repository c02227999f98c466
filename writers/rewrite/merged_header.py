"""Merge the headers of all subtasks' keyed state, in the form of canonical savepoints.

Serializer snapshots stay the bytes they are. Those of subtasks that met other subclasses are merged
(`readers.common.merged_snapshots`). Where a state changes its kind they are put into other frames: states of ForSt
(KEY_VALUE_V2 keeps serializers of elements, KEY_VALUE those of whole lists and maps), timers of raw keyed state, which
become priority queues.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stateproc.errors import UnsupportedSnapshot, Where, not_found
from stateproc.flink_versions import DEFAULT, LAST, Release
from stateproc.metadata.backend import KEY_VALUE, KEY_VALUE_V2, PRIORITY_QUEUE, KeyedHeader, StateMetaInfo
from stateproc.metadata.stream_handles import KeyGroupsHandle
from stateproc.model.operator import Operator
from stateproc.readers.header_reader import read_whole_header
from stateproc.readers.merged_snapshots import DifferentSerializersError, merged_info, merged_key
from stateproc.readers.state_descriptor import StateDescriptor, StateKind, keyed_state, timer_state_name
from stateproc.readers.timers import RawTimers, TimerService, open_raw_timers
from stateproc.serializers import Serializer, proxied_snapshot, read_proxied, read_versioned
from stateproc.serializers.runtime.streaming import Timer
from stateproc.wire import Cursor, Output

# Split serializer snapshots into nested snapshots as bytes, and combine them again.
#
# Format: CompositeTypeSerializerSnapshot and NestedSerializersSnapshotDelegate (org.apache.flink.api.common.typeutils),
# after the proxy version of TypeSerializerSnapshotSerializationUtil.

PROXY = (2).to_bytes(4, "big")
_COMPOSITE_MAGIC, _NESTED_MAGIC = 911108, 1333245
_COMPOSITE_VERSION = 3


@dataclass(frozen=True)
class RawComposite:
    """A composite's snapshot: its class, what stands between that and its parts, the parts without proxy version."""

    class_name: str
    head: bytes
    parts: tuple[bytes, ...]

    def with_part(self, index: int, part: bytes) -> RawComposite:
        parts = (*self.parts[:index], part, *self.parts[index + 1 :])
        return replace(self, parts=parts)

    def versioned(self) -> bytes:
        """The bytes, without proxy version."""
        out = Output()
        out.utf(self.class_name)
        out.raw(self.head)
        out.i32(_NESTED_MAGIC)
        out.i32(1)
        out.i32(len(self.parts))
        for part in self.parts:
            out.raw(part)
        return bytes(out)


def composite_of(class_name: str, outer_version: int, parts: Sequence[bytes]) -> RawComposite:
    """A composite without an outer payload, as current releases write it."""
    head = Output()
    for number in (_COMPOSITE_VERSION, _COMPOSITE_MAGIC, outer_version):
        head.i32(number)
    return RawComposite(class_name, bytes(head), tuple(parts))


def raw_composite(versioned: bytes, what: str) -> RawComposite:
    """Take the snapshot of a composite without an outer payload apart. ``what``: for errors, whose snapshot it is.

    Raises UnsupportedSnapshot for any other snapshot.
    """
    return read_whole_header(versioned, f"<snapshot of {what}>", _composite)


def _composite(cursor: Cursor) -> RawComposite:
    class_name, at = cursor.utf(), cursor.pos
    if cursor.i32() >= _COMPOSITE_VERSION:
        cursor.i32()
        cursor.i32()
    head = bytes(cursor.data[at : cursor.pos])
    if cursor.i32() != _NESTED_MAGIC or cursor.i32() != 1:
        raise UnsupportedSnapshot(f"a serializer snapshot {class_name} that is no plain composite")
    parts = []
    for _ in range(cursor.count("nested serializers", 6)):
        start = cursor.pos
        read_versioned(cursor)
        parts.append(bytes(cursor.data[start : cursor.pos]))
    return RawComposite(class_name, head, tuple(parts))


def versioned_of(proxied: bytes) -> bytes:
    """A proxied snapshot without its proxy version."""
    if proxied[:4] != PROXY:
        raise UnsupportedSnapshot("a serializer snapshot of a proxy version other than 2")
    return proxied[4:]


_TIMER = "org.apache.flink.streaming.api.operators.TimerSerializerSnapshot"
_LIST = "org.apache.flink.api.common.typeutils.base.ListSerializerSnapshot"
_MAP = "org.apache.flink.api.common.typeutils.base.MapSerializerSnapshot"
TTL = "org.apache.flink.runtime.state.ttl.TtlStateFactory$TtlSerializerSnapshot"
_TTL_V2 = "org.apache.flink.runtime.state.v2.ttl.TtlStateFactory$TtlSerializerSnapshot"
_TTL_VERSION = 2
DOMAINS = (("event", True), ("processing", False))


@dataclass(frozen=True)
class MergedHeader:
    """What write_keyed_header needs of an operator: the key serializer's snapshot (proxied) and the states.

    ``key`` None, no states: the operator has no keyed state. ``different``: states whose entries cannot be carried over
    as bytes, and why; ``states`` has them as one of the subtasks wrote them.
    """

    key: Serializer | None
    key_snapshot: bytes
    states: tuple[StateMetaInfo, ...]
    different: Mapping[str, UnsupportedSnapshot] = field(default_factory=dict, compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(info.name for info in self.states)

    def info(self, state: str) -> StateMetaInfo:
        """The state of that name. Raises NotFound."""
        for info in self.states:
            if info.name == state:
                return info
        raise not_found("keyed state", state, list(self.names))

    def carried(self, state: str) -> StateMetaInfo:
        """The state, whose entries one serializer reads. Raises NotFound, UnsupportedSnapshot if there is none."""
        if state in self.different:
            raise self.different[state]
        return self.info(state)

    def keyed(self, state: str, state_id: int = 0) -> StateDescriptor:
        """Return the state for decoding its entries. Raises NotFound; UnsupportedSnapshot for other serializers."""
        info = self.info(state)
        found = None if self.key is None else keyed_state(info, state_id, self.key)
        if found is None:
            raise UnsupportedSnapshot(
                "the state's serializers are not those that a state of its kind has",
                where=Where(state=state),
                advice="it can be carried over as it is, or left out",
            )
        return found


def merged_header(operator: Operator) -> MergedHeader:
    """The keyed states of an operator, timers of raw keyed state included, in the order of the headers.

    Raises UnsupportedSnapshot where subtasks wrote keys with different serializers; CorruptSnapshot, MissingFile.
    """
    key: Serializer | None = None
    key_snapshot = b""
    found: dict[str, list[StateMetaInfo]] = {}
    for part in _parts(operator):
        if key is None:
            key, key_snapshot = part.key, part.key_snapshot
        elif part.key is not None:
            try:
                key, key_snapshot = merged_key(key, key_snapshot, part.key, part.key_snapshot)
            except DifferentSerializersError:
                raise _different_keys(operator) from None
        for info in part.states:
            found.setdefault(info.name, []).append(info)
    states, different = list[StateMetaInfo](), dict[str, UnsupportedSnapshot]()
    for name, infos in found.items():
        merged = infos[0]
        try:
            for info in infos[1:]:
                merged = merged_info(merged, info)
        except DifferentSerializersError:
            merged, different[name] = infos[0], _different_states(operator, name)
        states.append(merged)
    if key is not None and not key_snapshot:
        key_snapshot = _key_of_timers(states) or proxied_snapshot(key, _release(operator))
    return MergedHeader(key, key_snapshot, tuple(states), different)


def _parts(operator: Operator) -> Iterator[MergedHeader]:
    """Yield what each subtask wrote: its managed states, the timers in its raw state."""
    for header in _headers(operator):
        yield MergedHeader(header.key, header.key_snapshot, tuple(map(classic, header.states)))
    for timers in timers_in_raw_state(operator):
        for service in timers.services:
            yield MergedHeader(service.key, PROXY + service.key_snapshot, tuple(timer_states(service)))


def _headers(operator: Operator) -> Iterator[KeyedHeader]:
    for _, error in operator.unreadable_keyed_files:
        raise error
    for file in operator.keyed_files:
        if file.header is not None:
            yield file.header


def _different_states(operator: Operator, state: str) -> UnsupportedSnapshot:
    uid = operator.display
    return UnsupportedSnapshot(
        "subtasks wrote this state with different serializers: one header cannot describe both, and entries are "
        "carried over as they are",
        where=Where(operator=uid, state=state),
        advice="write its rows with one serializer in the same write: "
        f"SavepointWriter.transform_state({uid!r}, {state!r}, lambda rows: rows), with value_type=… if types differ; "
        f"or leave it out: drop_state({uid!r}, {state!r})",
    )


def _different_keys(operator: Operator) -> UnsupportedSnapshot:
    uid = operator.display
    return UnsupportedSnapshot(
        "subtasks wrote keys with different serializers: one header cannot describe both",
        where=Where(operator=uid),
        advice="read the states as rows and write the operator anew: "
        f"SavepointWriter.with_operator({uid!r}, OperatorBootstrap(key_type=…)…), which replaces it; or leave its "
        "states, parallelism, max parallelism and format as they are, and its files are copied",
    )


def _key_of_timers(infos: Iterable[StateMetaInfo]) -> bytes:
    """The key's snapshot where no header holds it (changelogs without a materialized part): the timers' part; empty
    where there are no timers either, and the user specified the type."""
    for info in infos:
        if isinstance(info.value_serializer, Timer):
            return PROXY + _parts_of(info)[0]
    return b""


def _release(operator: Operator) -> Release:
    """A release whose snapshots those that wrote the operator read."""
    return DEFAULT if operator.options.kryo < LAST.kryo else LAST


def timers_in_raw_state(operator: Operator) -> list[RawTimers]:
    """The timers in the operator's raw keyed state, which also holds what only the operator can read."""
    handles = [subtask.raw_keyed for subtask in operator.metadata.subtasks]
    found = (open_raw_timers(item, operator.location) for item in handles if isinstance(item, KeyGroupsHandle))
    return [timers for timers in found if timers is not None]


def timer_states(service: TimerService) -> list[StateMetaInfo]:
    """The two priority queues of a timer service found in raw keyed state."""
    snapshot = composite_of(_TIMER, 2, (service.key_snapshot, service.namespace_snapshot)).versioned()
    timer = Timer(service.key, service.namespace)
    return [
        StateMetaInfo(
            timer_state_name(service.name, event=event),
            PRIORITY_QUEUE,
            {},
            {"VALUE_SERIALIZER": timer},
            {"VALUE_SERIALIZER": PROXY + snapshot},
        )
        for _, event in DOMAINS
    ]


def classic(info: StateMetaInfo) -> StateMetaInfo:
    """The state as the classic state API registers it: KEY_VALUE_V2 becomes KEY_VALUE, its bytes stay the same."""
    if info.backend_type != KEY_VALUE_V2:
        return info
    snapshots = dict(info.snapshots)
    value = _classic_ttl(versioned_of(snapshots["VALUE_SERIALIZER"]), info.name)
    user_key = snapshots.pop("USER_KEY_SERIALIZER", None)
    kind = info.options.get("KEYED_STATE_TYPE")
    if kind != "MAP" or user_key is not None:
        value = _collected(kind, value, b"" if user_key is None else versioned_of(user_key))
    return with_value(replace(info, backend_type=KEY_VALUE, snapshots=snapshots), value)


def _collected(kind: str | None, value: bytes, user_key: bytes) -> bytes:
    """Return the snapshot of the values of a state of a kind, by that of its elements, or of its maps' keys and values.

    All without proxy version.
    """
    if kind == StateKind.LIST.name:
        return composite_of(_LIST, 1, (value,)).versioned()
    return composite_of(_MAP, 1, (user_key, value)).versioned() if kind == StateKind.MAP.name else value


def with_value_snapshot(info: StateMetaInfo, kind: StateKind, snapshot: bytes) -> StateMetaInfo:
    """Return the state with another type of values, list elements or map values; ``snapshot``: theirs, proxied.

    Raises UnsupportedSnapshot for a map whose snapshot is no plain composite.
    """
    user_key = _parts_of(info)[0] if kind is StateKind.MAP else b""
    return with_value(info, _collected(kind.name, versioned_of(snapshot), user_key))


def with_kind(info: StateMetaInfo, kind: StateKind, snapshot: bytes, user_key: bytes | None) -> StateMetaInfo:
    """Return the state as one of another kind.

    Args:
        kind: The kind: of one value, a list or a map.
        snapshot: That of values, list elements or map values, proxied.
        user_key: That of the keys of maps, proxied.
    """
    value = _collected(kind.name, versioned_of(snapshot), b"" if user_key is None else versioned_of(user_key))
    return with_value(replace(info, options={**info.options, "KEYED_STATE_TYPE": kind.name}), value)


def with_user_key_snapshot(info: StateMetaInfo, snapshot: bytes) -> StateMetaInfo:
    """Return a map state with another type of the keys of its maps; ``snapshot``: theirs, proxied.

    Raises UnsupportedSnapshot for a map whose snapshot is no plain composite.
    """
    return with_value(info, _collected(StateKind.MAP.name, _parts_of(info)[1], versioned_of(snapshot)))


def with_timer_key(info: StateMetaInfo, snapshot: bytes) -> StateMetaInfo:
    """Return timers with another type of keys; any other state as it is. ``snapshot``: that of the keys, proxied."""
    if info.backend_type != PRIORITY_QUEUE:
        return info
    return with_value(info, composite_of(_TIMER, 2, (versioned_of(snapshot), _parts_of(info)[1])).versioned())


def _parts_of(info: StateMetaInfo) -> tuple[bytes, ...]:
    """Return the nested snapshots of a state's values. Raises UnsupportedSnapshot for no plain composite."""
    return raw_composite(versioned_of(info.snapshots["VALUE_SERIALIZER"]), info.name).parts


def _classic_ttl(value: bytes, state: str) -> bytes:
    """Replace the TtlSerializer of the new state API by that of the classic one."""
    if not value.startswith(len(_TTL_V2).to_bytes(2, "big") + _TTL_V2.encode()):
        return value
    return composite_of(TTL, _TTL_VERSION, raw_composite(value, state).parts).versioned()


def with_value(info: StateMetaInfo, value: bytes) -> StateMetaInfo:
    """Return the state with another snapshot of its values, which is given without proxy version."""
    return with_snapshots(info, {**info.snapshots, "VALUE_SERIALIZER": PROXY + value})


def with_snapshots(info: StateMetaInfo, snapshots: dict[str, bytes]) -> StateMetaInfo:
    """Return the state with the serializers that ``snapshots`` (proxied) describe."""
    serializers = {
        key: read_whole_header(data, f"<snapshot of {info.name}>", read_proxied) for key, data in snapshots.items()
    }
    return replace(info, serializers=serializers, snapshots=snapshots)
