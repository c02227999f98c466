"""Verify a snapshot: plan units over all its files and states, read them in parallel, and add up what they find."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from stateproc.errors import SnapshotError, not_found
from stateproc.metadata.snapshot import SnapshotMetadata
from stateproc.metadata.stream_handles import StreamHandle
from stateproc.metadata.walk import relative_shared_files, walk_stream_handles
from stateproc.model.config_snapshots import ADVICE, config_snapshot_note, config_snapshot_states
from stateproc.model.operator import Operator
from stateproc.model.parallel_scan import thread_count
from stateproc.serializers.core.registry import load_plugins
from stateproc.storage.concurrency import read_in_order
from stateproc.storage.sources import FileSource, open_handle
from stateproc.storage.uris import parent
from stateproc.verification.class_mentions import class_skeleton, mentioned_classes, outer_field_of
from stateproc.verification.database_check import check_library, database_units
from stateproc.verification.file_units import coordinator_findings, operator_state_units, raw_timer_units, stream_units
from stateproc.verification.key_group_check import key_group_problems
from stateproc.verification.keyed_units import keyed_plan
from stateproc.verification.problem import (
    Finding,
    Problem,
    ProblemList,
    RowCount,
    Severity,
    StateLabel,
    UnreadState,
    VerificationUnit,
)
from stateproc.verification.report import Verification, VerifiedOperator, VerifiedState

if TYPE_CHECKING:
    from stateproc.model.snapshot import SnapshotContents

# Note files that Flink does not find: those of a claimed native savepoint; see storage/claimed_files.py.


def claimed_file_notes(operator: Operator) -> Iterator[Problem]:
    """Yield a note per directory in which files were found that the snapshot names beside its ``_metadata``."""
    own = operator.location.directory_uri
    places: Counter[str] = Counter()
    for handle in dict.fromkeys(relative_shared_files([operator.metadata])):
        source = open_handle(handle, operator.location)
        if not isinstance(source, FileSource):
            continue
        try:
            source.check_exists()
        except SnapshotError:
            continue  # reported where the state is read
        places[parent(source.name)] += 1
    del places[own]
    for place, number in sorted(places.items()):
        files = "1 file is" if number == 1 else f"{number} files are"
        yield Problem(
            Severity.NOTE,
            f"{files} not beside _metadata, but in {place}: the job had claimed that native savepoint. Flink does not "
            "find them there and cannot restore this checkpoint (FLINK-39964)",
            f"stateproc copy {own} TARGET --allow-root {place} writes a snapshot that Flink restores",
            operator.display,
            file=place,
        )


def config_snapshot_notes(operator: Operator, wanted: Sequence[str]) -> Iterator[Problem]:
    """Yield a note on states, of those that are wanted, that Flink 1.17 and later cannot restore."""
    states = tuple(name for name in config_snapshot_states(operator) if not wanted or name in wanted)
    if states:
        yield Problem(Severity.NOTE, config_snapshot_note(states), ADVICE, operator.display, states)


Advance = Callable[[int], None]
_REMOTE_THREADS = 8


def _ignored(_: int) -> None:
    return None


@dataclass(frozen=True)
class VerificationRequest:
    """What to verify.

    Attributes:
        path: The snapshot's directory.
        metadata: The contents of ``_metadata``.
        states: Only these states, by name; all, and all files, if empty.
        deep: Whether RocksDB itself opens the databases, too.
        threads: The number of threads; None for the cores that this process may use.
        hash_functions: The formulas of keys' hash codes, by operator id.
    """

    path: str
    metadata: SnapshotMetadata = field(repr=False)
    operators: tuple[Operator, ...]
    states: tuple[str, ...] = ()
    deep: bool = False
    threads: int | None = None
    hash_functions: Mapping[str, str] = field(default_factory=dict)


class VerificationRun:
    """A planned verification: headers have been read, and states not yet.

    Args:
        request: What to verify.

    Raises:
        MissingPackage: rocksdict is needed and not installed.
        InvalidOption: A plugin cannot be imported, or ``threads`` is no number.
    """

    def __init__(self, request: VerificationRequest) -> None:
        if request.deep:
            check_library()
        self._started = time.perf_counter()
        self._request = request
        self._threads = _threads(request)
        self._operators = tuple(map(_exact, request.operators))
        for operator in self._operators[:1]:
            load_plugins(operator.options.plugins)
        self._problems = ProblemList()
        self._rows: dict[tuple[int, StateLabel], RowCount] = {}
        self._unread: set[tuple[int, StateLabel]] = set()
        self._units: list[VerificationUnit] = []
        seen: set[StreamHandle] = set()
        for position, operator in enumerate(self._operators):
            for item in _planned(operator, position, request, seen, self._threads):
                if isinstance(item, VerificationUnit):
                    self._units.append(item)
                else:
                    self._take(position, item)

    @property
    def bytes(self) -> int:
        """The bytes that will be read, approximately; a changelog counts once, though each state reads all of it."""
        return sum(unit.bytes for unit in self._units)

    def run(self, advance: Advance = _ignored) -> Verification:
        """Read everything, in parallel threads and bounded memory.

        ``advance`` is called with numbers of bytes as they have been read.
        """
        read = read_in_order(self._units, _read, self._threads, at_once=True, size_of=lambda _: 0)
        for unit, findings in read:
            for finding in findings:
                self._take(unit.operator, finding)
            advance(unit.bytes)
        return self._result()

    def _take(self, position: int, finding: Finding) -> None:
        if isinstance(finding, Problem):
            self._problems.add(finding)
        elif isinstance(finding, UnreadState):
            self._unread.add((position, finding.label))
        else:
            key = position, finding.label
            known = self._rows.get(key)
            before, checked = (known.rows, known.checked_keys) if known else (0, 0)
            self._rows[key] = replace(finding, rows=before + finding.rows, checked_keys=checked + finding.checked_keys)

    def _result(self) -> Verification:
        request, problems = self._request, self._problems.problems()
        chosen = {operator.operator_id for operator in self._operators}
        streams = _streams(request.metadata, chosen)
        operators = tuple(
            self._operator(position, operator, problems, streams.get(operator.operator_id, {}))
            for position, operator in enumerate(self._operators)
        )
        every = {handle: size for own in streams.values() for handle, size in own.items()}
        return Verification(
            request.path,
            operators,
            problems,
            len(every),
            sum(every.values()),
            sum(count.rows for count in self._rows.values()),
            time.perf_counter() - self._started,
            request.deep,
            class_skeleton(mentioned_classes(self._operators), problems, outer_field_of(self._operators)),
        )

    def _operator(
        self, position: int, operator: Operator, problems: Sequence[Problem], streams: dict[StreamHandle, int]
    ) -> VerifiedOperator:
        own = [problem for problem in problems if problem.operator == operator.display and problem.severity.is_problem]
        affected = {state for problem in own for state in problem.states}
        kinds = {StateLabel(view.name, view.distribution): view.kind for view in operator.states}
        labels = [label for at, label in (*self._rows, *self._unread) if at == position]
        # The order of the operator's states, then those that only the files know.
        ordered = [label for label in kinds if label in set(labels)]
        states = []
        for label in dict.fromkeys((*ordered, *labels)):
            count = self._rows.get((position, label))
            is_read = (position, label) not in self._unread and count is not None
            states.append(
                VerifiedState(
                    label.name,
                    kinds.get(label, "priority queue"),
                    count.rows if count is not None and is_read else None,
                    count.rows if count is not None else 0,
                    count.checked_keys if count is not None else 0,
                    is_read and label.name not in affected,
                )
            )
        return VerifiedOperator(
            operator.uid,
            operator.operator_id,
            operator.name,
            operator.label,
            len(streams),
            sum(streams.values()),
            tuple(states),
            len(own),
        )


def plan_verification(
    snapshot: SnapshotContents,
    uids: Iterable[str] = (),
    states: Iterable[str] = (),
    *,
    deep: bool = False,
    threads: int | None = None,
    hash_function: Mapping[str, str] | None = None,
) -> VerificationRun:
    """Plan verifying a snapshot, or some operators or states of it; the arguments are those of `Snapshot.verify`.

    Raises:
        NotFound: There is no such operator or state.
        MissingPackage: rocksdict is needed and not installed.
        InvalidOption: A plugin cannot be imported, or ``threads`` is no number.
    """
    operators = tuple(dict.fromkeys(snapshot.operator(uid) for uid in uids)) or snapshot.operators
    names = tuple(dict.fromkeys(states))
    functions = {snapshot.operator(uid).operator_id: named for uid, named in (hash_function or {}).items()}
    for name in names:
        _check_known(operators, name)
    return VerificationRun(
        VerificationRequest(
            snapshot.path, snapshot.metadata, operators, names, deep=deep, threads=threads, hash_functions=functions
        )
    )


def _check_known(operators: Iterable[Operator], state: str) -> None:
    """Raise NotFound unless one of the operators has a state of this name, or headers that cannot be read."""
    known: list[str] = []
    for operator in operators:
        if operator.problems:
            return
        names = [view.name for view in operator.states]
        names += [name for file in operator.keyed_files for name in file.state_names]
        if state in names:
            return
        known += names
    raise not_found("state", state, known)


def _threads(request: VerificationRequest) -> int:
    """Return the number of threads: more than cores for remote snapshots, because reading waits for requests."""
    number = thread_count(request.threads)
    is_remote = any(not operator.location.directory.is_local for operator in request.operators[:1])
    return max(number, _REMOTE_THREADS) if is_remote and request.threads is None else number


def _read(unit: VerificationUnit) -> Iterator[tuple[VerificationUnit, list[Finding]]]:
    yield unit, list(unit.findings())


def _exact(operator: Operator) -> Operator:
    """Return the operator with options under which every value that is intact can be read."""
    return operator.with_options(replace(operator.options, temporal="exact", row_kind=False, on_error="fail"))


def _planned(
    operator: Operator, position: int, request: VerificationRequest, seen: set[StreamHandle], threads: int
) -> Iterator[VerificationUnit | Finding]:
    wanted, hash_function = request.states, request.hash_functions.get(operator.operator_id)
    yield from key_group_problems(operator)
    keyed = keyed_plan(operator, position, wanted, threads, hash_function)
    yield from keyed.findings
    yield from config_snapshot_notes(operator, wanted)
    yield from keyed.units
    yield from raw_timer_units(operator, position, wanted, hash_function)
    yield from operator_state_units(operator, position, wanted)
    if not wanted:
        yield from coordinator_findings(operator)
        yield from claimed_file_notes(operator)
        yield from stream_units(operator, position, seen)
    if request.deep:
        yield from database_units(operator, position, wanted)


def _streams(metadata: SnapshotMetadata, chosen: set[str]) -> dict[str, dict[StreamHandle, int]]:
    """Return the files of each operator with their bytes, state within ``_metadata`` included."""
    found: dict[str, dict[StreamHandle, int]] = {}
    for use in walk_stream_handles(metadata):
        if use.operator.operator_id in chosen:
            found.setdefault(use.operator.operator_id, {})[use.handle] = use.handle.size
    return found
