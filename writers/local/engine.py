"""The local engine: copies files, and writes state files from entries, in threads of this process."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import values_array
from stateproc.errors import InvalidOption, UnorderedEntries, WriteFailed
from stateproc.html.units import human_bytes
from stateproc.metadata.stream_handles import ByteStreamHandle, RelativeFileHandle
from stateproc.model.parallel_scan import available_cores
from stateproc.writers.bootstrap.arrow_frames import arrow_batches
from stateproc.writers.bootstrap.frame_columns import is_spark
from stateproc.writers.bootstrap.operator_state_encoder import POSITION, element_rows
from stateproc.writers.commit.commit import Commit
from stateproc.writers.commit.staging import Staging
from stateproc.writers.formats.entry_batches import RAW_ENTRIES
from stateproc.writers.local.progress import WriteProgress, reported_progress
from stateproc.writers.plan.planning import PlannedOperator
from stateproc.writers.plan.savepoint_plan import SavepointPlan
from stateproc.writers.rewrite.edited_splits import EditedSplit, RawCopies
from stateproc.writers.rewrite.existing_operator import ExistingOperator
from stateproc.writers.rewrite.file_copy import CopyPlan, FileCopy
from stateproc.writers.sorting.entry_sort import NotByKeyGroup, key_group_portions
from stateproc.writers.sorting.external_sort import sorted_entries
from stateproc.writers.sorting.spill_buffer import SpillBuffer, SpilledEntries
from stateproc.writers.write_snapshot import WrittenSnapshot, finish
from stateproc.writers.write_spec import WriteSpec
from stateproc.writers.write_task import Source, WrittenFile, with_file, write_state_file

# Run functions in threads that all end with the call, whether it returns, fails or is interrupted.

Item = TypeVar("Item")
Result = TypeVar("Result")


class Stopped(Exception):
    """Ends a function whose result is not needed any more, because another one has failed."""


class Stop:
    """A flag by which running functions notice that they should end."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def checked(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the items. Raises Stopped between two of them."""
        for item in items:
            if self._event.is_set():
                raise Stopped
            yield item


def run_in_threads(
    items: Sequence[Item], function: Callable[[Item, Stop], Result], threads: int, name: str = "stateproc-write"
) -> list[Result]:
    """Call ``function`` for each item, in threads, and return the results in the order of the items.

    Args:
        items: What to do.
        function: Does it; it ends early if its second argument is set (`Stop.checked`).
        threads: The most threads. One item, or one thread, runs in the calling thread.
        name: The prefix of the threads' names.

    Raises:
        BaseException: What a function raised, of several the one of the first item; or KeyboardInterrupt. All functions
            have ended then.
    """
    stop = Stop()
    if threads < 2 or len(items) < 2:
        return [function(item, stop) for item in items]
    run = _ThreadedCalls(items, function, stop)
    workers = [
        threading.Thread(target=run.work, name=f"{name}-{number}", daemon=True)
        for number in range(min(threads, len(items)))
    ]
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        stop.set()
        _join(workers)
    return run.results()


def _join(workers: Sequence[threading.Thread]) -> None:
    """Wait until the threads have ended, also if the user interrupts the wait again."""
    for worker in workers:
        while worker.ident is not None and worker.is_alive():
            try:
                worker.join()
            except KeyboardInterrupt:
                continue


class _ThreadedCalls(Generic[Item, Result]):
    """What the threads of one call share."""

    def __init__(self, items: Sequence[Item], function: Callable[[Item, Stop], Result], stop: Stop) -> None:
        self._items, self._function, self._stop = items, function, stop
        self._lock = threading.Lock()
        self._next = 0
        self._results: dict[int, Result] = {}
        self._errors: dict[int, BaseException] = {}

    def work(self) -> None:
        """Take items until none is left; what each thread runs."""
        while (number := self._take()) is not None:
            try:
                self._results[number] = self._function(self._items[number], self._stop)
            except Stopped:
                return
            except BaseException as error:
                self._errors[number] = error
                self._stop.set()

    def _take(self) -> int | None:
        with self._lock:
            if self._stop.is_set or self._next >= len(self._items):
                return None
            self._next += 1
            return self._next - 1

    def results(self) -> list[Result]:
        if self._errors:
            raise self._errors[min(self._errors)]
        return [self._results[number] for number in range(len(self._items))]


