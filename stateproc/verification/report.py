"""What verifying a snapshot has found: per operator and state, and in all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stateproc.verification.problem import Problem


@dataclass(frozen=True)
class VerifiedState:
    """A state that was read.

    Attributes:
        state: Its name; timers by their time domain.
        kind: value, list, map, …, as of `State`.
        rows: The number of rows that reading it returns; None where not all of it can be read.
        read_rows: The number of rows that were read.
        checked_keys: Keys whose key group was recomputed.
        is_intact: Whether no problem affects it.
    """

    state: str
    kind: str
    rows: int | None
    read_rows: int
    checked_keys: int
    is_intact: bool

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
        return {
            "state": self.state,
            "kind": self.kind,
            "rows": self.rows,
            "read_rows": self.read_rows,
            "checked_keys": self.checked_keys,
            "intact": self.is_intact,
        }


@dataclass(frozen=True)
class VerifiedOperator:
    """An operator whose states and files were read.

    Attributes:
        uid: Its uid, if it is known.
        uid_hash: Its id, 32 hex digits.
        name: Its name, if it is known.
        label: What kind of operator it is, where neither is known.
        files: Files that it refers to; one of several operators counts for each.
        bytes: Their bytes.
        states: Its states.
        problems: How many problems it has.
    """

    uid: str | None
    uid_hash: str
    name: str | None
    label: str | None
    files: int
    bytes: int
    states: tuple[VerifiedState, ...]
    problems: int

    @property
    def display(self) -> str:
        """The uid, or the id where the uid is not known."""
        return self.uid or self.uid_hash

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
        return {
            "uid": self.uid,
            "uid_hash": self.uid_hash,
            "name": self.name,
            "label": self.label,
            "files": self.files,
            "bytes": self.bytes,
            "states": [state.to_dict() for state in self.states],
            "problems": self.problems,
        }


@dataclass(frozen=True)
class Verification:
    """The result of verifying a snapshot.

    Attributes:
        path: The snapshot's directory.
        operators: What was found, by operator.
        problems: All problems, the worst first.
        files: Files that were checked; shared ones count once.
        bytes: Their bytes.
        rows: Rows of all states.
        seconds: How long it took.
        deep: Whether RocksDB itself opened the databases, too.
        skeleton: Descriptions to fill in for user classes whose values cannot be read without one.
    """

    path: str
    operators: tuple[VerifiedOperator, ...]
    problems: tuple[Problem, ...]
    files: int
    bytes: int
    rows: int
    seconds: float
    deep: bool
    skeleton: Mapping[str, Any]

    @property
    def is_intact(self) -> bool:
        """Whether all of it was read without a problem; notes are none."""
        return not any(problem.severity.is_problem for problem in self.problems)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values for JSON."""
        return {
            "path": self.path,
            "intact": self.is_intact,
            "deep": self.deep,
            "files": self.files,
            "bytes": self.bytes,
            "rows": self.rows,
            "seconds": round(self.seconds, 3),
            "operators": [operator.to_dict() for operator in self.operators],
            "problems": [problem.to_dict() for problem in self.problems],
            "skeleton": dict(self.skeleton),
        }
