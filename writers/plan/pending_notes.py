"""Say what of a source's sinks is not committed and would be lost by a planned write.

A restore commits what is in the state of a sink's committer. It does not if the operator is dropped, if its state is
emptied, or if the committer keeps the uid of a sink that gets another one: the job looks for the committer of the new
uid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stateproc.errors import SnapshotError
from stateproc.keygroups.operator_ids import operator_id
from stateproc.model.operator import Operator
from stateproc.reports.pending import pending, summary
from stateproc.snapshot.snapshot import Snapshot
from stateproc.writers.rewrite.existing_operator import ExistingOperator
from stateproc.writers.rewrite.kafka_offsets import committer_uid

_LOST = ("to commit", "in progress", "buffered")
_SHOWN = 3


def pending_notes(source: Snapshot | None, operators: Sequence[ExistingOperator]) -> Iterator[str]:
    """Yield a note per operator of the source whose pending files, transactions or records would be lost.

    Args:
        source: the snapshot that is changed; None: the savepoint is new.
        operators: the operators of it that are kept.
    """
    if source is None:
        return
    kept = {item.operator.operator_id: item for item in operators}
    for operator in source.operators:
        own = kept.get(operator.operator_id)
        if own is None:
            yield from _note(operator, None, "are lost with the operator")
        elif own.edits.emptied:
            yield from _note(operator, own.edits.emptied, "are dropped: no restore commits them")
    yield from _committers(source, kept)


def _committers(source: Snapshot, kept: Mapping[str, ExistingOperator]) -> Iterator[str]:
    """Yield notes on committers that keep their uid when their sink gets another."""
    by_id = {operator.operator_id: operator for operator in source.operators}
    for identifier, item in kept.items():
        uid = item.operator.uid
        if uid is None or item.operator_id == identifier:
            continue
        committer = by_id.get(operator_id(committer_uid(uid)))
        own = None if committer is None else kept.get(committer.operator_id)
        if committer is None or own is None or own.operator_id != committer.operator_id:
            continue
        new = f"'{committer_uid(item.uid)}'" if item.uid else "the committer's new uid"
        yield from _note(
            committer, None, f"are not found by the job, unless '{committer_uid(uid)}' is renamed to {new}, too"
        )


def _note(operator: Operator, states: set[str] | None, fate: str) -> Iterator[str]:
    try:
        rows = [row for row in _rows(operator, states) if row["status"] in _LOST]
    except SnapshotError as error:
        yield f"{operator.display}: whether something is not committed cannot be read: {error.message}"
        return
    if not rows:
        return
    names = [row["name"] for row in rows]
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    yield f"{operator.display}: {summary(rows)} {fate}: {shown}"


def _rows(operator: Operator, states: set[str] | None) -> Iterator[dict[str, Any]]:
    return pending([operator], None if states is None else lambda _, name: name in states)
