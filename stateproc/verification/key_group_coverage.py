"""Check that the keyed handles of an operator's subtasks cover the key groups as Flink assigns them."""

from __future__ import annotations

from collections.abc import Iterator

from stateproc.errors import InvalidOption
from stateproc.keygroups.ranges import key_group_range
from stateproc.model.operator import Operator
from stateproc.verification.problem import Problem, Severity

_DAMAGED = "_metadata is damaged, or was written by a faulty tool: take the snapshot again or use a copy"
_LAZY = (
    "that is normal where a subtask registered no state before the snapshot was taken, or had finished; otherwise its "
    "state is lost: compare with an older snapshot"
)


def key_group_problems(operator: Operator) -> Iterator[Problem]:
    """Yield what is wrong with the key groups of an operator's handles; they belong to managed keyed state."""
    owners: dict[int, int] = {}
    number, parallelism = operator.max_parallelism, operator.parallelism
    for file in operator.keyed_files:
        groups = file.handle.key_groups
        if len(groups) and not 0 <= groups.start < groups.stop <= number:
            text = f"subtask {file.subtask} has the key groups {_shown(groups)} of an operator that has {number}"
            yield Problem(Severity.DAMAGED, text, _DAMAGED, operator.display, file=operator.location.metadata_uri)
            continue
        others = sorted({owners[group] for group in groups if group in owners})
        if others:
            both = [group for group in groups if group in owners]
            text = f"subtask {file.subtask} has key groups that subtask {others[0]} has, too: {_shown(both)}"
            yield _metadata_problem(operator, text, both)
        owners.update((group, file.subtask) for group in groups if group not in owners)
        expected = _range_of(number, parallelism, file.subtask)
        if expected is not None and len(groups) and groups != expected:
            text = f"subtask {file.subtask} has the key groups {_shown(groups)} where Flink assigns {_shown(expected)}"
            yield _metadata_problem(operator, text, groups)
    if owners:
        yield from _missing(operator, owners)


def _metadata_problem(operator: Operator, text: str, groups: range | list[int]) -> Problem:
    where = operator.location.metadata_uri
    return Problem(Severity.DAMAGED, text, _DAMAGED, operator.display, file=where, key_groups=tuple(groups))


def _missing(operator: Operator, owners: dict[int, int]) -> Iterator[Problem]:
    finished = {subtask.index for subtask in operator.metadata.subtasks if subtask.finished}
    with_state = {file.subtask for file in operator.keyed_files}
    for index in range(operator.parallelism):
        if index in finished or index in with_state:
            continue
        expected = _range_of(operator.max_parallelism, operator.parallelism, index) or range(0)
        lacking = [group for group in expected if group not in owners]
        if lacking:
            text = f"subtask {index} has no keyed state, unlike others; so the key groups {_shown(lacking)} are empty"
            where = operator.location.metadata_uri
            yield Problem(Severity.NOTE, text, _LAZY, operator.display, file=where, key_groups=tuple(lacking))


def _range_of(max_parallelism: int, parallelism: int, subtask: int) -> range | None:
    try:
        return key_group_range(max_parallelism, parallelism, subtask)
    except InvalidOption:
        return None  # _metadata contradicts itself; its reader reports that


def _shown(groups: range | list[int]) -> str:
    first, last = min(groups), max(groups)
    return str(first) if first == last else f"{first}–{last}"
