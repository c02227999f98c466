"""Plan a write from ``_metadata`` and the headers of state files; wishes that cannot be fulfilled are errors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from stateproc.errors import InvalidOption, SnapshotError
from stateproc.flink_versions import Release
from stateproc.html.units import counted
from stateproc.metadata.backend import PRIORITY_QUEUE, StateMetaInfo
from stateproc.metadata.snapshot import OperatorEntry
from stateproc.model.operator import Operator
from stateproc.serializers import LayoutContext
from stateproc.snapshot.snapshot import Snapshot
from stateproc.storage.store import StorePath
from stateproc.storage.uris import absolute
from stateproc.writers.bootstrap.new_operator import NewOperator
from stateproc.writers.commit.commit import check_target
from stateproc.writers.commit.staging import Staging
from stateproc.writers.formats.keyed_formats import KEYED_FORMATS, OutputFormat
from stateproc.writers.plan.restore_notes import max_parallelism_notes, pending_notes, restore_notes, source_notes
from stateproc.writers.plan.savepoint_plan import OperatorPlan, PlanAction, SavepointPlan, StatePlan
from stateproc.writers.rewrite.existing_operator import ExistingOperator
from stateproc.writers.rewrite.file_copy import copy_plan
from stateproc.writers.rewrite.kryo_conversion import ConversionProblem, refuse_problems
from stateproc.writers.rewrite.operator_state_edits import (
    EditedOperatorState,
    edited_operator_state,
    element_conversions,
    element_evolutions,
    element_problems,
)
from stateproc.writers.scaled_operators import (
    AnyOperator,
    ScaledOperator,
    WriteSettings,
    kept_handles,
    scaled_operators,
    target_path,
)
from stateproc.writers.write_spec import OperatorWriteSpec, WriteSpec
from stateproc.writers.write_task import Source

# Plan the states of one operator: which are added, replaced, changed, carried over and dropped.

_TTL = {"on": "time to live enabled", "off": "time to live disabled", "purge": "expired entries dropped"}


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


def keyed_states(
    item: ScaledOperator,
    operator: ExistingOperator,
    release: Release,
    changes: Sequence[str],
    files: Sequence[str],
    *,
    count: bool,
) -> Iterator[StatePlan]:
    """Yield the keyed states of an operator of the source.

    Args:
        item: The operator as it is written.
        operator: The operator with its edits.
        release: The release that will restore the savepoint.
        changes: Why entries or their format change, of `rewrite_reasons`.
        files: Why files change.
        count: Whether to count rows that are deleted or updated, by reading their states.

    Raises:
        SnapshotError: Keyed state is to be written anew, and its headers cannot be read.
    """
    edits = operator.edits
    try:
        infos = operator.header.states
    except SnapshotError:
        if item.keyed:
            raise
        # Files of states that cannot be read are copied like others.
        carried = PlanAction.CARRIED
        yield from (
            StatePlan(state.name, state.kind, carried, source_name=state.name)
            for state in operator.operator.keyed_states
        )
        return
    made = dict(operator.declared_states) if edits.states else {}
    for info in infos:
        name, kind = info.name, _kind_of(info)
        if name in edits.dropped:
            yield StatePlan(name, kind, PlanAction.DROPPED, source_name=name)
        elif name in made:
            yield StatePlan(name, made[name], PlanAction.REPLACED, ("from rows",), name)
        else:
            own = [*_own_changes(name, operator, count), *_conversions(info, operator, release), *changes]
            reasons = (*own, *files) if own or files else (("entries copied",) if item.keyed else ())
            action = PlanAction.CHANGED if own else PlanAction.CARRIED
            yield StatePlan(edits.renamed.get(name, name), kind, action, reasons, name)
    if operator.adopted is not None:
        adopted = keyed_states(item, operator.adopted, release, changes, files, count=count)
        yield from (state for state in adopted if state.action is not PlanAction.DROPPED)
    known = {info.name for info in infos}
    for name, kind in made.items():
        if name not in known:
            yield StatePlan(name, kind, PlanAction.ADDED, ("from rows",))


def _own_changes(name: str, operator: ExistingOperator, count: bool) -> Iterator[str]:
    edits = operator.edits
    if edits.renamed.get(name, name) != name:
        yield f"renamed from {name}"
    if name in edits.ttl:
        yield _TTL[edits.ttl[name].action]
    yield from operator.row_edits(name, count=count)
    evolution = operator.type_change(name)
    if evolution is not None:
        yield from evolution.matched.changes
    if name in edits.partners:
        yield "numbers of partners added" if edits.partners[name][0].on else "numbers of partners removed"
    if name in edits.frames:
        yield "new calls computed of the rows in their frames"
    yield from operator.key_words


def _conversions(info: StateMetaInfo, operator: ExistingOperator, release: Release) -> Iterator[str]:
    """Yield what changes in a keyed state for the release's Kryo, or for flink-scala-api."""
    upgrade = operator.upgrade(release)
    conversion = operator.conversion(info.name, release)
    if conversion is not None and upgrade is not None:
        yield conversion.reason
        yield from upgrade.taken_types(info)
    elif upgrade is not None and (reason := upgrade.header_reason(info)) is not None:
        yield reason


