"""Write the entries of targets to state files, in Spark's tasks, on the driver or in threads."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import numbers_of
from stateproc.errors import DuplicateKey, InvalidEntries, SnapshotError
from stateproc.metadata.handles import KeyedHandle, OperatorHandle, OperatorStreamHandle
from stateproc.writers.formats.common.byte_gather import empty_row_bytes, entry_batch
from stateproc.writers.formats.common.duplicate_key_row import with_row
from stateproc.writers.formats.common.entry_batches import RAW_ENTRIES, TARGET, cuts
from stateproc.writers.formats.common.state_headers import OperatorStateHeader
from stateproc.writers.formats.keyed_file import KeyedFileSpec
from stateproc.writers.formats.keyed_formats import KEYED_FORMATS
from stateproc.writers.formats.operator_state.verify import verify_operator_state
from stateproc.writers.formats.operator_state.writer import OperatorStateWriter
from stateproc.writers.write_plan import OperatorJob, Target, WriteJob

_NO_ENTRIES = entry_batch(np.empty(0), 0, empty_row_bytes(0), empty_row_bytes(0))
_OPERATOR_TYPE = 4


@dataclass(frozen=True)
class WrittenTarget:
    """A written target: the handle of its file, and the number of entries; ``state_entries``: by state id."""

    target: int
    state_entries: tuple[int, ...]
    keyed: KeyedHandle | None = None
    operator: OperatorHandle | None = None

    @property
    def entries(self) -> int:
        """The number of all entries."""
        return sum(self.state_entries)


def write_targets(job: WriteJob, batches: Iterable[pa.RecordBatch]) -> list[WrittenTarget]:
    """Write the files of all targets in ``batches`` (TARGETED), which are sorted by target, key group, state id, key.

    Raises WriteFailed, InvalidEntries; the current file is removed then.
    """
    targets, written = job.targets, []
    for number, runs in _by_target(batches):
        if not 0 <= number < len(targets):
            raise InvalidEntries(f"entries for file {number} of {len(targets)}")
        written.append(write_target(job, number, targets[number], runs))
    return written


def write_empty(job: WriteJob, written: Iterable[WrittenTarget]) -> list[WrittenTarget]:
    """Write files without entries for all targets that have not been written.

    They register the states, like those of a Flink subtask without entries: restoring checks their serializers, and
    readers find the states.
    """
    written_targets = {item.target for item in written}
    targets = enumerate(job.targets)
    return [write_target(job, number, target, ()) for number, target in targets if number not in written_targets]


def write_target(job: WriteJob, number: int, target: Target, runs: Iterable[pa.RecordBatch]) -> WrittenTarget:
    """Write the file of one target.

    Args:
        job: the write.
        number: the target's position in the job's targets.
        target: the target.
        runs: its entries (RAW_ENTRIES), sorted by key group, state id and key.

    Raises WriteFailed, InvalidEntries; the file is removed then.
    """
    operator = job.operators[target.operator]
    try:
        if target.key_groups is not None and operator.keyed is not None:
            return _keyed_state(job, number, target, operator, runs)
        if operator.operator is not None:
            return _operator_state(job, number, operator.operator, runs)
    except DuplicateKey as error:
        shown = error if operator.keyed is None else with_row(error, operator.keyed, job.context)
        raise shown.at(operator=operator.display) from error
    except SnapshotError as error:
        raise error.at(operator=operator.display) from error
    raise InvalidEntries(f"entries for state that operator {operator.display} does not have")


def _keyed_state(
    job: WriteJob, number: int, target: Target, operator: OperatorJob, runs: Iterable[pa.RecordBatch]
) -> WrittenTarget:
    assert target.key_groups is not None and operator.keyed is not None
    file = KeyedFileSpec(
        header=operator.keyed,
        key_groups=target.key_groups,
        max_parallelism=operator.max_parallelism,
        new_file=job.staging.new_file,
        location=job.staging.location,
        release=job.release,
        checkpoint_id=job.checkpoint_id,
        compressed=job.compressed,
        context=job.context,
        rocksdb=job.rocksdb,
    )
    format_ = KEYED_FORMATS[job.format]
    with format_.open(file) as opened:
        for batch in runs:
            opened.write(batch)
        handle = opened.close()
        if job.verify:
            format_.verify(file, handle, opened.entries)
    return WrittenTarget(number, tuple(opened.entries.sum(axis=0).tolist()), keyed=handle)


def _operator_state(
    job: WriteJob, number: int, part: OperatorStateHeader, runs: Iterable[pa.RecordBatch]
) -> WrittenTarget:
    version = job.release.operator_header_version
    compressed = job.compressed and version >= 6
    entries = [0] * (len(part.states) + len(part.broadcast))
    with job.staging.new_file() as file:
        writer = OperatorStateWriter(file, part.states, part.broadcast, version=version, compressed=compressed)
        pairs: dict[int, list[pa.RecordBatch]] = {}
        for state_id, batch in _by_state(runs):
            entries[state_id] += batch.num_rows
            if state_id < len(part.states):
                writer.elements(part.name(state_id), batch.column("value"))
            else:
                pairs.setdefault(state_id, []).append(batch)
        for state_id in range(len(part.states), len(part.states) + len(part.broadcast)):
            # Also without entries: Flink reads their number at the first offset.
            table = pa.Table.from_batches(pairs.get(state_id) or [_NO_ENTRIES])
            keys, values = (_whole(table.column(name)) for name in ("key", "value"))
            writer.entries(part.name(state_id), keys, values)
        states = writer.close()
        handle = OperatorStreamHandle(_OPERATOR_TYPE, states, file.close())
        if job.verify:
            verify_operator_state(handle, job.staging.location, compressed=compressed)
    return WrittenTarget(number, tuple(entries), operator=handle)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    wide = column.cast(pa.large_binary())
    return wide.chunk(0) if wide.num_chunks == 1 else wide.combine_chunks()


def _by_target(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
    """Yield (target, its batches); a target's batches must be consumed before the next target."""
    runs = _Runs(_runs(batches, TARGET))
    while runs.number is not None:
        yield runs.number, runs.of(runs.number)


def _by_state(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    return _runs(batches, "state_id")


def _runs(batches: Iterable[pa.RecordBatch], column: str) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield (number, rows) of consecutive rows with the same number in ``column``."""
    for batch in batches:
        numbers = numbers_of(batch.column(column))
        for start, stop in itertools.pairwise(cuts(numbers)):
            yield int(numbers[start]), batch.slice(start, stop - start)


class _Runs:
    """Runs of batches with the same number, read one batch ahead."""

    def __init__(self, runs: Iterator[tuple[int, pa.RecordBatch]]) -> None:
        self._runs = runs
        self._batch: pa.RecordBatch | None = None
        self.number: int | None = None
        self._step()

    def _step(self) -> None:
        self.number, self._batch = next(self._runs, (None, None))

    def of(self, number: int) -> Iterator[pa.RecordBatch]:
        while self.number == number:
            batch = self._batch
            self._step()
            assert batch is not None
            yield batch.select(RAW_ENTRIES.names)
