"""Plan a write from ``_metadata`` and the headers of state files; wishes that cannot be fulfilled are errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from stateproc.model.operator import Operator
from stateproc.serializers import LayoutContext
from stateproc.snapshot.snapshot import Snapshot
from stateproc.writers.bootstrap.new_operator import NewOperator
from stateproc.writers.commit.staging import Staging
from stateproc.writers.formats.keyed_formats import OutputFormat
from stateproc.writers.plan.max_parallelism_notes import max_parallelism_notes
from stateproc.writers.plan.restore_notes import offsets_notes, restore_notes
from stateproc.writers.plan.savepoint_plan import OperatorPlan, PlanAction, SavepointPlan
from stateproc.writers.plan.state_plans import dropped_states, existing_states, new_states, rewrite_reasons
from stateproc.writers.rewrite.existing_operator import ExistingOperator
from stateproc.writers.rewrite.file_copy import copy_plan
from stateproc.writers.rewrite.operator_state_edits import new_offsets, offsets_before_and_after, writes_operator_state
from stateproc.writers.rewrite.repartition import refuse_raw_operator_state, subtask_states
from stateproc.writers.scaled_operators import (
    AnyOperator,
    ScaledOperator,
    WriteSettings,
    kept_handles,
    scaled_operators,
)
from stateproc.writers.write_plan import OperatorJob, WriteJob


def savepoint_plan(
    operators: Sequence[AnyOperator], settings: WriteSettings, parallelism: Mapping[str, int],
    source: Snapshot | None, default_parallelism: int, *, target: str | None = None, replaces_target: bool = False,
) -> SavepointPlan:  # fmt: skip
    """Plan a write. State files are not read beyond their headers.

    Args:
        operators: The operators of the new savepoint.
        settings: Options of the whole savepoint.
        parallelism: The parallelism of operators for which it was set, by operator id.
        source: The snapshot that is rewritten; None for a new one.
        default_parallelism: The parallelism of new operators for which it was not set.
        target: The directory, if it is known.
        replaces_target: Whether there is a snapshot that is replaced.

    Raises:
        SnapshotError: As writing would: InvalidOption, NotFound, UnsupportedSnapshot, CorruptSnapshot, MissingFile.
    """
    scaled = scaled_operators(operators, settings, parallelism, default_parallelism)
    jobs = tuple(_checked_job(item, settings, source) for item in scaled)
    _check_rows(scaled, jobs, settings, source)
    plans = [_plan(item, job, settings, source) for item, job in zip(scaled, jobs, strict=True)]
    plans += [] if source is None else list(_dropped(source, operators))
    notes = [*max_parallelism_notes(plans, {item.operator.operator_id: item.kept for item in scaled if item.kept})]
    notes += restore_notes(plans, operators, settings)
    for operator in operators:
        if isinstance(operator, ExistingOperator):
            notes += operator.hash_notes
            found = offsets_before_and_after(operator)
            notes += [] if found is None else list(offsets_notes(operator, *found))
    master_states = () if source is None else tuple(item.name for item in source.metadata.master_states)
    return replace(
        _plan_of_operators(plans, settings, source, target),
        replaces_target=replaces_target,
        master_states=master_states,
        notes=tuple(notes),
    )


def plan_without_states(
    operators: Sequence[AnyOperator], settings: WriteSettings, source: Snapshot | None, jobs: Sequence[OperatorJob],
    target: str,
) -> SavepointPlan:  # fmt: skip
    """Return the plan of a write that is done, from its operators alone; no file of the source is read.

    Args:
        operators: The operators of the savepoint.
        settings: Options of the whole savepoint.
        source: The snapshot that was rewritten; None for a new one.
        jobs: The operators as they were written.
        target: The directory.
    """
    before = set() if source is None else {item.operator_id for item in source.operators}
    plans = []
    for operator, job in zip(operators, jobs, strict=True):
        action = PlanAction.CHANGED if job.keyed is not None else PlanAction.CARRIED
        if isinstance(operator, NewOperator):
            action = PlanAction.REPLACED if operator.operator_id in before else PlanAction.ADDED
        own = (job.operator_id, job.uid, action)
        plans.append(OperatorPlan(*own, parallelism=job.parallelism, max_parallelism=job.max_parallelism))
    return _plan_of_operators(plans, settings, source, target)


def _plan_of_operators(
    plans: Sequence[OperatorPlan], settings: WriteSettings, source: Snapshot | None, target: str | None
) -> SavepointPlan:
    """Return the plan of a write into an empty target, without notes."""
    return SavepointPlan(
        source=None if source is None else source.path,
        target=target,
        replaces_target=False,
        flink_version=str(settings.release),
        metadata_version=settings.release.metadata_version,
        format=(settings.format or OutputFormat.CANONICAL).value,
        compressed=bool(settings.compressed),
        operators=tuple(plans),
    )


def _checked_job(item: ScaledOperator, settings: WriteSettings, source: Snapshot | None) -> OperatorJob:
    """Return the operator as the write would plan it, after the checks that writing makes on the way."""
    operator = item.operator
    if isinstance(operator, NewOperator):
        return operator.job(settings.release, item.parallelism, item.max_parallelism)
    own, kept = operator.operator, kept_handles(operator, item)
    if writes_operator_state(operator, item.parallelism):
        new_offsets(operator)
        if item.parallelism != own.parallelism:
            refuse_raw_operator_state(kept, own.display)
        subtask_states(own, item.parallelism, {})
    job = operator.job(settings.release, kept, item.parallelism, item.max_parallelism, keyed=item.keyed)
    if job.keyed is not None:
        operator.check_entries(job)
    return job


def _check_rows(
    scaled: Sequence[ScaledOperator], jobs: tuple[OperatorJob, ...], settings: WriteSettings, source: Snapshot | None
) -> None:
    """Make the encoders of all rows, which refuses rows whose key groups cannot be known. No row is read."""
    context = LayoutContext() if source is None else source.options.context
    job = WriteJob(Staging("", ""), settings.release, jobs, context=replace(context, kryo=settings.release.kryo))
    for index, item in enumerate(scaled):
        for _ in item.operator.sources(job, index):
            pass


def _plan(item: ScaledOperator, job: OperatorJob, settings: WriteSettings, source: Snapshot | None) -> OperatorPlan:
    operator = item.operator
    if isinstance(operator, NewOperator):
        return _new(item, operator, job, settings, source)
    own = operator.operator
    location, drop = own.location, settings.drop_in_flight
    kept = copy_plan([kept_handles(operator, item)], location, drop_channel_state=drop)
    every = copy_plan([own.metadata], location, drop_channel_state=drop)
    changes, files = rewrite_reasons(item, operator, settings)
    renamed = (f"renamed from {own.display}",) if operator.operator_id != own.operator_id else ()
    states = tuple(existing_states(item, operator, settings))
    rescaled = (f"{own.parallelism} → {item.parallelism} subtasks",) if item.parallelism != own.parallelism else ()
    reasons = (*renamed, *((*changes, *files) if job.keyed is not None else rescaled))
    is_changed = bool(reasons) or any(state.action is not PlanAction.CARRIED for state in states)
    if item.kept is not None:
        reasons = (*reasons, f"max parallelism stays {item.max_parallelism}")
    return OperatorPlan(
        operator_id=operator.operator_id,
        uid=operator.uid,
        action=PlanAction.CHANGED if is_changed else PlanAction.CARRIED,
        reasons=reasons,
        source_id=own.operator_id,
        parallelism=item.parallelism,
        max_parallelism=item.max_parallelism,
        source_parallelism=own.parallelism,
        source_max_parallelism=own.max_parallelism,
        keyed_format=None if job.keyed is None else (settings.format or OutputFormat.CANONICAL).value,
        files_copied=len(kept.copies),
        bytes_copied=kept.bytes,
        files_written=_files_written(item, operator, job),
        bytes_read=every.bytes - kept.bytes,
        states=states,
    )


def _files_written(item: ScaledOperator, operator: ExistingOperator, job: OperatorJob) -> int:
    keyed = item.parallelism if job.keyed is not None else 0
    own = operator.operator
    writes = writes_operator_state(operator, item.parallelism) and bool(own.operator_files)
    return keyed + (item.parallelism if writes else 0)


def _new(
    item: ScaledOperator, operator: NewOperator, job: OperatorJob, settings: WriteSettings, source: Snapshot | None
) -> OperatorPlan:
    before = {} if source is None else {found.operator_id: found for found in source.operators}
    replaced = before.get(operator.operator_id)
    files = (job.keyed is not None) + (job.operator is not None)
    return OperatorPlan(
        operator_id=operator.operator_id,
        uid=operator.uid,
        action=PlanAction.ADDED if replaced is None else PlanAction.REPLACED,
        source_id=None if replaced is None else replaced.operator_id,
        parallelism=item.parallelism,
        max_parallelism=item.max_parallelism,
        source_parallelism=None if replaced is None else replaced.parallelism,
        source_max_parallelism=None if replaced is None else replaced.max_parallelism,
        keyed_format=None if job.keyed is None else (settings.format or OutputFormat.CANONICAL).value,
        files_written=files * item.parallelism,
        states=tuple(new_states(operator)),
    )


def _dropped(source: Snapshot, operators: Sequence[AnyOperator]) -> Iterator[OperatorPlan]:
    kept = {item.operator.operator_id for item in operators if isinstance(item, ExistingOperator)}
    replaced = {item.operator_id for item in operators if isinstance(item, NewOperator)}
    for operator in source.operators:
        if operator.operator_id not in kept | replaced:
            yield _dropped_plan(operator)


def _dropped_plan(operator: Operator) -> OperatorPlan:
    return OperatorPlan(
        operator_id=operator.operator_id,
        uid=operator.uid,
        action=PlanAction.DROPPED,
        source_id=operator.operator_id,
        source_parallelism=operator.parallelism,
        source_max_parallelism=operator.max_parallelism,
        states=tuple(dropped_states(operator)),
    )
