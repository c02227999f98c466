"""Divide the keyed state of an operator into units, and read each: all states of some key groups at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import numbers_of
from stateproc.errors import InvalidOption, SnapshotError, located
from stateproc.keygroups.class_hashes import ClassHash, class_hashes
from stateproc.model.operator import Operator
from stateproc.readers.entry_decoder import decode_entries
from stateproc.readers.entry_programs import with_opaque_values
from stateproc.readers.key_group_blocks import KeyGroupRange
from stateproc.readers.key_groups_file import KeyGroupsSplit
from stateproc.readers.keyed_file import KeyedFile
from stateproc.readers.row_schema import KEY_GROUP
from stateproc.readers.splits import KeyedSplit, SplitRequest, StateScan, decode_keys, split_ranges
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import Serializer
from stateproc.storage import ByteSource
from stateproc.storage.concurrency import read_in_order
from stateproc.storage.sources import check_limit, check_range
from stateproc.verification.key_group_check import KeyGroupCheck
from stateproc.verification.problem import (
    Finding,
    Problem,
    RowCount,
    Severity,
    StateLabel,
    UnreadState,
    VerificationUnit,
    problem_of,
)

# Bytes of a file that are held in memory while all states in them are read, so that the file is read once.

LARGEST_WINDOW = 32 << 20
"""A key group of more bytes is read once for each state instead of being held."""


@dataclass(frozen=True)
class WindowSource:
    """A file of which some bytes are in memory, under the offsets that they have in the file.

    Attributes:
        inner: The file, which is read for all other bytes.
        start: The offset of the first byte in memory.
    """

    inner: ByteSource
    start: int
    data: bytes = field(repr=False)

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def size(self) -> int:
        return self.inner.size

    def read(self, start: int, length: int) -> bytes:
        check_range(self, start, length)
        at = start - self.start
        if at < 0 or at + length > len(self.data):
            return self.inner.read(start, length)
        return self.data[at : at + length]

    def read_all(self, limit: int) -> bytes:
        check_limit(self, limit)
        return self.read(0, self.size)


def window(source: ByteSource, start: int, stop: int) -> ByteSource:
    """Return the source with its bytes from ``start`` to ``stop`` in memory, unless they are too many.

    Raises CorruptSnapshot, MissingFile.
    """
    if stop - start > LARGEST_WINDOW:
        return source
    return WindowSource(source, start, source.read(start, stop - start))


# Read one keyed state in one split: decode everything, count the rows, recompute key groups.

_TIMERS = {StateKind.EVENT_TIMERS: "event timers", StateKind.PROCESSING_TIMERS: "processing timers"}
_MISPLACED_ADVICE = (
    "Flink looks a key up in the key group of its hash code and would not find it: take the snapshot again, or write "
    "the state anew with SavepointWriter"
)
_WRONG_NAME_ADVICE = (
    "if the formula and the order of its fields are those of the class (--hash-function UID=NAME:FIELD,…), the "
    "snapshot was written with another one: write it again from its source; rescale refuses a formula that does not fit"
)


@dataclass(frozen=True)
class VerifiedKeyedState:
    """A keyed state as verification reads it.

    Attributes:
        state: The state as the header of a file describes it.
        operator: The operator as messages name it.
        check: Recomputes key groups.
        type_problem: Why its values cannot be decoded by their types; None if they can.
    """

    state: StateDescriptor
    operator: str
    check: KeyGroupCheck = field(repr=False)
    type_problem: SnapshotError | None = None

    @property
    def label(self) -> StateLabel:
        """The state within its operator."""
        return keyed_label(self.state)


def key_group_check(operator: Operator, key: Serializer, hash_function: str | None) -> KeyGroupCheck:
    """Return what recomputes the key groups of an operator's keys.

    Args:
        hash_function: The formula of their hash codes (`class_hashes`), where their class has its own.

    Raises:
        InvalidOption: The formula does not belong to such keys.
    """
    context = operator.context
    own = context.options.context
    named: tuple[ClassHash, ...] = ()
    if hash_function is not None:
        with located(InvalidOption, operator=operator.display):
            named = tuple(class_hashes(key, hash_function, replace(own.inner, temporal="exact")))
    return KeyGroupCheck(key, own, context.max_parallelism, context.metadata_version, named)


def keyed_label(state: StateDescriptor) -> StateLabel:
    """Return how the operator's list of states names it: priority queues by their time domain."""
    return StateLabel(_TIMERS.get(state.kind, state.name), "keyed")


