"""Build the writer of a run: base, operators from sources, changes, settings of the target."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from stateproc.jobs.job_model import OperatorSpec, StateSpec
from stateproc.jobs.prepared_run import PreparedRun
from stateproc.jobs.source_tables import SourceTables
from stateproc.jobs.state_kinds import STATE_KINDS
from stateproc.writers.bootstrap.operator_bootstrap import OperatorBootstrap
from stateproc.writers.savepoint_writer import SavepointWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def writer_of(run: PreparedRun, tables: SourceTables | None, spark: SparkSession | None) -> SavepointWriter:
    """Return a writer that has everything that a job asks for; nothing is written.

    Args:
        run: The job and its inputs.
        tables: Its sources; None for a job without operators of its own.
        spark: The session; None for the local engine.

    Raises:
        NotFound: An operator, a state or a column does not exist.
        InvalidOption: A value is not possible.
    """
    target = run.job.target
    if run.base is None:
        writer = SavepointWriter.new_savepoint(spark, target.max_parallelism or 128)
    else:
        writer = SavepointWriter.from_existing_savepoint(spark, run.base, run.read_options)
    for change in run.job.changes:
        change.apply(writer)
    for operator in run.job.operators:
        assert tables is not None
        _add(writer, operator, tables)
    _set(writer, run)
    return writer


def _add(writer: SavepointWriter, operator: OperatorSpec, tables: SourceTables) -> None:
    if operator.plan is not None:
        given = operator.plan.rows
        if isinstance(given, str):
            rows = tables.frame(given)
        else:
            rows = {state: tables.frame(source) for state, source in given.items()}
        writer.with_operator(
            operator.uid,
            OperatorBootstrap.from_plan(operator.plan.path, operator.uid, rows, ttl=operator.plan.ttl),
        )
    elif operator.extend:
        for state in operator.states:
            writer.with_states(operator.uid, partial(_add_state, state=state, frame=tables.frame(state.source)))
    else:
        made = OperatorBootstrap(**operator.bootstrap)
        for state in operator.states:
            _add_state(made, state=state, frame=tables.frame(state.source))
        writer.with_operator(operator.uid, made)
    if operator.parallelism is not None:
        writer.with_parallelism(operator.uid, operator.parallelism)
    if operator.max_parallelism is not None:
        writer.with_max_parallelism(operator.max_parallelism, operator.uid)


def _add_state(operator: OperatorBootstrap, *, state: StateSpec, frame: Any) -> None:
    kind = STATE_KINDS[state.kind]
    arguments = dict(state.arguments)
    if isinstance(arguments.get("window"), list):
        arguments["window"] = tuple(arguments["window"])
    leading = (state.name, frame) if kind.named else (frame,)
    getattr(operator, kind.method)(*leading, **arguments)


def _set(writer: SavepointWriter, run: PreparedRun) -> None:
    target = run.job.target
    if target.max_parallelism is not None:
        writer.with_max_parallelism(target.max_parallelism)
    for uid, parallelism in target.parallelism.items():
        writer.with_parallelism(uid, parallelism)
    if target.checkpoint_id is not None:
        writer.with_checkpoint_id(target.checkpoint_id)
    if target.format is not None:
        writer.with_format(target.format)  # type: ignore[arg-type]  # the schema lists the names
    if target.flink_version is not None:
        writer.with_flink_version(target.flink_version)
    if target.compressed is not None:
        writer.with_compression(target.compressed)
    if target.rocksdb_options:
        writer.with_rocksdb_options(run.secrets.reveal(dict(target.rocksdb_options)))
    options = run.storage_options
    if options is not None:
        writer.with_storage_options(options)
