"""Read operator states, timers in raw keyed state, and what sources, sinks and coordinators keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from stateproc.errors import SnapshotError
from stateproc.model.connector_state import opened_state
from stateproc.model.operator import Operator
from stateproc.model.operator_state import DISTRIBUTIONS, OperatorSplit, OperatorStateView
from stateproc.readers.state_descriptor import KeyedState, StateKind
from stateproc.readers.timers import RawTimerSplit, TimerService
from stateproc.serializers.runtime.timers import Timer
from stateproc.verification.findings import Finding, RowCount, StateLabel, UnreadState, VerificationUnit
from stateproc.verification.keyed_rows import VerifiedKeyedState, counted, key_group_check
from stateproc.verification.problem import problem_of

_UNIT_BYTES = 32 << 20
_BROADCAST = "BROADCAST"


def operator_state_units(
    operator: Operator, position: int, wanted: Sequence[str]
) -> Iterator[VerificationUnit | Finding]:
    """Plan reading the operator states, each subtask's copy of broadcast states included.

    Args:
        operator: The operator.
        position: Its position among those that are verified.
        wanted: Only these states; all if empty.
    """
    for error in operator.unreadable_operator_files:
        yield problem_of(error, operator.display)
    undecodable = set()
    first: dict[StateLabel, int] = {}
    for view in operator.operator_states:
        if wanted and view.name not in wanted:
            continue
        label = StateLabel(view.name, view.distribution)
        problem = view.problem
        if problem is not None:
            undecodable.add(label)
            yield UnreadState(label)
            yield problem_of(problem.at(operator=operator.display, state=view.name), operator.display)
        else:
            yield VerificationUnit(position, 0, partial(_read_connector, operator, view))
    for file in operator.operator_files:
        for partition in file.handle.states:
            label = StateLabel(partition.name, DISTRIBUTIONS[partition.mode])
            if label in undecodable or (wanted and partition.name not in wanted):
                continue
            # A broadcast state is one state of which each subtask has a copy.
            counts = first.setdefault(label, file.subtask) == file.subtask or partition.mode != _BROADCAST
            split = OperatorSplit(file, partition, operator.options)
            try:
                size = split.bytes
            except SnapshotError:
                size = 0  # reading reports it
            read = partial(_read_partition, operator, split, label, counts=counts)
            yield VerificationUnit(position, size, read)


def _read_partition(operator: Operator, split: OperatorSplit, label: StateLabel, *, counts: bool) -> Iterator[Finding]:
    try:
        rows = sum(len(batch) for batch in split.read())
    except SnapshotError as error:
        yield UnreadState(label)
        yield problem_of(error.at(operator=operator.display, state=label.name), operator.display)
        return
    yield RowCount(label, rows if counts else 0)


def _read_connector(operator: Operator, view: OperatorStateView) -> Iterator[Finding]:
    """Decode the columns of a source's or sink's state; of other states nothing."""
    try:
        opened = opened_state(view)
        if opened is not view:
            for split in opened.splits():
                for _ in split.read():
                    pass
    except SnapshotError as error:
        yield problem_of(error.at(operator=operator.display, state=view.name), operator.display)


def coordinator_findings(operator: Operator) -> Iterator[Finding]:
    """Decode the state of the operator's coordinator."""
    try:
        operator.coordinator  # noqa: B018  (a property that raises)
    except SnapshotError as error:
        yield problem_of(error, operator.display)


def raw_timer_units(
    operator: Operator, position: int, wanted: Sequence[str], hash_function: str | None = None
) -> Iterator[VerificationUnit | Finding]:
    """Plan reading timers in raw keyed state; the arguments are those of `operator_state_units`."""
    for error in operator.unreadable_raw_timers:
        yield problem_of(error, operator.display)
    for event, kind in ((True, StateKind.EVENT_TIMERS), (False, StateKind.PROCESSING_TIMERS)):
        if wanted and kind.value not in wanted:
            continue
        for timers in operator.raw_timers:
            for name in timers.service_names:
                service = next(item for item in timers.services if item.name == name)
                for split in timers.splits(name, event, operator.options, None, _UNIT_BYTES):
                    read = partial(_read_timers, operator, split, service, kind, hash_function)
                    yield VerificationUnit(position, split.bytes // 2, read)


def _read_timers(
    operator: Operator, split: RawTimerSplit, service: TimerService, kind: StateKind, hash_function: str | None
) -> Iterator[Finding]:
    timer = Timer(service.key, service.namespace)
    state = KeyedState(service.name, kind, 0, service.key, service.namespace, timer)
    check = key_group_check(operator, service.key, hash_function)
    verified = VerifiedKeyedState(state, operator.display, check)
    try:
        yield from list(counted(verified, split.read()))
    except SnapshotError as error:
        yield UnreadState(verified.label)
        yield problem_of(error, operator.display, state=verified.label.name, key_groups=split.key_groups)
