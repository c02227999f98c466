"""How large a state is per key group, and where to cut it into splits; from the tables' indexes alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stateproc.codec.array_types import Longs
from stateproc.readers.rocksdb.database import DatabaseFile, SstFile, family_files
from stateproc.readers.rocksdb.index import Index
from stateproc.readers.rocksdb.key_ranges import key_spans
from stateproc.readers.rocksdb.prefetch import Fetcher
from stateproc.readers.rocksdb.sorted_runs import open_file
from stateproc.storage.ranges import is_remote

SPLIT_BYTES = 256 << 20


def key_group_sizes(
    files: Sequence[DatabaseFile], state: str, key_groups: range, prefix: int, *, verify: bool = True
) -> Longs:
    """About how many stored bytes of a state's tables belong to each key group of the range.

    A block counts for the key group in which it ends. Raises CorruptSnapshot, UnsupportedSnapshot,
    MissingFile.
    """
    sizes = np.zeros(len(key_groups), dtype=np.int64)
    if not len(key_groups):
        return sizes
    wanted = key_spans([key_groups], prefix)
    ssts = family_files(files, state, wanted, verify=verify)

    def opened(sst: SstFile) -> Index:
        return open_file(sst, verify=verify).table.index(wanted)

    with Fetcher(ahead=any(is_remote(sst.source) for sst in ssts)) as fetcher:
        indexes = fetcher.map(opened, ssts)
    for index in indexes:
        groups = np.clip(_key_groups(index, prefix) - key_groups.start, 0, len(key_groups) - 1)
        np.add.at(sizes, groups, index.sizes)
    return sizes


def _key_groups(index: Index, prefix: int) -> Longs:
    """The key group of each separator; a separator that was cut short counts as if zeros followed."""
    groups = np.zeros(len(index), dtype=np.int64)
    lengths = index.key_ends - index.key_starts
    for k in range(prefix):
        there = lengths > k
        groups[there] |= index.keys[index.key_starts[there] + k].astype(np.int64) << (8 * (prefix - 1 - k))
    return groups


def split_key_groups(key_groups: range, sizes: Longs, limit: int = SPLIT_BYTES) -> list[range]:
    """Cut a range of key groups into ranges of up to ``limit`` bytes (or one key group), in order."""
    found: list[range] = []
    start, held = key_groups.start, 0
    for key_group, size in zip(key_groups, sizes.tolist(), strict=True):
        if held and held + size > limit:
            found.append(range(start, key_group))
            start, held = key_group, 0
        held += size
    if start < key_groups.stop:
        found.append(range(start, key_groups.stop))
    return found
