"""The entries of a state that may differ between two databases, read from few of their blocks.

Tables that only one database has contain all keys that may differ, or delete them by ranges: what both databases read
of any other key comes from the same tables. These keys are looked up on both sides as the iterator would find them,
in blocks that may contain them, of tables that may have versions which are not hidden by a newer one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from stateproc.codec.array_types import Longs
from stateproc.errors import SnapshotError
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.rocksdb.candidate_keys import CandidateKeys, candidate_keys, candidate_ranges
from stateproc.readers.rocksdb.database import SstFile
from stateproc.readers.rocksdb.db_iterator import merged_entries
from stateproc.readers.rocksdb.key_ranges import KeySpan, cut_out, intersections, joined, key_spans
from stateproc.readers.rocksdb.prefetch import Fetcher
from stateproc.readers.rocksdb.shared_tables import PairedTables
from stateproc.readers.rocksdb.sorted_runs import RunBlocks, read_limit, sorted_runs
from stateproc.readers.rocksdb.table_blocks import HeldBytes, TableBlocks
from stateproc.readers.rocksdb.tombstones import Tombstone, fragments
from stateproc.storage.ranges import is_remote

SIDES = (0, 1)


def changed_entries(
    tables: PairedTables,
    state: str,
    key_groups: Iterable[range],
    prefix: int,
    *,
    keys: Sequence[KeySpan] = (),
    sides: Sequence[int] = SIDES,
    verify: bool = True,
) -> Iterator[tuple[int, RawEntries]]:
    """Read the entries of some key groups that may differ: yield the side (0 or 1) and entries of it, by key.

    Entries of both that are not yielded have the same bytes. Both sides of a key are yielded one soon after the other.

    Args:
        tables: The state's tables in both databases.
        state: The state's name, for errors.
        key_groups: Key groups that both databases answer for.
        prefix: The width of the key group before each key, 1 or 2 bytes.
        keys: Spans of further keys to read.
        sides: Which sides to read.
        verify: Whether the blocks' checksums are checked.

    Raises:
        CorruptSnapshot, UnsupportedSnapshot, MissingFile: A table cannot be read.
    """
    wanted = key_spans(key_groups, prefix)
    if not wanted:
        return
    tables = tables.within(wanted)
    sources = [sst.source for sst in chain(*tables.own, *tables.shared)]
    try:
        with Fetcher(ahead=any(map(is_remote, sources))) as fetcher:
            yield from _PairReader(tables, wanted, prefix, fetcher, verify=verify).entries(keys, sides)
    except SnapshotError as error:
        raise error.at(state=state) from error


class _PairReader:
    """Reads the tables of both databases; those that both have are opened once."""

    def __init__(
        self, tables: PairedTables, wanted: Sequence[KeySpan], prefix: int, fetcher: Fetcher, *, verify: bool
    ) -> None:
        self._wanted, self._prefix, self._fetcher = wanted, prefix, fetcher
        held = HeldBytes()

        def opened(ssts: Iterable[SstFile]) -> list[TableBlocks]:
            return [TableBlocks(sst, wanted, held, verify=verify) for sst in ssts]

        self._own = [opened(side) for side in tables.own]
        self._shared = opened(sst for sst, _ in tables.shared)

    def entries(self, more: Sequence[KeySpan], sides: Sequence[int]) -> Iterator[tuple[int, RawEntries]]:
        """Read what may differ, and the keys of further spans."""
        own = list(chain.from_iterable(self._own))
        self._open(own)
        deleted = (_span_of(item) for table in own for item in table.tombstones)
        ranges = intersections(self._wanted, joined([*deleted, *more]))
        found = [candidate_ranges(ranges)] if ranges else []
        for keys in chain(found, self._candidates(cut_out(self._wanted, ranges))):
            for side in sides:
                for entries in self._looked_up(keys, side):
                    yield side, entries

    def _open(self, tables: Sequence[TableBlocks]) -> None:
        """Open tables, several at a time over a network."""
        self._fetcher.map(lambda table: table.index, tables)

    def _candidates(self, wanted: Sequence[KeySpan]) -> Iterator[CandidateKeys]:
        """Collect the keys in tables that one side has."""
        if not wanted:
            return
        runs = [(side, run) for side in SIDES for run in _runs(self._own[side])]
        limit = read_limit(len(runs))
        sources = [self._blocks(run, [None] * len(run), limit) for _, run in runs]
        yield from candidate_keys(sources, [side for side, _ in runs], wanted, self._prefix)

    def _looked_up(self, keys: CandidateKeys, side: int) -> Iterator[RawEntries]:
        """Read the live entries of some keys on one side."""
        tables = [table for table in chain(self._own[side], self._shared) if table.may_have(keys, side)]
        self._open(tables)
        deleted = fragments([item for table in tables for item in table.tombstones])
        runs = _runs(tables)
        limit = read_limit(len(runs))
        sources = [self._blocks(run, [table.chosen(keys, side) for table in run], limit) for run in runs]
        yield from merged_entries(sources, deleted, keys.spans, self._prefix)

    def _blocks(self, run: Sequence[TableBlocks], chosen: Sequence[Longs | None], limit: int) -> Iterator[RunBlocks]:
        """Read blocks of the tables of a run."""
        reads = (read for table, positions in zip(run, chosen, strict=True) for read in table.reads(limit, positions))
        return chain.from_iterable(self._fetcher.each(reads))


def _runs(tables: Sequence[TableBlocks]) -> list[list[TableBlocks]]:
    """Arrange tables as sorted runs."""
    by_file = {id(table.opened): table for table in tables}
    return [[by_file[id(file)] for file in run] for run in sorted_runs([table.opened for table in tables])]


def _span_of(tombstone: Tombstone) -> KeySpan:
    """Return the keys of which a deleted range deletes versions."""
    start, _ = tombstone.start
    end, inverse = tombstone.end
    # The end is a version: those of its key that are newer than it are deleted.
    return start, end + b"\0" if inverse else end
