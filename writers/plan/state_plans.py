"""Plan the states of one operator: which are added, replaced, changed, carried over and dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stateproc.connectors.kafka_consumer import CONSUMER_STATE
from stateproc.errors import SnapshotError
from stateproc.metadata.backend import PRIORITY_QUEUE, StateMetaInfo
from stateproc.model.operator import Operator
from stateproc.reports.kafka_offsets import SOURCE_STATE
from stateproc.writers.bootstrap.new_operator import NewOperator
from stateproc.writers.formats.keyed_formats import KEYED_FORMATS, OutputFormat
from stateproc.writers.plan.savepoint_plan import PlanAction, StatePlan
from stateproc.writers.rewrite.existing_operator import ExistingOperator
from stateproc.writers.scaled_operators import ScaledOperator, WriteSettings

_TTL = {"on": "time to live enabled", "off": "time to live disabled", "purge": "expired entries dropped"}


def new_states(operator: NewOperator) -> Iterator[StatePlan]:
    """Yield the states of an operator that comes from DataFrames or tables."""
    for name, kind in operator.declared_states:
        yield StatePlan(name, kind, PlanAction.ADDED)


def dropped_states(operator: Operator) -> Iterator[StatePlan]:
    """Yield the states of an operator that is left out, as far as their headers can be read."""
    for state in operator.states:
        kind = "timers" if state.kind.endswith("timers") else state.kind
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
