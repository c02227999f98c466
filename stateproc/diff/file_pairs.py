"""Read the entries of two snapshots: of files that both have in common, only the entries that may differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from stateproc.codec.array_types import Longs
from stateproc.diff.common_schema import have_equal_codecs
from stateproc.diff.key_group_units import KeyGroupUnit
from stateproc.model.keyed_state import KeyedState
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.splits import PairScan
from stateproc.readers.state_descriptor import StateDescriptor

Chunk: TypeAlias = tuple[int, StateDescriptor, RawEntries]
"""Entries of one file: the side (0 or 1), the state as the file describes it, the entries."""


@dataclass(frozen=True)
class FilePair:
    """Two files that have key groups in common, and the scan of what may differ in these.

    Attributes:
        key_groups: The key groups that both have.
        states: The state as each file describes it.
        scan: Reads the entries that may differ.
    """

    key_groups: range
    states: tuple[StateDescriptor, StateDescriptor]
    scan: PairScan


class FilePairs:
    """The files of a state in two snapshots.

    Args:
        left: The state in the first snapshot.
        right: The state in the second snapshot.

    Raises:
        SnapshotError: A file cannot be read.
    """

    def __init__(self, left: KeyedState, right: KeyedState) -> None:
        self._views = left, right
        same = left.operator.max_parallelism == right.operator.max_parallelism
        self._pairs = tuple(_pairs(left, right)) if same else ()
        self._paired = frozenset(group for pair in self._pairs for group in pair.key_groups)

    def key_group_bytes(self) -> tuple[Longs, Longs]:
        """Return about how many stored bytes are read of each key group, of both snapshots."""
        sizes = [view.key_group_bytes() for view in self._views]
        for pair in self._pairs:
            groups = slice(pair.key_groups.start, pair.key_groups.stop)
            sizes[0][groups], sizes[1][groups] = pair.scan.bytes // len(pair.key_groups), 0
        return sizes[0], sizes[1]

    @property
    def is_empty(self) -> bool:
        """Whether all entries of both are read."""
        return not self._pairs

    def chunks(self, unit: KeyGroupUnit) -> Iterator[Chunk]:
        """Read key groups of both snapshots, without entries that are the same in both.

        Raises:
            SnapshotError: A file cannot be read.
        """
        wanted = frozenset(unit.left) & frozenset(unit.right) & self._paired
        for pair in self._pairs:
            own = wanted.intersection(pair.key_groups)
            if own:
                for side, entries in pair.scan.entries(own):
                    yield side, pair.states[side], entries
        rest = [[group for group in groups if group not in wanted] for groups in (unit.left, unit.right)]
        yield from whole_chunks(self._views, rest)


def whole_chunks(views: Sequence[KeyedState | None], key_groups: Sequence[Sequence[int]]) -> Iterator[Chunk]:
    """Read all entries of some key groups of two snapshots, both at the same speed: most have the same order."""
    sides = [_chunks_of(side, view, groups) for side, (view, groups) in enumerate(zip(views, key_groups, strict=True))]
    read = [0] * len(sides)
    left = set(range(len(sides)))
    while left:
        side = min(left, key=read.__getitem__)
        chunk = next(sides[side], None)
        if chunk is None:
            left.remove(side)
        else:
            starts, _, _, stops = chunk[2].ranges
            read[side] += int((stops - starts).sum())
            yield chunk


def _chunks_of(side: int, view: KeyedState | None, key_groups: Sequence[int]) -> Iterator[Chunk]:
    for split in view.group_splits(key_groups) if view is not None and key_groups else ():
        target = split.target()
        if target is not None:
            for entries in split.raw_entries():
                yield side, target, entries


def _pairs(left: KeyedState, right: KeyedState) -> Iterator[FilePair]:
    """Pair files of the same key groups whose states have equal serializers and much in common."""
    single = (left.key_group_owners == 1) & (right.key_group_owners == 1)
    kryo = {view.operator.options.kryo for view in (left, right)}
    for one, two in product(left.parts, right.parts):
        mine, other = one.file.handle.key_groups, two.file.handle.key_groups
        groups = range(max(mine.start, other.start), min(mine.stop, other.stop))
        states = one.state, two.state
        if len(groups) and single[groups.start : groups.stop].all() and have_equal_codecs(states, kryo):
            for view, part in ((left, one), (right, two)):
                part.file.check_readable(view.operator.display, view.name)
            scan = one.file.pair_scan(two.file, left.scan())
            if scan is not None:
                yield FilePair(groups, states, scan)
