"""Find the operators of a SQL job whose state a changed query goes on with, by the compiled plans of both.

Only state that both queries compute alike is carried over, byte for byte, under the uids of the new plan. What begins
without state changes results, so that the user has to name it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from stateproc.errors import InvalidOption
from stateproc.keygroups.operator_ids import operator_id
from stateproc.query_plans.aggregate_conversion import call_text, call_words, new_calls
from stateproc.query_plans.node_rules import query_names
from stateproc.query_plans.plan_file import PlanNode, read_plan
from stateproc.query_plans.plan_matching import Pair, PlanMatch, main_uid, matched_plans, table_of


@dataclass(frozen=True)
class QueryEvolution:
    """What becomes of the operators of a SQL job.

    Attributes:
        moved: Operator id → uid in the new job.
        dropped: Operator ids that the new job does not have.
        converted: Operator id → its aggregate, whose calls are others.
        notes: What becomes of each node that holds state, in words.
    """

    moved: Mapping[str, str]
    dropped: Collection[str]
    converted: Mapping[str, Pair]
    notes: tuple[str, ...]


def query_evolution(
    old: Any,
    new: Any,
    mapped: Mapping[str, str],
    empty: Collection[str],
    operator_ids: Collection[str],
    *,
    begins: bool = False,
) -> QueryEvolution:
    """Return what becomes of the operators of a SQL job whose query changes.

    Args:
        old: The plan of the job that wrote the snapshot: a path, its text or the parsed JSON.
        new: The plan of the job that will restore it.
        mapped: uid of an operator of the old job → uid in the new one, where definitions do not match.
        empty: uids of operators of the new job that begin without state.
        operator_ids: The operators of the snapshot.
        begins: Whether new calls of aggregates begin without state.

    Raises:
        NotFound: A plan has no operator of a given uid.
        InvalidOption: A plan is none, or not that of the snapshot; operators of the new job would begin without state
            that nobody named; nodes are ambiguous.
    """
    before, after = read_plan(old), read_plan(new)
    known = query_names(before, operator_ids).uids
    match = matched_plans(before, after, mapped).without(empty)
    _refuse_empty(match, empty)
    _refuse_contradictions(match)
    if not begins:
        _refuse_new_calls(match)
    moved = {found: uid for found, uid in match.operator_ids.items() if found in known}
    converted = {operator_id(main_uid(before, pair.old)): pair for pair in match.pairs if pair.kept is not None}
    converted = {found: pair for found, pair in converted.items() if found in known}
    dropped = [found for found in known if found not in moved]
    return QueryEvolution(moved, dropped, converted, tuple(_notes(match)))


def _refuse_new_calls(match: PlanMatch) -> None:
    new = [(pair, new_calls(pair)) for pair in match.pairs if pair.kept is not None]
    missing = [
        f"{call_text(pair.new, call)} of {main_uid(match.new, pair.new)} ({pair.new.label})"
        for pair, calls in new
        for call in calls
    ]
    if missing:
        raise InvalidOption(
            f"aggregates have calls that the old query did not compute: {', '.join(missing)}",
            advice="let these begin with the restore, beside the others: --new-aggregates empty; or the whole "
            "operator: --empty UID",
        )


def _refuse_empty(match: PlanMatch, named: Collection[str]) -> None:
    starting = match.empty
    unknown = [uid for uid in named if uid not in match.stateful]
    if unknown:
        raise InvalidOption(
            f"empty: the new plan has no operator {unknown[0]} that holds state",
            advice=f"it has {', '.join(match.stateful) or 'none'}",
        )
    missing = [f"{uid} ({node.label})" for uid, node in starting.items() if uid not in named]
    if missing:
        ended = [f"{main_uid(match.old, node)} ({node.label})" for node in match.ended if table_of(node) is None]
        rest = f"; the old query has {', '.join(ended)}, which compute something else" if ended else ""
        first = missing[0].partition(" ")[0]
        raise InvalidOption(
            f"operators of the new query would begin without state: {', '.join(missing)}{rest}",
            advice=f"name each whose results may begin with the restore: --empty {first}; or, if nothing else than its "
            f"inputs changed, say which it was: --map OLD-UID={first}",
        )


def _refuse_contradictions(match: PlanMatch) -> None:
    for uid, node, other in match.contradictions:
        goes_on = f"{other.label} goes on, and takes back rows that {node.label} ({uid}) has never seen"
        both = "" if table_of(other) is not None else f" --empty {main_uid(match.new, other)}"
        raise InvalidOption(
            f"{goes_on}, so that its results would be wrong",
            advice=f"let both begin without state:{both} --empty {uid}"
            if both
            else "read the table from its beginning: let its source start anew, under another table name",
        )


def _notes(match: PlanMatch) -> list[str]:
    def shown(node: PlanNode) -> str:
        table = table_of(node)
        return node.label if table is None else f"{node.label} of {table.replace('`', '')}"

    found = [f"kept: {shown(pair.old)} as {shown(pair.new)}" for pair in match.pairs if pair.kept is None]
    for pair in match.pairs:
        if pair.kept is not None:
            found.append(f"converted: {shown(pair.old)} as {shown(pair.new)}: {', '.join(call_words(pair))}")
    found += [f"dropped: {shown(node)}" for node in match.ended]
    found += [
        f"starts empty: {shown(node)} ({uid}), its results begin with the restore" for uid, node in match.empty.items()
    ]
    found += [f"new: {shown(node)}, which begins where its options say" for node in match.new_sources]
    return found
