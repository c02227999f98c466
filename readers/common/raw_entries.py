"""Raw entries: the one shape into which every backend's keyed state is brought before it is decoded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RawEntries:
    """Entries of one state: positions into one byte buffer.

    data: uint8. key_groups: int32 [n]. ranges: int64 [4, n]: start and end of the composite key (key, namespace,
    user key as in CompositeKeySerializationUtils, without the key-group prefix), start and end of the value.
    file, file_at: for errors, the file and where ``data[0]`` lies in it; ``exact`` False: data was decompressed, and
    file_at is only where its key group begins.
    """

    data: npt.NDArray[np.uint8]
    key_groups: npt.NDArray[np.int32]
    ranges: Longs
    file: str
    file_at: int
    exact: bool = True

    def __len__(self) -> int:
        return len(self.key_groups)

    def offset(self, position: int) -> int:
        """The offset in the file of a position in ``data``, as exactly as it is known."""
        return self.file_at + position if self.exact else self.file_at