def read_state(state: VerifiedKeyedState, split: KeyedSplit, has_lengths: bool) -> Iterator[Finding]:
    """Read the state's rows in a split to the end.

    Args:
        split: Some key groups of it.
        has_lengths: Whether the files store the length of each entry, so that keys can be read of unknown values.

    Raises:
        SnapshotError: Rows cannot be read.
    """
    if state.type_problem is not None:
        yield UnreadState(state.label)
        target = split.target()
        if has_lengths and target is not None and not target.kind.is_queue:
            # The number of rows remains unknown; keys and the structure of the files are checked nevertheless.
            yield from counted(state, decode_keys(split.raw_entries(), target, state.check.context), counts=False)
        return
    unreadable: list[SnapshotError] = []
    yield from counted(state, _rows(split, unreadable.append))
    for error in unreadable:
        yield problem_of(error.at(operator=state.operator, state=state.label.name), state.operator)


def _rows(split: KeyedSplit, report: Callable[[SnapshotError], None]) -> Iterator[pa.RecordBatch]:
    """Yield the rows; where entries have lengths, values that cannot be decoded are null, and reported."""
    target = split.target()
    if target is None:
        return
    if split.namespace_first:
        yield from split.read()
        return
    context = split.scan.options.context
    yield from decode_entries(split.raw_entries(), with_opaque_values(target, context), context, report=report)


def counted(state: VerifiedKeyedState, batches: Iterator[pa.RecordBatch], *, counts: bool = True) -> Iterator[Finding]:
    """Count rows, and check that their keys are stored in the right key groups. Raises SnapshotError."""
    rows, checked, wrong = 0, 0, 0
    example = ""
    check = state.check
    for batch in batches:
        rows += len(batch)
        if not check.is_possible or not len(batch):
            continue
        checked += len(batch)
        stored = numbers_of(batch.column(KEY_GROUP)).astype(np.int32, copy=False)
        keys = batch.column("key")
        for row, groups in check.misplaced(keys, stored):
            wrong += 1
            if not example:
                example = _misplaced(keys[row].as_py(), int(stored[row]), groups)
    if wrong:
        number = "1 key is" if wrong == 1 else f"{wrong} keys are"
        what = f"{number} stored in a key group that Flink does not look in: {example}"
        advice = _MISPLACED_ADVICE
        if check.named:
            name = check.named[0].name
            what = f"Flink will not find {wrong} of {checked} keys if their class hashes as {name} does: {example}"
            advice = _WRONG_NAME_ADVICE
        yield Problem(Severity.DAMAGED, what, advice, state.operator, (state.label.name,))
    if counts:
        yield RowCount(state.label, rows, checked)


def _misplaced(key: object, stored: int, groups: set[int]) -> str:
    shown = repr(key)
    shown = shown if len(shown) <= 60 else shown[:59] + "…"
    return f"{shown} is in {stored}, not in {' or '.join(map(str, sorted(groups)))}"


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
    problems: dict[StateDescriptor, SnapshotError | None] = {}
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
    problems: dict[StateDescriptor, SnapshotError | None],
    hash_function: str | None,
) -> tuple[list[VerifiedKeyedState], list[Finding]]:
    states: list[VerifiedKeyedState] = []
    unknown: list[Finding] = []
    for state in file.states:
        if isinstance(state, str):
            if not wanted or state in wanted:
                error = SnapshotError(f"the header lists the state {state!r} with serializers that no keyed state has")
                found = problem_of(error, operator.display, state=state)
                unknown.append(replace(found, file=file.source.name, offset=0))
            continue
        label = keyed_label(state)
        if wanted and not {state.name, label.name} & set(wanted):
            continue
        if state not in problems:
            problems[state] = _type_problem(operator, state)
        check = key_group_check(operator, state.key, hash_function)
        states.append(VerifiedKeyedState(state, operator.display, check, problems[state]))
    return states, unknown


def _type_problem(operator: Operator, state: StateDescriptor) -> SnapshotError | None:
    """Return why the values of a state cannot be decoded by their types."""
    try:
        operator.state(state.name).schema()
    except SnapshotError as error:
        return error.at(operator=operator.display, state=state.name)
    return None


def _type_problems(operator: Operator, problems: dict[StateDescriptor, SnapshotError | None]) -> Iterator[Finding]:
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
    whole = file.reads_whole_files
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
        source = file.source
        if len(states) > 1:
            source = window(source, run[0].start, run[-1].stop)
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
