"""Write a savepoint by an engine: what Spark's tasks and this process's threads have in common.

A write begins a commit, copies the files that stay, plans the state files that are written anew, lets the engine write
these, and completes the commit. Whatever fails, the commit is aborted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from stateproc.errors import WriteFailed
from stateproc.metadata.handles import ByteStreamHandle, RelativeFileHandle
from stateproc.metadata.snapshot import OperatorEntry, SnapshotMetadata, SubtaskState
from stateproc.serializers import LayoutContext
from stateproc.snapshot.snapshot import Snapshot
from stateproc.storage.filesystem import store_kind
from stateproc.writers.bootstrap.new_operator import NewOperator
from stateproc.writers.commit.commit import Commit
from stateproc.writers.commit.staging import Staging
from stateproc.writers.formats.keyed_formats import OutputFormat
from stateproc.writers.rewrite.existing_operator import ExistingOperator
from stateproc.writers.rewrite.file_copy import CopyPlan, copy_plan
from stateproc.writers.rewrite.operator_state_edits import edited_operator_state
from stateproc.writers.rewrite.raw_copy import redistributed_raw_keyed
from stateproc.writers.scaled_operators import (
    AnyOperator,
    ScaledOperator,
    WriteSettings,
    kept_handles,
    scaled_operators,
)
from stateproc.writers.write_plan import OperatorJob, WriteJob
from stateproc.writers.write_task import WrittenTarget, write_empty

# Assemble ``_metadata`` from the files that tasks have written.


@dataclass(frozen=True)
class CompletedWrite:
    """A snapshot that is complete.

    Attributes:
        metadata: its metadata.
        targets: the state files that were written.
        leftovers: names of obsolete files that could not be removed.
    """

    metadata: SnapshotMetadata
    targets: tuple[WrittenTarget, ...]
    leftovers: tuple[str, ...]


def finish(job: WriteJob, commit: Commit, written: Iterable[WrittenTarget]) -> CompletedWrite:
    """Complete the write. Targets without entries, which no task has written, are written here. Raises WriteFailed."""
    items = list(written)
    items += write_empty(job, items)
    metadata = metadata_of(job, items)
    return CompletedWrite(metadata, tuple(items), commit.complete(metadata, job.release.metadata_version))


def metadata_of(job: WriteJob, written: Iterable[WrittenTarget]) -> SnapshotMetadata:
    """Return the snapshot's metadata. Raises WriteFailed where two tasks have written one target."""
    targets = job.targets
    subtasks: list[dict[int, SubtaskState]] = [
        {subtask.index: subtask for subtask in operator.carried} for operator in job.operators
    ]
    seen: set[int] = set()
    for item in written:
        if item.target in seen:
            raise WriteFailed(
                f"two tasks have written state file {item.target}",
                advice="entries of one file came in more than one partition; report this as a bug",
            )
        seen.add(item.target)
        target = targets[item.target]
        mine = subtasks[target.operator]
        state = mine.get(target.subtask, SubtaskState(target.subtask))
        if item.keyed is not None:
            state = replace(state, managed_keyed=item.keyed)
        if item.operator is not None:
            state = replace(state, managed_operator=item.operator)
        mine[target.subtask] = state
    operators = tuple(_operator(operator, mine) for operator, mine in zip(job.operators, subtasks, strict=True))
    return SnapshotMetadata(job.release.metadata_version, job.checkpoint_id, job.master_states, operators)


def _operator(operator: OperatorJob, subtasks: dict[int, SubtaskState]) -> OperatorEntry:
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

    def described(self, description: str) -> AbstractContextManager[None]:
        """Describe what is done within the context to whoever watches the engine."""

    def copy_files(self, plan: CopyPlan, staging: Staging) -> list[RelativeFileHandle | ByteStreamHandle]:
        """Copy the files of the plan and return the handles of the copies, in their order.

        Raises MissingFile, CorruptSnapshot, WriteFailed.
        """

    def write_entries(self, operators: Sequence[AnyOperator], job: WriteJob, commit: Commit) -> CompletedWrite:
        """Write the entries of ``job.operators``, which are those of ``operators``, and complete the commit.

        Raises SnapshotError; the commit is not complete then.
        """


@dataclass(frozen=True)
class WrittenSnapshot:
    """What a write has written.

    Attributes:
        directory_uri: The directory.
        metadata: The snapshot.
        job: The plan of the write.
        targets: The state files that were written from entries.
        leftovers: Names of obsolete files that could not be removed.
        seconds: Seconds by phase: ``copy``, ``write`` (with the commit) and ``total``.
    """

    directory_uri: str
    metadata: SnapshotMetadata
    job: WriteJob
    targets: Sequence[WrittenTarget]
    leftovers: tuple[str, ...]
    seconds: Mapping[str, float]


