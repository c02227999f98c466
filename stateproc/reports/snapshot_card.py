"""Show a snapshot as a card in notebooks, by its ``_metadata`` alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stateproc.html.cards import MOST_ROWS, Card, CardCell, Head, short
from stateproc.html.units import counted, human_bytes, some_of

if TYPE_CHECKING:
    from stateproc.model.operator import Operator
    from stateproc.model.snapshot import SnapshotContents

_MOST_NAMES = 12


def snapshot_card(snapshot: SnapshotContents) -> Card:
    """Return a snapshot with its operators, the largest first; those without state share a line."""
    sizes = [(operator.file_bytes, operator) for operator in snapshot.operators]
    stateful = sorted((pair for pair in sizes if pair[0]), key=lambda pair: -pair[0])
    stateless = [operator.display for size, operator in sizes if not size]
    largest = stateful[0][0] if stateful else 1
    kind = snapshot.kind
    facts = [
        ("path", snapshot.path),
        ("Flink", snapshot.flink_versions),
        ("operators", f"{len(sizes):,}"),
        ("bytes", human_bytes(snapshot.file_bytes)),
    ]
    if snapshot.note:
        facts.append(("note", snapshot.note))
    notes = []
    if len(stateful) > MOST_ROWS:
        rest = stateful[MOST_ROWS:]
        notes.append(f"and {counted(len(rest), 'smaller operator')}, {human_bytes(sum(size for size, _ in rest))}")
    if stateless:
        names = some_of([short(name) for name in stateless], _MOST_NAMES)
        notes.append(f"{counted(len(stateless), 'operator')} without state: {names}")
    return Card(
        title=f"{kind[:1].upper()}{kind[1:]} {snapshot.metadata.checkpoint_id}",
        kind="",
        facts=[(name, short(text)) for name, text in facts],
        heads=[Head("operator"), Head("bytes", number=True), Head(""), Head("parallelism", number=True)],
        rows=[_row(size, operator, largest) for size, operator in stateful[:MOST_ROWS]],
        notes=notes,
    )


def _row(size: int, operator: Operator, largest: int) -> list[CardCell]:
    note = operator.name if operator.name and operator.name != operator.uid else ""
    return [
        CardCell(short(operator.display), note=short(note) if note else "", strong=True),
        CardCell(human_bytes(size)),
        CardCell(share=size / largest),
        CardCell(f"{operator.parallelism:,} of {operator.max_parallelism:,}"),
    ]
