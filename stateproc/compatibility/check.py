"""Check whether a snapshot restores in a job: match operators and states, apply the rules, and add up the verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from stateproc.compatibility.declared_job import (
    DeclaredOperator,
    DeclaredState,
    declared_operators,
    same_job_on,
)
from stateproc.compatibility.expected_job import as_stored
from stateproc.compatibility.source_rules import source_obstacle
from stateproc.compatibility.state_rules import Finding, check_keys, check_state, fix_of_keys
from stateproc.compatibility.storage_rules import operator_obstacle, snapshot_obstacle
from stateproc.compatibility.value_comparison import rows_differ
from stateproc.compatibility.verdicts import (
    CompatibilityCheck,
    OperatorCheck,
    StateCheck,
    Verdict,
    worst,
)
from stateproc.errors import InvalidOption, SnapshotError
from stateproc.flink_versions import FIRST, Release, release
from stateproc.keygroups.ranges import default_max_parallelism
from stateproc.model.operator import Operator
from stateproc.model.snapshot import SnapshotContents
from stateproc.model.state import State
from stateproc.serializers.compatibility import Comparison

SAME_JOB, EXPECTED = "the same job", "the states that the job declares"
_NOT_MAPPED = (
    "java.lang.IllegalStateException: Failed to rollback to checkpoint/savepoint {0}. Cannot map checkpoint/savepoint "
    "state for operator {1} to the new program, because the operator is not available in the new program."
)
_MAX_PARALLELISM = (
    "java.lang.IllegalStateException: The maximum parallelism ({0}) with which the latest checkpoint of the execution "
    "job vertex has been taken and the current maximum parallelism ({1}) changed. This is currently not supported."
)
_PARALLELISM = (
    "java.lang.IllegalStateException: The state for task can not be restored. The maximum parallelism ({0}) of the "
    "restored state is lower than the configured parallelism ({1})."
)


def check_snapshot(
    snapshot: SnapshotContents,
    *,
    flink_version: str | Release | None = None,
    like: SnapshotContents | None = None,
    expect: Sequence[DeclaredOperator] | None = None,
) -> CompatibilityCheck:
    """Answer whether a snapshot restores in a job, with the right values.

    Args:
        snapshot: What is to be restored. User classes that its options describe decide about values of Kryo.
        flink_version: The release that the job runs on; default that of ``like``, with ``expect`` that of the snapshot.
            Without both the job is the same.
        like: A snapshot of the job.
        expect: What the job declares, by `expected_operators`.

    Raises:
        InvalidOption: Neither is given, or both ``like`` and ``expect``, or the version is none.
        SnapshotError: The snapshot cannot be read.
    """
    if like is not None and expect is not None:
        raise InvalidOption("the job is given twice, by a snapshot and by its states", advice="give like or expect")
    if flink_version is None and like is None and expect is None:
        raise InvalidOption(
            "nothing says what the job is",
            advice="give flink_version='2.3' for the same job on that release, like=a snapshot of the job, or expect="
            "the states that it declares",
        )
    restoring = _release_of(like or snapshot) if flink_version is None else release(flink_version)
    comparison = Comparison(snapshot.options.kryo, restoring, snapshot.options.classes)
    before = declared_operators(snapshot)
    after = _job(before, comparison, like, expect)
    obstacle = snapshot_obstacle(snapshot, restoring)
    job = {operator.operator_id: operator for operator in after}
    operators = tuple(
        _OperatorRun(
            snapshot,
            operator,
            one,
            job.get(one.operator_id),
            comparison,
            compares_parallelism=like is not None or expect is not None,
            sets_parallelism=expect is not None,
        ).run()
        for operator, one in zip(snapshot.operators, before, strict=True)
    )
    known = {operator.operator_id for operator in before}
    operators += tuple(_new(operator) for operator in after if operator.operator_id not in known and operator.states)
    own = Verdict.AS_IS if obstacle is None else Verdict.REFUSED
    return CompatibilityCheck(
        path=snapshot.path,
        written_by=snapshot.flink_versions,
        flink_version=str(restoring),
        job=like.path if like is not None else EXPECTED if expect is not None else SAME_JOB,
        verdict=worst(own, *(operator.verdict for operator in operators)),
        reasons=() if obstacle is None else (obstacle.reason,),
        exception=None if obstacle is None else obstacle.exception,
        fix=None if obstacle is None else obstacle.fix,
        operators=operators,
    )


def _job(
    before: Sequence[DeclaredOperator],
    comparison: Comparison,
    like: SnapshotContents | None,
    expect: Sequence[DeclaredOperator] | None,
) -> Sequence[DeclaredOperator]:
    """Return what the job declares."""
    if like is not None:
        return declared_operators(like)
    if expect is None:
        return same_job_on(before, comparison)
    old = {operator.operator_id: operator for operator in before}
    return [as_stored(one, old[one.operator_id]) if one.operator_id in old else one for one in expect]


def _release_of(snapshot: SnapshotContents) -> Release:
    """The newest release that may have written a snapshot, of those that are known here."""
    major, minor = snapshot.flink_versions.split(" – ")[-1].split(".")
    return max(FIRST, Release(int(major), int(minor)))


def _new(operator: DeclaredOperator) -> OperatorCheck:
    states = tuple(_empty(state) for state in operator.states)
    reasons = ("the snapshot has no operator with this uid",)
    return OperatorCheck(
        operator.uid, operator.operator_id, operator.name, Verdict.STARTS_EMPTY, reasons, None, None, states
    )


def _empty(state: DeclaredState) -> StateCheck:
    reasons = ("the snapshot has no state of this name",)
    return StateCheck(state.name, state.kind, _shown(state), Verdict.STARTS_EMPTY, reasons)


def _shown(state: DeclaredState) -> str:
    return "keyed" if state.is_keyed else state.distribution


@dataclass
class _OperatorRun:
    """The check of one operator.

    Attributes:
        snapshot: The snapshot.
        operator: Its operator.
        old: What that declares.
        new: What the job declares; None if it has no such operator.
        comparison: What wrote and what restores the state.
        compares_parallelism: Whether the job's parallelism is known.
        sets_parallelism: Whether a max parallelism is one that the job sets, which Flink does not choose.
    """

    snapshot: SnapshotContents
    operator: Operator
    old: DeclaredOperator
    new: DeclaredOperator | None
    comparison: Comparison
    compares_parallelism: bool
    sets_parallelism: bool

    def run(self) -> OperatorCheck:
        """Return the verdict."""
        obstacle = operator_obstacle(self.snapshot, self.operator, self.comparison.release)
        if obstacle is None and self.new is not None:
            obstacle = source_obstacle(self.snapshot, self.operator, self.comparison.release)
        if obstacle is not None:
            return self._whole(Verdict.REFUSED, obstacle.reason, obstacle.exception, obstacle.fix)
        if self.new is None:
            return self._not_in_job()
        refused = self._parallelism() if self.compares_parallelism else None
        if refused is not None:
            return refused
        return self._states(self.new)

    def _whole(self, verdict: Verdict, reason: str, exception: str | None, fix: str | None) -> OperatorCheck:
        """Return one verdict for the operator and all of its states."""
        states = tuple(
            StateCheck(state.name, state.kind, _shown(state), verdict, (reason,), (), exception, fix)
            for state in self._by_name(self.old.states)
        )
        return self._result(verdict, (reason,), exception, fix, states)

    def _result(
        self,
        verdict: Verdict,
        reasons: tuple[str, ...],
        exception: str | None,
        fix: str | None,
        states: tuple[StateCheck, ...],
    ) -> OperatorCheck:
        old = self.old
        return OperatorCheck(old.uid, old.operator_id, old.name, verdict, reasons, exception, fix, states)

    @staticmethod
    def _by_name(states: Sequence[DeclaredState]) -> list[DeclaredState]:
        return list({state.identity: state for state in reversed(states)}.values())[::-1]

    def _not_in_job(self) -> OperatorCheck:
        """Flink drops an operator's state only if it is allowed to; an operator without state does not matter."""
        if not self.old.states and self.operator.coordinator is None and not self.operator.file_bytes:
            return self._result(Verdict.AS_IS, (), None, None, ())
        return self._whole(
            Verdict.DROPPED,
            "the job has no operator with this uid; Flink refuses the snapshot without --allowNonRestoredState",
            _NOT_MAPPED.format(self.snapshot.path, self.old.operator_id),
            "stateproc rename-operator if it has another uid in the job; stateproc drop-operator if it is not needed",
        )

    def _parallelism(self) -> OperatorCheck | None:
        old, new = self.old, self.new
        if new is None or not old.max_parallelism:
            return None
        if new.parallelism and new.parallelism > old.max_parallelism:
            return self._whole(
                Verdict.REFUSED,
                f"the job runs {new.parallelism} subtasks of it, the snapshot has {old.max_parallelism} key groups",
                _PARALLELISM.format(old.max_parallelism, new.parallelism),
                f"stateproc rescale --max-parallelism N {self.snapshot.path} TARGET",
            )
        if new.max_parallelism in (None, old.max_parallelism) or not self._is_keyed:
            return None
        chosen = new.parallelism and new.max_parallelism == default_max_parallelism(new.parallelism)
        if self.sets_parallelism or not chosen:
            return self._whole(
                Verdict.REFUSED,
                f"the snapshot has {old.max_parallelism} key groups, the job max parallelism {new.max_parallelism}",
                _MAX_PARALLELISM.format(old.max_parallelism, new.max_parallelism),
                f"set max parallelism {old.max_parallelism} in the job, or stateproc rescale --max-parallelism "
                f"{new.max_parallelism} {self.snapshot.path} TARGET",
            )
        return None

    @property
    def _is_keyed(self) -> bool:
        return bool(self.old.keys)

    def _states(self, new: DeclaredOperator) -> OperatorCheck:
        groups: dict[tuple[bool, str], list[DeclaredState]] = {}
        for state in self.old.states:
            groups.setdefault(state.identity, []).append(state)
        declared = {state.identity: state for state in new.states}
        checks: list[tuple[StateCheck, Finding | None]] = [
            self._state(group, declared.get(identity)) for identity, group in groups.items()
        ]
        keys = self._keys(new)
        stopped = next((item for item in checks if item[1] is not None and item[1].stops_operator), None)
        reasons: tuple[str, ...] = ()
        exception: str | None = None
        fix: str | None = None
        if keys is not None and keys.verdict is not Verdict.AS_IS:
            reasons, exception, fix = (
                tuple(f"key: {reason}" for reason in keys.reasons),
                keys.exception,
                fix_of_keys(keys),
            )
            checks = [(self._with_keys(check, keys, reasons, fix), None) for check, _ in checks]
        elif stopped is not None:
            check = stopped[0]
            reasons = (f"state '{check.name}' keeps the others from being restored: {'; '.join(check.reasons)}",)
            exception, fix = check.exception, check.fix
            checks = [
                (one, None)
                if found is not None and found.stops_operator
                else (self._stopped(one, check, reasons), None)
                for one, found in checks
            ]
        states = tuple(check for check, _ in checks)
        states += tuple(_empty(state) for identity, state in declared.items() if identity not in groups)
        verdict = worst(*(state.verdict for state in states), keys.verdict if keys is not None else Verdict.AS_IS)
        return self._result(verdict, reasons, exception, fix, states)

    def _keys(self, new: DeclaredOperator) -> Finding | None:
        return check_keys(self.old.keys, new.keys[0], self.comparison) if self.old.keys and new.keys else None

    @staticmethod
    def _with_keys(check: StateCheck, keys: Finding, reasons: tuple[str, ...], fix: str | None) -> StateCheck:
        """Keyed state is as good as its keys."""
        if check.distribution != "keyed" or worst(check.verdict, keys.verdict) is not keys.verdict:
            return check
        return replace(check, verdict=keys.verdict, reasons=reasons, losses=(), exception=keys.exception, fix=fix)

    @staticmethod
    def _stopped(check: StateCheck, by: StateCheck, reasons: tuple[str, ...]) -> StateCheck:
        """States of one backend are restored together."""
        if (check.distribution == "keyed") != (by.distribution == "keyed"):
            return check
        return replace(check, verdict=Verdict.REFUSED, reasons=reasons, losses=(), exception=by.exception, fix=by.fix)

    def _state(self, old: list[DeclaredState], new: DeclaredState | None) -> tuple[StateCheck, Finding | None]:
        first = old[0]
        if new is None:
            text = "the job declares no state of this name; Flink keeps it unread in later snapshots"
            fix = "stateproc rename-state if it has another name in the job; stateproc drop-state if it is not needed"
            return StateCheck(first.name, first.kind, _shown(first), Verdict.DROPPED, (text,), (), None, fix), None
        check, found = check_state(old, new, self.comparison, heap="heap" in (self.new or self.old).layouts)
        return (self._by_values(check, first), found) if found.is_undecided else (check, found)

    def _by_values(self, check: StateCheck, declared: DeclaredState) -> StateCheck:
        """Decide by the values what types leave open."""
        view = next((state for state in self._views if state.name == declared.name), None)
        if view is None:
            return check
        try:
            differs = rows_differ(self.operator, view, self.comparison.release.kryo)
        except SnapshotError as error:
            return replace(check, reasons=(*check.reasons, f"its values cannot be read: {error.message}"))
        if differs is None:
            verdict = Verdict.AFTER_MIGRATION if check.losses else Verdict.AS_IS
            text = f"all values were read as Kryo {self.comparison.release.kryo} reads them, with the same result"
            return replace(check, verdict=verdict, reasons=(text,), exception=None, fix=None)
        return replace(check, reasons=(*check.reasons, differs))

    @property
    def _views(self) -> Iterator[State]:
        yield from self.operator.states
