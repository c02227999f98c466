"""The local engine: copies files, and writes state files from entries, in threads of this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from stateproc.errors import InvalidOption
from stateproc.metadata.handles import ByteStreamHandle, RelativeFileHandle
from stateproc.model.parallel_scan import available_cores
from stateproc.writers.assemble_metadata import CompletedWrite, finish
from stateproc.writers.bootstrap.frame_columns import is_spark
from stateproc.writers.commit.commit import Commit
from stateproc.writers.commit.staging import Staging
from stateproc.writers.file_assignment import Source, with_target
from stateproc.writers.formats.common.entry_batches import RAW_ENTRIES
from stateproc.writers.local.arrow_sources import Read, encoded_sources
from stateproc.writers.local.progress import WriteProgress, reported_progress
from stateproc.writers.local.spilled_operator import spilled
from stateproc.writers.local.target_streams import splits_by_target, streams_of
from stateproc.writers.local.threads import Stop, run_in_threads
from stateproc.writers.rewrite.existing_operator import EditedSplit, ExistingOperator, RawCopies
from stateproc.writers.rewrite.file_copy import CopyPlan, FileCopy
from stateproc.writers.scaled_operators import AnyOperator
from stateproc.writers.sorting.external_sort import sorted_entries, sorted_portions
from stateproc.writers.sorting.key_group_merge import NotByKeyGroup, key_group_portions
from stateproc.writers.sorting.spill_buffer import SpilledEntries
from stateproc.writers.write_plan import WriteJob
from stateproc.writers.write_task import WrittenTarget, write_target

_COPY_THREADS = 4
_PORTION_BYTES, _SORTED_BYTES = 4 << 20, 16 << 20
"""Bytes of entries that a thread sorts at a time, and above which a single key group is sorted as runs on disk."""
_MOST_STREAMS = 64
"""With more splits of one state file that would be open at the same time, its entries are spilled instead."""


@dataclass(frozen=True)
class _TargetSplits:
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

    def write_entries(self, operators: Sequence[AnyOperator], job: WriteJob, commit: Commit) -> CompletedWrite:
        progress = WriteProgress()
        with reported_progress(progress):
            return finish(job, commit, self._written(operators, job, progress))

    def _written(self, operators: Sequence[AnyOperator], job: WriteJob, progress: WriteProgress) -> list[WrittenTarget]:
        """Write all state files."""
        of_target: dict[int, list[EditedSplit]] = {}
        together: list[Read] = []
        sources: list[Source] = []
        written: list[WrittenTarget] = []
        for index, operator in enumerate(operators):
            own = _checked_sources(operator, job, index)
            sources += own
            copies = operator.raw_copies(job, index) if isinstance(operator, ExistingOperator) else None
            if copies is None or not len(copies):
                continue
            progress.expect(copies.bytes)
            found = None if own else splits_by_target(copies)
            reads = [partial(_read_copy, copies, progress, number) for number in range(len(copies))]
            if own:
                together += reads
            elif found is None:
                written += self._spilled(job, reads, progress, copies.bytes)
            else:
                of_target.update(found)
        if sources:
            progress.expect(None)
            together += encoded_sources(sources, self._threads)
            written += self._spilled(job, together, progress)
        done = {item.target for item in written}
        # Targets without entries register their states, too.
        rest = [_TargetSplits(n, of_target.get(n, ())) for n in range(len(job.targets)) if n not in done]
        return written + run_in_threads(rest, partial(_write_streams, job, progress), self._threads)

    def _spilled(
        self, job: WriteJob, reads: Sequence[Read], progress: WriteProgress, stored_bytes: int | None = None
    ) -> list[WrittenTarget]:
        """Write the state files of entries that come in any order."""
        with spilled(reads, lambda read: progress.read(read()), self._threads, stored_bytes) as entries:
            write = partial(_write_spilled, job, progress, entries)
            return run_in_threads(entries.targets, write, self._threads)


def _checked_sources(operator: AnyOperator, job: WriteJob, index: int) -> list[Source]:
    """Return the rows that fill states of the operator. Raises InvalidOption unless they are Arrow data."""
    sources = list(operator.sources(job, index))
    if any(is_spark(source.frame) for source in sources):
        raise InvalidOption(
            f"operator {operator.uid or operator.operator_id} has states from DataFrames of Spark",
            advice="give the Spark session: SavepointWriter.new_savepoint(spark); or Arrow data: df.toArrow()",
        )
    return sources


def _write_streams(job: WriteJob, progress: WriteProgress, item: _TargetSplits, stop: Stop) -> WrittenTarget:
    """Write a state file from its own splits."""
    streams = streams_of(item.splits)
    target = job.targets[item.number]
    if len(streams) <= _MOST_STREAMS:
        try:
            portions = key_group_portions([_read(stream, item.number, progress) for stream in streams], _PORTION_BYTES)
            entries = sorted_portions(portions, _SORTED_BYTES)
            return write_target(job, item.number, target, _raw(stop.checked(progress.written(entries))))
        except NotByKeyGroup:
            pass  # The file that was begun is removed; it is written from sorted entries instead.
    entries = sorted_entries(stop.checked(_read(item.splits, item.number, progress)))
    return write_target(job, item.number, target, _raw(stop.checked(progress.written(entries))))


def _write_spilled(
    job: WriteJob, progress: WriteProgress, entries: SpilledEntries, number: int, stop: Stop
) -> WrittenTarget:
    """Write a state file from spilled entries."""
    portions = entries.portions(_PORTION_BYTES, number)
    rows = sorted_portions(portions, _SORTED_BYTES)
    return write_target(job, number, job.targets[number], _raw(stop.checked(progress.written(rows))))


def _read(splits: Iterable[EditedSplit], number: int, progress: WriteProgress) -> Iterator[pa.RecordBatch]:
    """The entries (TARGETED) of splits, one after another."""
    for split in splits:
        for batch in split.read():
            yield with_target(batch, number)
        progress.done(split.split.bytes)


def _read_copy(copies: RawCopies, progress: WriteProgress, number: int) -> Iterator[pa.RecordBatch]:
    """The entries (TARGETED) of one split, with the state files that they belong to."""
    yield from copies.read(number)
    progress.done(copies.splits[number].split.bytes)


def _raw(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.select(RAW_ENTRIES.names)
