"""Plan a write from ``_metadata`` and the headers of state files; wishes that cannot be fulfilled are errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from stateproc.connectors.kafka_consumer import CONSUMER_STATE
from stateproc.errors import SnapshotError
from stateproc.metadata.backend import PRIORITY_QUEUE, StateMetaInfo
from stateproc.model.operator import Operator
from stateproc.reports.kafka_offsets import SOURCE_STATE
from stateproc.serializers import LayoutContext
from stateproc.snapshot.snapshot import Snapshot
from stateproc.writers.bootstrap.new_operator import NewOperator
from stateproc.writers.commit.staging import Staging
from stateproc.writers.formats.keyed_formats import KEYED_FORMATS, OutputFormat
from stateproc.writers.plan.restore_notes import max_parallelism_notes, offsets_notes, restore_notes
from stateproc.writers.plan.savepoint_plan import OperatorPlan, PlanAction, SavepointPlan, StatePlan
from stateproc.writers.rewrite.existing_operator import ExistingOperator
from stateproc.writers.rewrite.file_copy import copy_plan
from stateproc.writers.rewrite.operator_state_copy import refuse_raw_operator_state, subtask_states
from stateproc.writers.rewrite.operator_state_edits import new_offsets, offsets_before_and_after, writes_operator_state
from stateproc.writers.scaled_operators import (
    AnyOperator,
    ScaledOperator,
    WriteSettings,
    kept_handles,
    scaled_operators,
)
from stateproc.writers.write_plan import OperatorJob, WriteJob

# Plan the states of one operator: which are added, replaced, changed, carried over and dropped.

_TTL = {"on": "time to live enabled", "off": "time to live disabled", "purge": "expired entries dropped"}


def new_states(operator: NewOperator) -> Iterator[StatePlan]:
    """Yield the states of an operator that comes from DataFrames or tables."""
    for name, kind in operator.declared_states:
        yield StatePlan(name, kind, PlanAction.ADDED)


def dropped_states(operator: Operator) -> Iterator[StatePlan]:
    """Yield the states of an operator that is left out, as far as their headers can be read."""
    for state in operator.states:
        kind = "timers" if state.is_timers else state.kind
        yield StatePlan(state.name, kind, PlanAction.DROPPED, source_name=state.name)


def existing_states(item: ScaledOperator, operator: ExistingOperator, settings: WriteSettings) -> Iterator[StatePlan]:
    """Yield the states of an operator of the source.

    Raises:
        SnapshotError: Keyed state is to be written anew, and its headers cannot be read.
    """
    yield from _keyed_states(item, operator, settings)
    yield from _operator_states(item, operator)


def rewrite_reasons(
    item: ScaledOperator, operator: ExistingOperator, settings: WriteSettings
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return why keyed state is written anew: what changes its entries or format, and what only its files."""
    own = operator.operator
    if not item.keyed:
        return (), ()
    changes, files = [], []
    if item.max_parallelism != own.max_parallelism:
        changes.append(f"{own.max_parallelism} → {item.max_parallelism} key groups")
    format_ = settings.format or OutputFormat.CANONICAL
    handles = [subtask.managed_keyed for subtask in own.metadata.subtasks if subtask.managed_keyed is not None]
    if not all(map(KEYED_FORMATS[format_].is_handle_of, handles)):
        changes.append(f"format {format_.value}")
    if settings.compressed is not None:
        files.append("compressed" if settings.compressed else "uncompressed")
    if item.parallelism != own.parallelism:
        files.append(f"{own.parallelism} → {item.parallelism} subtasks")
    return tuple(changes), tuple(files)


def _keyed_states(item: ScaledOperator, operator: ExistingOperator, settings: WriteSettings) -> Iterator[StatePlan]:
    edits = operator.edits
    try:
        infos = operator.header.states
    except SnapshotError:
        if item.keyed:
            raise
        # Files of states that cannot be read are copied like others.
        yield from (_carried(state.name, state.kind) for state in operator.operator.keyed_states)
        return
    made = dict(operator.declared_states) if edits.states else {}
    changes, files = rewrite_reasons(item, operator, settings)
    for info in infos:
        name, kind = info.name, _kind_of(info)
        if name in edits.dropped:
            yield StatePlan(name, kind, PlanAction.DROPPED, source_name=name)
        elif name in made:
            yield StatePlan(name, made[name], PlanAction.REPLACED, ("from rows",), name)
        else:
            own = [*_own_changes(name, operator), *changes]
            reasons = (*own, *files) if own or files else (("entries copied",) if item.keyed else ())
            action = PlanAction.CHANGED if own else PlanAction.CARRIED
            yield StatePlan(edits.renamed.get(name, name), kind, action, reasons, name)
    known = {info.name for info in infos}
    for name, kind in made.items():
        if name not in known:
            yield StatePlan(name, kind, PlanAction.ADDED, ("from rows",))


def _own_changes(name: str, operator: ExistingOperator) -> Iterator[str]:
    edits = operator.edits
    if edits.renamed.get(name, name) != name:
        yield f"renamed from {name}"
    if name in edits.ttl:
        yield _TTL[edits.ttl[name].action]


def _kind_of(info: StateMetaInfo) -> str:
    if info.backend_type == PRIORITY_QUEUE:
        return "timers"
    return info.options.get("KEYED_STATE_TYPE", "keyed").lower()


def _operator_states(item: ScaledOperator, operator: ExistingOperator) -> Iterator[StatePlan]:
    own, edits = operator.operator, operator.edits
    rescaled = (f"{own.parallelism} → {item.parallelism} subtasks",) if item.parallelism != own.parallelism else ()
    changes: Mapping[str, str] = {
        **(dict.fromkeys((SOURCE_STATE, CONSUMER_STATE), "new Kafka offsets") if edits.offsets else {}),
        **dict.fromkeys(edits.emptied, "elements dropped"),
    }
    for state in own.operator_states:
        reasons = (*((changes[state.name],) if state.name in changes else ()), *rescaled)
        action = PlanAction.CHANGED if state.name in changes else PlanAction.CARRIED
        elements = 0 if state.name in edits.emptied else (None if state.name in changes else state.elements)
        yield StatePlan(state.name, state.kind, action, reasons, state.name, elements)


def _carried(name: str, kind: str) -> StatePlan:
    return StatePlan(name, kind, PlanAction.CARRIED, source_name=name)


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