def _kind_of(info: StateMetaInfo) -> str:
    if info.backend_type == PRIORITY_QUEUE:
        return "timers"
    return info.options.get("KEYED_STATE_TYPE", "keyed").lower()


def _operator_states(
    item: ScaledOperator, operator: ExistingOperator, edited: EditedOperatorState | None, release: Release
) -> Iterator[StatePlan]:
    own, edits = operator.operator, operator.edits
    rescaled = (f"{own.parallelism} → {item.parallelism} subtasks",) if item.parallelism != own.parallelism else ()
    changes: dict[str, str] = dict.fromkeys(edits.emptied, "elements dropped")
    if edited is not None and edited.source is not None:
        changes[edited.source[1].state_name] = ", ".join(edited.source[1].reasons)
    changed = {} if edited is None else edited.edited
    conversions = dict(element_conversions(operator, release))
    conversions |= {it.info.name: ", ".join(it.matched.changes) for it in element_evolutions(operator)}
    for state in own.operator_states:
        own_changes = [found[state.name] for found in (changes, conversions) if state.name in found]
        reasons = (*own_changes, *rescaled)
        elements = 0 if state.name in edits.emptied else (None if state.name in changes else state.elements)
        rest = changed.get(state.name)
        if rest is not None:
            counts = zip(edits.elements[state.name], rest.counts, strict=True)
            reasons = (*(edit.words(counted(number, *rest.row_words)) for edit, number in counts), *reasons)
            elements = None if state.elements is None else rest.rows
        action = PlanAction.CHANGED if own_changes or state.name in changed else PlanAction.CARRIED
        yield StatePlan(state.name, state.kind, action, reasons, state.name, elements)


@dataclass(frozen=True)
class PlannedOperator:
    """An operator of the new savepoint: what is written of it, and what is copied.

    Attributes:
        scaled: The operator with its parallelism and max parallelism.
        spec: Its headers, without the handles of files that are copied.
        kept: Its entry in the source, with the handles of files that are copied; None of a new operator.
        operator_state: Its operator state; None if its files are copied.
        sources: The rows that fill its states.
    """

    scaled: ScaledOperator
    spec: OperatorWriteSpec
    kept: OperatorEntry | None = None
    operator_state: EditedOperatorState | None = None
    sources: Sequence[Source] = ()

    @property
    def operator(self) -> AnyOperator:
        """The operator with its edits."""
        return self.scaled.operator


@dataclass(frozen=True)
class WritePlan:
    """A planned write. It is what is shown before a write, what is written, and what is reported afterwards.

    Attributes:
        savepoint: What happens to each operator and state, and why.
        operators: The operators that are written, in the order of ``spec.operators``.
        spec: What tasks need, but for the directory and the handles of files that are copied.
        settings: Options of the whole savepoint.
        source: The snapshot that is rewritten; None for a new one.
        path: The directory, as it was given; None of a plan that is only shown.
        overwrite: Whether a snapshot in it is replaced.
    """

    savepoint: SavepointPlan
    operators: tuple[PlannedOperator, ...]
    spec: WriteSpec
    settings: WriteSettings
    source: Snapshot | None
    path: str | None
    overwrite: bool


