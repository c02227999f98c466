"""Headers of the state that an operator is to have: its states with their serializer snapshots."""

from __future__ import annotations

from dataclasses import dataclass, field

from stateproc.metadata.backend import StateMetaInfo, write_keyed_header
from stateproc.serializers import Serializer


@dataclass(frozen=True)
class KeyedStateHeader:
    """The keyed states of an operator. A state's position in ``states`` is its id in raw entries."""

    key: Serializer
    key_snapshot: bytes = field(repr=False)
    states: tuple[StateMetaInfo, ...]

    def encoded(self, compressed: bool) -> bytes:
        """The header as state files begin with it."""
        return write_keyed_header(self.key_snapshot, self.states, compressed=compressed)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(state.name for state in self.states)


@dataclass(frozen=True)
class OperatorStateHeader:
    """The operator states of an operator. Ids in entries: list and union states first, then broadcast states."""

    states: tuple[StateMetaInfo, ...]
    broadcast: tuple[StateMetaInfo, ...]

    def name(self, state_id: int) -> str:
        return (*self.states, *self.broadcast)[state_id].name
