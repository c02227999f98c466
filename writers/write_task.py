"""What a task does: one target's entries into one state file."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stateproc.errors import DuplicateKey, InvalidEntries, SnapshotError
from stateproc.metadata.handles import (
    IncrementalHandle,
    KeyedHandle,
    KeyGroupsHandle,
    OperatorHandle,
    OperatorStreamHandle,
)
from stateproc.readers.common.state_descriptor import keyed_state
from stateproc.writers.commit.verify import verify_canonical, verify_heap, verify_operator_state
from stateproc.writers.formats.canonical.writer import CanonicalWriter
from stateproc.writers.formats.common.duplicate_keys import with_row
from stateproc.writers.formats.common.entry_batches import RAW_ENTRIES, cuts
from stateproc.writers.formats.heap.writer import HeapWriter
from stateproc.writers.formats.operator_state.writer import OperatorStateWriter
from stateproc.writers.formats.rocksdb.verify import verify_rocksdb
from stateproc.writers.formats.rocksdb.writer import RocksDbWriter
from stateproc.writers.write_plan import Format, KeyedPart, OperatorJob, OperatorPart, Target, WriteJob

TARGET = "target"
TARGETED = RAW_ENTRIES.insert(0, pa.field(TARGET, pa.int32(), nullable=False))
"""Raw entries and the number of the file they go to, as they are shuffled. Entries of operator state have key group 0;
their key is what orders them (8 bytes), or a broadcast state's map key."""
_NO_ENTRIES = pa.RecordBatch.from_pylist([], RAW_ENTRIES)
_CANONICAL_TYPE, _OPERATOR_TYPE = 7, 4
_HEAP_TYPE, _HEAP_TYPE_BEFORE_IDS = 12, 3
_ROCKSDB_TYPE, _ROCKSDB_TYPE_BEFORE_IDS = 11, 5


@dataclass(frozen=True)
class Written:
    """What became of a target: its handle, None if there was nothing to write."""

    target: int
    entries: int
    keyed: KeyedHandle | None = None
    operator: OperatorHandle | None = None


def write_targets(job: WriteJob, batches: Iterable[pa.RecordBatch]) -> list[Written]:
    """Write the files of all targets in ``batches`` (TARGETED), which are sorted by target, key group, state id, key.

    Raises WriteFailed, InvalidEntries; then nothing stays of the file in hand.
    """
    targets, written = job.targets, []
    for number, runs in _by_target(batches):
        if not 0 <= number < len(targets):
            raise InvalidEntries(f"entries for file {number} of {len(targets)}")
        written.append(_write_target(job, number, targets[number], runs))
    return written


def write_empty(job: WriteJob, written: Iterable[Written]) -> list[Written]:
    """Write files without entries for all targets that have not been written.

    They register the states, as those of a Flink subtask do that holds none: restoring checks their serializers, and
    readers find the states.
    """
    done = {item.target for item in written}
    targets = enumerate(job.targets)
    return [_write_target(job, number, target, ()) for number, target in targets if number not in done]


def _write_target(job: WriteJob, number: int, target: Target, runs: Iterable[pa.RecordBatch]) -> Written:
    operator = job.operators[target.operator]
    try:
        if target.key_groups is not None and operator.keyed is not None:
            return _KEYED[job.format](job, number, target, operator, operator.keyed, runs)
        if operator.operator is not None:
            return _operator_state(job, number, operator.operator, runs)
    except DuplicateKey as error:
        shown = error if operator.keyed is None else with_row(error, operator.keyed, job.context)
        raise shown.at(operator=operator.display) from error
    except SnapshotError as error:
        raise error.at(operator=operator.display) from error
    raise InvalidEntries(f"entries for state that operator {operator.display} does not have")


def _canonical(
    job: WriteJob, number: int, target: Target, operator: OperatorJob, part: KeyedPart, runs: Iterable[pa.RecordBatch]
) -> Written:
    assert target.key_groups is not None
    names = part.names
    with job.staging.new_file() as file:
        writer = CanonicalWriter(
            file, part.header(job.compressed), names, target.key_groups, operator.max_parallelism,
            compressed=job.compressed,
        )  # fmt: skip
        for batch in runs:
            writer.write(batch)
        offsets = writer.close()
        stream = file.close()
        handle = KeyGroupsHandle(_CANONICAL_TYPE, target.key_groups.start, offsets, stream)
        if job.verify:
            verify_canonical(
                handle, job.staging.location, writer.entries, names, operator.max_parallelism,
                compressed=job.compressed,
            )  # fmt: skip
    return Written(number, int(writer.entries.sum()), keyed=handle)


