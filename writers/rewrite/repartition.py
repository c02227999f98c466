"""Write operator state anew: for another number of subtasks, or with other elements of some states.

For another number of subtasks it is distributed as RoundRobinOperatorStateRepartitioner (of Flink's checkpoints) does
when a job is restored: elements of a list state evenly, a broadcast state copied to every subtask. Elements of a union
state are distributed, too: restoring gives all of them to each subtask. Elements stay bytes, in the order of the
subtasks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from stateproc.errors import InvalidOption, SnapshotError
from stateproc.flink_versions import Release
from stateproc.metadata.handles import OperatorStreamHandle
from stateproc.metadata.snapshot import OperatorState, SubtaskState
from stateproc.model.operator import Operator
from stateproc.writers.commit.staging import Staging
from stateproc.writers.formats.operator_state.verify import verify_operator_state
from stateproc.writers.formats.operator_state.writer import OperatorStateWriter
from stateproc.writers.rewrite.operator_state_copy import (
    Elements,
    MergedOperatorHeader,
    merged_operator_header,
    raw_elements,
)

_OPERATOR_TYPE = 4
_THREADS = 4


@dataclass(frozen=True)
class SubtaskOperatorState:
    """The elements of all operator states that one subtask receives, by state name. Picklable."""

    header: MergedOperatorHeader
    elements: tuple[tuple[str, tuple[Elements, ...]], ...]

    def write(self, staging: Staging, release: Release, *, compressed: bool, verify: bool) -> OperatorStreamHandle:
        """Write the subtask's file and return its handle. Raises CorruptSnapshot, MissingFile, WriteFailed."""
        version = release.operator_header_version
        compressed = compressed and version >= 6
        with staging.new_file() as file:
            writer = OperatorStateWriter(
                file, self.header.states, self.header.broadcast, version=version, compressed=compressed
            )
            for state, parts in self.elements:
                for pieces in itertools.chain.from_iterable(part.read() for part in parts):
                    writer.carried(state, pieces)
            handle = OperatorStreamHandle(_OPERATOR_TYPE, writer.close(), file.close())
            if verify:
                verify_operator_state(handle, staging.location, compressed=compressed)
        return handle


def subtask_states(
    operator: Operator, parallelism: int, given: Mapping[str, Sequence[Elements]]
) -> list[SubtaskOperatorState]:
    """Return the elements that each subtask receives. ``given``: elements that replace those of states.

    Raises UnsupportedSnapshot where subtasks wrote a state with different serializers; CorruptSnapshot, MissingFile.
    """
    header = merged_operator_header(operator)
    names = [info.name for info in (*header.states, *header.broadcast)]
    states = [(name, given[name] if name in given else raw_elements(operator, name)) for name in names]
    assign = by_subtask if parallelism == operator.parallelism else distributed
    dealt = [(name, assign(elements, parallelism)) for name, elements in states]
    return [
        SubtaskOperatorState(header, tuple((name, parts[subtask]) for name, parts in dealt))
        for subtask in range(parallelism)
    ]


def by_subtask(elements: Sequence[Elements], parallelism: int) -> list[tuple[Elements, ...]]:
    """Leave the elements of one state to their subtasks; a broadcast state is in all of them."""
    if elements and elements[0].broadcast:
        return [tuple(elements)] * parallelism
    return [tuple(part for part in elements if part.subtask == subtask) for subtask in range(parallelism)]


def distributed(elements: Sequence[Elements], parallelism: int) -> list[tuple[Elements, ...]]:
    """Distribute the elements of one state in order; the first subtasks may have one more than others."""
    if elements and elements[0].broadcast:
        return [tuple(elements)] * parallelism
    each, more = divmod(sum(len(part) for part in elements), parallelism)
    bounds = [each * subtask + min(subtask, more) for subtask in range(parallelism + 1)]
    return [tuple(_between(elements, start, stop)) for start, stop in itertools.pairwise(bounds)]


def _between(elements: Sequence[Elements], start: int, stop: int) -> Iterator[Elements]:
    """The elements from ``start`` to ``stop``, counted over all parts."""
    first = 0
    for part in elements:
        low, high = max(start - first, 0), min(stop - first, len(part))
        if low < high:
            yield replace(part, elements=range(low, high))
        first += len(part)


def repartitioned(
    operator: Operator, carried: OperatorState, parallelism: int, release: Release, staging: Staging, *, verify: bool,
    given: Mapping[str, Sequence[Elements]] | None = None,
) -> OperatorState:  # fmt: skip
    """Return ``carried`` with ``parallelism`` subtasks, and write the operator states of ``operator`` for them.

    ``given``: elements that replace those of states. Raises InvalidOption for raw operator state, which only its
    operator can read, and another parallelism; as `subtask_states`, and WriteFailed.
    """
    if parallelism != operator.parallelism:
        refuse_raw_operator_state(carried, operator.display)
    carried = replace(carried, parallelism=parallelism)
    if not operator.operator_files and not operator.unreadable_operator_files:
        return carried
    compressed = any(file.header.compressed for file in operator.operator_files)

    def write(share: SubtaskOperatorState) -> OperatorStreamHandle:
        try:
            return share.write(staging, release, compressed=compressed, verify=verify)
        except SnapshotError as error:
            raise error.at(operator=operator.display) from error

    with ThreadPoolExecutor(_THREADS) as pool:
        handles = list(pool.map(write, subtask_states(operator, parallelism, given or {})))
    subtasks = {subtask.index: subtask for subtask in carried.subtasks}
    for index, handle in enumerate(handles):
        subtasks[index] = replace(subtasks.get(index, SubtaskState(index)), managed_operator=handle)
    return replace(carried, subtasks=tuple(subtasks[index] for index in sorted(subtasks)))


def refuse_raw_operator_state(state: OperatorState, display: str) -> None:
    """Raise InvalidOption if an operator has raw operator state, which only its own code can distribute."""
    if any(subtask.raw_operator for subtask in state.subtasks):
        raise InvalidOption(
            f"operator {display} has raw operator state, which only its own code can read",
            advice="leave its parallelism as it is: Flink redistributes operator state when it restores",
        )
