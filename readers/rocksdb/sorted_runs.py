"""Sorted runs: files arranged so that few cursors pass over all of them, and read some blocks at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from stateproc.codec.array_types import Longs
from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot, Where
from stateproc.readers.rocksdb.blocks import PlainBlocks
from stateproc.readers.rocksdb.database import SstFile
from stateproc.readers.rocksdb.format import damaged
from stateproc.readers.rocksdb.key_ranges import KeySpan
from stateproc.readers.rocksdb.table import SstTable, open_table, spans
from stateproc.readers.rocksdb.tombstones import Tombstone, read_tombstones
from stateproc.readers.scan_cache import ScanCache

_JOINING = ("StringAppendTESTOperator", "StringAppendOperator", "")
"""Merge operators that join operands by a comma: Flink's, its twin, and tables that do not name theirs."""


_MOST_AHEAD = 7
_HELD, _HELD_REMOTE = 8 << 20, 16 << 20
"""Stored bytes of blocks held at a time, over all runs. Over a network fewer requests wait, and as many bytes again are
requested ahead. On a disk half of it takes 20 to 35 MB less for 5 million keys, and 3 % more CPU time.
"""


def read_limit(runs: int, *, is_remote: bool) -> int:
    """Return how many stored bytes of each of so many runs are read at a time."""
    return max(256 << 10, min(4 << 20, (_HELD_REMOTE if is_remote else _HELD) // max(runs, 1)))


def pieces_ahead(runs: int) -> int:
    """Return how many such reads of each run are requested ahead from a remote store."""
    bounded = 2 * _HELD_REMOTE // (read_limit(runs, is_remote=True) * max(runs, 1)) - 1
    return max(1, min(_MOST_AHEAD, bounded))


_DEFAULT_FAMILY = "default"


@dataclass(frozen=True)
class OpenFile:
    """An open sst file; ``override``: the sequence number of all its entries, None if each has its own."""

    sst: SstFile
    table: SstTable
    override: int | None


@dataclass(frozen=True)
class RunBlocks:
    """Some blocks of a run, and the sequence number that holds for all their entries (or -1)."""

    blocks: PlainBlocks
    override: int


def open_file(sst: SstFile, *, verify: bool) -> OpenFile:
    """Open a table. Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile."""
    table = open_table(sst.source, verify=verify)
    family, operator = table.properties.column_family, table.properties.merge_operator
    # A table that was imported names the family that it was written for, which may be RocksDB's default. Flink stores
    # no state there, so that no other state's table has this name.
    if None not in (sst.family, family) and family not in (sst.family, _DEFAULT_FAMILY):
        raise CorruptSnapshot(
            f"the table is of the column family {family!r}, where the MANIFEST lists one of {sst.family!r}",
            where=Where(file=table.file, offset=0),
            advice="this is another file than the snapshot's, though of its length: correct path_mapping if there is "
            "one, or restore the file from a copy",
        )
    if table.properties.merge_operands and operator not in _JOINING:
        raise UnsupportedSnapshot(
            f"operands of the merge operator {operator}, where Flink's is {_JOINING[0]}",
            where=Where(file=table.file, offset=0),
            advice="let Flink restore the snapshot and take a canonical savepoint of it",
        )
    try:
        override = table.properties.sequence_override(sst.live.largest_sequence if sst.live else None)
    except ValueError as error:
        raise damaged(table.file, 0, str(error)) from error
    return OpenFile(sst, table, override)


def shared_file(sst: SstFile, cache: ScanCache, *, verify: bool) -> OpenFile:
    """Open a table with its index, once for the splits that share the cache. Raises as `open_file` does."""

    def read() -> tuple[OpenFile, int]:
        found = open_file(sst, verify=verify)
        return found, found.table.held_bytes

    return cache.get(sst.source, read)


def tombstones_of(files: Sequence[OpenFile]) -> list[Tombstone]:
    return [item for file in files for item in read_tombstones(file.table, file.sst.live, file.override)]


def sorted_runs(files: Sequence[OpenFile]) -> list[list[OpenFile]]:
    """As few runs as possible, in each of which a file's keys are all greater than those of the file before it.

    Files whose bounds are not known (no MANIFEST) are runs of their own.
    """
    runs: list[list[OpenFile]] = []
    ends: list[bytes] = []
    known = [(file.sst.live.smallest.key, file.sst.live.largest.key, file) for file in files if file.sst.live]
    for smallest, largest, file in sorted(known, key=lambda item: item[:2]):
        free = next((k for k, end in enumerate(ends) if end < smallest), None)
        if free is None:
            runs.append([file])
            ends.append(largest)
        else:
            runs[free].append(file)
            ends[free] = largest
    return runs + [[file] for file in files if not file.sst.live]


def run_blocks(
    run: Sequence[OpenFile], wanted: Sequence[KeySpan], limit: int
) -> Iterator[Callable[[], Iterable[RunBlocks]]]:
    """What reads the blocks of a run that may hold keys of these spans, ``limit`` stored bytes at a time.

    Each gives one piece, or several where these bytes hold very much. Raises CorruptSnapshot, UnsupportedSnapshot,
    MissingFile; so does what it gives.
    """
    for file in run:
        index = file.table.index(wanted)
        for part in spans(index.offsets, index.sizes, limit):
            yield partial(_blocks_of, file, index.offsets[part], index.sizes[part])


def _blocks_of(file: OpenFile, offsets: Longs, sizes: Longs) -> Iterable[RunBlocks]:
    override = -1 if file.override is None else file.override
    return (RunBlocks(blocks, override) for blocks in file.table.reader.parts(offsets, sizes))
