"""Register states of a new operator: kind, types, and their entries in headers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stateproc.errors import InvalidOption
from stateproc.flink_versions import Release
from stateproc.metadata.backend import (
    BROADCAST,
    DISTRIBUTION_MODE,
    KEY_VALUE,
    OPERATOR,
    PRIORITY_QUEUE,
    StateMetaInfo,
)  # fmt: skip
from stateproc.metadata.operator_handles import DistributionMode
from stateproc.readers.state_descriptor import KeyedState, StateKind
from stateproc.serializers import Serializer
from stateproc.serializers.core.registry import proxied_snapshot
from stateproc.serializers.java.collections import ListOf, MapOf
from stateproc.serializers.java.scalars import VOID_NAMESPACE
from stateproc.serializers.runtime.timers import Timer
from stateproc.serializers.runtime.ttl import TtlSerializer
from stateproc.writers.formats.common.state_headers import KeyedStateHeader

USER_TIMERS = "user-timers"
"""The timer service of KeyedProcessFunction."""


@dataclass(frozen=True)
class RegisteredState:
    """A keyed state: ``value`` is the element of a list, the user value of a map; None for timers."""

    name: str
    kind: StateKind
    value: Serializer | None
    namespace: Serializer = VOID_NAMESPACE
    user_key: Serializer | None = None
    ttl: bool = False

    def state(self, key: Serializer, state_id: int) -> KeyedState:
        """The state under its id in the operator's header."""
        value = Timer(key, self.namespace) if self.value is None else self.value
        return KeyedState(self.name, self.kind, state_id, key, self.namespace, value, self.user_key, self.ttl)

    def info(self, key: Serializer, release: Release) -> StateMetaInfo:
        """The state's entry in the header, as a release of Flink writes it."""
        if self.value is None:
            return meta_info(self.name, PRIORITY_QUEUE, {}, {"VALUE_SERIALIZER": Timer(key, self.namespace)}, release)
        element: Serializer = TtlSerializer(self.value) if self.ttl else self.value
        stored = element
        if self.kind is StateKind.LIST:
            stored = ListOf("List", element)
        elif self.user_key is not None:
            stored = MapOf(self.user_key, element)
        serializers = {"NAMESPACE_SERIALIZER": self.namespace, "VALUE_SERIALIZER": stored}
        return meta_info(self.name, KEY_VALUE, {"KEYED_STATE_TYPE": self.kind.name}, serializers, release)


def keyed_part(key: Serializer, states: Sequence[RegisteredState], release: Release) -> KeyedStateHeader:
    """The header of these states, in their order. Raises InvalidOption for two states of one name."""
    names = [state.name for state in states]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidOption(f"two states are called {twice!r}", advice="a name stands for one state of its operator")
    infos = tuple(state.info(key, release) for state in states)
    return KeyedStateHeader(key, proxied_snapshot(key, release), infos)


def list_info(name: str, element: Serializer, mode: DistributionMode, release: Release) -> StateMetaInfo:
    """An operator's list or union state."""
    return meta_info(name, OPERATOR, {DISTRIBUTION_MODE: mode}, {"VALUE_SERIALIZER": element}, release)


def broadcast_info(name: str, key: Serializer, value: Serializer, release: Release) -> StateMetaInfo:
    """A broadcast state."""
    serializers = {"KEY_SERIALIZER": key, "VALUE_SERIALIZER": value}
    return meta_info(name, BROADCAST, {DISTRIBUTION_MODE: "BROADCAST"}, serializers, release)


def meta_info(
    name: str, backend_type: str, options: dict[str, str], serializers: dict[str, Serializer], release: Release
) -> StateMetaInfo:
    """A state's entry in a header, with the snapshots that ``release`` writes of its serializers."""
    snapshots = {role: proxied_snapshot(serializer, release) for role, serializer in serializers.items()}
    return StateMetaInfo(name, backend_type, options, serializers, snapshots)
