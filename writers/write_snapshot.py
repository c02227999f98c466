"""Write a savepoint by an engine: what Spark's tasks and this process's threads have in common.

A write is planned before. It begins a commit, copies the files that stay, lets the engine write the state files that
are written anew, and completes the commit. Whatever fails, the commit is aborted.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol

from stateproc.errors import WriteFailed
from stateproc.html.units import counted
from stateproc.metadata.snapshot import OperatorEntry, SnapshotMetadata, SubtaskState
from stateproc.metadata.stream_handles import ByteStreamHandle, RelativeFileHandle
from stateproc.writers.commit.commit import Commit
from stateproc.writers.commit.staging import Staging
from stateproc.writers.plan.planning import PlannedOperator, WritePlan
from stateproc.writers.plan.savepoint_plan import SavepointPlan
from stateproc.writers.rewrite.existing_operator import ExistingOperator
from stateproc.writers.rewrite.file_copy import CopyPlan, copy_plan
from stateproc.writers.rewrite.raw_copy import redistributed_raw_keyed
from stateproc.writers.scaled_operators import target_path
from stateproc.writers.write_spec import OperatorWriteSpec, WriteSpec
from stateproc.writers.write_task import WrittenFile, write_empty

# Assemble ``_metadata`` from the files that tasks have written.


@dataclass(frozen=True)
class WrittenSnapshot:
    """What a write has written; the snapshot is complete.

    Attributes:
        spec: What tasks needed.
        state_files: The state files that were written from entries.
        leftovers: Names of obsolete files that could not be removed.
        seconds: Seconds by phase: ``copy``, ``write`` (with the commit) and ``total``.
    """

    metadata: SnapshotMetadata
    spec: WriteSpec
    state_files: Sequence[WrittenFile]
    leftovers: tuple[str, ...]
    seconds: Mapping[str, float] = field(default_factory=dict)


def finish(spec: WriteSpec, commit: Commit, written: Iterable[WrittenFile]) -> WrittenSnapshot:
    """Complete the write. Files without entries, which no task has written, are written here. Raises WriteFailed."""
    items = list(written)
    items += write_empty(spec, items)
    metadata = metadata_of(spec, items)
    return WrittenSnapshot(metadata, spec, items, commit.complete(metadata, spec.release.metadata_version))


def metadata_of(spec: WriteSpec, written: Iterable[WrittenFile]) -> SnapshotMetadata:
    """Return the snapshot's metadata. Raises WriteFailed where two tasks have written one file."""
    state_files = spec.state_files
    subtasks: list[dict[int, SubtaskState]] = [
        {subtask.index: subtask for subtask in operator.carried} for operator in spec.operators
    ]
    seen: set[int] = set()
    for item in written:
        if item.number in seen:
            raise WriteFailed(
                f"two tasks have written state file {item.number}",
                advice="entries of one file came in more than one partition; report this as a bug",
            )
        seen.add(item.number)
        state_file = state_files[item.number]
        mine = subtasks[state_file.operator]
        state = mine.get(state_file.subtask, SubtaskState(state_file.subtask))
        if item.keyed is not None:
            state = replace(state, managed_keyed=item.keyed)
        if item.operator is not None:
            state = replace(state, managed_operator=item.operator)
        mine[state_file.subtask] = state
    operators = tuple(_operator(operator, mine) for operator, mine in zip(spec.operators, subtasks, strict=True))
    return SnapshotMetadata(spec.release.metadata_version, spec.checkpoint_id, spec.master_states, operators)


def _operator(operator: OperatorWriteSpec, subtasks: dict[int, SubtaskState]) -> OperatorEntry:
    return operator.state([subtasks[index] for index in sorted(subtasks)])


class Engine(Protocol):
    """Where a write runs: in Spark's tasks, or in threads of this process."""

    name: str
    """The name of the engine in reports: ``local`` or ``spark``."""

    @property
    def default_parallelism(self) -> int:
        """The parallelism of new operators for which none is given."""

    def check(self) -> None:
        """Raise InvalidOption if the engine cannot run a write."""

    def check_space(self, plan: SavepointPlan) -> None:
        """Raise WriteFailed if there is not enough temporary space in this process's directory for it."""

    def described(self, description: str) -> AbstractContextManager[None]:
        """Describe what is done within the context to whoever watches the engine."""

    def copy_files(self, plan: CopyPlan, staging: Staging) -> list[RelativeFileHandle | ByteStreamHandle]:
        """Copy the files of the plan and return the handles of the copies, in their order.

        Raises MissingFile, CorruptSnapshot, WriteFailed.
        """

    def write_entries(self, operators: Sequence[PlannedOperator], spec: WriteSpec, commit: Commit) -> WrittenSnapshot:
        """Write the entries of ``spec.operators``, which are those of ``operators``, and complete the commit.

        Raises SnapshotError; the commit is not complete then.
        """


def execute(engine: Engine, plan: WritePlan) -> WrittenSnapshot:
    """Write a planned savepoint, and return what was written.

    Raises:
        SnapshotError: anything but a task of Spark fails.
        PythonException: a task fails (pyspark.errors).
    """
    begin = time.monotonic()
    engine.check()
    engine.check_space(plan.savepoint)
    settings, source, path = plan.settings, plan.source, plan.path
    assert path is not None  # a plan to be written has one
    sources = [] if source is None else [source.location.directory_uri]
    target = target_path(path, settings, source)
    commit = Commit.begin(target, overwrite=plan.overwrite, sources=sources, hooks=settings.hooks)
    try:
        with engine.described(f"stateproc: copy state files to {path}"):
            specs = _with_carried(engine, plan, commit.staging)
        copied = time.monotonic()
        spec = replace(plan.spec, staging=commit.staging, operators=specs)
        with engine.described(f"stateproc: write savepoint {path} ({counted(len(specs), 'operator')})"):
            written = engine.write_entries(plan.operators, spec, commit)
    except BaseException:
        commit.abort()
        raise
    end = time.monotonic()
    return replace(written, seconds={"copy": copied - begin, "write": end - copied, "total": end - begin})


def _with_carried(engine: Engine, plan: WritePlan, staging: Staging) -> tuple[OperatorWriteSpec, ...]:
    """Copy the files that stay and write operator state; return the operators with the handles of these files."""
    if plan.source is None:
        return plan.spec.operators
    kept = [item.kept for item in plan.operators if item.kept is not None]
    copies = copy_plan(kept, plan.source.location, drop_channel_state=plan.settings.drop_in_flight)
    copied = iter(copies.finish(engine.copy_files(copies, staging)))
    return tuple(
        item.spec if item.kept is None else item.spec.carrying(_written_state(item, next(copied), plan, staging))
        for item in plan.operators
    )


def _written_state(item: PlannedOperator, state: OperatorEntry, plan: WritePlan, staging: Staging) -> OperatorEntry:
    """Return an operator with its operator state and raw keyed state, and write what is written anew of them."""
    operator, parallelism = item.operator, item.scaled.parallelism
    assert isinstance(operator, ExistingOperator)  # others have nothing to carry over
    if item.operator_state is not None:
        state = item.operator_state.write(state, plan.settings.release, staging, verify=plan.spec.verify)
    if item.scaled.keyed and parallelism != operator.operator.parallelism:
        state = redistributed_raw_keyed(operator.operator, state, parallelism, staging)
    return state
