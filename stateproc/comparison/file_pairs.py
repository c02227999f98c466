"""Pair the files of two snapshots by their key groups, and read of pairs only the entries that may differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from stateproc.codec.array_types import Longs
from stateproc.comparison.codecs import have_equal_codecs
from stateproc.comparison.key_group_units import KeyGroupUnit
from stateproc.model.keyed_state import KeyedStateView
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.splits import PairScan
from stateproc.readers.state_descriptor import KeyedState


@dataclass(frozen=True)
class FilePair:
    """Two files that have key groups in common, and the scan of what may differ in these.

    Attributes:
        key_groups: The key groups that both have.
        states: The state as each file describes it.
        scan: Reads the entries that may differ.
    """

    key_groups: range
    states: tuple[KeyedState, KeyedState]
    scan: PairScan


class FilePairs:
    """The files of a state in two snapshots.

    Args:
        left: The state in the first snapshot.
        right: The state in the second snapshot.

    Raises:
        SnapshotError: A file cannot be read.
    """

    def __init__(self, left: KeyedStateView, right: KeyedStateView) -> None:
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

    def chunks(self, unit: KeyGroupUnit) -> Iterator[tuple[int, KeyedState, RawEntries]]:
        """Read key groups of both snapshots, without entries that are the same in both.

        Yields the side (0 or 1), the state as its file describes it, entries.

        Raises:
            SnapshotError: A file cannot be read.
        """
        wanted = frozenset(unit.left) & frozenset(unit.right) & self._paired
        for pair in self._pairs:
            own = wanted.intersection(pair.key_groups)
            if own:
                for side, chunk in pair.scan.entries(own):
                    yield side, pair.states[side], chunk
        for side, (view, groups) in enumerate(zip(self._views, (unit.left, unit.right), strict=True)):
            yield from whole_chunks(side, view, [group for group in groups if group not in wanted])


def whole_chunks(
    side: int, view: KeyedStateView, key_groups: Sequence[int]
) -> Iterator[tuple[int, KeyedState, RawEntries]]:
    """Read all entries of some key groups of one snapshot, as `FilePairs.chunks` does."""
    for split in view.group_splits(key_groups) if key_groups else ():
        target = split.target()
        if target is not None:
            for chunk in split.raw_entries():
                yield side, target, chunk


def _pairs(left: KeyedStateView, right: KeyedStateView) -> Iterator[FilePair]:
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
