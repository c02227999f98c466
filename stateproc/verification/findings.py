"""What the units of a verification yield: numbers of rows by state, and problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from stateproc.verification.problem import Problem


@dataclass(frozen=True)
class StateLabel:
    """A state within its operator: keyed and operator states may have the same name.

    Attributes:
        name: The state's name; timers by their time domain, as `Operator.states` names them.
        distribution: keyed, split, union or broadcast.
    """

    name: str
    distribution: str


@dataclass(frozen=True)
class RowCount:
    """Rows of one state that were read.

    Attributes:
        label: The state.
        rows: The number of rows.
        checked_keys: How many of their keys had their key group recomputed.
    """

    label: StateLabel
    rows: int
    checked_keys: int = 0


@dataclass(frozen=True)
class UnreadState:
    """Rows of this state could not be read, so that their number is unknown."""

    label: StateLabel


Finding: TypeAlias = Problem | RowCount | UnreadState


@dataclass(frozen=True)
class VerificationUnit:
    """Something that one thread reads.

    Attributes:
        operator: The position of its operator among those that are verified.
        bytes: Stored bytes that it reads.
        read: Reads it. Problems are among its findings: it raises none.
    """

    operator: int
    bytes: int
    read: Callable[[], Iterable[Finding]]

    def findings(self) -> Iterator[Finding]:
        """Read the unit."""
        yield from self.read()
