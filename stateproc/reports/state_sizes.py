"""Count bytes and entries of an operator's states, in one pass over small files or from metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from stateproc.errors import SnapshotError
from stateproc.model.operator import Operator
from stateproc.model.parallel_scan import read_in_order, thread_count
from stateproc.model.state import State
from stateproc.readers.keyed_file import KeyedFile, SizeRequest
from stateproc.readers.small_files import MeasuredFiles, batches_of_files, measure_files
from stateproc.readers.state_descriptor import KeyedState, StateKind

SMALL = 64 << 20
"""Files up to this many bytes are read to count their entries, larger ones only with ``--scan``."""

_QUEUES = {StateKind.EVENT_TIMERS: "event timers", StateKind.PROCESSING_TIMERS: "processing timers"}


@dataclass
class OperatorSizes:
    """Sizes of an operator's keyed state.

    Attributes:
        operator: The operator.
        layouts: The layouts of its files, e.g. ``canonical`` or ``rocksdb``.
        by_state: Bytes and entries by state name (timers by their kind). Of RocksDB the bytes of tables, and entries
            only where there is one table and nothing in it is deleted or unmerged.
        key_group_bytes: Bytes by key group, where they are known.
        problems: Why files could not be read.
        skipped_files: Files that were not read because they are large.
        scan: Whether files of any size are read.
    """

    operator: Operator
    layouts: list[str] = field(default_factory=list)
    by_state: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    key_group_bytes: dict[int, int] = field(default_factory=dict)
    problems: list[SnapshotError] = field(default_factory=list)
    skipped_files: int = 0
    scan: bool = False

    def of_state(self, state: State) -> tuple[int | None, int | None]:
        """Return bytes and entries of a state; None where they are not known."""
        if state.distribution == "keyed" and state.name in self.by_state:
            return self.by_state[state.name]
        try:
            return state.bytes, None
        except SnapshotError:
            return None, None  # a missing file, which ``problems`` lists

    def unreadable(self, state: State) -> SnapshotError | None:
        """Return why the data of a state cannot be read, whatever its types."""
        if state.file_problem is not None or not state.names_in_files:
            return state.file_problem
        try:
            for file in self.operator.keyed_files:
                file.check_readable(self.operator.display, state.name)
            hidden = self._hidden(state)
        except SnapshotError as error:
            return error
        if hidden is not None:
            return hidden
        # Where a file cannot be counted, its entries cannot be read either: those of all states are in one sequence.
        return next(iter(self.problems), None)

    def _hidden(self, state: State) -> SnapshotError | None:
        """Return where values without known end hide the state, or are its own, anywhere in its files.

        The state itself knows it of the beginning of files only. Nothing is read where all types are known.
        """
        whole = replace(self.operator.options, on_error="null")
        for file in self.operator.keyed_files:
            if file.ranges and is_small_enough(file, self.scan):
                found = file.unreadable_states(whole)
                for name in state.names_in_files:
                    for error in found.get(name, {}).values():
                        return error.at(operator=self.operator.display, state=name)
        return None


def operator_sizes(
    operator: Operator,
    *,
    scan: bool,
    advance: Callable[[int], None] = lambda _: None,
    threads: int | None = None,
) -> OperatorSizes:
    """Count the states of an operator.

    Args:
        operator: The operator.
        scan: Whether files of any size are read.
        advance: Called with the number of further bytes that were read, by any of the threads.
        threads: The number of files that are read at a time; None for the cores that the process may use.
    """
    result = OperatorSizes(operator, scan=scan)
    # Small files are read as a whole while they are measured: their headers are not read before.
    request = SizeRequest(operator.given_options, None if scan else SMALL, advance, operator.options_of)
    is_complete = True

    def measured(files: Sequence[KeyedFile]) -> Iterator[MeasuredFiles]:
        return measure_files(files, request)

    batches = batches_of_files(operator.keyed_files)
    # Little files are a matter of the interpreter, whose lock several threads would only fight for.
    large = sum(len(batch) == 1 for batch in batches)
    number = min(thread_count(threads), max(large, 1))
    for found in read_in_order(batches, measured, number, at_once=True, size_of=lambda _: 0):
        file, layout, sizes = found.files[0], found.layout, found.sizes
        if layout is not None and layout not in result.layouts:
            result.layouts.append(layout)
        if isinstance(sizes, SnapshotError):
            is_complete = False
            result.problems.append(sizes.at(operator=operator.display))
            continue
        for key_group, size in sizes.key_groups.items():
            result.key_group_bytes[key_group] = result.key_group_bytes.get(key_group, 0) + size
        if sizes.states is None:
            is_complete = False
            result.skipped_files += sum(
                other.state_layout.scanned and not is_small_enough(other, scan) for other in found.files
            )
            continue
        queues = {state.name: _QUEUES.get(state.kind) for state in file.states if isinstance(state, KeyedState)}
        for name, (size, entries) in sizes.states.items():
            _add(result, queues.get(name) or name, size, entries)
    if not is_complete:
        result.by_state = {}
    return result


def is_small_enough(file: KeyedFile, scan: bool) -> bool:
    """Return whether a file is read if that counts its entries. Raises CorruptSnapshot, UnsupportedSnapshot."""
    return scan or file.source.size <= SMALL


def _add(sizes: OperatorSizes, name: str, size: int, entries: int | None) -> None:
    known_size, known_entries = sizes.by_state.get(name, (0, 0))
    total = None if entries is None or known_entries is None else known_entries + entries
    sizes.by_state[name] = (known_size + size, total)
