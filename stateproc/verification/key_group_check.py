"""Find keys that are stored in another key group than Flink assigns them to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from stateproc.codec.array_types import Ints
from stateproc.codec.arrow_arrays import values_array
from stateproc.errors import InvalidOption
from stateproc.keygroups.class_hashes import ClassHash
from stateproc.keygroups.hashed_types import hashed, hashed_values
from stateproc.keygroups.key_group_pruning import hash_alternatives, key_groups
from stateproc.keygroups.key_hash import KeyHash, is_reproducible
from stateproc.keygroups.ranges import key_group_of_hash, key_group_range
from stateproc.model.operator import Operator
from stateproc.serializers import LayoutContext, Serializer
from stateproc.verification.problem import Problem, Severity

_CONFIRMED_AT_ONCE = 4096


@dataclass(frozen=True)
class KeyGroupCheck:
    """Recomputes the key groups of decoded keys.

    Attributes:
        context: The settings with which the keys were decoded; ``temporal`` is 'exact', because nanoseconds count.
        max_parallelism: The operator's number of key groups.
        metadata_version: The version of ``_metadata``, on which Java's hash codes of some key types depend.
        named: The formulas of the keys' class (`class_hashes`), one of which all keys have to fit; usually none.
    """

    serializer: Serializer
    context: LayoutContext
    max_parallelism: int
    metadata_version: int
    named: tuple[ClassHash, ...] = ()

    @cached_property
    def _hashes(self) -> Sequence[tuple[KeyHash, list[int]]]:
        """The hashes that a key may have; none where they do not follow from its value."""
        how = hashed(self.serializer, self.context)
        if how is None or not is_reproducible(how.kind):
            return ()
        return hash_alternatives(self.serializer, how.kind, self.metadata_version)

    @property
    def is_possible(self) -> bool:
        """Whether the key group follows from the bytes of such keys."""
        return bool(self.named or self._hashes)

    def misplaced(self, keys: pa.Array, stored: Ints) -> list[tuple[int, set[int]]]:
        """Return the rows whose key belongs to another key group, each with the key groups that it may belong to.

        Args:
            keys: The decoded keys.
            stored: The key group in which each of them is stored.
        """
        if self.named:
            return self._misplaced_by_name(keys, stored)
        try:
            suspects = np.flatnonzero(self._differ(keys, stored))
        except (InvalidOption, pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            return []  # values of a form that the vectorised hash does not take, such as moments within SQL rows
        found: list[tuple[int, set[int]]] = []
        for first in range(0, len(suspects), _CONFIRMED_AT_ONCE):
            rows = suspects[first : first + _CONFIRMED_AT_ONCE]
            for row, key in zip(rows.tolist(), keys.take(values_array(rows)).to_pylist(), strict=True):
                groups = self._groups_of(key)
                if groups is not None and int(stored[row]) not in groups:
                    found.append((row, groups))
        return found

    def _misplaced_by_name(self, keys: pa.Array, stored: Ints) -> list[tuple[int, set[int]]]:
        """The rows that do not fit the formula that most fit. Raises InvalidOption."""
        all_groups = [key_group_of_hash(each.codes(keys), self.max_parallelism) for each in self.named]
        best = min(all_groups, key=lambda groups: int(np.count_nonzero(groups != stored)))
        return [(row, {int(best[row])}) for row in np.flatnonzero(best != stored).tolist()]

    def _differ(self, keys: pa.Array, stored: Ints) -> np.ndarray:
        wrong = np.ones(len(keys), dtype=np.bool_)
        for kind, addends in self._hashes:
            codes = key_codes(keys, kind)
            for addend in addends:
                shifted = (codes.astype(np.int64) + addend).astype(np.uint32).view(np.int32)
                wrong &= key_group_of_hash(shifted, self.max_parallelism) != stored
        return wrong

    def _groups_of(self, key: Any) -> set[int] | None:
        """The key groups of one key, by the slower way that also knows which values have no certain hash."""
        return key_groups(self.serializer, [key], self.context, self.max_parallelism, self.metadata_version)


def key_codes(keys: pa.Array, kind: KeyHash) -> Ints:
    """Java's hash codes of decoded keys. Raises InvalidOption where the columns do not fit."""
    # Lazy: start-up. The kernels of hash codes are loaded by whoever computes some.
    from stateproc.keygroups.hashes import hash_codes

    return hash_codes(hashed_values(keys, kind), kind)


# Check that the keyed handles of an operator's subtasks cover the key groups as Flink assigns them.

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
