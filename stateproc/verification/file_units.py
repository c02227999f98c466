"""Read what is not keyed state: operator states, coordinators, raw state, records in flight, RocksDB's other files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from stateproc.errors import CorruptSnapshot, SnapshotError, Where
from stateproc.metadata.operator_handles import ChannelHandle
from stateproc.metadata.snapshot import SubtaskState
from stateproc.metadata.stream_handles import KeyGroupsHandle, StreamHandle
from stateproc.model.operator import Operator
from stateproc.model.operator_state import DISTRIBUTIONS, OperatorSplit, OperatorState, opened_state
from stateproc.model.raw_keyed import raw_keyed_parts, raw_keyed_text
from stateproc.readers.rocksdb.database import database_files
from stateproc.readers.rocksdb.table import check_filters
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.readers.timers import RawTimerSplit, TimerService
from stateproc.serializers.runtime.streaming import Timer
from stateproc.storage import ByteSource, open_handle
from stateproc.storage.ranges import reading_ahead
from stateproc.verification.keyed_units import VerifiedKeyedState, counted, key_group_check
from stateproc.verification.problem import (
    Finding,
    Problem,
    RowCount,
    Severity,
    StateLabel,
    UnreadState,
    VerificationUnit,
    problem_of,
)

_UNIT_BYTES = 32 << 20
_BROADCAST = "BROADCAST"


def operator_state_units(
    operator: Operator, position: int, wanted: Sequence[str]
) -> Iterator[VerificationUnit | Finding]:
    """Plan reading the operator states, each subtask's copy of broadcast states included.

    ``wanted``: only these states; all if empty.
    """
    for error in operator.unreadable_operator_files:
        yield problem_of(error, operator.display)
    undecodable = set()
    first: dict[StateLabel, int] = {}
    for view in operator.operator_states:
        if wanted and view.name not in wanted:
            continue
        label = StateLabel(view.name, view.distribution)
        problem = view.problem
        if problem is not None:
            undecodable.add(label)
            yield UnreadState(label)
            yield problem_of(problem.at(operator=operator.display, state=view.name), operator.display)
        else:
            yield VerificationUnit(position, 0, partial(_read_connector, operator, view))
    for file in operator.operator_files:
        for partition in file.handle.states:
            label = StateLabel(partition.name, DISTRIBUTIONS[partition.mode])
            if label in undecodable or (wanted and partition.name not in wanted):
                continue
            # A broadcast state is one state of which each subtask has a copy.
            counts = first.setdefault(label, file.subtask) == file.subtask or partition.mode != _BROADCAST
            split = OperatorSplit(file, partition, operator.options)
            try:
                size = split.bytes
            except SnapshotError:
                size = 0  # reading reports it
            read = partial(_read_partition, operator, split, label, counts=counts)
            yield VerificationUnit(position, size, read)


def _read_partition(operator: Operator, split: OperatorSplit, label: StateLabel, *, counts: bool) -> Iterator[Finding]:
    try:
        rows = sum(len(batch) for batch in split.read())
    except SnapshotError as error:
        yield UnreadState(label)
        yield problem_of(error.at(operator=operator.display, state=label.name), operator.display)
        return
    yield RowCount(label, rows if counts else 0)


def _read_connector(operator: Operator, view: OperatorState) -> Iterator[Finding]:
    """Decode the columns of a source's or sink's state; of other states nothing."""
    try:
        opened = opened_state(view)
        if opened is not view:
            for split in opened.splits():
                for _ in split.read():
                    pass
    except SnapshotError as error:
        yield problem_of(error.at(operator=operator.display, state=view.name), operator.display)


def coordinator_findings(operator: Operator) -> Iterator[Finding]:
    """Decode the state of the operator's coordinator."""
    try:
        operator.coordinator  # noqa: B018  (a property that raises)
    except SnapshotError as error:
        yield problem_of(error, operator.display)


def raw_timer_units(
    operator: Operator, position: int, wanted: Sequence[str], hash_function: str | None = None
) -> Iterator[VerificationUnit | Finding]:
    """Plan reading timers in raw keyed state; the arguments are those of `operator_state_units`."""
    for error in operator.unreadable_raw_timers:
        yield problem_of(error, operator.display)
    for event, kind in ((True, StateKind.EVENT_TIMERS), (False, StateKind.PROCESSING_TIMERS)):
        if wanted and kind.value not in wanted:
            continue
        for timers in operator.raw_timers:
            for name in timers.service_names:
                service = next(item for item in timers.services if item.name == name)
                for split in timers.splits(name, event, operator.options, None, _UNIT_BYTES):
                    read = partial(_read_timers, operator, split, service, kind, hash_function)
                    yield VerificationUnit(position, split.bytes // 2, read)


def _read_timers(
    operator: Operator, split: RawTimerSplit, service: TimerService, kind: StateKind, hash_function: str | None
) -> Iterator[Finding]:
    timer = Timer(service.key, service.namespace)
    state = StateDescriptor(service.name, kind, 0, service.key, service.namespace, timer)
    check = key_group_check(operator, service.key, hash_function)
    verified = VerifiedKeyedState(state, operator.display, check)
    try:
        yield from list(counted(verified, split.read()))
    except SnapshotError as error:
        yield UnreadState(verified.label)
        yield problem_of(error, operator.display, state=verified.label.name, key_groups=split.key_groups)


_AT_ONCE = 8 << 20
_TABLE = ".sst"


def stream_units(operator: Operator, position: int, seen: set[StreamHandle]) -> Iterator[VerificationUnit | Finding]:
    """Plan reading what no state of the operator decodes. Entries of RocksDB's tables are read by their states.

    ``seen``: which handles have been planned already, as subtasks and operators share files; these are added.
    """
    yield from _raw_keyed(operator)
    for subtask in operator.metadata.subtasks:
        for handle in _undecoded(operator, subtask):
            if handle not in seen:
                seen.add(handle)
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
