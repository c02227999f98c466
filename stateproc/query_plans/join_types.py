"""Which inputs of a regular join keep the number of partners beside their rows, by the join's type.

    INNER              none: rows alone, or with the number of their occurrences
    LEFT, SEMI, ANTI   the left one
    RIGHT              the right one
    FULL               both

Rows of these are emitted without a partner, too, or by whether they have one (SEMI: IN, EXISTS; ANTI: NOT EXISTS), so
that the join has to know when the last one is gone. If a join gets another type, the rows stay and the numbers come or
go. What it has emitted before cannot be taken back.

Sources: StreamingJoinOperator, StreamingSemiAntiJoinOperator of org.apache.flink.table.runtime.operators.join.stream,
and JoinRecordStateViews, OuterJoinRecordStateViews of its state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stateproc.query_plans.node_definitions import JOIN, SIDES, WAITING_JOINS, columns_in, join_spec, join_type
from stateproc.query_plans.plan_conditions import join_condition
from stateproc.query_plans.plan_file import PlanNode
from stateproc.query_plans.time_bounds import INTERVAL_JOIN

OUTER: Mapping[str, tuple[bool, bool]] = {
    "INNER": (False, False), "LEFT": (True, False), "RIGHT": (False, True), "FULL": (True, True),
    "SEMI": (True, False), "ANTI": (True, False),
}  # fmt: skip
"""Type of a join → of which inputs rows are emitted without a partner, or by whether they have one."""
_ALONE: Mapping[str, tuple[bool, bool]] = {**OUTER, "SEMI": (False, False)}
"""Type of a join → of which inputs rows without a partner are emitted."""


@dataclass(frozen=True)
class PartnerCondition:
    """Which rows under one key of the join are partners.

    Attributes:
        sql: The condition, over columns of both.
        own: The name in it of each column of the row whose partners are counted, and its position in the new row.
        others: The same of columns of the other input, and their positions in the rows as they were.
    """

    sql: str
    own: tuple[tuple[str, int], ...]
    others: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class PartnerChange:
    """What becomes of the numbers of partners of an input's rows.

    Attributes:
        side: The input: left or right.
        on: Whether rows get the number, or lose it.
        null_keys: Positions of columns of the join's key of which a null has no partner.
        condition: Which rows of one key are partners, if not all are.
    """

    side: str
    on: bool
    null_keys: tuple[int, ...] = ()
    condition: PartnerCondition | None = None


def partner_changes(
    old: PlanNode, new: PlanNode, columns: Sequence[Sequence[int | None]] | None = None
) -> tuple[PartnerChange | None, ...]:
    """Return what becomes of the numbers of each input of a join that gets another type; nothing for other nodes.

    Args:
        old: The node as it was.
        new: The node as it will be.
        columns: Of each input for each new column the position of the old one (`Pair.columns`); None if all stay.

    Raises:
        InvalidOption: Numbers would be counted by a condition that only Flink computes.
    """
    if old.kind != JOIN or join_type(old) == join_type(new):
        return ()
    before, after = OUTER[join_type(old)], OUTER[join_type(new)]
    filtered = tuple(at for at, is_filtered in enumerate(new.items("joinSpec", "filterNulls")) if is_filtered is True)
    return tuple(
        None if was == now else PartnerChange(side, now, filtered, _condition(new, at, columns) if now else None)
        for at, (side, was, now) in enumerate(zip(SIDES, before, after, strict=True))
    )


def _condition(node: PlanNode, side: int, columns: Sequence[Sequence[int | None]] | None) -> PartnerCondition | None:
    """Return which rows of the other input are partners of the rows of one; None for all of one key."""
    found = join_condition(node)
    if found is None:
        return None
    own, others = ([(f"{SIDES[at]}_{position}", position) for position in found.columns[at]] for at in (side, 1 - side))
    if columns is not None:
        stored = [(name, columns[1 - side][position]) for name, position in others]
        # What a condition is over both queries have: else they had different ones.
        others = [(name, position) for name, position in stored if position is not None]
    return PartnerCondition(found.sql, tuple(own), tuple(others))


@dataclass(frozen=True)
class OtherRows:
    """What a join that gets another type had emitted, or had not.

    Attributes:
        words: Which rows were not emitted, or stay emitted.
        found: The states with these rows, by the numbers of their partners; None for rows that no state has.
    """

    words: tuple[str, ...]
    found: str | None


def lacks_partners(old: PlanNode, new: PlanNode, *, other_condition: bool) -> str | None:
    """Return what the state of a join does not say of partners that another type or condition needs; None if it says
    all.

    An interval join marks rows that had a partner, of inputs whose rows are emitted without one (TimeIntervalJoin).
    Joins of windows and temporal ones look for partners as the time of a row comes.

    Args:
        old: The join as it was.
        new: The join as it will be.
        other_condition: Whether it has another condition beside its keys.
    """
    if new.kind not in (JOIN, INTERVAL_JOIN) or not (other_condition or join_type(old) != join_type(new)):
        return None
    before, after = OUTER[join_type(old)], OUTER[join_type(new)]
    for side, was, now in zip(SIDES, before, after, strict=True):
        if now and was and other_condition:
            return f"its state says which rows of the {side} input had a partner by the condition that it was"
        if now and not was and new.kind == INTERVAL_JOIN:
            return f"its state does not say which rows of the {side} input had a partner"
    return None


def missing_in_condition(new: PlanNode, columns: Sequence[Sequence[int | None]]) -> str | None:
    """Return which columns of a join's condition its rows from before do not have, in words; None if they have all.

    Args:
        new: The join as it will be.
        columns: Of each input for each column the position of the old one (`Pair.columns`).
    """
    known = [position for side in columns for position in side]
    names = [name for side in range(len(columns)) for name in new.input(side)]
    over = columns_in(join_spec(new).get("nonEquiCondition"))
    new_names = [names[at] for at in sorted(over) if at < len(known) and known[at] is None]
    return f"its rows do not have {', '.join(new_names)}, which its condition is over" if new_names else None


def other_rows(old: PlanNode, new: PlanNode) -> OtherRows | None:
    """Return what a join that gets another type had emitted, or had not; None for other nodes."""
    if old.kind not in (JOIN, *WAITING_JOINS) or join_type(old) == join_type(new):
        return None
    was, now = join_type(old), join_type(new)
    alone = [
        f"rows of the {side} input without a partner " + ("were not emitted" if after else "stay emitted")
        for side, before, after in zip(SIDES, _ALONE[was], _ALONE[now], strict=True)
        if before != after
    ]
    partnered = _partnered(was, now)
    words = (*alone, *([partnered] if partnered else []))
    sides = [side for at, side in enumerate(SIDES) if _ALONE[was][at] != _ALONE[now][at] or (at == 0 and partnered)]
    if old.kind != JOIN:
        return OtherRows(words, None)
    states = ", ".join(f"{side}-records of the {_snapshot(now, side)} snapshot" for side in sides)
    numbers = "their number of associations says which" if partnered else "which have 0 associations"
    return OtherRows(words, f"these rows, {numbers} ({states})")


def _snapshot(now: str, side: str) -> str:
    """Return which snapshot has the numbers of an input's rows."""
    return "new" if OUTER[now][SIDES.index(side)] else "old"


def _partnered(was: str, now: str) -> str:
    """Return what a join had emitted of rows of its left input with a partner, or had not; empty if it is the same."""
    rows = "rows of the left input with a partner"
    if was == "ANTI":
        return f"{rows} were not emitted"
    if now == "ANTI":
        return f"{rows} stay emitted"
    if now == "SEMI":
        return f"{rows} stay emitted with each of these"
    return f"{rows} were emitted once, and not with each of these" if was == "SEMI" else ""
