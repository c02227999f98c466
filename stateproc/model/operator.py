"""List the states of an operator from the headers of its subtasks' files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from stateproc.errors import NotFound, SnapshotError, not_found
from stateproc.keygroups.key_types import key_type_of
from stateproc.metadata import OperatorEntry, SnapshotMetadata, file_bytes
from stateproc.metadata.backend import OperatorHeader, StateMetaInfo
from stateproc.metadata.operator_handles import StatePartition
from stateproc.metadata.stream_handles import KeyGroupsHandle
from stateproc.model.case_class_arity import file_needs_arity, settled_options
from stateproc.model.joined_table import WideState, wide_state
from stateproc.model.keyed_state import KeyedState, StateInFile
from stateproc.model.operator_context import OperatorContext
from stateproc.model.operator_labels import label_of_states
from stateproc.model.operator_state import OperatorFile, OperatorState, opened_state
from stateproc.model.state import State
from stateproc.model.timers import TimerState
from stateproc.readers.backends import open_keyed_file
from stateproc.readers.changelog.composite_keys import key_handles_of
from stateproc.readers.keyed_file import KeyedFile, SharedStates
from stateproc.readers.operator_state import state_info
from stateproc.readers.read_options import ReadOptions
from stateproc.readers.state_descriptor import PREFIX, StateDescriptor, StateKind
from stateproc.readers.state_names import OperatorNames
from stateproc.readers.timers import RawTimers, open_raw_timers
from stateproc.serializers.core.base import CaseClassArity
from stateproc.storage import SnapshotLocation, open_handle
from stateproc.storage.concurrency import map_in_order

if TYPE_CHECKING:
    from stateproc.html.cards import Card
    from stateproc.operator_names.given_names import SnapshotNames

_HEADERS_AT_ONCE, _HEADERS_PER_TASK = 8, 64
_SHOWN_PROBLEMS = 5


class Operator:
    """One operator of a snapshot.

    Attributes:
        metadata: Its entry in ``_metadata``.
        location: Where the snapshot is.
        given_options: How states are decoded, as far as it was specified.
        known_uid: The uid in ``_metadata`` or that was given, else None.
    """

    def __init__(
        self,
        metadata: OperatorEntry,
        location: SnapshotLocation,
        options: ReadOptions,
        metadata_version: int,
        uid: str | None = None,
        naming: SnapshotNames | None = None,
        row_names: OperatorNames | None = None,
    ) -> None:
        self.metadata = metadata
        self.location = location
        self.given_options = options
        self.known_uid = uid or metadata.uid or None
        self._naming = naming
        self._metadata_version = metadata_version
        self._row_names = row_names
        self._misplaced: list[SnapshotError] = []

    @property
    def operator_id(self) -> str:
        """The operator's id (uid hash), 32 hex digits."""
        return self.metadata.operator_id

    @property
    def uid(self) -> str | None:
        """The uid. ``_metadata`` contains it from Flink 2.0 on; for earlier releases it is one that was given, or one
        that Flink's table planner generates, found by its hash; else None.
        """
        return self.known_uid or (self._naming.planner_uid(self.operator_id) if self._naming else None)

    @property
    def name(self) -> str | None:
        """The operator's name; None before Flink 2.0."""
        return self.metadata.name

    @cached_property
    def label(self) -> str | None:
        """What kind of operator it is, where neither uid nor name are known: by a given plan, or by its states.

        Reads the headers of state files. None if their names do not show it.
        """
        if self.uid or self.name or self._naming is None:
            return None
        return self._naming.vertex(self.operator_id) or label_of_states(self.states)

    @property
    def parallelism(self) -> int:
        """The number of subtasks."""
        return self.metadata.parallelism

    @property
    def max_parallelism(self) -> int:
        """The number of key groups."""
        return self.metadata.max_parallelism

    @property
    def file_bytes(self) -> int:
        """The bytes of all files and of the state in ``_metadata``; shared files count once."""
        return file_bytes(SnapshotMetadata(0, 0, (), (self.metadata,)))

    @property
    def display(self) -> str:
        """The uid, or the id where the uid is not known."""
        return self.uid or self.operator_id

    @cached_property
    def options(self) -> ReadOptions:
        """How states are decoded; what only their values show is found out here."""
        given = self.given_options
        if given.case_class_arity is not CaseClassArity.FOUND:
            return given
        unreadable = {id(file) for file, _ in self.unreadable_keyed_files}
        files = [file for file in self.keyed_files if id(file) not in unreadable]
        return settled_options(given, files, self.operator_files, lambda options: self.with_options(options).states)

    def options_of(self, file: KeyedFile) -> ReadOptions:
        """Return how the states in a file are decoded, without reading other files unless its values need that."""
        return self.options if file_needs_arity(file, self.given_options) else self.given_options

    def with_options(self, options: ReadOptions) -> Operator:
        """Return the operator as it is read with other options, under the uid that is known or was found."""
        version, names = self._metadata_version, self._row_names
        return Operator(self.metadata, self.location, options, version, self.uid, self._naming, names)

    @property
    def context(self) -> OperatorContext:
        """What the operator's states share."""
        return OperatorContext(
            operator_id=self.operator_id,
            known_uid=self.known_uid,
            location=self.location,
            options=self.options,
            max_parallelism=self.max_parallelism,
            metadata_version=self._metadata_version,
            naming=self._naming,
            row_names=self._row_names,
        )

    @cached_property
    def keyed_files(self) -> tuple[KeyedFile, ...]:
        """Managed keyed state, one per subtask that has any."""
        location = self.location
        handles = [(subtask.index, subtask.managed_keyed) for subtask in self.metadata.subtasks]
        key_handles = key_handles_of(handle for _, handle in handles)
        key_type, shared = key_type_of(self.operator_id, self.given_options.key_types), SharedStates()
        return tuple(
            open_keyed_file(
                handle, location, self.max_parallelism, index, shared, key_handles=key_handles, key_type=key_type
            )
            for index, handle in handles
            if handle is not None
        )

    @cached_property
    def operator_files(self) -> tuple[OperatorFile, ...]:
        """Managed operator state, one per subtask that has any; ``problems`` reports handles that cannot be opened."""
        files = []
        for subtask in self.metadata.subtasks:
            handle = subtask.managed_operator
            if handle is None or handle.is_empty:
                continue
            try:
                files.append(OperatorFile(subtask.index, handle, open_handle(handle.stream, self.location)))
            except SnapshotError as error:
                self._misplaced.append(error)
        return tuple(files)

    @cached_property
    def problems(self) -> tuple[SnapshotError, ...]:
        """Why headers and raw timers cannot be read. States that only they describe are not listed."""
        found = [error for _, error in self.unreadable_keyed_files]
        return (*found, *self.unreadable_operator_files, *self.unreadable_raw_timers)

    @cached_property
    def unreadable_keyed_files(self) -> tuple[tuple[KeyedFile, SnapshotError], ...]:
        """Files whose header cannot be read, and why. Reading any state of their key groups must fail."""
        files = self.keyed_files
        unread = [file for file in files if not file.has_header]
        if len(unread) > 1:
            # Passing one file to a thread costs more than reading the header of a local one.
            size = max(1, min(_HEADERS_PER_TASK, len(unread) // _HEADERS_AT_ONCE))
            chunks = [unread[at : at + size] for at in range(0, len(unread), size)]
            errors = list(chain.from_iterable(map_in_order(_header_problems, chunks, _HEADERS_AT_ONCE)))
        else:
            errors = _header_problems(unread)
        return tuple(
            (file, error.at(operator=self.display))
            for file, error in zip(unread, errors, strict=True)
            if error is not None
        )

    @cached_property
    def unreadable_operator_files(self) -> tuple[SnapshotError, ...]:
        """Why files of operator state cannot be found or their headers cannot be read."""
        headers = self._operator_headers
        found = [*self._misplaced, *(header for header in headers if isinstance(header, SnapshotError))]
        return tuple(error.at(operator=self.display) for error in found)

    @cached_property
    def _operator_headers(self) -> tuple[OperatorHeader | SnapshotError, ...]:
        """The header of each of ``operator_files``, or why it cannot be read."""
        headers: list[OperatorHeader | SnapshotError] = []
        for file in self.operator_files:
            try:
                headers.append(file.header)
            except SnapshotError as error:
                headers.append(error)
        return tuple(headers)

    @property
    def unreadable_raw_timers(self) -> tuple[SnapshotError, ...]:
        """Why raw keyed state that may hold timers cannot be read."""
        return tuple(error.at(operator=self.display) for error in self._raw_timers[1])

    @cached_property
    def _keyed(self) -> dict[str, KeyedState]:
        unreadable = {id(file) for file, _ in self.unreadable_keyed_files}
        parts: dict[str, list[StateInFile]] = {}
        for file in self.keyed_files:
            if id(file) in unreadable:
                continue
            for state in file.states:
                if isinstance(state, StateDescriptor):
                    parts.setdefault(state.name, []).append(StateInFile(file, state))
        if self._row_names is not None:
            self._row_names.warn_of_misfits(self.display, {name: files[0].state for name, files in parts.items()})
        context, unreadable_files = self.context, self.unreadable_keyed_files
        return {name: KeyedState(context, found, unreadable_files) for name, found in parts.items()}

    @cached_property
    def _raw_timers(self) -> tuple[tuple[RawTimers, ...], list[SnapshotError]]:
        """Return the timers in raw keyed state, and why others cannot be read."""
        found, bad = [], []
        for subtask in self.metadata.subtasks:
            handle = subtask.raw_keyed
            if isinstance(handle, KeyGroupsHandle):
                try:
                    timers = open_raw_timers(handle, self.location)
                except SnapshotError as error:
                    bad.append(error)
                    continue
                if timers is not None:
                    found.append(timers)
        return tuple(found), bad

    @property
    def raw_timers(self) -> tuple[RawTimers, ...]:
        """Timers in raw keyed state, one per subtask that has any."""
        return self._raw_timers[0]

    def has_timers_in(self, handle: KeyGroupsHandle) -> bool:
        """Return whether the raw keyed state of this handle is timers."""
        source = open_handle(handle.stream, self.location)
        return any(timers.source == source for timers in self.raw_timers)

    @cached_property
    def keyed_states(self) -> tuple[KeyedState, ...]:
        """Keyed states without timers."""
        return tuple(view for view in self._keyed.values() if not view.keyed.kind.is_queue)

    @cached_property
    def timer_states(self) -> tuple[TimerState, ...]:
        """Event timers and processing timers, if the operator has any."""
        views = []
        for event, kind in ((True, StateKind.EVENT_TIMERS), (False, StateKind.PROCESSING_TIMERS)):
            queues = [view for view in self._keyed.values() if view.keyed.kind is kind]
            raw, _ = self._raw_timers
            if queues or raw:
                views.append(TimerState(self.context, event, queues, raw, self.unreadable_raw_timers))
        return tuple(views)

    @cached_property
    def operator_states(self) -> tuple[OperatorState, ...]:
        """List, union and broadcast states."""
        parts: dict[tuple[str, str], list[tuple[OperatorFile, StatePartition]]] = {}
        infos: dict[tuple[str, str], list[StateMetaInfo]] = {}
        for file, header in zip(self.operator_files, self._operator_headers, strict=True):
            if isinstance(header, SnapshotError):
                continue  # reported by ``problems``
            for partition in file.handle.states:
                info = state_info(header, partition)
                if info is not None:
                    parts.setdefault((partition.name, partition.mode), []).append((file, partition))
                    infos.setdefault((partition.name, partition.mode), []).append(info)
        context, unreadable = self.context, self.unreadable_operator_files
        return tuple(OperatorState(context, found, infos[key], unreadable) for key, found in parts.items())

    @property
    def states(self) -> tuple[State, ...]:
        """All states: keyed states, timers, operator states."""
        return (*self.keyed_states, *self.timer_states, *self.operator_states)

    def state(self, name: str, *, raw: bool = False) -> State:
        """Find a state.

        Args:
            name: Its name; a timer queue's name selects the queue itself.
            raw: Source and sink states of well-known connectors as their bytes, not decoded into columns.

        Raises:
            NotFound: There is no such state; the advice lists the nearest names.
            SnapshotError: There is none among the readable headers, and others cannot be read.
        """
        views = (*self.states, *self._keyed.values())
        for wanted in (name, PREFIX + name):  # those of Python functions without their prefix, too
            for view in views:
                if view.name == wanted:
                    return view if raw else opened_state(view)
        if self.problems:
            raise self.problems[0]
        raise self._no_state("state", name, self.states)

    def __getitem__(self, name: str) -> State:
        """Return a state by its name. Raises NotFound."""
        return self.state(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def keys(self) -> list[str]:
        """Return the names of the states. Reads the headers of state files."""
        return [state.name for state in self.states]

    def _ipython_key_completions_(self) -> list[str]:
        return self.keys()

    def timers(self, domain: str) -> TimerState:
        """Find the timers of a time domain.

        Args:
            domain: 'event' or 'processing'.

        Raises:
            NotFound: The operator has none.
        """
        for view in self.timer_states:
            if view.name == f"{domain} timers":
                return view
        raise self._no_state("timers", domain, self.timer_states)

    def operator_state(self, name: str) -> OperatorState:
        """Find a list, union or broadcast state.

        Raises:
            NotFound: There is none of that name; the advice lists the nearest names.
        """
        for view in self.operator_states:
            if view.name == name:
                return view
        raise self._no_state("operator state", name, self.operator_states)

    def _no_state(self, what: str, name: str, known: Iterable[State]) -> SnapshotError:
        error = not_found(what, name, (view.name for view in known), f"operator '{self.display}'")
        return error.at(operator=self.display)

    def wide(self, namespace: str | None = None) -> WideState:
        """Join all keyed states into one wide table: one row per key and namespace, one column per state.

        Args:
            namespace: The namespace type whose states are joined; default none, else the first type.

        Raises:
            NotFound: The operator has no keyed states that can be joined.
            InvalidOption: No state has that namespace type.
            SnapshotError: No keyed state can be read.
        """
        try:
            return wide_state(self.context, self.keyed_states, namespace)
        except SnapshotError as error:
            if any(state.problem is None for state in self.keyed_states):
                raise
            if self.problems:
                raise self.problems[0] from error
            if self.keyed_states:
                raise
            names = ", ".join(repr(state.name) for state in self.states) or "none"
            raise NotFound(error.message, advice=f"its states: {names}") from None

    @property
    def coordinator(self) -> dict[str, object] | None:
        """The state of the operator's coordinator (for sources the enumerator's), decoded if its format is known."""
        handle = self.metadata.coordinator
        if handle is None:
            return None
        from stateproc.connectors.operator_states import read_coordinator  # Lazy: start-up.

        found = read_coordinator(handle.data, self.location.metadata_uri)
        if found["kind"] == "source" and found["decoded"] is None:
            # Some enumerators, such as empty ones, are identified by the splits of the readers only.
            found = read_coordinator(handle.data, self.location.metadata_uri, connector=self._reader_connector())
        return found

    def _reader_connector(self) -> str | None:
        from stateproc.connectors.operator_states import SOURCE_STATE, reader_connector  # Lazy: start-up.

        for state in self.operator_states:
            if state.name == SOURCE_STATE and state.value_type == "byte[]":
                try:
                    return reader_connector(state.to_arrow().column("value").to_pylist())
                except SnapshotError:
                    return None
        return None

    def _card(self) -> Card:
        # Lazy: start-up.
        from stateproc.html.cards import MOST_ROWS, Card, CardCell, Head, short
        from stateproc.html.pictures import state_style
        from stateproc.html.units import counted, human_bytes

        def row(state: State) -> list[CardCell]:
            notes = (["ttl"] if state.ttl else []) + (["unreadable"] if state.problem is not None else [])
            namespace = f"@ {short(state.namespace_type)}" if state.namespace_type else ""
            style = state_style(state.kind, state.distribution)
            return [
                CardCell(short(state.name), strong=True),
                CardCell(state.full_kind, note=" · ".join(notes), style=style),
                CardCell(short(state.key_type), note=namespace, code=True),
                CardCell(short(state.value_type), code=True),
            ]

        states = self.states
        facts = [("parallelism", f"{self.parallelism} of {self.max_parallelism}")]
        facts.append(("bytes", human_bytes(self.file_bytes)))
        if self.display != self.operator_id:
            facts.append(("id", self.operator_id))
        if self.name and self.name != self.uid:
            facts.insert(0, ("name", self.name))
        if self.uid is None and self.label:
            facts.insert(0, ("seems to be", self.label))
        if self.coordinator is not None:
            facts.append(("coordinator", str(self.coordinator["kind"])))
        omitted = len(states) - MOST_ROWS
        return Card(
            title=short(self.display),
            kind="operator",
            facts=[(name, short(text)) for name, text in facts],
            problems=[str(problem) for problem in self.problems[:_SHOWN_PROBLEMS]],
            heads=[Head("state"), Head("kind"), Head("key"), Head("value")],
            rows=[row(state) for state in states[:MOST_ROWS]],
            notes=[f"and {counted(omitted, 'state')} more"] if omitted > 0 else [],
        )

    def _repr_html_(self) -> str:
        """Show the states in a notebook. Headers are read, but no state."""
        return self._card().html()

    def __repr__(self) -> str:
        n = len(self.states)
        counted = f"{n} state{'' if n == 1 else 's'}"
        return f"<operator {self.display!r}: parallelism {self.parallelism}, {counted}>"


def _header_problems(files: Iterable[KeyedFile]) -> list[SnapshotError | None]:
    return [file.header_problem for file in files]