def _native_heap(
    job: WriteJob, number: int, target: Target, operator: OperatorJob, part: KeyedPart, runs: Iterable[pa.RecordBatch]
) -> Written:
    assert target.key_groups is not None
    states = [keyed_state(info, index, part.key) or info.name for index, info in enumerate(part.states)]
    with job.staging.new_file() as file:
        writer = HeapWriter(
            file, part.header(job.compressed), states, target.key_groups, job.context, compressed=job.compressed
        )
        for batch in runs:
            writer.write(batch)
        offsets = writer.close()
        with_id = job.release.has_handle_ids
        handle = KeyGroupsHandle(
            _HEAP_TYPE if with_id else _HEAP_TYPE_BEFORE_IDS, target.key_groups.start, offsets, file.close(),
            str(uuid.uuid4()) if with_id else None,
        )  # fmt: skip
        if job.verify:
            verify_heap(handle, job.staging.location, writer.entries, states, job.context, compressed=job.compressed)
    return Written(number, int(writer.entries.sum()), keyed=handle)


def _native_rocksdb(
    job: WriteJob, number: int, target: Target, operator: OperatorJob, part: KeyedPart, runs: Iterable[pa.RecordBatch]
) -> Written:
    """RocksDB compresses blocks by options of its own: the header of such a snapshot always says uncompressed."""
    assert target.key_groups is not None
    names, groups, staging = part.names, target.key_groups, job.staging
    with (
        staging.new_file() as meta,
        RocksDbWriter(staging.new_file, names, groups, operator.max_parallelism, job.rocksdb) as writer,
    ):
        meta.write(part.header(False))
        for batch in runs:
            writer.write(batch)
        private, with_id = writer.close(), job.release.has_handle_ids
        streams = [meta.close(), *(stream for _, stream in private)]
        handle = IncrementalHandle(
            _ROCKSDB_TYPE if with_id else _ROCKSDB_TYPE_BEFORE_IDS, job.checkpoint_id, str(uuid.uuid4()),
            groups.start, len(groups), sum(stream.size for stream in streams) if with_id else None, streams[0], (),
            private, str(uuid.uuid4()) if with_id else None,
        )  # fmt: skip
        if job.verify:
            verify_rocksdb(handle, staging.location, writer.entries, names, operator.max_parallelism)
    return Written(number, int(writer.entries.sum()), keyed=handle)


_KEYED = {Format.CANONICAL: _canonical, Format.NATIVE_HASHMAP: _native_heap, Format.NATIVE_ROCKSDB: _native_rocksdb}
"""How keyed state is written in each format."""


def _operator_state(job: WriteJob, number: int, part: OperatorPart, runs: Iterable[pa.RecordBatch]) -> Written:
    version = job.release.operator_header_version
    compressed = job.compressed and version >= 6
    entries = 0
    with job.staging.new_file() as file:
        writer = OperatorStateWriter(file, part.states, part.broadcast, version=version, compressed=compressed)
        pairs: dict[int, list[pa.RecordBatch]] = {}
        for state_id, batch in _by_state(runs):
            entries += batch.num_rows
            if state_id < len(part.states):
                writer.elements(part.name(state_id), batch.column("value"))
            else:
                pairs.setdefault(state_id, []).append(batch)
        for state_id in range(len(part.states), len(part.states) + len(part.broadcast)):
            # Also without entries: Flink reads their number from where the first offset points to.
            table = pa.Table.from_batches(pairs.get(state_id) or [_NO_ENTRIES])
            keys, values = (_whole(table.column(name)) for name in ("key", "value"))
            writer.entries(part.name(state_id), keys, values)
        states = writer.close()
        handle = OperatorStreamHandle(_OPERATOR_TYPE, states, file.close())
        if job.verify:
            verify_operator_state(handle, job.staging.location, compressed=compressed)
    return Written(number, entries, operator=handle)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    wide = column.cast(pa.large_binary())
    return wide.chunk(0) if wide.num_chunks == 1 else wide.combine_chunks()


def _by_target(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
    """(target, its batches) one after another; a target's batches are to be taken before the next target is."""
    runs = _Runs(_runs(batches, TARGET))
    while runs.number is not None:
        yield runs.number, runs.of(runs.number)


def _by_state(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    return _runs(batches, "state_id")


def _runs(batches: Iterable[pa.RecordBatch], column: str) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(number, rows) of neighbours with the same number in ``column``."""
    for batch in batches:
        numbers: Any = batch.column(column).to_numpy(zero_copy_only=False)
        for start, stop in itertools.pairwise(cuts(numbers)):
            yield int(numbers[start]), batch.slice(start, stop - start)


class _Runs:
    """Runs of batches with the same number, looked at one ahead."""

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
