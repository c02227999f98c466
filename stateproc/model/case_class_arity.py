"""Find out whether the case classes of flink-scala-api 1.x in an operator's states begin with their number of fields.

The snapshots of releases before and after 1.1.5 are the same; only the bytes of values show it, by ending where they
should. All states of an operator are of one job, and so of one release: what values of one state show holds for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from stateproc.errors import SnapshotError
from stateproc.model.operator_state import OperatorFile
from stateproc.model.state import State
from stateproc.readers.keyed_file import KeyedFile
from stateproc.readers.read_options import ReadOptions
from stateproc.readers.state_descriptor import StateDescriptor
from stateproc.serializers import Serializer
from stateproc.serializers.core.base import CaseClassArity
from stateproc.serializers.flinkx.case_classes import FlinkxCaseClass

_DEEPEST = 64
_SPLITS, _BATCHES = 2, 1
"""How much of each state is read at first; all of it only where that shows nothing."""


def settled_options(
    given: ReadOptions,
    keyed_files: Iterable[KeyedFile],
    operator_files: Iterable[OperatorFile],
    states_with: Callable[[ReadOptions], Iterable[State]],
) -> ReadOptions:
    """Return the options with the arity that the values of an operator show, if its case classes need it.

    Reads the headers of state files, and values of operators whose headers name such case classes.

    Args:
        given: The options, in which the arity is to be found out.
        keyed_files: The operator's managed keyed state whose headers can be read.
        operator_files: Its managed operator state.
        states_with: Returns the operator's states as they are read with other options.
    """
    checked: dict[int, Serializer] = {}
    for serializer in _serializers(keyed_files, operator_files):
        checked.setdefault(id(serializer), serializer)
    if not any(_has_unmarked_class(serializer) for serializer in checked.values()):
        return given
    return replace(given, case_class_arity=_arity(given, states_with))


def file_needs_arity(file: KeyedFile, given: ReadOptions) -> bool:
    """Whether a file has values that need the arity which the operator shows; not if its header cannot be read."""
    if given.case_class_arity is not CaseClassArity.FOUND or file.header_problem is not None:
        return False
    return any(_has_unmarked_class(serializer) for serializer in _serializers_in(file))


def _serializers_in(file: KeyedFile) -> Iterator[Serializer]:
    for state in file.states:
        if isinstance(state, StateDescriptor):
            yield from (state.key, state.namespace, state.value)
            if state.user_key is not None:
                yield state.user_key


def _serializers(keyed_files: Iterable[KeyedFile], operator_files: Iterable[OperatorFile]) -> Iterator[Serializer]:
    seen: set[int] = set()
    for file in keyed_files:
        # Most files of an operator share one header.
        if id(file.states) in seen:
            continue
        seen.add(id(file.states))
        yield from _serializers_in(file)
    for lists in operator_files:
        with suppress(SnapshotError):  # the operator reports it
            for info in (*lists.header.states, *lists.header.broadcast):
                yield from info.serializers.values()


def _has_unmarked_class(serializer: Serializer, depth: int = 0) -> bool:
    """Whether a case class is in it whose snapshot does not say if values begin with the number of fields."""
    if isinstance(serializer, FlinkxCaseClass) and serializer.immutable is None and serializer.fields:
        return True
    return depth < _DEEPEST and any(_has_unmarked_class(inner, depth + 1) for inner in serializer.nested)


def _arity(given: ReadOptions, states_with: Callable[[ReadOptions], Iterable[State]]) -> CaseClassArity:
    """Return the arity with which values can be read; UNCLEAR if they can with both, or states differ."""
    candidates = (CaseClassArity.PRESENT, CaseClassArity.ABSENT)
    read = [states_with(replace(given, case_class_arity=arity)) for arity in candidates]
    for limits in ((_SPLITS, _BATCHES), (None, None)):
        shown: set[CaseClassArity] = set()
        both = False
        for pair in zip(*read, strict=True):
            fits = {arity for arity, state in zip(candidates, pair, strict=True) if _can_be_read(state, *limits)}
            if len(fits) == 1:
                shown |= fits
            both = both or len(fits) > 1
        if len(shown) == 1:
            return shown.pop()
        if shown:
            return CaseClassArity.UNCLEAR
        if not both:
            break
    return CaseClassArity.UNCLEAR if both else CaseClassArity.PRESENT


def _can_be_read(state: State, splits: int | None, batches: int | None) -> bool:
    """Whether the state has rows, and all that are read end where they should."""
    rows = 0
    try:
        for split in islice(state.splits(), splits):
            rows += sum(len(batch) for batch in islice(split.read(), batches))
    except SnapshotError:
        return False
    return rows > 0