def plan_write(
    operators: Collection[AnyOperator],
    settings: WriteSettings,
    parallelism: Mapping[str, int],
    source: Snapshot | None,
    default_parallelism: int,
    *,
    path: str | None = None,
    overwrite: bool = False,
    verify: bool = True,
    count: bool = False,
) -> WritePlan:
    """Plan a write. State files are not read beyond their headers, but to count.

    Args:
        operators: The operators of the new savepoint.
        settings: Options of the whole savepoint.
        parallelism: The parallelism of operators for which it was set, by operator id.
        source: The snapshot that is rewritten; None for a new one.
        default_parallelism: The parallelism of new operators for which it was not set.
        path: The directory, if it is known.
        overwrite: Whether a snapshot in it is replaced.
        verify: Whether files are read back after they are written.
        count: Whether to count rows that are deleted or updated, by reading their states.

    Raises:
        SnapshotError: InvalidOption, NotFound, UnsupportedSnapshot, CorruptSnapshot, MissingFile.
    """
    sources = [] if source is None else [source.location.directory_uri]
    target = None if path is None else target_path(path, settings, source)
    replaces = target is not None and check_target(target, overwrite=overwrite, sources=sources)
    if not operators:
        raise InvalidOption("the savepoint has no operators", advice="add one: writer.with_operator(uid, …)")
    scaled = scaled_operators(list(operators), settings, parallelism, default_parallelism)
    refuse_problems(_conversion_problems(scaled, settings.release), settings.release)
    planned = [_planned(item, settings) for item in scaled]
    spec = _spec([item.spec for item in planned], settings, source, verify)
    # Encoders of rows refuse those whose key groups cannot be known. No row is read.
    planned = [replace(item, sources=list(item.operator.sources(spec, n))) for n, item in enumerate(planned)]
    plans = [_plan(item, settings, source, count) for item in planned]
    plans += [] if source is None else list(_dropped(source, operators))
    savepoint = SavepointPlan(
        source=None if source is None else source.path,
        target=None if path is None else absolute(path),
        replaces_target=replaces,
        flink_version=str(settings.release),
        metadata_version=settings.release.metadata_version,
        format=spec.format.value,
        compressed=spec.compressed,
        operators=tuple(plans),
        master_states=tuple(item.name for item in spec.master_states),
        notes=tuple(_notes(plans, planned, settings, source)),
    )
    return WritePlan(savepoint, tuple(planned), spec, settings, source, path, overwrite)


def _conversion_problems(scaled: Iterable[ScaledOperator], release: Release) -> Iterator[ConversionProblem]:
    """Yield the values that cannot be converted for a release, of all operators."""
    for item in scaled:
        operator = item.operator
        if isinstance(operator, ExistingOperator):
            yield from operator.conversion_problems(release)
            yield from element_problems(operator, release)


def _planned(item: ScaledOperator, settings: WriteSettings) -> PlannedOperator:
    """Plan what is written of an operator, after the checks that it can be written. Raises SnapshotError."""
    operator = item.operator
    if isinstance(operator, NewOperator):
        return PlannedOperator(item, operator.spec(settings.release, item.parallelism, item.max_parallelism))
    kept = kept_handles(operator, item, settings.release)
    operator_state = edited_operator_state(operator, kept, item.parallelism, settings.release)
    spec = operator.spec(settings.release, item.parallelism, item.max_parallelism, keyed=item.keyed)
    if spec.keyed is not None:
        operator.check_entries(spec, settings.release)
    return PlannedOperator(item, spec, kept, operator_state)


def _spec(
    operators: Sequence[OperatorWriteSpec], settings: WriteSettings, source: Snapshot | None, verify: bool
) -> WriteSpec:
    """Return what tasks need, without the directory."""
    checkpoint_id = 1 if source is None else source.metadata.checkpoint_id
    context = LayoutContext() if source is None else source.options.context
    return WriteSpec(
        Staging(StorePath(""), ""),
        settings.release,
        tuple(operators),
        format=settings.format or OutputFormat.CANONICAL,
        compressed=bool(settings.compressed),
        verify=verify,
        checkpoint_id=checkpoint_id if settings.checkpoint_id is None else settings.checkpoint_id,
        context=replace(context, kryo=settings.release.kryo),
        rocksdb=settings.rocksdb,
        master_states=() if source is None else source.metadata.master_states,
    )


def _notes(
    plans: Sequence[OperatorPlan], planned: Sequence[PlannedOperator], settings: WriteSettings, source: Snapshot | None
) -> Iterator[str]:
    yield from max_parallelism_notes(
        plans, {item.operator.operator_id: item.scaled.kept for item in planned if item.scaled.kept}
    )
    yield from restore_notes(plans, [item.operator for item in planned], settings)
    yield from pending_notes(source, [item.operator for item in planned if isinstance(item.operator, ExistingOperator)])
    for item in planned:
        if isinstance(item.operator, ExistingOperator):
            yield from item.operator.hash_notes
            if item.operator_state is not None and item.operator_state.source is not None:
                yield from source_notes(item.operator, *item.operator_state.source)


