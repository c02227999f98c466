"""Divide the keyed state of an operator into units, and read each: all states of some key groups at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from stateproc.errors import SnapshotError
from stateproc.model.operator import Operator
from stateproc.model.parallel_scan import read_in_order
from stateproc.readers.key_group_blocks import KeyGroupRange
from stateproc.readers.key_groups_file import KeyGroupsSplit
from stateproc.readers.keyed_file import KeyedFile
from stateproc.readers.splits import KeyedSplit, SplitRequest, StateScan, split_ranges
from stateproc.readers.state_descriptor import KeyedState
from stateproc.verification.findings import Finding, UnreadState, VerificationUnit
from stateproc.verification.keyed_rows import VerifiedKeyedState, key_group_check, keyed_label, read_state
from stateproc.verification.problem import Problem, problem_of
from stateproc.verification.window_source import window

_UNIT_BYTES = 16 << 20
_WHOLE = 1 << 62


@dataclass(frozen=True)
class KeyedPlan:
    """The units of an operator's keyed state, and what is known before any of them is read."""

    units: tuple[VerificationUnit, ...]
    findings: tuple[Finding, ...]


_FileWithStates = tuple[KeyedFile, list[VerifiedKeyedState]]


def keyed_plan(
    operator: Operator, position: int, wanted: Sequence[str], threads: int, hash_function: str | None = None
) -> KeyedPlan:
    """Plan how the keyed state of an operator is read.

    Args:
        operator: The operator.
        position: Its position among those that are verified.
        wanted: Only these states; all if empty.
        threads: The number of threads that read the MANIFESTs of databases.
        hash_function: The formula of keys' hash codes (`class_hashes`).
    """
    findings: list[Finding] = []
    files: list[_FileWithStates] = []
    broken = {id(file) for file, _ in operator.unreadable_keyed_files}
    for file, error in operator.unreadable_keyed_files:
        findings.append(problem_of(error, operator.display, key_groups=file.handle.key_groups))
    problems: dict[KeyedState, SnapshotError | None] = {}
    for file in operator.keyed_files:
        if id(file) in broken:
            continue
        states, unknown = _states_of(operator, file, wanted, problems, hash_function)
        findings += unknown
        if states:
            files.append((file, states))
    findings += _type_problems(operator, problems)
    if broken:
        findings += [UnreadState(keyed_label(state)) for state in problems]
    units: list[VerificationUnit] = []
    plan = partial(_planned, operator, position)
    for item in read_in_order(files, plan, threads, at_once=True, size_of=lambda _: 0):
        if isinstance(item, VerificationUnit):
            units.append(item)
        else:
            findings.append(item)
    return KeyedPlan(tuple(units), tuple(findings))


def _planned(operator: Operator, position: int, planned: _FileWithStates) -> Iterator[VerificationUnit | Finding]:
    """Yield the units of a file, or why reading it cannot be planned."""
    file, states = planned
    try:
        file.check_readable(operator.display, states[0].state.name)
        yield from list(_units(operator, position, file, states))
    except SnapshotError as error:
        yield from failure(error, operator.display, states, file.handle.key_groups)


def _states_of(
    operator: Operator,
    file: KeyedFile,
    wanted: Sequence[str],
    problems: dict[KeyedState, SnapshotError | None],
    hash_function: str | None,
) -> tuple[list[VerifiedKeyedState], list[Finding]]:
    states: list[VerifiedKeyedState] = []
    unknown: list[Finding] = []
    for state in file.states:
        if isinstance(state, str):
            if not wanted or state in wanted:
                unknown.append(_no_keyed_state(operator, file, state))
            continue
        label = keyed_label(state)
        if wanted and not {state.name, label.name} & set(wanted):
            continue
        if state not in problems:
            problems[state] = _type_problem(operator, state)
        check = key_group_check(operator, state.key, hash_function)
        states.append(VerifiedKeyedState(state, operator.display, check, problems[state]))
    return states, unknown


def _no_keyed_state(operator: Operator, file: KeyedFile, state: str) -> Problem:
    error = SnapshotError(f"the header lists the state {state!r} with serializers that no keyed state has")
    found = problem_of(error, operator.display, state=state)
    return replace(found, file=file.source.name, offset=0)


