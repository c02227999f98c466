"""Write a savepoint by an engine: what Spark's tasks and this process's threads have in common.

A write begins a commit, copies the files that stay, plans the state files that are written anew, lets the engine write
these, and completes the commit. Whatever fails, the commit is aborted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from stateproc.flink_versions import Release
from stateproc.metadata.handles import ByteStreamHandle, RelativeFileHandle
from stateproc.metadata.snapshot import OperatorState
from stateproc.serializers import LayoutContext
from stateproc.snapshot.snapshot import Snapshot
from stateproc.states.operator import Operator
from stateproc.storage.filesystem import store_kind
from stateproc.writers.bootstrap.new_operator import NewOperator
from stateproc.writers.commit.commit import Commit
from stateproc.writers.commit.commit_hooks import CommitHooks
from stateproc.writers.commit.staging import Staging
from stateproc.writers.formats.keyed_formats import OutputFormat
from stateproc.writers.formats.rocksdb.options import TableOptions
from stateproc.writers.rewrite.existing_operator import ExistingOperator
from stateproc.writers.rewrite.file_copy import CopyPlan, copy_plan
from stateproc.writers.rewrite.repartition import repartitioned
from stateproc.writers.write_plan import OperatorJob, WriteJob, check_parallelism

AnyOperator = NewOperator | ExistingOperator
DEFAULT_MAX_PARALLELISM = 128


@dataclass
class WriteSettings:
    """Options of the whole savepoint. None: existing operators stay as they are."""

    release: Release
    max_parallelism: int | None
    format: OutputFormat | None = None
    compressed: bool | None = None
    verify: bool = True
    drop_in_flight: bool = False
    storage_options: dict[str, Any] | None = None
    """Of the target's file system; None: those of the source's file system, if it is of the same kind."""
    rocksdb: TableOptions = field(default_factory=TableOptions)
    hooks: CommitHooks = field(default_factory=CommitHooks)


class Engine(Protocol):
    """Where a write runs: in Spark's tasks, or in threads of this process."""

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

    def write_entries(self, operators: Sequence[AnyOperator], job: WriteJob, commit: Commit) -> None:
        """Write the entries of ``job.operators``, which are those of ``operators``, and complete the commit.

        Raises SnapshotError; the commit is not complete then.
        """


@dataclass(frozen=True)
class _ScaledOperator:
    """An operator with its parallelism and max parallelism; ``keyed``: its keyed state is written anew."""

    operator: AnyOperator
    parallelism: int
    max_parallelism: int
    keyed: bool


def write_snapshot(
    engine: Engine, path: str | os.PathLike[str], operators: Sequence[AnyOperator], settings: WriteSettings,
    parallelism: Mapping[str, int], source: Snapshot | None, *, overwrite: bool,
) -> None:  # fmt: skip
    """Write the operators to ``path``.

    Raises:
        SnapshotError: anything but a task of Spark fails.
        PythonException: a task fails (pyspark.errors).
    """
    engine.check()
    scaled = [_scaled(item, settings, parallelism, engine) for item in operators]
    sources = [] if source is None else [source.location.directory_uri]
    options = _storage_options(os.fspath(path), settings, source)
    commit = Commit.begin(path, overwrite=overwrite, sources=sources, storage_options=options, hooks=settings.hooks)
    try:
        with engine.described(f"stateproc: copy state files to {os.fspath(path)}"):
            carried = _carried(engine, scaled, settings, source, commit.staging)
        jobs = tuple(_job(item, settings, carried) for item in scaled)
        job = WriteJob(
            commit.staging,
            settings.release,
            jobs,
            format=settings.format or OutputFormat.CANONICAL,
            compressed=bool(settings.compressed),
            verify=settings.verify,
            checkpoint_id=1 if source is None else source.metadata.checkpoint_id,
            context=replace(LayoutContext() if source is None else source.options.context, kryo=settings.release.kryo),
            rocksdb=settings.rocksdb,
            master_states=() if source is None else source.metadata.master_states,
        )
        with engine.described(f"stateproc: write savepoint {os.fspath(path)} ({_counted(jobs)})"):
            engine.write_entries([item.operator for item in scaled], job, commit)
    except BaseException:
        commit.abort()
        raise


def _counted(jobs: Sequence[OperatorJob]) -> str:
    return "1 operator" if len(jobs) == 1 else f"{len(jobs)} operators"


def _storage_options(path: str, settings: WriteSettings, source: Snapshot | None) -> Mapping[str, Any]:
    if settings.storage_options is not None:
        return settings.storage_options
    if source is None:
        return {}
    alike = store_kind(source.location.directory_uri) == store_kind(path)
    return source.location.storage_options if alike else {}


def _scaled(
    operator: AnyOperator, settings: WriteSettings, parallelism: Mapping[str, int], engine: Engine
) -> _ScaledOperator:
    given = parallelism.get(operator.operator_id)
    if isinstance(operator, ExistingOperator):
        operator.check_release(settings.release)
        own = operator.operator
        groups = settings.max_parallelism or own.max_parallelism
        subtasks = min(own.parallelism, groups) if given is None else given
        keyed = not operator.keeps_keyed_files(groups, subtasks, settings.format, settings.compressed)
    else:
        groups = settings.max_parallelism or DEFAULT_MAX_PARALLELISM
        subtasks = max(1, min(groups, engine.default_parallelism)) if given is None else given
        keyed = True
    check_parallelism(subtasks, groups, operator.uid or operator.operator_id)
    return _ScaledOperator(operator, subtasks, groups, keyed)


def _job(item: _ScaledOperator, settings: WriteSettings, carried: Mapping[str, OperatorState]) -> OperatorJob:
    operator = item.operator
    if isinstance(operator, NewOperator):
        return operator.job(settings.release, item.parallelism, item.max_parallelism)
    state = carried[operator.operator.operator_id]
    return operator.job(settings.release, state, item.parallelism, item.max_parallelism, keyed=item.keyed)


def _carried(
    engine: Engine,
    scaled: Sequence[_ScaledOperator],
    settings: WriteSettings,
    source: Snapshot | None,
    staging: Staging,
) -> dict[str, OperatorState]:
    """The existing operators, with handles of copies of the files that stay."""
    if source is None:
        return {}
    existing = [(item.operator.operator, item) for item in scaled if isinstance(item.operator, ExistingOperator)]
    kept = [_kept(operator, item) for operator, item in existing]
    plan = copy_plan(kept, source.location, drop_channel_state=settings.drop_in_flight)
    found = {}
    for (operator, item), state in zip(existing, plan.finish(engine.copy_files(plan, staging)), strict=True):
        if item.parallelism != operator.parallelism:
            state = repartitioned(operator, state, item.parallelism, settings.release, staging, verify=settings.verify)
        found[operator.operator_id] = state
    return found


def _kept(operator: Operator, item: _ScaledOperator) -> OperatorState:
    """The operator without the handles of state that is written anew: keyed state, operator state if it is rescaled."""
    subtasks = operator.metadata.subtasks
    if item.keyed:
        subtasks = tuple(replace(subtask, managed_keyed=None, raw_keyed=None) for subtask in subtasks)
    if item.parallelism != operator.parallelism:
        subtasks = tuple(replace(subtask, managed_operator=None) for subtask in subtasks)
    return replace(operator.metadata, subtasks=subtasks)
