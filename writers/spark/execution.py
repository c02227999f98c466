"""Write a savepoint: copy files that stay; shuffle, sort and write all other entries in Spark's tasks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession

from stateproc.errors import InvalidOption
from stateproc.flink_versions import Release
from stateproc.metadata.snapshot import OperatorState
from stateproc.serializers import LayoutContext
from stateproc.snapshot.snapshot import Snapshot
from stateproc.spark.job_description import described_jobs
from stateproc.states.operator import Operator
from stateproc.storage.filesystem import store_kind
from stateproc.writers.assemble_metadata import finish
from stateproc.writers.bootstrap.new_operator import NewOperator
from stateproc.writers.commit.commit import Commit
from stateproc.writers.commit.staging import Staging
from stateproc.writers.formats.keyed_formats import OutputFormat
from stateproc.writers.formats.rocksdb.options import TableOptions
from stateproc.writers.rewrite.existing_operator import ExistingOperator
from stateproc.writers.rewrite.file_copy import CopyPlan, copy_plan
from stateproc.writers.rewrite.repartition import repartitioned
from stateproc.writers.spark.arrow_batching import batches_limited
from stateproc.writers.spark.entry_frames import by_target, entry_blocks
from stateproc.writers.spark.progress import reported_progress
from stateproc.writers.spark.shared_frames import persisted
from stateproc.writers.spark.snapshot_sink import save
from stateproc.writers.write_plan import OperatorJob, WriteJob, check_parallelism

_DRIVER_COPY_BYTES = 1 << 30
"""Up to this size files are copied by the driver: starting Spark's tasks takes as long."""
_COPY_THREADS = 4
_DEFAULT_MAX_PARALLELISM = 128


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


@dataclass(frozen=True)
class _ScaledOperator:
    """An operator with its parallelism and max parallelism; ``keyed``: its keyed state is written anew."""

    operator: NewOperator | ExistingOperator
    parallelism: int
    max_parallelism: int
    keyed: bool


def write_snapshot(
    spark: SparkSession, path: str | os.PathLike[str], operators: Sequence[NewOperator | ExistingOperator],
    settings: WriteSettings, parallelism: Mapping[str, int], source: Snapshot | None, *, overwrite: bool,
) -> None:  # fmt: skip
    """Write the operators to ``path``.

    Raises:
        SnapshotError: anything but a task fails.
        PythonException: a task fails (pyspark.errors).
    """
    _check_classic(spark)
    scaled = [_scaled(item, settings, parallelism, spark) for item in operators]
    sources = [] if source is None else [source.location.directory_uri]
    options = _storage_options(os.fspath(path), settings, source)
    commit = Commit.begin(path, overwrite=overwrite, sources=sources, storage_options=options)
    try:
        with described_jobs(spark, f"stateproc: copy state files to {os.fspath(path)}"):
            carried = _carried(spark, scaled, settings, source, commit.staging)
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
        with described_jobs(spark, f"stateproc: write savepoint {os.fspath(path)} ({_counted(jobs)})"):
            _write(spark, scaled, job, commit)
    except BaseException:
        commit.abort()
        raise


def _write(spark: SparkSession, scaled: Sequence[_ScaledOperator], job: WriteJob, commit: Commit) -> None:
    with reported_progress(spark) as rows:
        blocks = entry_blocks(spark, [item.operator for item in scaled], job, rows)
        if not blocks:
            finish(job, commit, [])
            return
        commit.staging.check_shared()
        shared = [frame for item in scaled for frame in item.operator.shared_frames]
        with persisted(shared), batches_limited(spark, by_rows=all(item.bounded for item in blocks)):
            save(by_target(blocks, len(job.targets)), job, commit)


def _check_classic(spark: SparkSession) -> None:
    """Raise InvalidOption for a session of Spark Connect, which has no Spark context on this side."""
    if not isinstance(spark, SparkSession):
        raise InvalidOption(
            "SavepointWriter cannot write through a session of Spark Connect: it copies files from the driver program",
            advice="use a classic session (SparkSession.builder.master(…)), or, for one state, "
            "df.write.format('savepoint')",
        )


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
    operator: NewOperator | ExistingOperator,
    settings: WriteSettings,
    parallelism: Mapping[str, int],
    spark: SparkSession,
) -> _ScaledOperator:
    given = parallelism.get(operator.operator_id)
    if isinstance(operator, ExistingOperator):
        operator.check_release(settings.release)
        own = operator.operator
        groups = settings.max_parallelism or own.max_parallelism
        subtasks = min(own.parallelism, groups) if given is None else given
        keyed = not operator.keeps_keyed_files(groups, subtasks, settings.format, settings.compressed)
    else:
        groups = settings.max_parallelism or _DEFAULT_MAX_PARALLELISM
        subtasks = max(1, min(groups, int(spark.sparkContext.defaultParallelism))) if given is None else given
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
    spark: SparkSession,
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
    for (operator, item), state in zip(existing, plan.finish(_copied(spark, plan, staging)), strict=True):
        if item.parallelism != operator.parallelism:
            state = repartitioned(operator, state, item.parallelism, settings.release, staging, verify=settings.verify)
        found[operator.operator_id] = state
    return found


def _copied(spark: SparkSession, plan: CopyPlan, staging: Staging) -> list[Any]:
    # On one machine, Spark's tasks would copy no faster.
    if plan.bytes <= _DRIVER_COPY_BYTES or str(spark.sparkContext.master).startswith("local"):
        with ThreadPoolExecutor(_COPY_THREADS) as pool:
            return list(pool.map(lambda copy: copy.run(staging), plan.copies))
    copies = spark.sparkContext.parallelize(plan.copies, len(plan.copies))
    return list(copies.map(lambda copy: copy.run(staging)).collect())


def _kept(operator: Operator, item: _ScaledOperator) -> OperatorState:
    """The operator without the handles of state that is written anew: keyed state, operator state if it is rescaled."""
    subtasks = operator.metadata.subtasks
    if item.keyed:
        subtasks = tuple(replace(subtask, managed_keyed=None, raw_keyed=None) for subtask in subtasks)
    if item.parallelism != operator.parallelism:
        subtasks = tuple(replace(subtask, managed_operator=None) for subtask in subtasks)
    return replace(operator.metadata, subtasks=subtasks)
