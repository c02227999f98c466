"""Which row of each key a deduplication returns, and what its state keeps of it.

    last row, PROCTIME()           the row, unless nobody asks for its INSERT or for what it replaces: then nothing
    first row, PROCTIME()          TRUE: that there was a row of the key
    by the time of rows            the row
    first row by the time of rows  from Flink 2.1 on the row until its time comes, in a state of its own; then it is
                                   returned, and TRUE is all that is kept

If a deduplication gets to return the other row, its keys stay. What it has emitted before cannot be taken back.

Sources: ProcTimeDeduplicateKeepLastRowFunction, ProcTimeDeduplicateKeepFirstRowFunction, RowTimeDeduplicateFunction,
RowTimeDeduplicateKeepFirstRowFunction of org.apache.flink.table.runtime.operators.deduplicate.
"""

from __future__ import annotations

from collections.abc import Iterator

from stateproc.query_plans.plan_file import PlanNode

DEDUPLICATE = "stream-exec-deduplicate"
DEDUPLICATED_STATE = "deduplicate-state"
EMITTED_STATE = "already-emitted-state-boolean"
"""The state of first rows that have been returned as their time has come."""
CHANGES = ("outputInsertOnly", "generateUpdateBefore")
"""Attributes that decide how changes are written."""
_INSERTS_OPTION = "table.exec.deduplicate.insert-update-after-sensitive-enabled"


def kept_row(node: PlanNode) -> str | None:
    """Return which row of each key a deduplication returns, in words; None of other nodes."""
    last = node.at("keepLastRow") if node.kind == DEDUPLICATE else None
    return {True: "the last row", False: "the first row"}[last] if isinstance(last, bool) else None


def keeps_no_rows(node: PlanNode) -> bool:
    """Whether a deduplication only keeps that there was a row of a key."""
    return node.kind == DEDUPLICATE and node.at("isRowtime") is False and node.at("keepLastRow") is False


def waits(node: PlanNode) -> bool:
    """Whether a deduplication returns the first row when its time has come, and keeps it only until then."""
    first = node.kind == DEDUPLICATE and node.at("keepLastRow") is False
    return first and node.at("isRowtime") is True and node.at("outputInsertOnly") is True


def keeps_keys_only(old: PlanNode, new: PlanNode) -> bool:
    """Whether a deduplication goes on with the keys of another one, and not with its rows."""
    return keeps_no_rows(new) or (waits(new) and not waits(old))


def goes_on_as_other_row(node: PlanNode) -> bool:
    """Whether a deduplication knows for each key that it had a row, as one that returns the other row would."""
    if kept_row(node) is None:
        return False
    if node.at("isRowtime") is not False:
        return True
    return keeps_no_rows(node) or node.at("generateUpdateBefore") is True or _asks_for_inserts(node)


def changes_only(node: PlanNode) -> Iterator[str]:
    """Yield the attributes that decide how changes of a deduplication are written, and not what it keeps.

    By the time of rows Flink 2 says whether only INSERT is needed, for which it has another operator.
    """
    if node.at("isRowtime") is False:
        yield "outputInsertOnly"
        if node.at("keepLastRow") is False or _asks_for_inserts(node):
            yield "generateUpdateBefore"
    elif node.at("outputInsertOnly") is False:
        yield "outputInsertOnly"


def _asks_for_inserts(node: PlanNode) -> bool:
    return bool(node.at("configuration", _INSERTS_OPTION) == "true")
