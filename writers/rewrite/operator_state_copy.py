"""Copy the elements of operator state as bytes, for OperatorStateWriter.

Format: org.apache.flink.runtime.state.DefaultOperatorStateBackendSnapshotStrategy. An element of a list or union state
is one value; a broadcast state has one element, the count and all entries, the same in every subtask.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from stateproc.codec.byte_arrays import RowBytes
from stateproc.errors import UnsupportedSnapshot, Where, not_found
from stateproc.metadata.backend import OperatorHeader, StateMetaInfo
from stateproc.metadata.handles import StatePartition
from stateproc.model.operator import Operator
from stateproc.model.operator_state import OperatorFile
from stateproc.readers.merged_snapshots import DifferentSerializersError, merged_info
from stateproc.readers.operator_state import element_chunks, element_ranges, state_info
from stateproc.serializers.core.registry import load_plugins
from stateproc.writers.formats.common.byte_gather import gather

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

    elements: which of them, by their positions; all by default.
    """

    subtask: int
    values: tuple[bytes, ...] = field(repr=False)
    elements: range | None = None

    broadcast = False

    def __len__(self) -> int:
        return len(self.values) if self.elements is None else len(self.elements)

    def read(self) -> Iterator[RowBytes]:
        """The elements in their order."""
        chosen = self.values if self.elements is None else self.values[self.elements.start : self.elements.stop]
        offsets = np.zeros(len(chosen) + 1, dtype=np.int64)
        np.cumsum([len(value) for value in chosen], out=offsets[1:])
        yield RowBytes(np.frombuffer(b"".join(chosen), dtype=np.uint8), offsets)


Elements = RawElements | GivenElements


@dataclass(frozen=True)
class MergedOperatorHeader:
    """List and union states, broadcast states, as write_operator_header takes them."""

    states: tuple[StateMetaInfo, ...]
    broadcast: tuple[StateMetaInfo, ...]


def merged_operator_header(operator: Operator) -> MergedOperatorHeader:
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
    return MergedOperatorHeader(tuple(states.values()), tuple(broadcast.values()))


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
    header = merged_operator_header(operator)
    names = [info.name for info in (*header.states, *header.broadcast)]
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
