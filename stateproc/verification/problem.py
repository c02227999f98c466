"""Problems of a snapshot: each with its severity, its position and what to do."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeAlias

from stateproc.errors import InvalidOption, MisplacedFile, SnapshotError, UnsupportedSnapshot, UntrustedPath
from stateproc.readers.heap.unreadable_states import HiddenState


class Severity(enum.Enum):
    """How bad a problem is: data that is missing or wrong; data that cannot be read; what may be as it should be."""

    DAMAGED = "damaged"
    UNREADABLE = "unreadable"
    NOTE = "note"

    @property
    def is_problem(self) -> bool:
        """Whether the snapshot is not intact because of it."""
        return self is not Severity.NOTE


_NUMBER = re.compile(r"(?<![\w$'\".])\d+(?![\w'\"])")
_ADVICE = {
    Severity.DAMAGED: "restore the file from a copy, or use another snapshot",
    Severity.UNREADABLE: "let Flink restore the snapshot and take a canonical savepoint of it",
    Severity.NOTE: "",
}
"""What to do where an error does not say."""


@dataclass(frozen=True)
class Problem:
    """One problem.

    Attributes:
        severity: How bad it is.
        what: What is wrong.
        advice: What to do.
        operator: The operator's uid, or its id.
        states: The states that it affects, as far as it belongs to states.
        file: The file, as a URI or path.
        offset: The byte offset in the file.
        key_groups: The key groups that cannot be read because of it, as far as they are known.
        occurrences: How often it was found; position and text are those of the first.
    """

    severity: Severity
    what: str
    advice: str
    operator: str | None = None
    states: tuple[str, ...] = ()
    file: str | None = None
    offset: int | None = None
    key_groups: tuple[int, ...] = ()
    occurrences: int = 1

    @property
    def state(self) -> str | None:
        """The states that the problem affects as one text."""
        return ", ".join(self.states) or None

    def to_dict(self) -> dict[str, Any]:
        """Return the problem as plain values for JSON."""
        return {
            "severity": self.severity.value,
            "what": self.what,
            "advice": self.advice,
            "operator": self.operator,
            "states": list(self.states),
            "file": self.file,
            "offset": self.offset,
            "key_groups": list(self.key_groups),
            "occurrences": self.occurrences,
        }


OUTSIDE = "files outside of the snapshot's checkpoint root are not followed"


def is_outside(error: SnapshotError) -> bool:
    """Whether a file is where ``_metadata`` names it, in a directory that has to be allowed."""
    return isinstance(error, UntrustedPath) and not isinstance(error, MisplacedFile)


def problem_of(
    error: SnapshotError, operator: str, *, state: str | None = None, key_groups: Iterable[int] = ()
) -> Problem:
    """Return the problem that an error of reading reports."""
    # A description of a class that does not fit the bytes is an option that is not valid, and a file that is
    # elsewhere is all there.
    unreadable = isinstance(error, UnsupportedSnapshot | InvalidOption | UntrustedPath)
    severity = Severity.UNREADABLE if unreadable else Severity.DAMAGED
    name = error.where.state or state
    what = error.message
    if is_outside(error):
        what = OUTSIDE
    if isinstance(error, HiddenState):
        what = f"states cannot be found, because they are stored after values of unknown length: {error.reason}"
    return Problem(
        severity,
        what,
        error.advice or _ADVICE[severity],
        error.where.operator or operator,
        (name,) if name else (),
        error.where.file,
        error.where.offset,
        tuple(key_groups),
    )


def once_per_directory(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield problems; those of one directory to be allowed as one, with the uids of all its operators."""
    outside: dict[str, list[Problem]] = {}
    for problem in problems:
        if problem.what == OUTSIDE:
            outside.setdefault(problem.advice, []).append(problem)
        else:
            yield problem
    for alike in outside.values():
        first = reduce(_joined, alike)
        yield replace(first, operator=", ".join(dict.fromkeys(item.operator or "" for item in alike)))


class ProblemList:
    """Collects problems; those with one cause become one."""

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], Problem] = {}

    def add(self, problem: Problem) -> None:
        """Add a problem, or the state and the key groups of one that is known already.

        A damaged byte is met once for each state whose data are read past it; a type that cannot be decoded, in every
        file that has values of it.
        """
        place = self._place(problem, problem.offset)
        key = (problem.severity, _without_numbers(problem.what), problem.operator, place)
        known = self._found.get(key)
        self._found[key] = problem if known is None else _joined(known, problem)

    def problems(self) -> tuple[Problem, ...]:
        """Return the problems, the worst first; one for all places of a file in which the same is wrong."""
        by_file: dict[tuple[Any, ...], Problem] = {}
        for problem in self._found.values():
            place = self._place(problem, problem.states)
            key = (problem.severity, _without_numbers(problem.what), problem.operator, place)
            known = by_file.get(key)
            by_file[key] = problem if known is None else _joined(known, problem)
        order = list(Severity)
        return tuple(sorted(by_file.values(), key=lambda problem: order.index(problem.severity)))

    @staticmethod
    def _place(problem: Problem, inside: object) -> object:
        """Return how problems with one text differ: by the directory to allow, or by the file and a place in it."""
        if problem.what == OUTSIDE:
            return problem.advice
        return None if problem.severity is Severity.UNREADABLE else (problem.file, inside)


def _without_numbers(text: str) -> str:
    """Return a message without the numbers in which it may differ from that of the next key group; names are kept."""
    return _NUMBER.sub("#", text)


def _joined(one: Problem, other: Problem) -> Problem:
    return replace(
        one,
        states=tuple(dict.fromkeys((*one.states, *other.states))),
        key_groups=tuple(sorted({*one.key_groups, *other.key_groups})),
        occurrences=one.occurrences + other.occurrences,
    )


# What the units of a verification yield: numbers of rows by state, and problems.


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
