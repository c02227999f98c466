"""Export states: plan their files, write them in parallel, and record them, so that a later run continues."""

from __future__ import annotations

import hashlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from stateproc.errors import InvalidOption, SnapshotError, WriteFailed, not_found
from stateproc.export.delta_tables import check_delta_available, check_delta_names, commit_table
from stateproc.export.directory import FolderNames, begin
from stateproc.export.file_formats import EXPORT_FORMATS, FileTask, choose_compression, write_file
from stateproc.export.file_plan import file_tasks, split_bytes, table_task
from stateproc.export.manifest import (
    COMPLETE,
    INCOMPLETE,
    PARTIAL,
    UNREADABLE,
    ExportedFile,
    ExportedState,
    ExportManifest,
    ExportSettings,
    SnapshotIdentity,
)
from stateproc.model.operator import Operator
from stateproc.model.operator_state import opened_state
from stateproc.model.parallel_scan import thread_count
from stateproc.model.state import State
from stateproc.storage.concurrency import read_in_order
from stateproc.storage.store import StorageOptions, StorePath

if TYPE_CHECKING:
    from stateproc.model.snapshot import SnapshotContents

# Select the states to export, and open them as they are exported.


class ExportItem(ABC):
    """What becomes one folder of an export."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of its folders, from outside in."""

    @abstractmethod
    def described(self) -> ExportedState:
        """Return its entry of a manifest, without files."""


@dataclass(frozen=True)
class SelectedState(ExportItem):
    """A state of an operator."""

    operator: Operator
    state: State

    @property
    def names(self) -> tuple[str, ...]:
        return self.operator.display, self.state.name

    def opened(self, settings: ExportSettings) -> State:
        """Return the state as it is exported. Raises SnapshotError."""
        state = self.state.with_temporal(settings.temporal)
        return state if settings.raw else opened_state(state)

    def described(self) -> ExportedState:
        state = self.state
        return ExportedState(
            self.operator.display,
            self.operator.operator_id,
            state.name,
            state.kind,
            state.distribution,
            state.key_type,
            state.namespace_type,
            state.value_type,
            state.ttl,
        )


@dataclass(frozen=True)
class SelectedTable(ExportItem):
    """A small table about the whole snapshot, such as its Kafka offsets.

    Attributes:
        make: Reads it. Raises SnapshotError.
    """

    name: str
    make: Callable[[], pa.Table]

    @cached_property
    def table(self) -> pa.Table:
        """The table. Raises SnapshotError."""
        return self.make()

    @property
    def is_empty(self) -> bool:
        """Whether it has no rows; False if that cannot be found out."""
        try:
            return not len(self.table)
        except SnapshotError:
            return False

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    def described(self) -> ExportedState:
        return ExportedState(None, None, self.name, "table", "snapshot")


@dataclass(frozen=True)
class StateChoice:
    """The selected states, and why headers of their operators cannot be read."""

    states: tuple[SelectedState, ...]
    problems: tuple[SnapshotError, ...]


def selected_states(
    operators: Sequence[Operator],
    find: Callable[[str], Operator],
    uids: Iterable[str] | None,
    names: Iterable[str] | None,
) -> StateChoice:
    """Select states by the names of operators and states; None selects all.

    Args:
        operators: All operators of the snapshot.
        find: Finds an operator by uid, uid hash or name.
        names: The names of states; each must be one of a selected operator.

    Raises:
        NotFound: There is no such operator or state.
    """
    chosen = operators if uids is None else [find(uid) for uid in uids]
    wanted = None if names is None else list(dict.fromkeys(names))
    found = [
        SelectedState(operator, state)
        for operator in chosen
        for state in operator.states
        if wanted is None or state.name in wanted
    ]
    missing = set(wanted or ()) - {item.state.name for item in found}
    for name in wanted or ():
        if name in missing:
            raise not_found("state", name, (state.name for operator in chosen for state in operator.states))
    return StateChoice(tuple(found), tuple(error for operator in chosen for error in operator.problems))


ProgressStart: TypeAlias = Callable[[int], Callable[[int], None]]
"""Called with the stored bytes that are to be read; returns what is called with further bytes that are read."""

