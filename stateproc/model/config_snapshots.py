"""Find the states of serializers that Flink 1.17 and later cannot restore.

The snapshot of a user's serializer may extend TypeSerializerConfigSnapshot in Flink 1.8 to 1.16: in headers the class
name is followed by the version 0x7a53c4f0. Later releases have no such class.
"""

from __future__ import annotations

from collections.abc import Iterator

from stateproc.errors import SnapshotError
from stateproc.flink_versions import Release
from stateproc.metadata.backend import StateMetaInfo
from stateproc.model.operator import Operator
from stateproc.serializers.core.registry import CONFIG_VERSION

_MARK = CONFIG_VERSION.to_bytes(4, "big")
FIRST_WITHOUT = Release(1, 17)
"""The first release without TypeSerializerConfigSnapshot."""
ADVICE = (
    "give the serializer a snapshot class of its own and take a savepoint in Flink 1.16, or leave such states out "
    "(drop-state)"
)


def has_config_snapshot(snapshot: bytes) -> bool:
    """Return whether a serializer's snapshot is, or contains, a TypeSerializerConfigSnapshot."""
    return _MARK in snapshot


def config_snapshot_states(operator: Operator) -> tuple[str, ...]:
    """Return the names of the operator's states that have such a serializer; all keyed states if the key's is one."""
    return tuple(dict.fromkeys(_states(operator)))


def _states(operator: Operator) -> Iterator[str]:
    for file in operator.keyed_files:
        try:
            header = file.header
        except SnapshotError:
            continue  # a problem of the operator
        if header is not None:
            yield from _named(header.states, has_config_snapshot(header.key_snapshot))
    for lists in operator.operator_files:
        try:
            own = lists.header
        except SnapshotError:
            continue
        yield from _named((*own.states, *own.broadcast), False)


def _named(states: tuple[StateMetaInfo, ...], key: bool) -> Iterator[str]:
    for state in states:
        if key or any(has_config_snapshot(data) for data in state.snapshots.values()):
            yield state.name


def config_snapshot_note(states: tuple[str, ...]) -> str:
    """Say of which states Flink 1.17 and later cannot restore the serializers, and why."""
    shown = ", ".join(f"'{name}'" for name in states)
    return (
        f"a serializer of {shown} has a snapshot of TypeSerializerConfigSnapshot, which Flink {FIRST_WITHOUT} has no "
        f"longer: Flink {FIRST_WITHOUT} and later cannot restore {'it' if len(states) == 1 else 'them'}"
    )