def write_snapshot(
    engine: Engine, path: str | os.PathLike[str], operators: Sequence[AnyOperator], settings: WriteSettings,
    parallelism: Mapping[str, int], source: Snapshot | None, *, overwrite: bool,
) -> WrittenSnapshot:  # fmt: skip
    """Write the operators to ``path``, and return what was written.

    Raises:
        SnapshotError: anything but a task of Spark fails.
        PythonException: a task fails (pyspark.errors).
    """
    begin = time.monotonic()
    engine.check()
    scaled = scaled_operators(operators, settings, parallelism, engine.default_parallelism)
    sources = [] if source is None else [source.location.directory_uri]
    options = target_storage_options(os.fspath(path), settings, source)
    commit = Commit.begin(path, overwrite=overwrite, sources=sources, storage_options=options, hooks=settings.hooks)
    try:
        with engine.described(f"stateproc: copy state files to {os.fspath(path)}"):
            carried = _carried(engine, scaled, settings, source, commit.staging)
        copied = time.monotonic()
        jobs = tuple(_job(item, settings, carried) for item in scaled)
        job = WriteJob(
            commit.staging,
            settings.release,
            jobs,
            format=settings.format or OutputFormat.CANONICAL,
            compressed=bool(settings.compressed),
            verify=settings.verify,
            checkpoint_id=_checkpoint_id(settings, source),
            context=replace(LayoutContext() if source is None else source.options.context, kryo=settings.release.kryo),
            rocksdb=settings.rocksdb,
            master_states=() if source is None else source.metadata.master_states,
        )
        with engine.described(f"stateproc: write savepoint {os.fspath(path)} ({_counted(jobs)})"):
            written = engine.write_entries([item.operator for item in scaled], job, commit)
    except BaseException:
        commit.abort()
        raise
    end = time.monotonic()
    seconds = {"copy": copied - begin, "write": end - copied, "total": end - begin}
    directory = commit.staging.directory_uri
    return WrittenSnapshot(directory, written.metadata, job, written.targets, written.leftovers, seconds)


def _checkpoint_id(settings: WriteSettings, source: Snapshot | None) -> int:
    if settings.checkpoint_id is not None:
        return settings.checkpoint_id
    return 1 if source is None else source.metadata.checkpoint_id


def _counted(jobs: Sequence[OperatorJob]) -> str:
    return "1 operator" if len(jobs) == 1 else f"{len(jobs)} operators"


def target_storage_options(path: str, settings: WriteSettings, source: Snapshot | None) -> Mapping[str, Any]:
    """Return fsspec's options for the file system of a target."""
    if settings.storage_options is not None:
        return settings.storage_options
    if source is None:
        return {}
    alike = store_kind(source.location.directory_uri) == store_kind(path)
    return source.location.storage_options if alike else {}


def _job(item: ScaledOperator, settings: WriteSettings, carried: Mapping[str, OperatorEntry]) -> OperatorJob:
    operator = item.operator
    if isinstance(operator, NewOperator):
        return operator.job(settings.release, item.parallelism, item.max_parallelism)
    state = carried[operator.operator.operator_id]
    return operator.job(settings.release, state, item.parallelism, item.max_parallelism, keyed=item.keyed)


def _carried(
    engine: Engine,
    scaled: Sequence[ScaledOperator],
    settings: WriteSettings,
    source: Snapshot | None,
    staging: Staging,
) -> dict[str, OperatorEntry]:
    """The existing operators, with handles of copies of the files that stay."""
    if source is None:
        return {}
    existing = [(item.operator, item) for item in scaled if isinstance(item.operator, ExistingOperator)]
    kept = [kept_handles(operator, item) for operator, item in existing]
    plan = copy_plan(kept, source.location, drop_channel_state=settings.drop_in_flight)
    copied = plan.finish(engine.copy_files(plan, staging))
    carried = {}
    for (operator, item), state in zip(existing, copied, strict=True):
        own = operator.operator
        edited = edited_operator_state(
            operator, state, item.parallelism, settings.release, staging, verify=settings.verify
        )
        if item.keyed and item.parallelism != own.parallelism:
            edited = redistributed_raw_keyed(own, edited, item.parallelism, staging)
        carried[own.operator_id] = edited
    return carried
