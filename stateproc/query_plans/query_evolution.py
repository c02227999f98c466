"""Find the operators of a SQL job whose state a changed query goes on with, by the compiled plans of both.

State that both queries compute alike is carried over, byte for byte, under the uids of the new plan; that of aggregates
over the same groups, and kept rows of the same inputs, is converted. What begins without state changes results, so that
the user has to name it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from stateproc import types
from stateproc.errors import InvalidOption
from stateproc.keygroups.operator_ids import operator_id
from stateproc.query_plans.aggregate_conversion import call_words, frame_column, new_calls
from stateproc.query_plans.call_buffers import call_text
from stateproc.query_plans.emitted_results import other_results, refuse_other_results
from stateproc.query_plans.node_definitions import AGGREGATES, CALC, columns_in
from stateproc.query_plans.node_rules import aggregate_calls, query_names
from stateproc.query_plans.over_aggregates import OVER, is_bounded, over_calls, over_time
from stateproc.query_plans.plan_comparison import TimeToLive, comparable, is_same, time_words, times_to_live
from stateproc.query_plans.plan_conditions import filtered_out
from stateproc.query_plans.plan_file import CompiledPlan, PlanNode, read_plan
from stateproc.query_plans.plan_lineage import definitions
from stateproc.query_plans.plan_matching import Pair, PlanMatch, main_uid, matched_plans, state_uid
from stateproc.query_plans.plan_tables import table_of
from stateproc.query_plans.rank_order import kept_ranks
from stateproc.query_plans.row_conversion import (
    NewColumn,
    NewQuery,
    RowConversion,
    check_fills,
    key_columns,
    row_conversions,
    row_words,
)
from stateproc.query_plans.split_conversion import SplitChange, refuse_split
from stateproc.query_plans.split_distinct import without_split
from stateproc.serializers import Serializer
from stateproc.serializers.table.logical_types import LogicalType


@dataclass(frozen=True)
class QueryEvolution:
    """What becomes of the operators of a SQL job.

    Attributes:
        moved: Operator id → uid in the new job.
        dropped: Operator ids that the new job does not have.
        aggregates: Operator id → its aggregate, whose calls are others.
        rows: Operator id → its node, and how the rows of each input that it keeps get other columns.
        times: Operator id → its node, and what time to live the states of each input get or lose.
        timers: Operator ids of aggregates of OVER whose rows get timers of their own.
        keys: Operator id → the type of its keys, whose columns have other types, as wide or wider.
        splits: Operator id → its aggregate, whose DISTINCT one of the plans splits; of two operators the final one.
        notes: What becomes of each node that holds state, in words.
    """

    moved: Mapping[str, str]
    dropped: Collection[str]
    aggregates: Mapping[str, Pair]
    rows: Mapping[str, tuple[Pair, tuple[RowConversion | None, ...]]]
    times: Mapping[str, tuple[Pair, tuple[TimeToLive | None, ...]]]
    timers: Collection[str]
    keys: Mapping[str, Serializer]
    splits: Mapping[str, SplitChange]
    notes: tuple[str, ...]


def query_evolution(
    old: Any,
    new: Any,
    mapped: Mapping[str, str],
    empty: Collection[str],
    operator_ids: Collection[str],
    *,
    begins: bool = False,
    keeps: bool = False,
    fills: Mapping[str, str] = MappingProxyType({}),
) -> QueryEvolution:
    """Return what becomes of the operators of a SQL job whose query changes.

    Args:
        old: The plan of the job that wrote the snapshot: a path, its text or the parsed JSON.
        new: The plan of the job that will restore it.
        mapped: uid of an operator of the old job → uid in the new one, where definitions do not match.
        empty: uids of operators of the new job that begin without state.
        operator_ids: The operators of the snapshot.
        begins: Whether new calls of aggregates begin without state.
        keeps: Whether results that were emitted stay as they are, where the new query would have emitted others.
        fills: What new columns have in rows that are kept: ``UID.column``, of joins also ``UID.left.column`` → an
            expression in SQL over the row's other columns. Else they are null.

    Raises:
        NotFound: A plan has no operator of a given uid, or no such column is new.
        InvalidOption: A plan is none, or not that of the snapshot; operators of the new job would begin without state
            that nobody named; nodes are ambiguous.
    """
    before, after = read_plan(old), read_plan(new)
    known = query_names(before, operator_ids).uids
    before, after, split = _unsplit(before, after)
    match = matched_plans(before, after, mapped).without(empty)
    _refuse_empty(match, empty)
    _refuse_contradictions(match)
    _refuse_new_calls(match, begins=begins)
    for pair in match.pairs:
        refuse_other_results(pair, main_uid(after, pair.new), keeps=keeps)
        _refuse_unknown_filter(pair, main_uid(after, pair.new))
    moved = {found: uid for found, uid in match.operator_ids.items() if found in known}
    query = NewQuery(after)
    check_fills(query, match.pairs, fills)
    found = [(operator_id(state_uid(before, pair.old)), pair) for pair in match.pairs if pair.is_converted]
    keys = {pair.new.id: key_columns(query, pair) for _, pair in found}
    times = {pair.new.id: times_to_live(pair.old, pair.new) for pair in match.pairs if not pair.by_table}
    rows = {pair.new.id: row_conversions(query, pair, fills) for _, pair in found if pair.columns is not None}
    _refuse_filled_calls(match, rows)
    splits = {pair.new.id: change for pair in match.pairs if (change := split(pair)) is not None}
    divided = [pair for pair in match.pairs if pair.new.id in splits]
    for pair in divided:
        is_changed = pair.is_converted or any(times.get(pair.new.id, ()))
        refuse_split(pair, splits[pair.new.id], main_uid(after, pair.new), is_changed=is_changed)
    return QueryEvolution(
        moved,
        [one for one in known if one not in moved],
        {one: pair for one, pair in found if pair.kept is not None and one in known},
        {one: (pair, rows[pair.new.id]) for one, pair in found if pair.columns is not None and one in known},
        {
            operator_id(state_uid(before, pair.old)): (pair, times[pair.new.id])
            for pair in match.pairs
            if any(times.get(pair.new.id, ()))
        },
        [one for one, pair in found if pair.has_other_timers and one in known],
        {
            one: types.RowData([(f"f{at}", type_) for at, (_, _, type_) in enumerate(keys[pair.new.id])])
            for one, pair in found
            if keys[pair.new.id] and one in known
        },
        {operator_id(state_uid(before, pair.old)): splits[pair.new.id] for pair in divided},
        tuple(_notes(match, rows, times, keys, splits)),
    )


def _unsplit(
    old: CompiledPlan, new: CompiledPlan
) -> tuple[CompiledPlan, CompiledPlan, Callable[[Pair], SplitChange | None]]:
    """Return the plans without the split aggregates of the only one that has such, and what says of a pair what becomes
    of it."""
    plans = (old, new)
    wholes = [without_split(plan) for plan in plans]
    sides = [side for side, (_, found) in enumerate(wholes) if found]
    if len(sides) != 1:
        return old, new, lambda pair: None
    (side,) = sides
    split = wholes[side][1]

    def of(pair: Pair) -> SplitChange | None:
        own, other = (pair.new, pair.old) if side else (pair.old, pair.new)
        if own.id not in split:
            return None
        return SplitChange(other, split[own.id], main_uid(plans[side], split[own.id].partial), is_new=side == 1)

    return wholes[0][0], wholes[1][0], of


def _refuse_unknown_filter(pair: Pair, uid: str) -> None:
    """Raise InvalidOption for a node that leaves rows out by a condition that only Flink computes."""
    if pair.filtered and pair.columns is not None:
        try:
            filtered_out(pair.new, pair.columns[0], pair.old.input())
        except InvalidOption as error:
            raise InvalidOption(
                f"{pair.new.label} ({uid}) keeps fewer rows than before: {error.message}",
                advice=f"{error.advice} {uid}",
            ) from error


def _refuse_new_calls(match: PlanMatch, *, begins: bool) -> None:
    numbered = [(pair, one) for pair in match.pairs if pair.kept is not None for one in new_calls(pair).items()]
    new = [(pair, call) for pair, (_, call) in numbered]
    for pair, (number, call) in numbered:
        why = _unseen(pair, number)
        if why:
            raise InvalidOption(
                f"{call_text(pair.new, call)} of {pair.new.label} is new, and cannot begin with the restore: {why}",
                advice=f"let the operator begin without state: --empty {main_uid(match.new, pair.new)}",
            )
    missing = [
        f"{call_text(pair.new, call)} of {main_uid(match.new, pair.new)} ({pair.new.label})" for pair, call in new
    ]
    if missing and not begins:
        raise InvalidOption(
            f"aggregates have calls that the old query did not compute: {', '.join(missing)}",
            advice="let these begin with the restore, beside the others: --new-aggregates empty; or the whole "
            "operator: --empty UID",
        )
    _refuse_mixtures(match, {pair.new.id for pair, _ in new})


def _refuse_filled_calls(match: PlanMatch, rows: Mapping[int, tuple[RowConversion | None, ...]]) -> None:
    """Raise InvalidOption for a call that is computed of the rows in its frame, over a column that these get filled."""
    for pair in match.pairs:
        made = next(iter(rows.get(pair.new.id, ())), None)
        filled = {} if made is None else {at: one for at, one in enumerate(made.columns) if isinstance(one, NewColumn)}
        for number, source in enumerate(pair.kept or ()):
            over = None if source is not None else frame_column(pair, number)
            column = None if over is None else filled.get(over)
            if column is not None and column.expression is not None:
                call = call_text(pair.new, aggregate_calls(pair.new)[number])
                raise InvalidOption(
                    f"{call} of {pair.new.label} is new, and over {column.name}, which is filled in rows from before",
                    advice=f"leave out --fill {main_uid(match.new, pair.new)}.{column.name}, so that it is null there, "
                    f"or let the operator begin without state: --empty {main_uid(match.new, pair.new)}",
                )


def _refuse_mixtures(match: PlanMatch, begun: Collection[int]) -> None:
    """Raise InvalidOption for a result that is made of a call which begins and of one which goes on.

    Flink makes STDDEV and VAR of sums and a number, of OVER also SUM and AVG, and a query may divide one call by
    another.
    """
    pairs = {pair.new.id: pair for pair in match.pairs if pair.new.id in begun}
    readers = [(node, pairs[one.id]) for node in match.new.nodes for one in node.sources if one.id in pairs]
    for node, pair in readers:
        new, is_over = new_calls(pair), pair.new.kind == OVER
        first = len(pair.new.input() if is_over else pair.new.items("grouping"))
        calls = range(len(over_calls(pair.new) if is_over else pair.new.items("aggCalls")))
        sides = [{first + at for at in calls if (at in new) is is_new} for is_new in (True, False)]
        for expression in node.items("projection") if node.kind == CALC else ():
            if all(side & columns_in(expression) for side in sides):
                names = ", ".join(call_text(pair.new, call) for call in new.values())
                raise InvalidOption(
                    f"a result of {pair.new.label} is made of calls that go on and of new ones ({names}), and would be "
                    "wrong, as they are of other rows",
                    advice=f"let the operator begin without state: --empty {main_uid(match.new, pair.new)}",
                )


def _unseen(pair: Pair, number: int) -> str:
    """Return why a new call would need rows from before the restore; empty if it can begin."""
    node = pair.new
    if node.kind == OVER and is_bounded(node) and frame_column(pair, number) is None:
        return "rows from before leave the frame later, which it has never seen"
    if node.kind == OVER and over_time(node) is None:
        return "results for rows from before are computed again, by the column that orders them"
    taken_back = node.at("needRetraction") is True
    return "rows from before may be taken back, which it has never seen" if taken_back else ""


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
        rest = "".join(_of_same_groups(match, [node for uid, node in starting.items() if uid not in named])) or rest
        first = missing[0].partition(" ")[0]
        raise InvalidOption(
            f"operators of the new query would begin without state: {', '.join(missing)}{rest}",
            advice=f"name each whose results may begin with the restore: --empty {first}; or, if nothing else than its "
            f"inputs changed, say which it was: --map OLD-UID={first}",
        )


def _of_same_groups(match: PlanMatch, starting: Sequence[PlanNode]) -> Iterator[str]:
    """Yield which aggregates that would begin are over the groups of others, whose calls are divided or joined."""
    before, after = (definitions(comparable(plan, types=True)) for plan in (match.old, match.new))
    ended = [node for node in match.ended if node.kind in AGGREGATES]
    for node in starting:
        frame = after[node.id].frame if node.kind in AGGREGATES else ""
        others = [pair for pair in match.pairs if frame and before[pair.old.id].frame == frame]
        if others:
            yield (
                f"; {node.label} has the groups of {others[0].old.label}, whose state goes on in "
                f"{others[0].new.label}, and the state of one aggregate is not divided between two"
            )
        several = [one.label for one in ended if frame and before[one.id].frame == frame]
        if not others and len(several) > 1:
            yield f"; {node.label} has the groups of {' and '.join(several)}, whose states do not become one"


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


def _notes(
    match: PlanMatch,
    rows: Mapping[int, tuple[RowConversion | None, ...]],
    times: Mapping[int, tuple[TimeToLive | None, ...]],
    keys: Mapping[int, Sequence[tuple[str, LogicalType, LogicalType]]],
    splits: Mapping[int, SplitChange],
) -> list[str]:
    def shown(node: PlanNode) -> str:
        table = table_of(node)
        return node.label if table is None else f"{node.label} of {table.replace('`', '')}"

    kept: list[str] = []
    converted: list[str] = []
    for pair in match.pairs:
        words = call_words(pair) if pair.kept is not None else []
        others = other_results(pair)
        words += [] if others is None else [others.words]
        words += row_words(rows[pair.new.id]) if pair.columns is not None else []
        words += ["rows that do not pass its filter dropped"] if pair.filtered else []
        ranks = kept_ranks(pair.old, pair.new)
        words += [f"{ranks.state} as {ranks.becomes}"] if ranks is not None and ranks.becomes != ranks.state else []
        words += ["timers at the times of its rows"] if pair.has_other_timers else []
        words += time_words(times.get(pair.new.id, ()))
        wider = [f"{name}: {old.sql} → {to.sql}" for name, old, to in keys.get(pair.new.id, ()) if not is_same(old, to)]
        words += [f"key {', '.join(wider)}"] if wider else []
        words += [splits[pair.new.id].words] if pair.new.id in splits else []
        nodes = f"{shown(pair.old)} as {shown(pair.new)}"
        if words:
            converted.append(f"converted: {nodes}: {', '.join(words)}")
        else:
            kept.append(f"kept: {nodes}")
    found = [*kept, *converted]
    found += [f"dropped: {shown(node)}" for node in match.ended]
    found += [
        f"starts empty: {shown(node)} ({uid}), its results begin with the restore" for uid, node in match.empty.items()
    ]
    found += [f"new: {shown(node)}, which begins where its options say" for node in match.new_sources]
    return found
