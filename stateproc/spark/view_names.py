"""Name the views of a snapshot so that SQL needs no quotes and no name is another's, whatever Spark says of case."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from stateproc.model.operator import Operator
from stateproc.row_formats.case_collisions import distinct_names, java_fold

_SHORT_HASH = 8
_MAX_NAME_LENGTH = 120


def view_names(operators: Sequence[Operator], reserved: Collection[str]) -> list[tuple[str, list[str]]]:
    """Return the name of each operator's wide table, and the names of its states' views.

    Names that are alike but for case, or but for signs that SQL needs quotes for, all get a number, in the order of
    their code points: no view has the name that two could have.

    Args:
        operators: The operators.
        reserved: The names of further views.
    """
    prefixes = numbered_names([of.uid or of.name or of.operator_id[:_SHORT_HASH] for of in operators])
    wanted = []
    for operator, prefix in zip(operators, prefixes, strict=True):
        states = numbered_names([state.name for state in operator.states])
        wanted.append([prefix, *(plain_name(f"{prefix}__{state}") for state in states)])
    # A state `c` of `a__b` and a state `b__c` of `a` are alike only now.
    chosen = iter(
        distinct_names([name for names in wanted for name in names], java_fold, set(map(java_fold, reserved)))
    )
    return [(next(chosen), [next(chosen) for _ in names[1:]]) for names in wanted]


def view_name(operator: str, state: str | None) -> str:
    """Return the name of a view that nothing else is like."""
    prefix = plain_name(operator)
    return prefix if state is None else plain_name(f"{prefix}__{plain_name(state)}")


def numbered_names(names: Sequence[str]) -> list[str]:
    """Return plain names, numbered where they are alike."""
    order = sorted(range(len(names)), key=lambda index: (names[index], index))
    plain = distinct_names([plain_name(names[index]) for index in order], java_fold)
    by_index = dict(zip(order, plain, strict=True))
    return [by_index[index] for index in range(len(names))]


def plain_name(wanted: str) -> str:
    """Return a name with everything but letters, digits and _ replaced by _."""
    plain = re.sub(r"[^0-9A-Za-z_]+", "_", wanted).strip("_")[:_MAX_NAME_LENGTH] or "state"
    # A name of digits alone, or like 25e3, would be read as a number.
    return f"op_{plain}" if plain[0].isdigit() else plain
