"""Count bytes and entries of an operator's states, in one pass over small files or from metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from stateproc.errors import SnapshotError
from stateproc.model.operator import Operator
from stateproc.model.parallel_scan import thread_count
from stateproc.model.state import State
from stateproc.readers.keyed_file import KeyedFile, SizeRequest, StateSizes
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.storage.concurrency import map_in_order, read_in_order
from stateproc.storage.ranges import is_remote

# Measure the states of many files: small ones of one operator together, each read at once.
#
# A job of thousands of subtasks has thousands of files of some hundred bytes for each operator. What opening, reading
# and scanning cost is then what each call costs, so that calls are saved: one read per file instead of one for each of
# its parts, and one scan for all files that have the same header.

SMALL_FILE = 64 << 10
_BATCH_BYTES, _BATCH_FILES = 4 << 20, 512


@dataclass(frozen=True)
class MeasuredFiles:
    """The sizes of some files, which have one header.

    Attributes:
        files: The files; one, if they could not be measured.
        layout: The layout of their entries; None where it is not known.
        sizes: The sum of their sizes, or why they cannot be measured.
    """

    files: Sequence[KeyedFile]
    layout: str | None
    sizes: StateSizes | SnapshotError


def batches_of_files(files: Sequence[KeyedFile]) -> list[list[KeyedFile]]:
    """Divide files into batches of consecutive small ones; all others are alone."""
    batches: list[list[KeyedFile]] = []
    free = 0
    for file in files:
        size = _small_size(file)
        if size is None or size > free or len(batches[-1]) == _BATCH_FILES:
            batches.append([])
            free = 0 if size is None else _BATCH_BYTES
        batches[-1].append(file)
        free -= size or 0
    return batches


def _small_size(file: KeyedFile) -> int | None:
    """Return the bytes of a small file of key groups; None for any other file."""
    try:
        size = file.source.size if file.ranges else None
    except SnapshotError:
        return None  # measuring the file reports it
    return size if size is not None and size <= SMALL_FILE else None


def measure_files(files: Sequence[KeyedFile], request: SizeRequest) -> Iterator[MeasuredFiles]:
    """Measure a batch of ``batches_of_files``, in the order of the files except that equal headers go together."""
    if len(files) == 1:
        yield _measured(files[0], request)
        return
    _load(files)
    try:
        alike: dict[tuple[object, int], list[KeyedFile]] = {}
        for file in files:
            try:
                alike.setdefault((file.layout, id(file.header)), []).append(file)
            except SnapshotError:
                alike[file, 0] = [file]
        for together in alike.values():
            yield from _measured_together(together, request)
    finally:
        for file in files:
            file.release()


def _load(files: Sequence[KeyedFile]) -> None:
    """Hold the bytes of files in memory; what cannot be read is reported by whoever reads it again."""
    if not is_remote(files[0].source):
        for file in files:
            file.load(SMALL_FILE)
        return
    for _ in map_in_order(lambda file: file.load(SMALL_FILE), files):
        pass


def _measured_together(files: list[KeyedFile], request: SizeRequest) -> Iterator[MeasuredFiles]:
    if len(files) > 1:
        first = files[0]
        try:
            sizes = first.sizes_together(files, request)
        except SnapshotError:
            sizes = None  # found below, with the file that it is in
        if sizes is not None:
            yield MeasuredFiles(files, first.layout, sizes)
            return
    for file in files:
        yield _measured(file, request)


def _measured(file: KeyedFile, request: SizeRequest) -> MeasuredFiles:
    layout = None
    try:
        layout = file.layout
        return MeasuredFiles([file], layout, file.sizes(request))
    except SnapshotError as error:
        return MeasuredFiles([file], layout, error)


SMALL = 64 << 20
"""Files up to this many bytes are read to count their entries, larger ones only with ``--scan``."""

_QUEUES = {StateKind.EVENT_TIMERS: "event timers", StateKind.PROCESSING_TIMERS: "processing timers"}


@dataclass
class OperatorSizes:
    """Sizes of an operator's keyed state.

    Attributes:
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
        if state.is_keyed and state.name in self.by_state:
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
            result.skipped_files += sum(other.scanned and not is_small_enough(other, scan) for other in found.files)
            continue
        queues = {state.name: _QUEUES.get(state.kind) for state in file.states if isinstance(state, StateDescriptor)}
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
