"""Sizes of an operator's states: from one pass over small files, or what is known without reading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from stateproc.errors import SnapshotError
from stateproc.keygroups.ranges import prefix_width
from stateproc.metadata.backend import KeyedHeader
from stateproc.metadata.handles import IncrementalHandle
from stateproc.readers.canonical.statistics import Measure, measure_canonical
from stateproc.readers.common.state_descriptor import KeyedState, StateKind
from stateproc.readers.heap.statistics import measure_heap
from stateproc.readers.rocksdb.open_database import database_files
from stateproc.readers.rocksdb.planning import key_group_sizes
from stateproc.readers.rocksdb.statistics import database_statistics
from stateproc.serializers import LayoutContext, Undecodable
from stateproc.snapshot.operator import Operator
from stateproc.snapshot.state import State
from stateproc.snapshot.subtask_files import KeyedFile

SMALL = 64 << 20
"""Files up to this many bytes are read to count their entries, larger ones only when asked to."""

_TELLING = 4 << 20
"""Tables under this size have too few blocks to tell how much each key group holds."""

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
    counted = True
    for file in operator.keyed_files:
        try:
            found.layouts = list(dict.fromkeys([*found.layouts, file.layout]))
            for item in file.ranges:
                size = found.key_group_bytes.get(item.key_group, 0)
                found.key_group_bytes[item.key_group] = size + item.stop - item.start
            if isinstance(file.handle, IncrementalHandle):
                _tables(file, file.handle, found)
            else:
                counted = counted and is_countable(file, scan) and _count(file, found, advance)
        except SnapshotError as error:
            counted = False
            found.problems.append(error.at(operator=operator.display))
    if not counted:
        found.sizes = {}
    return found


def is_countable(file: KeyedFile, scan: bool) -> bool:
    """Whether the entries of ``file`` are to be counted."""
    return file.layout in ("canonical", "heap") and (scan or file.source.size <= SMALL)


def _count(file: KeyedFile, found: OperatorMeasure, advance: Callable[[int], None]) -> bool:
    """Add the entries of a KeyGroups file; False if its header cannot be read, or a state's values have no end."""
    header = file.header
    if header is None:
        return False
    try:
        counted = _measure(file, header, found.operator.options.context, advance)
    except Undecodable:
        return False
    for index, state in enumerate(file.states):
        name = _QUEUES.get(state.kind, state.name) if isinstance(state, KeyedState) else state
        _add(found, name, int(counted.bytes[:, index].sum()), int(counted.entries[:, index].sum()))
    return True


def _measure(file: KeyedFile, header: KeyedHeader, ctx: LayoutContext, advance: Callable[[int], None]) -> Measure:
    if not file.canonical:
        return measure_heap(file.source, file.ranges, file.states, ctx, compressed=header.compressed, advance=advance)
    return measure_canonical(
        file.source,
        file.ranges,
        compressed=header.compressed,
        prefix=prefix_width(file.max_parallelism),
        n_states=len(file.states),
        advance=advance,
    )


def _add(found: OperatorMeasure, name: str, size: int, entries: int | None) -> None:
    held, counted = found.sizes.get(name, (0, 0))
    found.sizes[name] = (held + size, None if entries is None or counted is None else counted + entries)


def _tables(file: KeyedFile, handle: IncrementalHandle, found: OperatorMeasure) -> None:
    """Add what the tables of a RocksDB database say of its states; where the key groups lie, if that is cheap."""
    files = database_files(handle, file.location)
    verify = found.operator.options.verify
    names = {state.name: _QUEUES.get(state.kind, state.name) for state in file.states if isinstance(state, KeyedState)}
    known = {item.state: item for item in database_statistics(files, verify=verify)}
    for state, name in names.items():
        tables = known.get(state)
        exact = tables is None or (tables.files == 1 and not (tables.deletions or tables.merge_operands))
        _add(found, name, tables.bytes if tables else 0, (tables.entries if tables else 0) if exact else None)
        if tables is not None and _TELLING <= tables.bytes <= SMALL:
            groups = handle.key_groups
            sizes = key_group_sizes(files, state, groups, prefix_width(file.max_parallelism), verify=verify)
            for key_group, size in zip(groups, sizes, strict=True):
                if size:
                    found.key_group_bytes[key_group] = found.key_group_bytes.get(key_group, 0) + int(size)
