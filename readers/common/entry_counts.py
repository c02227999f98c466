"""Numbers of entries and bytes per key group and state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class EntryCounts:
    """What scanning a file of key groups has counted.

    In canonical files an entry is what RocksDB stores under one key: a value, a whole list, one mapping of a map, a
    timer. In native heap files it is a key's value, list or map, or a timer.

    Attributes:
        key_groups: The key group of each row.
        entries: int64 [key groups, states], numbers of entries.
        bytes: int64 [key groups, states], their bytes with lengths, uncompressed.
    """

    key_groups: tuple[int, ...]
    entries: Counts
    bytes: Counts
