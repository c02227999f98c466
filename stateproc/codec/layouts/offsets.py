"""Arrow offsets from lengths."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stateproc.codec.array_types import Ints
from stateproc.codec.jit import exported


@exported
def add_up(lengths: Ints, offsets: Ints) -> int:
    """Write the sum of the lengths before each item, and that of all, to ``offsets``; returns the latter as int64."""
    total = np.int64(0)
    for k in range(len(lengths)):
        offsets[k] = total
        total += max(lengths[k], 0)
    offsets[len(lengths)] = total
    return int(total)


def offsets_of_lengths(lengths: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Arrow offsets of items of these lengths; negative lengths (nulls) count as zero.

    Raises:
        OverflowError: They hold 2^31 items or more.
    """
    offsets = np.empty(len(lengths) + 1, dtype=np.int32)
    if add_up(lengths, offsets) > 2**31 - 1:
        raise OverflowError("over 2^31 items in one batch")
    return offsets
