"""Raw entries: the common form of serialized keyed state, whichever backend stored it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stateproc.codec.array_types import Longs


@dataclass(frozen=True)
class RawEntries:
    """Serialized entries of one state, as positions in one byte buffer.

    Attributes:
        data: uint8, the buffer.
        key_groups: int32 [n], the key group of each entry.
        ranges: int64 [4, n], positions in ``data``: start and end of the composite key (key, namespace, user key as
            in CompositeKeySerializationUtils, without the key-group prefix), start and end of the value.
        file: The file that the entries were read from, for errors.
        file_at: The offset of ``data[0]`` in the file, for errors.
        exact: False if the data was decompressed or assembled; ``file_at`` is then the start of a key group, or 0.
        packed: Whether ``data`` consists of all keys one after another, then all values one after another, and belongs
            to these entries alone: consumers may keep references to it.
    """

    data: npt.NDArray[np.uint8]
    key_groups: npt.NDArray[np.int32]
    ranges: Longs
    file: str
    file_at: int
    exact: bool = True
    packed: bool = False

    def __len__(self) -> int:
        return len(self.key_groups)

    def offset(self, position: int) -> int:
        """Return the file offset of a position in ``data``, as precisely as it is known."""
        return self.file_at + position if self.exact else self.file_at


# Numbers of entries and bytes per key group and state.

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
