"""Memory for the bytes of batches, from Arrow's pool.

A thread that is not the main one gets memory from an arena of its own, which glibc returns to the kernel at once when
it is freed: every batch that is read by a thread would pay the page faults of fresh memory. Arrow's pool keeps what is
freed for the next batch, whichever thread asks for it, and takes large pages from the kernel where it can.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stateproc.codec.array_types import Bytes

_SMALLEST = 64 << 10
"""The allocator of numpy is faster for less."""


def uninitialized_bytes(size: int) -> Bytes:
    """Return ``size`` bytes that may hold anything, uint8 [size], writable."""
    if size < _SMALLEST:
        return np.empty(size, dtype=np.uint8)
    return np.frombuffer(pa.allocate_buffer(size), dtype=np.uint8)