_SECONDS_BETWEEN_SAVES = 2.0


@dataclass
class _PlannedState:
    """A state, its columns, and its files that do not exist yet."""

    entry: ExportedState
    schema: pa.Schema
    missing: int


_Planned: TypeAlias = tuple[FileTask, _PlannedState]
_Step: TypeAlias = "tuple[_Planned, ExportedFile | SnapshotError] | None"


def export_states(
    snapshot: SnapshotContents,
    directory: str,
    *,
    format: str = "parquet",
    compression: str | None = None,
    uids: Iterable[str] | None = None,
    states: Iterable[str] | None = None,
    temporal: str | None = None,
    raw: bool = False,
    flatten: bool = False,
    key_group_ranges: int | None = None,
    threads: int | None = None,
    overwrite: bool = False,
    storage_options: StorageOptions | None = None,
    tables: Mapping[str, Callable[[], pa.Table]] | None = None,
    start: ProgressStart | None = None,
) -> ExportManifest:
    """Export states of a snapshot into a directory; ``Snapshot.export`` describes the arguments.

    Args:
        tables: Small tables about the snapshot, by name, to be exported besides its states.
        start: Reports progress.

    Raises:
        InvalidOption: An argument does not fit, or the directory contains something else.
        NotFound: There is no such operator or state.
        WriteFailed: A file cannot be written. What is complete is kept, and another run continues.
    """
    began = time.monotonic()
    settings = _settings(format, compression, temporal, raw, flatten, key_group_ranges)
    number = thread_count(threads)
    options = snapshot.location.directory.options if storage_options is None else storage_options
    chosen = selected_states(snapshot.operators, snapshot.operator, uids, states)
    manifest = begin(StorePath.of(directory, options), _identity(snapshot), settings, overwrite)
    manifest.started = datetime.now(timezone.utc).isoformat(timespec="seconds")
    manifest.problems = [str(error) for error in chosen.problems]
    extra = [SelectedTable(name, make) for name, make in (tables or {}).items()]
    planned = _planned(manifest, [*chosen.states, *(table for table in extra if not table.is_empty)], number)
    manifest.save()
    run = _Run(manifest, planned)
    try:
        run.write(number, start)
    finally:
        manifest.seconds = round(time.monotonic() - began, 3)
        manifest.save()
    return manifest


def _settings(
    format: str, compression: str | None, temporal: str | None, raw: bool, flatten: bool, ranges: int | None
) -> ExportSettings:
    chosen = choose_compression(format, compression)
    if EXPORT_FORMATS[format].is_delta:
        check_delta_available()
    if ranges is not None and ranges < 1:
        raise InvalidOption(f"{ranges} ranges of key groups", advice="give 1 or more")
    return ExportSettings(format, chosen, temporal or EXPORT_FORMATS[format].temporal, ranges, raw, flatten)


def _identity(snapshot: SnapshotContents) -> SnapshotIdentity:
    location = snapshot.location
    found = location.metadata.file_status()
    data = location.metadata.read_range(0, found.size if found else 0)
    return SnapshotIdentity(
        snapshot.path,
        snapshot.metadata.checkpoint_id,
        snapshot.kind,
        snapshot.flink_versions,
        hashlib.sha256(data).hexdigest(),
    )


def _planned(
    manifest: ExportManifest, items: Sequence[ExportItem], threads: int
) -> list[tuple[_PlannedState, list[FileTask]]]:
    """Plan the files that do not exist yet; add the states to the manifest."""
    known = {state.identity: state for state in manifest.states}
    folders = FolderNames()
    for state in manifest.states:
        if state.folder is not None:
            folders.keep(state.folder)
    planned = []
    for item in items:
        entry = item.described()
        if entry.identity in known:
            entry = known[entry.identity]
        else:
            manifest.states.append(entry)
        entry.problem, entry.status = None, INCOMPLETE
        try:
            planned.append(_missing_files(entry, item, manifest.settings, folders, threads))
        except SnapshotError as error:
            entry.problem, entry.status = str(error), UNREADABLE
    return planned


