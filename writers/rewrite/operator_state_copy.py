"""Copy the elements of operator state as bytes, for OperatorStateWriter.

Format: org.apache.flink.runtime.state.DefaultOperatorStateBackendSnapshotStrategy. An element of a list or union state
is one value; a broadcast state has one element, the count and all entries, the same in every subtask.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from stateproc.codec.arrow_arrays import RowBytes
from stateproc.errors import InvalidOption, UnsupportedSnapshot, Where, located, not_found
from stateproc.flink_versions import Release
from stateproc.metadata.backend import OperatorHeader, StateMetaInfo
from stateproc.metadata.operator_handles import OperatorStreamHandle, StatePartition
from stateproc.metadata.snapshot import OperatorEntry, SubtaskState
from stateproc.model.operator import Operator
from stateproc.model.operator_state import OperatorFile
from stateproc.readers.merged_snapshots import DifferentSerializersError, merged_info
from stateproc.readers.operator_state import element_chunks, element_ranges, state_info
from stateproc.serializers.core.registry import load_plugins
from stateproc.storage.concurrency import map_in_order
from stateproc.writers.commit.staging import Staging
from stateproc.writers.formats.entry_batches import gather, take_rows
from stateproc.writers.formats.keyed_file import OperatorStateHeader
from stateproc.writers.formats.operator_state import OperatorStateWriter, verify_operator_state
from stateproc.writers.rewrite.kryo_conversion import KryoUpgrade, ValueConversion
from stateproc.writers.rewrite.type_evolution import ElementEvolution

_BROADCAST = "BROADCAST"


@dataclass(frozen=True)
class RawElements:
    """One subtask's elements of an operator state. Picklable. ``broadcast``: one element that holds all entries.

    elements: which of them, by their positions; all by default.
    """

    file: OperatorFile
    partition: StatePartition
    plugins: tuple[str, ...] = ()
    elements: range | None = None

    def __len__(self) -> int:
        return len(self.partition.offsets) if self.elements is None else len(self.elements)

    @property
    def subtask(self) -> int:
        return self.file.subtask

    @property
    def broadcast(self) -> bool:
        return self.partition.mode == _BROADCAST

    def read(self) -> Iterator[RowBytes]:
        """The elements in their order, some at a time. Raises CorruptSnapshot, MissingFile."""
        load_plugins(self.plugins)
        header = self.file.header
        ranges = element_ranges(self.file.handle, self.partition, self.file.source, state_info(header, self.partition))
        if self.elements is not None:
            ranges = ranges[self.elements.start : self.elements.stop]
        compressed = header.compressed
        for data, starts, stops, _ in element_chunks(self.file.source, ranges, compressed):
            yield gather(data, starts, stops)


@dataclass(frozen=True)
class GivenElements:
    """New elements of a list or union state for one subtask, in place of those in the snapshot. Picklable.

    elements: which of them, by their positions; all by default. broadcast: one element that holds all entries.
    """

    subtask: int
    values: tuple[bytes, ...] = field(repr=False)
    elements: range | None = None
    broadcast: bool = False

    def __len__(self) -> int:
        return len(self.values) if self.elements is None else len(self.elements)

    def read(self) -> Iterator[RowBytes]:
        """The elements in their order."""
        chosen = self.values if self.elements is None else self.values[self.elements.start : self.elements.stop]
        offsets = np.zeros(len(chosen) + 1, dtype=np.int64)
        np.cumsum([len(value) for value in chosen], out=offsets[1:])
        yield RowBytes(np.frombuffer(b"".join(chosen), dtype=np.uint8), offsets)


@dataclass(frozen=True)
class KeptElements:
    """Some of one subtask's elements of a list or union state. Picklable.

    positions: those that stay, ascending. elements: which of these; all by default.
    """

    source: RawElements
    positions: tuple[int, ...] = field(repr=False)
    elements: range | None = None

    broadcast = False

    def __len__(self) -> int:
        return len(self.positions) if self.elements is None else len(self.elements)

    @property
    def subtask(self) -> int:
        return self.source.subtask

    def read(self) -> Iterator[RowBytes]:
        """The elements in their order, some at a time. Raises CorruptSnapshot, MissingFile."""
        chosen = np.array(self.positions, dtype=np.int64)
        if self.elements is not None:
            chosen = chosen[self.elements.start : self.elements.stop]
        first = 0
        for pieces in self.source.read():
            low, high = np.searchsorted(chosen, [first, first + len(pieces)])
            if low < high:
                yield take_rows(pieces, chosen[low:high] - first)
            first += len(pieces)


Elements = RawElements | GivenElements | KeptElements


def given_elements(values: Iterable[tuple[int, bytes]]) -> list[GivenElements]:
    """Return new elements of a state, each of which is given with its subtask."""
    found: dict[int, list[bytes]] = {}
    for subtask, value in values:
        found.setdefault(subtask, []).append(value)
    return [GivenElements(subtask, tuple(own)) for subtask, own in sorted(found.items())]


def merged_operator_header(operator: Operator) -> OperatorStateHeader:
    """The operator states of all subtasks, those without elements included.

    Raises UnsupportedSnapshot where subtasks wrote a state with different serializers or modes; CorruptSnapshot,
    MissingFile.
    """
    states: dict[str, StateMetaInfo] = {}
    broadcast: dict[str, StateMetaInfo] = {}
    for header in _headers(operator):
        for found, infos in ((states, header.states), (broadcast, header.broadcast)):
            for info in infos:
                try:
                    found[info.name] = merged_info(found.get(info.name, info), info)
                except DifferentSerializersError:
                    raise _different(operator, info.name) from None
    return OperatorStateHeader(tuple(states.values()), tuple(broadcast.values()))


def _different(operator: Operator, state: str) -> UnsupportedSnapshot:
    uid = operator.display
    return UnsupportedSnapshot(
        "subtasks wrote this state with different serializers or distribution modes: one header cannot describe it",
        where=Where(operator=uid, state=state),
        advice="leave the operator's parallelism and operator states as they are, and its files are copied; or read "
        f"its states as rows and write it anew: SavepointWriter.with_operator({uid!r}, OperatorBootstrap()…)",
    )


def _headers(operator: Operator) -> Iterator[OperatorHeader]:
    for file in operator.operator_files:
        yield file.header
    for error in operator.unreadable_operator_files:
        raise error


def raw_elements(operator: Operator, state: str) -> list[RawElements]:
    """The elements of an operator state, subtask by subtask; of a broadcast state those of one subtask.

    Raises NotFound, CorruptSnapshot, MissingFile, UnsupportedSnapshot.
    """
    names = [info.name for info in merged_operator_header(operator).infos]
    if state not in names:
        raise not_found("operator state", state, names, f"operator '{operator.display}'")
    plugins = operator.options.plugins
    found = [
        RawElements(file, partition, plugins)
        for file in operator.operator_files
        for partition in file.handle.states
        if partition.name == state and partition.offsets
    ]
    return found[:1] if found and found[0].broadcast else found


# Write operator state anew: for another number of subtasks, or with other elements of some states.
#
# For another number of subtasks it is distributed as RoundRobinOperatorStateRepartitioner (of Flink's checkpoints) does
# when a job is restored: elements of a list state evenly, a broadcast state copied to every subtask. Elements of a
# union state are distributed, too: restoring gives all of them to each subtask. Elements stay bytes, in the order of
# the subtasks.

_OPERATOR_TYPE = 4
_THREADS = 4


@dataclass(frozen=True)
class SubtaskOperatorState:
    """The elements of all operator states that one subtask receives, by state name. Picklable.

    conversions: how the elements of states are converted when they are written; of those that are.
    """

    header: OperatorStateHeader
    elements: tuple[tuple[str, tuple[Elements, ...]], ...]
    conversions: Mapping[str, ValueConversion | ElementEvolution] = field(default_factory=dict)

    def write(self, staging: Staging, release: Release, *, compressed: bool, verify: bool) -> OperatorStreamHandle:
        """Write the subtask's file and return its handle. Raises CorruptSnapshot, MissingFile, WriteFailed."""
        version = release.operator_header_version
        compressed = compressed and version >= 6
        with staging.new_file() as file:
            writer = OperatorStateWriter(
                file, self.header.states, self.header.broadcast, version=version, compressed=compressed
            )
            for state, parts in self.elements:
                pieces = itertools.chain.from_iterable(part.read() for part in parts)
                conversion = self.conversions.get(state)
                for piece in pieces if conversion is None else conversion.pieces(pieces):
                    writer.carried(state, piece)
            handle = OperatorStreamHandle(_OPERATOR_TYPE, writer.close(), file.close())
            if verify:
                verify_operator_state(handle, staging.location, compressed=compressed)
        return handle


