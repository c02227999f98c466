"""Find keys that are stored in another key group than Flink assigns them to."""

from __future__ import annotations

from collections.abc import Sequence
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
from stateproc.keygroups.ranges import key_group_of_hash
from stateproc.serializers import LayoutContext, Serializer

_CONFIRMED_AT_ONCE = 4096


@dataclass(frozen=True)
class KeyGroupCheck:
    """Recomputes the key groups of decoded keys.

    Attributes:
        serializer: The serializer of the keys.
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
