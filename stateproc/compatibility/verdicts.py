"""Verdicts of a check: per state, per operator, and in all."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


class Verdict(enum.Enum):
    """What becomes of a state, the best first."""

    AS_IS = "as is"
    """Restored; values are read as they were written."""
    AFTER_MIGRATION = "after migration"
    """Restored; Flink writes the values anew with the job's serializer, and may lose some of them."""
    STARTS_EMPTY = "starts empty"
    """The snapshot does not have the state that the job declares."""
    DROPPED = "dropped"
    """The job does not declare the state."""
    MISREAD = "misread"
    """Flink accepts the state, and reads other values than were written, or throws while it reads them."""
    REFUSED = "refused"
    """Flink throws; the job does not run."""


RESTORED = (Verdict.AS_IS, Verdict.AFTER_MIGRATION, Verdict.STARTS_EMPTY)
"""Verdicts with which the job runs and has its values, unless a migration loses some."""


@dataclass(frozen=True)
class StateCheck:
    """The verdict on a state.

    Attributes:
        name: Its name; timers by their time domain.
        kind: value, list, map, …, as of `State`.
        distribution: keyed, split, union or broadcast.
        verdict: What becomes of it.
        reasons: Why, one after another; empty for a state that is restored as is.
        losses: What a migration loses.
        exception: The first line of what Flink throws; None if it throws nothing.
        fix: What to do; None where nothing has to be done.
    """

    name: str
    kind: str
    distribution: str
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    exception: str | None = None
    fix: str | None = None

    @property
    def is_right(self) -> bool:
        """Whether the job has all of its values, as they were written."""
        return self.verdict in RESTORED and not self.losses

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            "distribution": self.distribution,
            "verdict": self.verdict.value,
            "right": self.is_right,
            "reasons": list(self.reasons),
            "losses": list(self.losses),
            "exception": self.exception,
            "fix": self.fix,
        }


@dataclass(frozen=True)
class OperatorCheck:
    """The verdict on an operator: of what concerns all of it, and of its states.

    Attributes:
        uid: Its uid, if it is known.
        uid_hash: Its id, 32 hex digits.
        name: Its name, if it is known.
        verdict: The worst of its own and its states'; as is for one without state.
        reasons: Why the operator as a whole has this verdict, apart from its states.
        exception: The first line of what Flink throws for the operator as a whole.
        fix: What to do about that.
        states: Its states.
    """

    uid: str | None
    uid_hash: str
    name: str | None
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    exception: str | None = None
    fix: str | None = None
    states: tuple[StateCheck, ...] = ()

    @property
    def display(self) -> str:
        """The uid, or the id where the uid is not known."""
        return self.uid or self.uid_hash

    @property
    def is_right(self) -> bool:
        """Whether the job has all of its state."""
        return self.verdict in RESTORED and all(state.is_right for state in self.states)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
        return {
            "uid": self.uid,
            "uid_hash": self.uid_hash,
            "name": self.name,
            "verdict": self.verdict.value,
            "right": self.is_right,
            "reasons": list(self.reasons),
            "exception": self.exception,
            "fix": self.fix,
            "states": [state.to_dict() for state in self.states],
        }


@dataclass(frozen=True)
class Caution:
    """What happens after the restore, which is right in itself.

    Attributes:
        what: To the snapshot, to others that share its files, or to the job's checkpoints.
        fix: What to do.
    """

    what: str
    fix: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
        return {"what": self.what, "fix": self.fix}


@dataclass(frozen=True)
class CompatibilityCheck:
    """The answer to "will it restore?".

    Attributes:
        path: The snapshot.
        written_by: The Flink releases that may have written it, such as "1.16 – 1.20".
        flink_version: The release that restores it.
        job: What the job was taken from: the same job, or a snapshot's path.
        verdict: The worst verdict.
        reasons: Why the snapshot as a whole is refused, apart from operators.
        exception: The first line of what Flink throws for the whole snapshot.
        fix: What to do about that.
        operators: The operators of the snapshot, then those that only the job has.
        claim_mode: Flink's claim mode; None where it was not given.
        cautions: What the claim mode does after the restore.
    """

    path: str
    written_by: str
    flink_version: str
    job: str
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    exception: str | None = None
    fix: str | None = None
    operators: tuple[OperatorCheck, ...] = field(default=())
    claim_mode: str | None = None
    cautions: tuple[Caution, ...] = ()

    @property
    def restores(self) -> bool:
        """Whether the job runs with all of the snapshot's state and the right values."""
        return self.verdict in RESTORED and all(operator.is_right for operator in self.operators)

    @property
    def states(self) -> Iterator[tuple[OperatorCheck, StateCheck]]:
        """All states with their operators."""
        for operator in self.operators:
            for state in operator.states:
                yield operator, state

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain values for JSON."""
        return {
            "path": self.path,
            "written_by": self.written_by,
            "flink_version": self.flink_version,
            "job": self.job,
            "claim_mode": self.claim_mode,
            "restores": self.restores,
            "verdict": self.verdict.value,
            "reasons": list(self.reasons),
            "exception": self.exception,
            "fix": self.fix,
            "cautions": [caution.to_dict() for caution in self.cautions],
            "operators": [operator.to_dict() for operator in self.operators],
        }


def worst(*verdicts: Verdict) -> Verdict:
    """Return the worst of verdicts; as is without any."""
    order = list(Verdict)
    return max(verdicts, key=order.index, default=Verdict.AS_IS)
