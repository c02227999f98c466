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
_LEAST_HELD, _USUAL_HELD, _MOST_HELD, _ALL_HELD = 8 << 20, 32 << 20, 64 << 20, 128 << 20
"""Bytes of entries that each thread buffers before it spills them, and the most of all threads.

5 million entries of 60 bytes take 2.0 s of CPU with 8 MB and 2.4 s with 32 MB, most of it in the kernel. But entries of
a key group are then read from more places, so that more bytes are buffered for large state.
"""
_BATCHES = 64
"""The number of batches in temporary files that does not slow down reading."""


def held_bytes(stored_bytes: int | None, threads: int) -> int:
    """Return how many bytes each thread buffers before it spills them.

    Args:
        stored_bytes: The bytes of all entries, about; None if they are not known.
        threads: The number of threads.
    """
    wanted = _USUAL_HELD if stored_bytes is None else min(_MOST_HELD, stored_bytes // _BATCHES)
    return max(_LEAST_HELD, min(wanted, _ALL_HELD // threads))


@contextmanager
def spilled(
    items: Sequence[Item],
    read: Callable[[Item], Iterable[pa.RecordBatch]],
    threads: int,
    stored_bytes: int | None = None,
) -> Iterator[SpilledEntries]:
    """Read all items in threads, and spill their entries (TARGETED) to a temporary file per thread.

    Args:
        items: What to read.
        read: Reads one item.
        threads: The most threads.
        stored_bytes: The bytes of all entries, about; None if they are not known.

    Yields:
        All entries, while the context lasts.

    Raises:
        SnapshotError: Reading fails, or writing a temporary file (WriteFailed).
    """
    with ExitStack() as stack:
        own, buffers = threading.local(), []
        held = held_bytes(stored_bytes, threads)
        lock = threading.Lock()

        def spill(item: Item, stop: Stop) -> None:
            if not hasattr(own, "buffer"):
                with lock:
                    own.buffer = SpillBuffer(stack, held)
                    buffers.append(own.buffer)
            for batch in stop.checked(read(item)):
                own.buffer.add(batch)

        run_in_threads(items, spill, threads)
        run_in_threads(buffers, lambda buffer, _: buffer.finish(), threads)
        yield SpilledEntries([batch for buffer in buffers for batch in buffer.finish()])
