"""Read one keyed state in one split: decode everything, count the rows, recompute key groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import numbers_of
from stateproc.errors import InvalidOption, SnapshotError
from stateproc.keygroups.class_hashes import ClassHash, class_hashes
from stateproc.model.operator import Operator
from stateproc.readers.entry_decoder import decode_entries
from stateproc.readers.entry_programs import with_opaque_values
from stateproc.readers.row_schema import KEY_GROUP
from stateproc.readers.splits import KeyedSplit, decode_keys
from stateproc.readers.state_descriptor import KeyedState, StateKind
from stateproc.serializers import Serializer
from stateproc.verification.findings import Finding, RowCount, StateLabel, UnreadState
from stateproc.verification.key_group_check import KeyGroupCheck
from stateproc.verification.problem import Problem, Severity, problem_of

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

    state: KeyedState
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
        operator: The operator.
        key: The serializer of the keys.
        hash_function: The formula of their hash codes (`class_hashes`), where their class has its own.

    Raises:
        InvalidOption: The formula does not belong to such keys.
    """
    context = operator.context
    own = context.options.context
    named: tuple[ClassHash, ...] = ()
    if hash_function is not None:
        try:
            named = tuple(class_hashes(key, hash_function, replace(own.inner, temporal="exact")))
        except InvalidOption as error:
            raise error.at(operator=operator.display) from error
    return KeyGroupCheck(key, own, context.max_parallelism, context.metadata_version, named)


def keyed_label(state: KeyedState) -> StateLabel:
    """Return how the operator's list of states names it: priority queues by their time domain."""
    return StateLabel(_TIMERS.get(state.kind, state.name), "keyed")


def read_state(state: VerifiedKeyedState, split: KeyedSplit, has_lengths: bool) -> Iterator[Finding]:
    """Read the state's rows in a split to the end.

    Args:
        state: The state.
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