def _plan(planned: PlannedOperator, settings: WriteSettings, source: Snapshot | None, count: bool) -> OperatorPlan:
    item, operator, spec = planned.scaled, planned.operator, planned.spec
    if isinstance(operator, NewOperator):
        return _new(planned, operator, settings, source)
    assert planned.kept is not None  # of every existing operator
    own = operator.operator
    location, drop = own.location, settings.drop_in_flight
    kept = copy_plan([planned.kept], location, drop_channel_state=drop)
    every = copy_plan([own.metadata], location, drop_channel_state=drop)
    changes, files = rewrite_reasons(item, operator, settings)
    renamed = (f"renamed from {own.display}",) if operator.operator_id != own.operator_id else ()
    release = settings.release
    states = (
        *keyed_states(item, operator, release, changes, files, count=count),
        *_operator_states(item, operator, planned.operator_state, release),
    )
    rescaled = (f"{own.parallelism} → {item.parallelism} subtasks",) if item.parallelism != own.parallelism else ()
    reasons = (*renamed, *((*changes, *files) if spec.keyed is not None else rescaled))
    is_changed = bool(reasons) or any(state.action is not PlanAction.CARRIED for state in states)
    if item.kept is not None:
        reasons = (*reasons, f"max parallelism stays {item.max_parallelism}")
    writes = planned.operator_state is not None and bool(own.operator_files)
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
        keyed_format=None if spec.keyed is None else (settings.format or OutputFormat.CANONICAL).value,
        files_copied=len(kept.copies),
        bytes_copied=kept.bytes,
        files_written=planned.scaled.parallelism * ((planned.spec.keyed is not None) + writes),
        bytes_read=every.bytes - kept.bytes,
        temporary_bytes=_temporary_bytes(planned, every.bytes - kept.bytes, own),
        states=states,
    )


_SPILLED = 1.2
"""Bytes of entries in temporary files, of each stored byte: 1.18 of entries of 56 bytes, less of larger ones."""


def _temporary_bytes(planned: PlannedOperator, stored: int, own: Operator | None = None) -> int:
    """Return about how much waits in temporary files until all entries of a state file are known.

    Args:
        stored: The stored bytes of its state that is written anew.
        own: The operator in the source; None of a new one.
    """
    item = planned.scaled
    frames = {id(source.frame): source.frame for source in planned.sources}.values()
    rows = sum(frame.nbytes for frame in frames if isinstance(frame, pa.Table | pa.RecordBatch))
    stays = own is None or (item.max_parallelism == own.max_parallelism and item.parallelism <= own.parallelism)
    if isinstance(planned.operator, ExistingOperator) and planned.operator.matched_key is not None:
        stays = False
    if planned.spec.collisions is not None:
        stored *= 2  # Each entry has a pair of its keys.
    return int(_SPILLED * (rows + (0 if planned.spec.keyed is None or (stays and not frames) else stored)))


def _new(
    planned: PlannedOperator, operator: NewOperator, settings: WriteSettings, source: Snapshot | None
) -> OperatorPlan:
    item, spec = planned.scaled, planned.spec
    before = {} if source is None else {found.operator_id: found for found in source.operators}
    replaced = before.get(operator.operator_id)
    files = (spec.keyed is not None) + (spec.operator is not None)
    return OperatorPlan(
        operator_id=operator.operator_id,
        uid=operator.uid,
        action=PlanAction.ADDED if replaced is None else PlanAction.REPLACED,
        source_id=None if replaced is None else replaced.operator_id,
        parallelism=item.parallelism,
        max_parallelism=item.max_parallelism,
        source_parallelism=None if replaced is None else replaced.parallelism,
        source_max_parallelism=None if replaced is None else replaced.max_parallelism,
        keyed_format=None if spec.keyed is None else (settings.format or OutputFormat.CANONICAL).value,
        files_written=files * item.parallelism,
        temporary_bytes=_temporary_bytes(planned, 0),
        states=tuple(StatePlan(name, kind, PlanAction.ADDED) for name, kind in operator.declared_states),
    )


def _dropped(source: Snapshot, operators: Collection[AnyOperator]) -> Iterator[OperatorPlan]:
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
        states=tuple(
            StatePlan(one.name, "timers" if one.is_timers else one.kind, PlanAction.DROPPED, source_name=one.name)
            for one in operator.states
        ),
    )
