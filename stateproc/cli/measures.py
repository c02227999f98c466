"""Sizes of an operator's states: from one pass over small files, or what is known without reading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from stateproc.errors import SnapshotError
from stateproc.readers.common.keyed_file import KeyedFile, SizeRequest
from stateproc.readers.common.state_descriptor import KeyedState, StateKind
from stateproc.snapshot.operator import Operator
from stateproc.snapshot.state import State

SMALL = 64 << 20
"""Files up to this many bytes are read to count their entries, larger ones only when asked to."""

_QUEUES = {StateKind.EVENT_TIMERS: "event timers", StateKind.PROCESSING_TIMERS: "processing timers"}


@dataclass
class OperatorMeasure:
    """What is known of the sizes of an operator's keyed state.

    ``sizes``: bytes and entries by state name (timers by their kind); of RocksDB states bytes of stored tables, and
    entries only where there is one table and nothing in it is deleted or unmerged.
    """

    operator: Operator
    layouts: list[str] = field(default_factory=list)
    sizes: dict[str, tuple[int, int | None]] = field(default_factory=dict)
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
    request = SizeRequest(operator.options, None if scan else SMALL, advance)
    counted = True
    for file in operator.keyed_files:
        try:
            found.layouts = list(dict.fromkeys([*found.layouts, file.layout]))
            sizes = file.sizes(request)
        except SnapshotError as error:
            counted = False
            found.problems.append(error.at(operator=operator.display))
            continue
        for key_group, size in sizes.key_groups.items():
            found.key_group_bytes[key_group] = found.key_group_bytes.get(key_group, 0) + size
        if sizes.states is None:
            counted = False
            continue
        queues = {state.name: _QUEUES.get(state.kind) for state in file.states if isinstance(state, KeyedState)}
        for name, (size, entries) in sizes.states.items():
            _add(found, queues.get(name) or name, size, entries)
    if not counted:
        found.sizes = {}
    return found


def is_countable(file: KeyedFile, scan: bool) -> bool:
    """Return whether the entries of ``file`` are counted by reading it."""
    return file.state_layout.scanned and (scan or file.source.size <= SMALL)


def _add(found: OperatorMeasure, name: str, size: int, entries: int | None) -> None:
    held, counted = found.sizes.get(name, (0, 0))
    found.sizes[name] = (held + size, None if entries is None or counted is None else counted + entries)