# Encode Arrow data as entries, each set of rows once for all the states that it fills.

Read = Callable[[], Iterable[pa.RecordBatch]]
"""Reads entries (FILE_ENTRIES)."""


def encoded_sources(sources: Sequence[Source], threads: int) -> list[Read]:
    """Return functions that together read all rows and return their entries, to be called in threads."""
    by_frame: dict[int, list[Source]] = {}
    for source in sources:
        by_frame.setdefault(id(source.frame), []).append(source)
    shared = [_SharedRows(alike) for alike in by_frame.values()]
    return [rows.entries for rows in shared for _ in range(threads)]


class _SharedRows:
    """Rows whose batches several threads share; all states that they fill are encoded from a batch at once."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        names = dict.fromkeys(name for source in sources for name in source.columns.values())
        self._batches = arrow_batches(sources[0].frame, list(names))
        self._lock = threading.Lock()
        self._position = 0

    def entries(self) -> Iterator[pa.RecordBatch]:
        """Encode the batches that no other thread takes. Raises InvalidRows, InvalidOption."""
        while (taken := self._take()) is not None:
            position, batch = taken
            for source in self._sources:
                yield from source.encoding(_rows(source, batch, position))

    def _take(self) -> tuple[int, pa.RecordBatch] | None:
        """Return the next batch and the position of its first row; None at the end."""
        with self._lock:
            batch = next(self._batches, None)
            if batch is None:
                return None
            self._position += batch.num_rows
            return self._position - batch.num_rows, batch


def _rows(source: Source, batch: pa.RecordBatch, position: int) -> Iterator[pa.RecordBatch]:
    """The columns of a state by their roles; elements of operator state with their positions and subtasks."""
    columns = {role: batch.column(name) for role, name in source.columns.items()}
    if source.keyed:
        yield pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
        return
    columns[POSITION] = values_array(np.arange(position, position + batch.num_rows, dtype=np.int64))
    yield from element_rows(columns, source.parallelism, broadcast=source.broadcast)


# Find the splits whose entries belong to one state file as a whole, so that they are read when it is written.


def splits_by_file(copies: RawCopies) -> dict[int, list[EditedSplit]] | None:
    """Return the splits of an operator by the state file that all their entries belong to.

    Returns:
        Splits by the number of the file; None if the entries of a split belong to several, or to other key groups
        than they have.
    """
    found: dict[int, list[EditedSplit]] = {}
    for split in copies.splits:
        if split.rekey is not None:
            return None
        numbers = copies.files.numbers(split.split.key_groups)
        if len(numbers) > 1:
            return None
        for number in numbers:
            found.setdefault(number, []).append(split)
    return found


def streams_of(splits: Iterable[EditedSplit]) -> list[list[EditedSplit]]:
    """Combine splits to as few streams as possible in which key groups follow one another."""
    streams: list[list[EditedSplit]] = []
    last: list[int] = []
    for split in sorted(splits, key=lambda item: min(item.split.key_groups, default=0)):
        groups: Sequence[int] = split.split.key_groups
        if not groups:
            continue
        free = next((number for number, end in enumerate(last) if end < min(groups)), None)
        if free is None:
            streams.append([split])
            last.append(max(groups))
        else:
            streams[free].append(split)
            last[free] = max(groups)
    return streams


# Read entries in threads, assign them to their state files, and spill them until each file can be written.

_LEAST_HELD, _MOST_HELD, _ALL_HELD = 8 << 20, 24 << 20, 48 << 20
"""Bytes of entries that each thread buffers before it spills them, and the most of all threads.