def changes_elements(operator: Operator, upgrade: KryoUpgrade) -> bool:
    """Whether elements or serializer snapshots of operator states change for another Kryo."""
    if operator.unreadable_operator_files:
        return False
    infos = (info for header in _headers(operator) for info in (*header.states, *header.broadcast))
    return any(upgrade.elements(info) is not None or upgrade.info(info) is not info for info in infos)


def subtask_states(
    operator: Operator,
    parallelism: int,
    given: Mapping[str, Sequence[Elements]],
    upgrade: KryoUpgrade | None = None,
    evolved: Sequence[tuple[ElementEvolution, StateMetaInfo]] = (),
) -> list[SubtaskOperatorState]:
    """Return the elements that each subtask receives. ``given``: elements that replace those of states.

    ``upgrade``: how values of Kryo are converted for another release. ``evolved``: states that get another type of
    elements, with their new entries in the header.

    Raises UnsupportedSnapshot where subtasks wrote a state with different serializers; CorruptSnapshot, MissingFile.
    """
    header = merged_operator_header(operator)
    names = [info.name for info in header.infos]
    states = [(name, given[name] if name in given else raw_elements(operator, name)) for name in names]
    assign = by_subtask if parallelism == operator.parallelism else distributed
    dealt = [(name, assign(elements, parallelism)) for name, elements in states]
    conversions: dict[str, ValueConversion | ElementEvolution] = {}
    if upgrade is not None:
        found = ((info.name, upgrade.elements(info)) for info in header.infos)
        conversions = {name: conversion for name, conversion in found if conversion is not None}
        header = header.mapped(upgrade.info)
    if evolved:
        conversions |= {evolution.info.name: evolution for evolution, _ in evolved}
        infos = {info.name: info for _, info in evolved}
        header = header.mapped(lambda info: infos.get(info.name, info))
    return [
        SubtaskOperatorState(header, tuple((name, parts[subtask]) for name, parts in dealt), conversions)
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
    operator: Operator,
    carried: OperatorEntry,
    shares: Sequence[SubtaskOperatorState],
    release: Release,
    staging: Staging,
    *,
    verify: bool,
) -> OperatorEntry:
    """Return ``carried`` with the operator states of ``operator``, and write them.

    ``shares``: what each subtask receives, of `subtask_states`. Raises CorruptSnapshot, MissingFile, WriteFailed.
    """
    carried = replace(carried, parallelism=len(shares))
    if not operator.operator_files and not operator.unreadable_operator_files:
        return carried
    compressed = any(file.header.compressed for file in operator.operator_files)

    def write(share: SubtaskOperatorState) -> OperatorStreamHandle:
        with located(operator=operator.display):
            return share.write(staging, release, compressed=compressed, verify=verify)

    handles = list(map_in_order(write, shares, _THREADS))
    subtasks = {subtask.index: subtask for subtask in carried.subtasks}
    for index, handle in enumerate(handles):
        subtasks[index] = replace(subtasks.get(index, SubtaskState(index)), managed_operator=handle)
    return replace(carried, subtasks=tuple(subtasks[index] for index in sorted(subtasks)))


def refuse_raw_operator_state(state: OperatorEntry, display: str) -> None:
    """Raise InvalidOption if an operator has raw operator state, which only its own code can distribute."""
    if any(subtask.raw_operator for subtask in state.subtasks):
        raise InvalidOption(
            f"operator {display} has raw operator state, which only its own code can read",
            advice="leave its parallelism as it is: Flink redistributes operator state when it restores",
        )
