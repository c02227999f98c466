"""Check whether a snapshot restores in a job: match operators and states, apply the rules, and add up the verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from stateproc.compatibility.claim_rules import check_claim_mode, claim_cautions, claim_obstacle
from stateproc.compatibility.declared_job import DeclaredOperator, DeclaredState, declared_operators, same_job_on
from stateproc.compatibility.expected_job import as_stored
from stateproc.compatibility.job_graph import JobVertex, with_job_graph
from stateproc.compatibility.planned_job import moved_operators, planned_operators
from stateproc.compatibility.source_rules import source_obstacle
from stateproc.compatibility.state_rules import Finding, check_keys, check_state, check_unknown_keys, fix_of_keys
from stateproc.compatibility.storage_rules import backend_obstacle, check_backend, operator_obstacle, snapshot_obstacle
from stateproc.compatibility.value_comparison import rows_differ
from stateproc.compatibility.verdicts import RESTORED, CompatibilityCheck, OperatorCheck, StateCheck, Verdict, worst
from stateproc.errors import InvalidOption, SnapshotError
from stateproc.flink_versions import FIRST, Release, release
from stateproc.keygroups.ranges import default_max_parallelism
from stateproc.model.operator import Operator
from stateproc.model.snapshot import SnapshotContents
from stateproc.model.state import State
from stateproc.query_plans.node_rules import query_names
from stateproc.query_plans.plan_file import CompiledPlan
from stateproc.serializers.compatibility import Comparison

SAME_JOB, EXPECTED, PLANNED = "the same job", "the states that the job declares", "the job of the plan"
WITH_GRAPH = "the same job, with the parallelism of the job graph"
_NOT_MAPPED = (
    "java.lang.IllegalStateException: Failed to rollback to checkpoint/savepoint {0}. Cannot map checkpoint/savepoint "
    "state for operator {1} to the new program, because the operator is not available in the new program."
)
_EVOLVE = "stateproc evolve {0} TARGET --from-plan OLD --to-plan NEW, see docs/howto/change-a-query.md"
_FILL = "fill it from rows if its results are to contain what was before, see docs/howto/fill-a-query.md"
_MAX_PARALLELISM = (
    "java.lang.IllegalStateException: Failed to rollback to checkpoint/savepoint {0}. Max parallelism mismatch between "
    "checkpoint/savepoint state and new program. Cannot map operator {1} with max parallelism {2} to new program with "
    "max parallelism {3}. This indicates that the program has been changed in a non-compatible way after the "
    "checkpoint/savepoint."
)
_PARALLELISM = (
    "java.lang.IllegalStateException: The state for task {0} can not be restored. The maximum parallelism ({1}) of the "
    "restored state is lower than the configured parallelism ({2}). Please reduce the parallelism of the task to be "
    "lower or equal to the maximum parallelism."
)
_CHAINED = "java.lang.IllegalStateException: The key group must belong to the backend"


def check_snapshot(
    snapshot: SnapshotContents,
    *,
    flink_version: str | Release | None = None,
    like: SnapshotContents | None = None,
    expect: Sequence[DeclaredOperator] | None = None,
    to_plan: CompiledPlan | None = None,
    from_plan: CompiledPlan | None = None,
    job: Sequence[JobVertex] | None = None,
    backend: str | None = None,
    claim_mode: str | None = None,
) -> CompatibilityCheck:
    """Answer whether a snapshot restores in a job, with the right values.

    Args:
        snapshot: What is to be restored. User classes that its options describe decide about values of Kryo.
        flink_version: The release that the job runs on; default that of ``like`` or ``to_plan``, with ``expect`` that
            of the snapshot. Without these three the job is the same.
        like: A snapshot of the job.
        expect: What the job declares, by `expected_operators`.
        to_plan: The compiled plan of the job, of SQL.
        from_plan: The plan of the job that wrote the snapshot, to compare what both compute.
        job: The vertices of the job, by `read_job_graph`, whose state is the same.
        backend: The job's state backend, hashmap or rocksdb; None where it is the one that wrote the snapshot.
        claim_mode: NO_CLAIM, CLAIM or LEGACY; None where it is not decided.

    Raises:
        InvalidOption: Nothing says what the job is, or more than one of ``like``, ``expect``, ``to_plan`` and ``job``;
            there is no such release, or the old plan is not that of the snapshot.
        SnapshotError: The snapshot cannot be read.
    """
    _check_given(flink_version or backend or claim_mode, (like, expect, to_plan, job), from_plan, to_plan)
    check_backend(backend)
    restoring = _release_of(snapshot, like, to_plan) if flink_version is None else release(flink_version)
    check_claim_mode(claim_mode, restoring)
    comparison = Comparison(snapshot.options.kryo, restoring, snapshot.options.classes)
    before = _named(declared_operators(snapshot), from_plan)
    if to_plan is None:
        after = _job(before, comparison, like, expect)
        if job is not None:
            after = with_job_graph(after, job)
        moved: Mapping[str, str] = {}
    else:
        after = planned_operators(to_plan, same_job_on(before, comparison), from_plan)
        moved = {} if from_plan is None else moved_operators(from_plan, to_plan)
    of_job = snapshot if like is None else like
    obstacle = snapshot_obstacle(snapshot, restoring) or claim_obstacle(of_job, restoring, claim_mode)
    by_id = {operator.operator_id: operator for operator in after}
    chained = _chained_otherwise(before, by_id)
    operators = tuple(
        _OperatorRun(
            snapshot,
            operator,
            one,
            by_id.get(one.operator_id),
            comparison,
            compares_parallelism=any(given is not None for given in (like, expect, job)),
            sets_parallelism=expect is not None,
            chained=chained.get(one.operator_id),
            moved_to=moved.get(one.operator_id),
            backend=backend,
            fix=None if to_plan is None else _EVOLVE.format(snapshot.path),
        ).run()
        for operator, one in zip(snapshot.operators, before, strict=True)
    )
    known = {operator.operator_id for operator in before}
    new = [operator for operator in after if operator.operator_id not in known]
    operators += tuple(_new(operator) for operator in new if operator.states)
    own = Verdict.AS_IS if obstacle is None else Verdict.REFUSED
    return CompatibilityCheck(
        path=snapshot.path,
        written_by=snapshot.flink_versions,
        flink_version=str(restoring),
        job=like.path if like is not None else _job_words(expect, to_plan, job),
        verdict=worst(own, *(operator.verdict for operator in operators)),
        reasons=() if obstacle is None else (obstacle.reason,),
        exception=None if obstacle is None else obstacle.exception,
        fix=None if obstacle is None else obstacle.fix,
        operators=operators,
        claim_mode=claim_mode,
        cautions=tuple(claim_cautions(snapshot, of_job, restoring, claim_mode)),
    )


def _chained_otherwise(
    before: Sequence[DeclaredOperator], by_id: Mapping[str, DeclaredOperator]
) -> Mapping[str, Mapping[str, int]]:
    """Return the max parallelism of the operators on each vertex where they have several: keyed operator → all of them.

    Flink gives a vertex one number: of all of them, it is up to their ids which.
    """
    vertices: dict[int, list[DeclaredOperator]] = {}
    for one in before:
        vertex = by_id[one.operator_id].vertex if one.operator_id in by_id else None
        if vertex is not None and one.max_parallelism:
            vertices.setdefault(vertex, []).append(one)
    found: dict[str, Mapping[str, int]] = {}
    for together in vertices.values():
        numbers = {one.uid or one.name or one.operator_id: one.max_parallelism or 0 for one in together}
        if len(set(numbers.values())) > 1:
            found |= {one.operator_id: numbers for one in together if one.is_keyed}
    return found


def _check_given(
    setting: object,
    jobs: Sequence[object],
    from_plan: CompiledPlan | None,
    to_plan: CompiledPlan | None,
) -> None:
    """Raise InvalidOption unless one thing says what the job is.

    ``jobs``: of which at most one is not None; ``setting``: what the same job may have another one of.
    """
    given = sum(one is not None for one in jobs)
    if given > 1:
        raise InvalidOption("the job is given twice", advice="give one of like, expect, to_plan and job")
    if from_plan is not None and to_plan is None:
        raise InvalidOption(
            "there is a plan of the old query only", advice="give to_plan=the plan of the query that restores"
        )
    if setting is None and not given:
        raise InvalidOption(
            "nothing says what the job is",
            advice="give flink_version='2.3', backend='rocksdb' or claim_mode='CLAIM' for the same job with that, "
            "like=a snapshot of the job, expect=the states that it declares, to_plan=its plan, or job=its job graph",
        )


def _job_words(
    expect: Sequence[DeclaredOperator] | None, to_plan: CompiledPlan | None, job: Sequence[JobVertex] | None
) -> str:
    if expect is not None:
        return EXPECTED
    if to_plan is not None:
        return PLANNED
    return SAME_JOB if job is None else WITH_GRAPH


def _named(operators: Sequence[DeclaredOperator], plan: CompiledPlan | None) -> Sequence[DeclaredOperator]:
    """Return the operators with the uids that a plan has for them. Raises InvalidOption for one of another job."""
    if plan is None:
        return operators
    uids = query_names(plan, [operator.operator_id for operator in operators]).uids
    return [replace(one, uid=one.uid or uids.get(one.operator_id)) for one in operators]


def _with_fix(operator: OperatorCheck, fix: str) -> OperatorCheck:
    """Return the verdict with what to do about all that is not right."""
    states = tuple(state if state.is_right else replace(state, fix=fix) for state in operator.states)
    return replace(operator, states=states, fix=fix if operator.reasons and not operator.is_right else operator.fix)


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


def _release_of(snapshot: SnapshotContents, like: SnapshotContents | None, plan: CompiledPlan | None) -> Release:
    """The release of a plan, or the newest that may have written a snapshot, of those that are known here."""
    if plan is not None:
        return release(".".join(plan.flink_version.split(".")[:2]))
    major, minor = (like or snapshot).flink_versions.split(" – ")[-1].split(".")
    return max(FIRST, Release(int(major), int(minor)))


def _new(operator: DeclaredOperator) -> OperatorCheck:
    states = tuple(_empty(state, operator) for state in operator.states)
    reasons = ("the snapshot has no operator with this uid",)
    return OperatorCheck(
        operator.uid, operator.operator_id, operator.name, Verdict.STARTS_EMPTY, reasons, None, None, states
    )


def _empty(state: DeclaredState, operator: DeclaredOperator) -> StateCheck:
    reasons = ("the snapshot has no state of this name",)
    losses = () if operator.begins is None else (operator.begins,)
    fix = _FILL if losses else None
    return StateCheck(state.name, state.kind, _shown(state), Verdict.STARTS_EMPTY, reasons, losses, None, fix)


def _shown(state: DeclaredState) -> str:
    return "keyed" if state.is_keyed else state.distribution


@dataclass
class _OperatorRun:
    """The check of one operator.

    Attributes:
        old: What that declares.
        new: What the job declares; None if it has no such operator.
        comparison: What wrote and what restores the state.
        compares_parallelism: Whether the job's parallelism is known.
        sets_parallelism: Whether a max parallelism is one that the job sets, which Flink does not choose.
        chained: The max parallelism of the operators that it is chained with, if they have another one than it.
        moved_to: The uid of the operator in the new plan that computes what this one computed; None for none, or this.
        backend: The job's state backend; None where it is the one that wrote the snapshot.
        fix: What to do about all that a changed job does not restore; None where that depends on why.
    """

    snapshot: SnapshotContents
    operator: Operator
    old: DeclaredOperator
    new: DeclaredOperator | None
    comparison: Comparison
    compares_parallelism: bool
    sets_parallelism: bool
    chained: Mapping[str, int] | None = None
    moved_to: str | None = None
    backend: str | None = None
    fix: str | None = None

    def run(self) -> OperatorCheck:
        """Return the verdict."""
        obstacle = operator_obstacle(self.snapshot, self.operator, self.comparison.release)
        if obstacle is None and self.new is not None:
            obstacle = source_obstacle(self.snapshot, self.operator, self.comparison.release)
        if obstacle is None and self.new is not None and self.backend is not None:
            obstacle = backend_obstacle(self.snapshot, self.operator, self.backend)
        if obstacle is not None:
            return self._whole(Verdict.REFUSED, obstacle.reason, obstacle.exception, obstacle.fix)
        if self.new is None:
            return self._fixed(self._not_in_job())
        refused = self._parallelism() if self.compares_parallelism else None
        if refused is not None:
            return refused
        return self._fixed(self._meant(self._states(self.new), self.new))

    def _fixed(self, check: OperatorCheck) -> OperatorCheck:
        return check if self.fix is None else _with_fix(check, self.fix)

    def _meant(self, check: OperatorCheck, new: DeclaredOperator) -> OperatorCheck:
        """Return the verdict with what is known about the meaning of state whose types fit."""
        if new.misread is not None and self._holds_state:
            states = tuple(
                replace(state, verdict=Verdict.MISREAD, reasons=(new.misread,)) if state.verdict in RESTORED else state
                for state in check.states
            )
            verdict = worst(Verdict.MISREAD, check.verdict)
            return replace(check, verdict=verdict, reasons=(*check.reasons, new.misread), states=states)
        if new.not_compared is None or check.verdict not in RESTORED or not self._holds_state:
            return check
        return replace(check, reasons=(*check.reasons, new.not_compared))

    @property
    def _holds_state(self) -> bool:
        return bool(self.old.states or self.operator.coordinator is not None or self.operator.file_bytes)

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
        if not self._holds_state:
            return self._result(Verdict.AS_IS, (), None, None, ())
        text = "the job has no operator with this uid; Flink refuses the snapshot without --allowNonRestoredState"
        return self._whole(
            Verdict.DROPPED,
            text if self.moved_to is None else f"{text}. In the new plan {self.moved_to} takes its place",
            _NOT_MAPPED.format(self.snapshot.path, self.old.operator_id),
            "stateproc rename-operator if it has another uid in the job; stateproc drop-operator if it is not needed",
        )

    def _parallelism(self) -> OperatorCheck | None:
        """Return what Flink throws because of the numbers of subtasks and key groups; None if nothing.

        The max parallelism is compared when the job is submitted, also of operators without state.
        """
        old, new = self.old, self.new
        if new is None or not old.max_parallelism:
            return None
        chosen = new.parallelism and new.max_parallelism == default_max_parallelism(new.parallelism)
        if new.max_parallelism not in (None, old.max_parallelism) and (self.sets_parallelism or not chosen):
            return self._whole(
                Verdict.REFUSED,
                f"the snapshot has {old.max_parallelism} key groups, the job max parallelism {new.max_parallelism}",
                _MAX_PARALLELISM.format(self.snapshot.path, old.operator_id, old.max_parallelism, new.max_parallelism),
                f"set max parallelism {old.max_parallelism} in the job, or stateproc rescale --max-parallelism "
                f"{new.max_parallelism} {self.snapshot.path} TARGET",
            )
        has_state = old.states or self.operator.file_bytes
        if has_state and new.parallelism and new.parallelism > old.max_parallelism:
            return self._whole(
                Verdict.REFUSED,
                f"the job runs {new.parallelism} subtasks of it, the snapshot has {old.max_parallelism} key groups",
                _PARALLELISM.format(old.operator_id, old.max_parallelism, new.parallelism),
                f"stateproc rescale --max-parallelism N {self.snapshot.path} TARGET",
            )
        if self.chained is not None:
            numbers = ", ".join(f"{number} of {name}" for name, number in self.chained.items())
            return self._whole(
                Verdict.REFUSED,
                f"it is chained with operators of other max parallelism, and a vertex has one: {numbers}",
                _CHAINED,
                f"stateproc rescale --max-parallelism N {self.snapshot.path} TARGET, which gives all of them one",
            )
        return None

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
        if keys is not None and keys.verdict is Verdict.AS_IS and keys.fix is not None:
            reasons = (*reasons, *(f"key: {reason}" for reason in keys.reasons))
            fix = fix or keys.fix
        states = tuple(check for check, _ in checks)
        states += tuple(_empty(state, new) for identity, state in declared.items() if identity not in groups)
        verdict = worst(*(state.verdict for state in states), keys.verdict if keys is not None else Verdict.AS_IS)
        return self._result(verdict, reasons, exception, fix, states)

    def _keys(self, new: DeclaredOperator) -> Finding | None:
        if self.old.has_unknown_keys and not self.old.keys:
            return check_unknown_keys(new.keys, self.comparison)
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
