"""Divide the key groups of two snapshots into units of work whose keys are the same on both sides.

The key group of a key is a hash modulo the max parallelism. With different max parallelisms, two keys that are equal
have key groups that are equal modulo the greatest common divisor of both: that is the space in which both are aligned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from stateproc.codec.array_types import Longs
from stateproc.model.parallel_scan import useful_threads

UNIT_BYTES = 24 << 20
"""Stored bytes of both snapshots that are compared at once, per thread, unless one key group has more."""
_SMALLEST_UNIT = 2 << 20
UNITS_PER_THREAD = 4


@dataclass(frozen=True)
class KeyGroupUnit:
    """Key groups of two snapshots that have the same keys.

    Attributes:
        left: Key groups of the first snapshot.
        right: Key groups of the second snapshot.
        bytes: Their stored bytes, approximately.
    """

    left: tuple[int, ...]
    right: tuple[int, ...]
    bytes: int


def aligned_units(left: Longs, right: Longs, threads: int, *, few: bool = False) -> list[KeyGroupUnit]:
    """Divide all key groups into units.

    Args:
        left: The bytes of each key group of the first snapshot; as many as its max parallelism.
        right: The same of the second snapshot.
        threads: The number of threads, each of which should have some units.
        few: One unit per thread that saves time, whatever its size, because every unit reads whole files.
    """
    classes = math.gcd(len(left), len(right))
    sizes = left.reshape(-1, classes).sum(axis=0) + right.reshape(-1, classes).sum(axis=0)
    total = int(sizes.sum())
    share = total // (useful_threads(threads, total) if few else threads * UNITS_PER_THREAD) + 1
    most = share if few else min(UNIT_BYTES, max(_SMALLEST_UNIT, share))
    units, first, size = [], 0, 0
    for residue, more in enumerate(sizes.tolist()):
        if residue > first and size + more > most:
            units.append(_unit(first, residue, classes, len(left), len(right), size))
            first, size = residue, 0
        size += more
    units.append(_unit(first, classes, classes, len(left), len(right), size))
    return units


def _unit(first: int, stop: int, classes: int, left: int, right: int, size: int) -> KeyGroupUnit:
    residues = np.arange(first, stop)
    groups = [
        tuple((np.arange(0, parallelism, classes)[:, None] + residues).reshape(-1).tolist())
        for parallelism in (left, right)
    ]
    return KeyGroupUnit(groups[0], groups[1], size)