def _type_problem(operator: Operator, state: KeyedState) -> SnapshotError | None:
    """Return why the values of a state cannot be decoded by their types."""
    try:
        operator.state(state.name).schema()
    except SnapshotError as error:
        return error.at(operator=operator.display, state=state.name)
    return None


def _type_problems(operator: Operator, problems: dict[KeyedState, SnapshotError | None]) -> Iterator[Finding]:
    for state, error in problems.items():
        if error is not None:
            yield UnreadState(keyed_label(state))
            yield problem_of(error, operator.display, state=state.name)


def failure(
    error: SnapshotError, operator: str, states: Iterable[VerifiedKeyedState], key_groups: Iterable[int]
) -> list[Finding]:
    """Return that these states cannot be read in these key groups, because of one error."""
    groups = tuple(key_groups)
    found: list[Finding] = []
    for state in states:
        found += [UnreadState(state.label), problem_of(error, operator, state=state.label.name, key_groups=groups)]
    return found


def _units(
    operator: Operator, position: int, file: KeyedFile, states: Sequence[VerifiedKeyedState]
) -> Iterator[VerificationUnit]:
    """Raise SnapshotError if reading cannot be planned."""
    if file.ranges:
        for run in split_ranges(file.ranges, _UNIT_BYTES):
            size = run[-1].stop - run[0].start
            yield VerificationUnit(position, size, partial(_read_window, operator, file, run, states))
        return
    whole = file.state_layout.reads_whole_files
    for state in states:
        request = SplitRequest(_scan(operator, state), split_bytes=_WHOLE if whole else 2 * _UNIT_BYTES)
        try:
            splits = file.splits(request)
        except SnapshotError as error:
            read = partial(failure, error, operator.display, [state], file.handle.key_groups)
            yield VerificationUnit(position, 0, read)
            continue
        for split in splits:
            size = split.bytes // len(states) if whole else split.bytes
            yield VerificationUnit(position, size, partial(_read_split, operator, file, split, state))


def _scan(operator: Operator, state: VerifiedKeyedState) -> StateScan:
    context = operator.context
    return StateScan(state.state.name, context.uid_or_id, context.max_parallelism, context.options)


def _read_split(operator: Operator, file: KeyedFile, split: KeyedSplit, state: VerifiedKeyedState) -> Iterator[Finding]:
    try:
        yield from list(read_state(state, split, file.stores_lengths(state.state)))
    except SnapshotError as error:
        yield from failure(error, operator.display, [state], split.key_groups)


def _read_window(
    operator: Operator, file: KeyedFile, run: Sequence[KeyGroupRange], states: Sequence[VerifiedKeyedState]
) -> Iterator[Finding]:
    """Read all states in some key groups of a file, which are held in memory meanwhile."""
    groups = [item.key_group for item in run]
    try:
        unreadable = file.unreadable_states(operator.options)
        source = window(file.source, run[0].start, run[-1].stop)
    except SnapshotError as error:
        yield from failure(error, operator.display, states, groups)
        return
    for state in states:
        errors = unreadable.get(state.state.name)
        if errors:
            for key_group, reason in errors.items():
                if key_group in groups:
                    yield from failure(reason, operator.display, [state], [key_group])
            continue
        split = file.split(_scan(operator, state), groups)
        assert isinstance(split, KeyGroupsSplit)
        yield from _read_groups(operator, file, replace(split, source=source), state)


def _read_groups(
    operator: Operator, file: KeyedFile, split: KeyGroupsSplit, state: VerifiedKeyedState
) -> Iterator[Finding]:
    """Read a state; after an error each key group by itself, so that only those are lost that are damaged."""
    try:
        yield from list(read_state(state, split, file.stores_lengths(state.state)))
    except SnapshotError as error:
        if len(split.ranges) == 1:
            yield from failure(error, operator.display, [state], split.key_groups)
            return
        for item in split.ranges:
            yield from _read_groups(operator, file, replace(split, ranges=(item,)), state)
