"""Write entries to state files, in Spark's tasks, on the driver or in threads."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import empty_row_bytes, numbers_of, values_array
from stateproc.errors import DuplicateKey, InvalidEntries, SnapshotError
from stateproc.metadata.keyed_handles import KeyedHandle
from stateproc.metadata.operator_handles import OperatorHandle, OperatorStreamHandle
from stateproc.readers.entry_decoder import decode_entries
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.row_schema import KEY_GROUP
from stateproc.readers.state_descriptor import StateDescriptor, StateKind, keyed_state
from stateproc.serializers import LayoutContext
from stateproc.writers.formats.entry_batches import FILE, FILE_ENTRIES, RAW_ENTRIES, cuts, entry_batch
from stateproc.writers.formats.keyed_file import KeyedFileSpec, KeyedStateHeader, OperatorStateHeader
from stateproc.writers.formats.keyed_formats import KEYED_FORMATS
from stateproc.writers.formats.operator_state import OperatorStateWriter, verify_operator_state
from stateproc.writers.write_spec import OperatorWriteSpec, StateFile, WriteSpec

# Decode the entry of a duplicate key, to show it as a row in the error.

_LONGEST_SHOWN = 200
_MANY = 1 << 20


def with_row(error: DuplicateKey, header: KeyedStateHeader, context: LayoutContext) -> DuplicateKey:
    """Return the error with the row of its entry, or unchanged if the entry is unknown or cannot be decoded."""
    if error.entry is None:
        return error
    group, state_id, key, value = error.entry
    state = keyed_state(header.states[state_id], state_id, header.key)
    if state is None or len(key) + len(value) > _MANY:
        return error
    try:
        row = _row(state, group, key, value, context)
    except SnapshotError:  # a type without a decoder: the message has the key's bytes
        return error
    shown = ", ".join(f"{name}={_short(repr(item))}" for name, item in row.items() if name != KEY_GROUP)
    return DuplicateKey(f"{error.message}: {shown}", where=replace(error.where, state=state.name), advice=error.advice)


def _row(state: StateDescriptor, group: int, key: bytes, value: bytes, context: LayoutContext) -> dict[str, object]:
    data = np.frombuffer(key + value, dtype=np.uint8)
    ranges = np.array([[0], [len(key)], [len(key)], [len(data)]], dtype=np.int64)
    entries = RawEntries(data, np.array([group], dtype=np.int32), ranges, "", 0)
    batches = list(decode_entries([entries], state, replace(context, tail=True), flatten=state.kind is StateKind.MAP))
    found: dict[str, object] = pa.Table.from_batches(batches).slice(0, 1).to_pylist()[0]
    return found


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


_NO_ENTRIES = entry_batch(np.empty(0), 0, empty_row_bytes(0), empty_row_bytes(0))
_OPERATOR_TYPE = 4


@dataclass(frozen=True)
class WrittenFile:
    """A written state file: its number, its handle, and the number of entries; ``state_entries``: by state id."""

    number: int
    state_entries: tuple[int, ...]
    keyed: KeyedHandle | None = None
    operator: OperatorHandle | None = None

    @property
    def entries(self) -> int:
        """The number of all entries."""
        return sum(self.state_entries)


def write_state_files(spec: WriteSpec, batches: Iterable[pa.RecordBatch]) -> list[WrittenFile]:
    """Write all state files in ``batches`` (FILE_ENTRIES), which are sorted by file, key group, state id, key.

    Raises WriteFailed, InvalidEntries; the current file is removed then.
    """
    state_files, written = spec.state_files, []
    for number, runs in _by_file(batches):
        if not 0 <= number < len(state_files):
            raise InvalidEntries(f"entries for file {number} of {len(state_files)}")
        written.append(write_state_file(spec, number, state_files[number], runs))
    return written


def write_empty(spec: WriteSpec, written: Iterable[WrittenFile]) -> list[WrittenFile]:
    """Write those state files, without entries, that have not been written.

    They register the states, like those of a Flink subtask without entries: restoring checks their serializers, and
    readers find the states.
    """
    written_files = {item.number for item in written}
    return [
        write_state_file(spec, number, state_file, ())
        for number, state_file in enumerate(spec.state_files)
        if number not in written_files
    ]


def write_state_file(
    spec: WriteSpec, number: int, state_file: StateFile, runs: Iterable[pa.RecordBatch]
) -> WrittenFile:
    """Write one state file.

    Args:
        number: its position in the spec's state files.
        runs: its entries (RAW_ENTRIES), sorted by key group, state id and key.

    Raises WriteFailed, InvalidEntries; the file is removed then.
    """
    operator = spec.operators[state_file.operator]
    try:
        if state_file.key_groups is not None and operator.keyed is not None:
            return _keyed_state(spec, number, state_file, operator, runs)
        if operator.operator is not None:
            return _operator_state(spec, number, operator.operator, runs)
    except DuplicateKey as error:
        shown = error if operator.keyed is None else with_row(error, operator.keyed, spec.context)
        raise shown.at(operator=operator.display) from error
    except SnapshotError as error:
        raise error.at(operator=operator.display) from error
    raise InvalidEntries(f"entries for state that operator {operator.display} does not have")


def _keyed_state(
    spec: WriteSpec, number: int, state_file: StateFile, operator: OperatorWriteSpec, runs: Iterable[pa.RecordBatch]
) -> WrittenFile:
    assert state_file.key_groups is not None and operator.keyed is not None
    file = KeyedFileSpec(
        header=operator.keyed,
        key_groups=state_file.key_groups,
        max_parallelism=operator.max_parallelism,
        new_file=spec.staging.new_file,
        location=spec.staging.location,
        release=spec.release,
        checkpoint_id=spec.checkpoint_id,
        compressed=spec.compressed,
        context=spec.context,
        rocksdb=spec.rocksdb,
    )
    format_ = KEYED_FORMATS[spec.format]
    if operator.collisions is not None:
        runs = operator.collisions.checked(runs)
    with format_.open(file) as opened:
        for batch in runs:
            opened.write(batch)
        handle = opened.close()
        if spec.verify:
            format_.verify(file, handle, opened.entries)
    return WrittenFile(number, tuple(opened.entries.sum(axis=0).tolist()), keyed=handle)


def _operator_state(
    spec: WriteSpec, number: int, part: OperatorStateHeader, runs: Iterable[pa.RecordBatch]
) -> WrittenFile:
    version = spec.release.operator_header_version
    compressed = spec.compressed and version >= 6
    entries = [0] * len(part.infos)
    with spec.staging.new_file() as file:
        writer = OperatorStateWriter(file, part.states, part.broadcast, version=version, compressed=compressed)
        pairs: dict[int, list[pa.RecordBatch]] = {}
        for state_id, batch in _by_state(runs):
            entries[state_id] += batch.num_rows
            if state_id < len(part.states):
                writer.elements(part.name(state_id), batch.column("value"))
            else:
                pairs.setdefault(state_id, []).append(batch)
        for state_id in range(len(part.states), len(part.infos)):
            # Also without entries: Flink reads their number at the first offset.
            table = pa.Table.from_batches(pairs.get(state_id) or [_NO_ENTRIES])
            keys, values = (_whole(table.column(name)) for name in ("key", "value"))
            writer.entries(part.name(state_id), keys, values)
        states = writer.close()
        handle = OperatorStreamHandle(_OPERATOR_TYPE, states, file.close())
        if spec.verify:
            verify_operator_state(handle, spec.staging.location, compressed=compressed)
    return WrittenFile(number, tuple(entries), operator=handle)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    wide = column.cast(pa.large_binary())
    return wide.chunk(0) if wide.num_chunks == 1 else wide.combine_chunks()


def _by_file(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
    """Yield (number of a state file, its batches), which must be consumed before the next file."""
    runs = _Runs(_runs(batches, FILE))
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


# Assign entries to the state files that they belong to.

_MOST_BYTES = 1 << 30

Encoding = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Batches of rows to batches of FILE_ENTRIES; picklable."""


