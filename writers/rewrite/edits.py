"""Edits of an existing operator, collected first and applied when the snapshot is written."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from stateproc.errors import InvalidOption
from stateproc.readers.state_descriptor import KeyedState
from stateproc.serializers import LayoutContext
from stateproc.writers.bootstrap.operator_bootstrap import OperatorBootstrap
from stateproc.writers.rewrite.kafka_offsets import OffsetsEdit
from stateproc.writers.rewrite.rekey import HashCodes
from stateproc.writers.rewrite.ttl import TtlChange, ttl_off, ttl_on, ttl_purge


@dataclass(frozen=True)
class TtlEdit:
    """A change of a state's time to live: on (``last_access``), off, or purged (``ttl`` ms before ``now``)."""

    action: str
    last_access: int = 0
    ttl: int = 0
    now: int = 0

    def change(self, state: KeyedState, context: LayoutContext) -> TtlChange:
        """The change of this state's entries. Raises InvalidOption."""
        if self.action == "on":
            return ttl_on(state, context, self.last_access)
        return ttl_off(state, context) if self.action == "off" else ttl_purge(state, context, self.ttl, self.now)


@dataclass
class Edits:
    """The edits of one operator.

    ``states``: callbacks that add states from DataFrames to the operator's bootstrap; each replaces that of its name.
    ``offsets``: new offsets of a KafkaSource, in their order. ``emptied``: operator states that lose their elements.
    """

    dropped: set[str] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)
    ttl: dict[str, TtlEdit] = field(default_factory=dict)
    states: list[Callable[[OperatorBootstrap], object]] = field(default_factory=list)
    hash_function: str | HashCodes | None = None
    offsets: list[OffsetsEdit] = field(default_factory=list)
    emptied: set[str] = field(default_factory=set)

    @property
    def touch_keyed(self) -> bool:
        """Whether the operator's keyed state has to be rewritten."""
        return bool(self.dropped or self.renamed or self.ttl or self.states)

    @property
    def touch_operator_state(self) -> bool:
        """Whether the operator's operator state has to be written anew."""
        return bool(self.offsets or self.emptied)

    def set_ttl(self, state: str, edit: TtlEdit) -> None:
        if state in self.ttl:
            raise InvalidOption(
                f"the time to live of state {state!r} is changed twice",
                advice="change it once in a write: purge what has expired first, and switch in a second write",
            )
        self.ttl[state] = edit


def now_ms() -> int:
    return int(time.time() * 1000)