def _missing_files(
    entry: ExportedState, item: ExportItem, settings: ExportSettings, folders: FolderNames, threads: int
) -> tuple[_PlannedState, list[FileTask]]:
    """Plan the files of a state that do not exist yet. Raises SnapshotError."""
    if isinstance(item, SelectedState):
        state = item.opened(settings)
        if EXPORT_FORMATS[settings.format].is_delta:
            check_delta_names(state.schema(flatten=settings.flatten))
        _prepare(entry, item, state.schema(flatten=settings.flatten), folders, lambda: split_bytes(state, threads))
        assert entry.folder is not None
        tasks = file_tasks(state, entry.folder, entry.split_bytes, settings)
    else:
        assert isinstance(item, SelectedTable)
        _prepare(entry, item, item.table.schema, folders, lambda: 0)
        assert entry.folder is not None
        tasks = [table_task(item.table, entry.folder, settings)]
    names = {task.path for task in tasks}
    entry.files = [file for file in entry.files if file.path in names]
    complete = {file.path for file in entry.files}
    missing = [task for task in tasks if task.path not in complete]
    return _PlannedState(entry, tasks[0].schema, len(missing)), missing


def _prepare(
    entry: ExportedState, item: ExportItem, schema: pa.Schema, folders: FolderNames, size: Callable[[], int]
) -> None:
    """Set the columns of a state; the files of an earlier run with other columns are forgotten and written anew."""
    columns = {field.name: str(field.type) for field in schema}
    if entry.columns != columns or entry.folder is None:
        entry.columns, entry.files, entry.split_bytes = columns, [], size()
        entry.folder = entry.folder or folders.take(*item.names)


class _Run:
    """The files that one run writes.

    Args:
        manifest: The manifest, in which complete files are recorded.
        planned: The states, each with its files that do not exist yet.
    """

    def __init__(self, manifest: ExportManifest, planned: Sequence[tuple[_PlannedState, list[FileTask]]]) -> None:
        self._manifest = manifest
        self._states = [state for state, _ in planned]
        self._files: list[_Planned] = [(task, state) for state, tasks in planned for task in tasks]
        self._lock = threading.Lock()
        self._saved = time.monotonic()

    def write(self, threads: int, start: ProgressStart | None) -> None:
        """Write all files. Raises WriteFailed."""
        for state in self._states:
            if not state.missing:
                self._finish(state)
        advance = start(sum(task.bytes for task, _ in self._files)) if start else None

        def read(item: _Planned) -> Iterator[_Step]:
            return self._steps(item, advance)

        steps = read_in_order(self._files, read, threads, at_once=True, size_of=lambda _: 0)
        with closing(steps):
            for step in steps:
                if step is not None:
                    self._record(*step)

    def _steps(self, item: _Planned, advance: Callable[[int], None] | None) -> Iterator[_Step]:
        """Write a file in one of the threads; an error of reading is a result."""

        def advanced(size: int) -> None:
            if advance is not None:
                with self._lock:
                    advance(size)

        (task, state), manifest = item, self._manifest
        try:
            for found in write_file(task, manifest.path, manifest.settings, advanced):
                yield None if found is None else (item, found)
        except WriteFailed:
            raise
        except SnapshotError as error:
            yield item, error.at(operator=state.entry.operator, state=state.entry.state)

    def _record(self, item: _Planned, found: ExportedFile | SnapshotError) -> None:
        state = item[1]
        if isinstance(found, ExportedFile):
            state.entry.files.append(found)
        else:
            state.entry.problem = state.entry.problem or str(found)
        state.missing -= 1
        if not state.missing:
            self._finish(state)
        if time.monotonic() - self._saved > _SECONDS_BETWEEN_SAVES:
            self._manifest.save()
            self._saved = time.monotonic()

    def _finish(self, state: _PlannedState) -> None:
        """Mark a state whose last file is written."""
        entry, settings = state.entry, self._manifest.settings
        entry.files.sort(key=lambda file: file.path.rpartition("/")[2])
        if entry.problem is not None:
            entry.status = PARTIAL if entry.files else UNREADABLE
            return
        if EXPORT_FORMATS[settings.format].is_delta:
            partitioned = settings.key_group_ranges is not None and entry.distribution == "keyed"
            commit_table(self._manifest.path, entry, state.schema, partitioned)
        entry.status = COMPLETE