class Encoder(Protocol):
    """Encodes rows as entries; picklable."""

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch: ...


@dataclass(frozen=True)
class Source:
    """A DataFrame, the names of its columns by their roles, and the encoding of its rows to FILE_ENTRIES.

    ``keyed``: rows have keys, else they are elements in their order. ``parallelism``: of the operator. ``broadcast``:
    every subtask gets all rows.
    """

    frame: Any = field(repr=False)
    columns: Mapping[str, str]
    encoding: Encoding
    keyed: bool
    parallelism: int
    broadcast: bool = False


class FileOf:
    """The number of the file that holds a key group of an operator's keyed state."""

    def __init__(self, state_files: Sequence[StateFile], operator: int, parallelism: int, max_parallelism: int) -> None:
        files = [n for n, file in enumerate(state_files) if file.operator == operator and file.key_groups is not None]
        subtasks = np.arange(max_parallelism, dtype=np.int64) * parallelism // max_parallelism
        self._files = np.array(files, dtype=np.int32)[subtasks]

    def numbers(self, key_groups: Iterable[int]) -> list[int]:
        """Return the numbers of the files that hold any of these key groups."""
        found: list[int] = np.unique(self._files[np.fromiter(key_groups, dtype=np.int64)]).tolist()
        return found

    def of(self, entries: pa.RecordBatch) -> pa.RecordBatch:
        """Return the entries (RAW_ENTRIES) with the numbers of their files (FILE_ENTRIES)."""
        groups = numbers_of(entries.column("key_group"))
        columns = [values_array(self._files[groups]), *(entries.column(name) for name in FILE_ENTRIES.names[1:])]
        return pa.RecordBatch.from_arrays(columns, FILE_ENTRIES.names)


def with_file(entries: pa.RecordBatch, number: int) -> pa.RecordBatch:
    """Return entries (RAW_ENTRIES) that all belong to one file with its number (FILE_ENTRIES)."""
    numbers = values_array(np.full(entries.num_rows, number, dtype=np.int32))
    return pa.RecordBatch.from_arrays([numbers, *entries.columns], FILE_ENTRIES.names)


def row_encoding(encoder: Encoder, files: FileOf) -> Encoding:
    """Return the encoding of the rows of a keyed state."""

    def encode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from in_parts(files.of(encoder.encode(batch)))

    return encode


def element_encoding(encoder: Encoder) -> Encoding:
    """Return the encoding of the rows of an operator state."""

    def encode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from in_parts(encoder.encode(batch))

    return encode


def in_parts(entries: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split entries (FILE_ENTRIES) into batches of less than 1 GiB, as a row in Spark has 2 GiB at most."""
    size = sum(entries.column(name).nbytes for name in ("key", "value"))
    if size > _MOST_BYTES and entries.num_rows > 1:
        half = entries.num_rows // 2
        yield from in_parts(entries.slice(0, half))
        yield from in_parts(entries.slice(half))
    elif entries.num_rows:
        columns = [column.cast(field.type) for column, field in zip(entries.columns, FILE_ENTRIES, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=FILE_ENTRIES)


# Run a function in a thread of its own while a context is open.


@contextmanager
def reporting_thread(report: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run a function that reports progress until the context ends.

    Args:
        report: Called once in a thread; it must return soon after the event is set.
    """
    ended = threading.Event()
    thread = threading.Thread(target=report, args=(ended,), name="stateproc-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
