"""Sizes of an operator's states: from one pass over small files, or what is known without reading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from stateproc.errors import SnapshotError
from stateproc.keyed_files import KeyedFile
from stateproc.keygroups.ranges import prefix_width
from stateproc.operators import Operator
from stateproc.readers.measuring import measure_canonical
from stateproc.readers.states import KeyedState, StateKind
from stateproc.states import State

SMALL = 64 << 20
"""Files up to this many bytes are read to count their entries, larger ones only when asked to."""

_QUEUES = {StateKind.EVENT_TIMERS: "event timers", StateKind.PROCESSING_TIMERS: "processing timers"}


@dataclass
class OperatorMeasure:
    """What is known of the sizes of an operator's keyed state.

    ``sizes``: bytes and entries by state name (timers by their kind).
    """

    operator: Operator
    layouts: list[str] = field(default_factory=list)
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    key_group_bytes: dict[int, int] = field(default_factory=dict)
    problems: list[SnapshotError] = field(default_factory=list)

    def of(self, state: State) -> tuple[int | None, int | None]:
        """(bytes, entries) of a state; None where they are not known."""
        if state.distribution == "keyed" and state.name in self.sizes:
            return self.sizes[state.name]
        try:
            return state.bytes, None
        except SnapshotError:
            return None, None  # a file that is not there; told by ``problems``

    def unreadable(self, state: State) -> SnapshotError | None:
        """Why the data of a state cannot be read, whatever its types."""
        if state.distribution != "keyed":
            return None
        try:
            for file in self.operator.keyed_files:
                file.check_readable(self.operator.display, state.name)
        except SnapshotError as error:
            return error
        return None


def measured(operator: Operator, *, scan: bool, advance: Callable[[int], None] = lambda _: None) -> OperatorMeasure:
    """Measure ``operator``; ``scan``: files of any size."""
    found = OperatorMeasure(operator)
    counted = True
    for file in operator.keyed_files:
        try:
            found.layouts = list(dict.fromkeys([*found.layouts, file.layout]))
            for item in file.ranges:
                size = found.key_group_bytes.get(item.key_group, 0)
                found.key_group_bytes[item.key_group] = size + item.stop - item.start
            counted = counted and is_countable(file, scan) and _count(file, found, advance)
        except SnapshotError as error:
            counted = False
            found.problems.append(error.at(operator=operator.display))
    if not counted:
        found.sizes = {}
    return found


def is_countable(file: KeyedFile, scan: bool) -> bool:
    """Whether the entries of ``file`` are to be counted."""
    return file.layout == "canonical" and (scan or file.source.size <= SMALL)


def _count(file: KeyedFile, found: OperatorMeasure, advance: Callable[[int], None]) -> bool:
    """Add the entries of a canonical file; False if its header cannot be read."""
    header = file.header
    if header is None:
        return False
    counted = measure_canonical(
        file.source,
        file.ranges,
        compressed=header.compressed,
        prefix=prefix_width(file.max_parallelism),
        n_states=len(file.states),
        advance=advance,
    )
    for index, state in enumerate(file.states):
        name = _QUEUES.get(state.kind, state.name) if isinstance(state, KeyedState) else state
        size, entries = found.sizes.get(name, (0, 0))
        found.sizes[name] = (
            size + int(counted.bytes[:, index].sum()),
            entries + int(counted.entries[:, index].sum()),
        )
    return True
