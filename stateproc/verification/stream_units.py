"""Read the files whose contents nothing decodes: raw state, records in flight, RocksDB's files beside its tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from stateproc.errors import CorruptSnapshot, SnapshotError, Where
from stateproc.metadata.handles import ChannelHandle, KeyGroupsHandle, StreamHandle
from stateproc.metadata.snapshot import SubtaskState
from stateproc.model.operator import Operator
from stateproc.model.raw_keyed import raw_keyed_parts, raw_keyed_text
from stateproc.readers.rocksdb.database import database_files
from stateproc.readers.rocksdb.table import check_filters
from stateproc.storage import ByteSource, open_handle
from stateproc.storage.ranges import reading_ahead
from stateproc.verification.findings import Finding, VerificationUnit
from stateproc.verification.problem import Problem, Severity, problem_of

_AT_ONCE = 8 << 20
_TABLE = ".sst"


class SeenStreams:
    """Which handles have been planned already: subtasks and operators share files."""

    def __init__(self) -> None:
        self._seen: set[StreamHandle] = set()

    def is_new(self, handle: StreamHandle) -> bool:
        """Return whether the handle was not asked for before."""
        if handle in self._seen:
            return False
        self._seen.add(handle)
        return True


def stream_units(operator: Operator, position: int, seen: SeenStreams) -> Iterator[VerificationUnit | Finding]:
    """Plan reading what no state of the operator decodes.

    Entries of RocksDB's tables are read by their states.
    """
    yield from _raw_keyed(operator)
    for subtask in operator.metadata.subtasks:
        for handle in _undecoded(operator, subtask):
            if seen.is_new(handle):
                yield from _unit(operator, position, handle)
        yield from _channel_problems(operator, subtask)
    for file in operator.keyed_files:
        for database in file.databases:
            try:
                files = database_files(database, operator.location)
            except SnapshotError as error:
                yield problem_of(error, operator.display)
                continue
            for item in files:
                read = _check_table if item.name.endswith(_TABLE) else _read_all
                yield VerificationUnit(position, 0, partial(read, operator, item.source))


def _raw_keyed(operator: Operator) -> Iterator[Finding]:
    """Note raw keyed state of the operator's own, whose bytes are read but mean nothing here."""
    try:
        parts = list(raw_keyed_parts(operator))
    except SnapshotError as error:
        yield problem_of(error, operator.display)
        return
    if parts:
        groups = sorted(item.key_group for part in parts for item in part.ranges)
        yield Problem(
            Severity.NOTE,
            f"{raw_keyed_text(sum(part.bytes for part in parts), groups)}: read to the end; only the operator knows "
            "what its contents mean",
            "restore the snapshot in the job to check them",
            operator.display,
        )


def _undecoded(operator: Operator, subtask: SubtaskState) -> Iterator[StreamHandle]:
    if subtask.raw_operator is not None:
        yield subtask.raw_operator.stream
    raw = subtask.raw_keyed
    if isinstance(raw, KeyGroupsHandle) and not operator.has_timers_in(raw):
        yield raw.stream
    for channel in (*subtask.input_channels, *subtask.output_channels):
        yield channel.stream


def _unit(operator: Operator, position: int, handle: StreamHandle) -> Iterator[VerificationUnit | Finding]:
    try:
        source = open_handle(handle, operator.location)
    except SnapshotError as error:
        yield problem_of(error, operator.display)
        return
    yield VerificationUnit(position, source.size, partial(_read_all, operator, source))


def _read_all(operator: Operator, source: ByteSource) -> Iterator[Finding]:
    try:
        with reading_ahead(source, [(0, source.size)]) as ahead:
            for at in range(0, source.size, _AT_ONCE):
                ahead.read(at, min(_AT_ONCE, source.size - at))
        source.read(0, 0)
    except SnapshotError as error:
        yield problem_of(error, operator.display)


def _check_table(operator: Operator, source: ByteSource) -> Iterator[Finding]:
    """Check what states do not read of a table: its existence if it is empty or obsolete, and its filters."""
    try:
        check_filters(source, verify=operator.options.verify)
    except SnapshotError as error:
        yield problem_of(error, operator.display)


def _channel_problems(operator: Operator, subtask: SubtaskState) -> Iterator[Finding]:
    """Yield offsets of records in flight that are outside of their file."""
    for channel in (*subtask.input_channels, *subtask.output_channels):
        offsets: Sequence[int] = (
            channel.offsets
            if isinstance(channel, ChannelHandle)
            else [offset for item in channel.channels for offset in item.offsets]
        )
        wrong = [offset for offset in offsets if not 0 <= offset < channel.stream.size]
        if wrong:
            error = CorruptSnapshot(
                f"records in flight of subtask {subtask.index} begin at byte {wrong[0]} of {channel.stream.size}",
                where=Where(file=operator.location.metadata_uri),
                advice="_metadata is damaged; use a copy or take the snapshot again",
            )
            yield problem_of(error, operator.display)