5 million entries of 60 bytes take 2.0 s of CPU with 8 MB and 2.4 s with 32 MB, most of it in the kernel. But entries of
a key group are then read from more places, so that more bytes are buffered for large state: 80 million take 16 s and
324 MB with 24 MB in each of two threads, 20 s and 611 MB with 64 MB.
"""
_BATCHES = 64
"""The number of batches in temporary files that does not slow down reading."""


def held_bytes(stored_bytes: int | None, threads: int) -> int:
    """Return how many bytes each thread buffers before it spills them.

    Args:
        stored_bytes: The bytes of all entries, about; None if they are not known.
        threads: The number of threads.
    """
    wanted = _MOST_HELD if stored_bytes is None else min(_MOST_HELD, stored_bytes // _BATCHES)
    return max(_LEAST_HELD, min(wanted, _ALL_HELD // threads))


@contextmanager
def spilled(
    items: Sequence[Item],
    read: Callable[[Item], Iterable[pa.RecordBatch]],
    threads: int,
    stored_bytes: int | None = None,
) -> Iterator[SpilledEntries]:
    """Read all items in threads, and spill their entries (FILE_ENTRIES) to a temporary file per thread.

    Args:
        items: What to read.
        threads: The most threads.
        stored_bytes: The bytes of all entries, about; None if they are not known.

    Yields:
        All entries, while the context lasts.

    Raises:
        SnapshotError: Reading fails, or writing a temporary file (WriteFailed).
    """
    with ExitStack() as stack:
        own, buffers = threading.local(), []
        held = held_bytes(stored_bytes, threads)
        lock = threading.Lock()

        def spill(item: Item, stop: Stop) -> None:
            if not hasattr(own, "buffer"):
                with lock:
                    own.buffer = SpillBuffer(stack, held)
                    buffers.append(own.buffer)
            for batch in stop.checked(read(item)):
                own.buffer.add(batch)

        run_in_threads(items, spill, threads)
        run_in_threads(buffers, lambda buffer, _: buffer.finish(), threads)
        yield SpilledEntries([batch for buffer in buffers for batch in buffer.finish()])


_COPY_THREADS = 4
_PORTION_BYTES, _SORTED_BYTES = 2 << 20, 8 << 20
"""Bytes of entries that a thread sorts at a time, and of a single key group twice those above which it is spilled."""
_SPILLED_PORTION = 8 << 20
"""Bytes of spilled entries that a thread sorts at a time."""
_MOST_STREAMS = 64
"""With more splits of one state file that would be open at the same time, its entries are spilled instead."""


@dataclass(frozen=True)
class _FileSplits:
    """A state file that is written from splits of its own."""

    number: int
    splits: Sequence[EditedSplit]


class LocalEngine:
    """Writes savepoints in this process.

    Args:
        threads: The number of threads; None for the available cores.
    """

    name = "local"

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or available_cores()

    @property
    def default_parallelism(self) -> int:
        return self._threads

    def check(self) -> None:
        """Every process can run the local engine."""

    def check_space(self, plan: SavepointPlan) -> None:
        needed = plan.totals["temporary_bytes"]
        try:
            directory = tempfile.gettempdir()
            free = shutil.disk_usage(directory).free
        except OSError:
            return  # The write says what is wrong, if it needs temporary files at all.
        if needed > free:
            raise WriteFailed(
                f"the write takes about {human_bytes(needed)} of temporary space, and {directory} has "
                f"{human_bytes(free)}",
                advice="set TMPDIR to a directory with more space",
            )

    def described(self, description: str) -> AbstractContextManager[None]:
        return nullcontext()

    def copy_files(self, plan: CopyPlan, staging: Staging) -> list[RelativeFileHandle | ByteStreamHandle]:
        if not plan.copies:
            return []
        progress = WriteProgress()
        progress.expect_files(plan.bytes)

        def copied(copy: FileCopy, _: Stop) -> RelativeFileHandle | ByteStreamHandle:
            handle = copy.run(staging)
            progress.copied(copy.bytes)
            return handle

        with reported_progress(progress):
            return run_in_threads(plan.copies, copied, max(self._threads, _COPY_THREADS))

    def write_entries(self, operators: Sequence[PlannedOperator], spec: WriteSpec, commit: Commit) -> WrittenSnapshot:
        progress = WriteProgress()
        with reported_progress(progress):
            return finish(spec, commit, self._written(operators, spec, progress))

    def _written(
        self, operators: Sequence[PlannedOperator], spec: WriteSpec, progress: WriteProgress
    ) -> list[WrittenFile]:
        """Write all state files."""
        of_file: dict[int, list[EditedSplit]] = {}
        together: list[Read] = []
        sources: list[Source] = []
        written: list[WrittenFile] = []
        for index, item in enumerate(operators):
            operator, own = item.operator, item.sources
            _refuse_spark(item)
            sources += own
            copies = operator.raw_copies(spec, index) if isinstance(operator, ExistingOperator) else None
            if copies is None or not len(copies):
                continue
            progress.expect(copies.bytes)
            found = None if own else splits_by_file(copies)
            reads = [partial(_read_copy, copies, progress, number) for number in range(len(copies))]
            if own:
                together += reads
            elif found is None:
                written += self._spilled(spec, reads, progress, copies.bytes)
            else:
                of_file.update(found)
        if sources:
            progress.expect(None)
            together += encoded_sources(sources, self._threads)
            written += self._spilled(spec, together, progress)
        done = {item.number for item in written}
        # Files without entries register their states, too.
        rest = [_FileSplits(n, of_file.get(n, ())) for n in range(len(spec.state_files)) if n not in done]
        return written + run_in_threads(rest, partial(_write_streams, spec, progress), self._threads)

    def _spilled(
        self, spec: WriteSpec, reads: Sequence[Read], progress: WriteProgress, stored_bytes: int | None = None
    ) -> list[WrittenFile]:
        """Write the state files of entries that come in any order."""
        with spilled(reads, lambda read: progress.read(read()), self._threads, stored_bytes) as entries:
            write = partial(_write_spilled, spec, progress, entries)
            return run_in_threads(entries.files, write, self._threads)


def _refuse_spark(item: PlannedOperator) -> None:
    """Raise InvalidOption if states of the operator are filled from DataFrames of Spark."""
    if any(is_spark(source.frame) for source in item.sources):
        raise InvalidOption(
            f"operator {item.operator.uid or item.operator.operator_id} has states from DataFrames of Spark",
            advice="give the Spark session: SavepointWriter.new_savepoint(spark); or Arrow data: df.toArrow()",
        )


def _write_streams(spec: WriteSpec, progress: WriteProgress, item: _FileSplits, stop: Stop) -> WrittenFile:
    """Write a state file from its own splits."""
    streams = streams_of(item.splits)
    state_file = spec.state_files[item.number]
    if len(streams) == 1:
        # RocksDB and this package store entries in order, so that nothing has to be sorted: 0.6 s of CPU and 40 MB less
        # of 5 million entries of 60 bytes. Savepoints of Flink's heap are out of order from the first key groups on.
        try:
            entries = _read(streams[0], item.number, progress)
            return write_state_file(spec, item.number, state_file, _raw(stop.checked(progress.written(entries))))
        except UnorderedEntries:
            pass  # As below.
    if len(streams) <= _MOST_STREAMS:
        try:
            portions = key_group_portions([_read(stream, item.number, progress) for stream in streams], _PORTION_BYTES)
            entries = (batch for portion in portions for batch in sorted_entries(portion, _SORTED_BYTES))
            return write_state_file(spec, item.number, state_file, _raw(stop.checked(progress.written(entries))))
        except NotByKeyGroup:
            pass  # The file that was begun is removed; it is written from sorted entries instead.
    ordered = sorted_entries(stop.checked(_read(item.splits, item.number, progress)))
    return write_state_file(spec, item.number, state_file, _raw(stop.checked(progress.written(ordered))))


def _write_spilled(
    spec: WriteSpec, progress: WriteProgress, entries: SpilledEntries, number: int, stop: Stop
) -> WrittenFile:
    """Write a state file from spilled entries."""
    rows = entries.sorted(_SPILLED_PORTION, number)
    return write_state_file(spec, number, spec.state_files[number], _raw(stop.checked(progress.written(rows))))


def _read(splits: Iterable[EditedSplit], number: int, progress: WriteProgress) -> Iterator[pa.RecordBatch]:
    """The entries (FILE_ENTRIES) of splits, one after another."""
    for split in splits:
        for batch in split.read():
            yield with_file(batch, number)
        progress.done(split.split.bytes)


def _read_copy(copies: RawCopies, progress: WriteProgress, number: int) -> Iterator[pa.RecordBatch]:
    """The entries (FILE_ENTRIES) of one split, with the state files that they belong to."""
    yield from copies.read(number)
    progress.done(copies.splits[number].split.bytes)


def _raw(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.select(RAW_ENTRIES.names)
