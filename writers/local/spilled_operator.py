"""Read entries in threads, assign them to their state files, and spill them until each file can be written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TypeVar

import pyarrow as pa

from stateproc.writers.local.threads import Stop, run_in_threads
from stateproc.writers.sorting.spill_buffer import SpillBuffer, SpilledEntries

Item = TypeVar("Item")
HELD_BYTES = 32 << 20
"""Bytes of entries that each thread buffers before it spills them."""


@contextmanager
def spilled(
    items: Sequence[Item], read: Callable[[Item], Iterable[pa.RecordBatch]], threads: int
) -> Iterator[SpilledEntries]:
    """Read all items in threads, and spill their entries (TARGETED) to a temporary file per thread.

    Args:
        items: What to read.
        read: Reads one item.
        threads: The most threads.

    Yields:
        All entries, while the context lasts.

    Raises:
        SnapshotError: Reading fails, or writing a temporary file (WriteFailed).
    """
    with ExitStack() as stack:
        own, buffers = threading.local(), []
        lock = threading.Lock()

        def spill(item: Item, stop: Stop) -> None:
            if not hasattr(own, "buffer"):
                with lock:
                    own.buffer = SpillBuffer(stack, HELD_BYTES)
                    buffers.append(own.buffer)
            for batch in stop.checked(read(item)):
                own.buffer.add(batch)

        run_in_threads(items, spill, threads)
        run_in_threads(buffers, lambda buffer, _: buffer.finish(), threads)
        yield SpilledEntries([batch for buffer in buffers for batch in buffer.finish()])
