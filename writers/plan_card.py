"""Show in notebooks what a writer would write: its operators, and what happens to the states of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stateproc.html.cards import MOST_ROWS, Card, CardCell, Head, short
from stateproc.html.units import counted
from stateproc.snapshot.snapshot import Snapshot
from stateproc.states.operator import Operator
from stateproc.writers.bootstrap.new_operator import NewOperator
from stateproc.writers.rewrite.edits import TtlEdit
from stateproc.writers.rewrite.existing_operator import ExistingOperator
from stateproc.writers.write_snapshot import WriteSettings

_TTL = {"on": "time to live on", "off": "time to live off", "purge": "expired entries purged"}


def plan_card(
    operators: Sequence[NewOperator | ExistingOperator],
    settings: WriteSettings,
    parallelism: Mapping[str, int],
    source: Snapshot | None,
) -> Card:
    """Return the plan of a writer. Nothing is read but ``_metadata``, which is open already.

    Args:
        operators: The operators of the savepoint to be written.
        settings: Options of the whole savepoint.
        parallelism: The parallelism of operators for which it was set.
        source: The snapshot that is rewritten; None for a new one.
    """
    removed = [] if source is None else list(_removed(source, operators))
    rows = [_row(operator, settings, parallelism, source) for operator in operators]
    rows += [_cells(operator.display, "removed", "operator", "", "") for operator in removed]
    return Card(
        title="Savepoint to be written",
        kind="new" if source is None else "from an existing snapshot",
        facts=_facts(settings, source),
        heads=[Head("operator"), Head("plan"), Head("changes"), Head("parallelism", number=True)],
        rows=rows[:MOST_ROWS],
        notes=[f"and {counted(len(rows) - MOST_ROWS, 'operator')} more"] if len(rows) > MOST_ROWS else [],
    )


def _facts(settings: WriteSettings, source: Snapshot | None) -> list[tuple[str, str]]:
    kept = "kept" if source is not None else None
    keyed_format = settings.format.value if settings.format is not None else (kept or "canonical")
    facts = [("Flink", str(settings.release)), ("format", keyed_format)]
    groups = settings.max_parallelism
    facts.append(("max parallelism", kept or "128" if groups is None else str(groups)))
    if settings.compressed is not None:
        facts.append(("compressed", "yes" if settings.compressed else "no"))
    if settings.drop_in_flight:
        facts.append(("records in flight", "dropped"))
    if source is not None:
        facts.insert(0, ("source", short(source.path)))
    return facts


def _removed(source: Snapshot, operators: Sequence[NewOperator | ExistingOperator]) -> Iterator[Operator]:
    kept = {item.operator.operator_id for item in operators if isinstance(item, ExistingOperator)}
    replaced = {item.operator_id for item in operators if isinstance(item, NewOperator)}
    for operator in source.operators:
        if operator.operator_id not in kept | replaced:
            yield operator


def _row(
    operator: NewOperator | ExistingOperator,
    settings: WriteSettings,
    parallelism: Mapping[str, int],
    source: Snapshot | None,
) -> list[CardCell]:
    given = parallelism.get(operator.operator_id)
    display = operator.uid or operator.operator_id
    if isinstance(operator, NewOperator):
        known = set() if source is None else {item.operator_id for item in source.operators}
        plan = "replaced" if operator.operator_id in known else "new"
        return _cells(display, plan, "map", ", ".join(operator.state_names), "default" if given is None else str(given))
    own = operator.operator
    groups = settings.max_parallelism or own.max_parallelism
    subtasks = min(own.parallelism, groups) if given is None else given
    changes = list(_changes(operator))
    if (subtasks, groups) != (own.parallelism, own.max_parallelism):
        changes.append(f"rescaled from {own.parallelism} of {own.max_parallelism}")
    has_keyed = any(item.managed_keyed is not None for item in own.metadata.subtasks)
    # Whether files are compressed already is in their headers, which are not read here.
    copied = settings.compressed is None and operator.keeps_keyed_files(groups, subtasks, settings.format, None)
    plan, style = ("files copied", "value") if copied or not has_keyed else ("rewritten", "timers")
    return _cells(display, plan, style, ", ".join(changes), f"{subtasks} of {groups}")


def _cells(display: str, plan: str, style: str, changes: str, parallelism: str) -> list[CardCell]:
    return [
        CardCell(short(display), strong=True),
        CardCell(plan, style=style),
        CardCell(short(changes)),
        CardCell(parallelism or "–"),
    ]


def _changes(operator: ExistingOperator) -> Iterator[str]:
    own, edits = operator.operator, operator.edits
    if operator.operator_id != own.operator_id:
        yield f"renamed from {own.display}"
    yield from (f"{name} dropped" for name in sorted(edits.dropped))
    yield from (f"{old} renamed to {new}" for old, new in edits.renamed.items())
    yield from (f"{name}: {_ttl(edit)}" for name, edit in edits.ttl.items())
    if edits.states:
        yield f"{counted(len(edits.states), 'state')} added or transformed"


def _ttl(edit: TtlEdit) -> str:
    return _TTL.get(edit.action, edit.action)
