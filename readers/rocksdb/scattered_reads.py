"""Read blocks that are far apart: several requests, one buffer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from stateproc.codec.allocation import uninitialized_bytes
from stateproc.codec.array_types import Bytes, Longs
from stateproc.storage import ByteSource, FileSource
from stateproc.storage.ranges import REQUESTS_AT_ONCE, is_remote


def read_gathered(source: ByteSource, starts: Longs, lengths: Longs, gap: int) -> tuple[Bytes, Longs]:
    """Read ascending ranges into one buffer; return it, and where each range begins in it.

    Args:
        source: The bytes.
        starts: int64 [n], ascending.
        lengths: int64 [n]; ranges do not overlap.
        gap: Ranges up to so many bytes apart share a request, and what is between them is in the buffer, too.

    Raises CorruptSnapshot, MissingFile.
    """
    ends = starts + lengths
    breaks = np.flatnonzero(starts[1:] - ends[:-1] > gap) + 1
    firsts, lasts = np.append(0, breaks), np.append(breaks, len(starts)) - 1
    sizes = ends[lasts] - starts[firsts]
    bounds = np.append(0, np.cumsum(sizes))
    buffer = uninitialized_bytes(int(bounds[-1]))
    view = buffer.data
    requests = [
        (start, view[low:high])
        for start, low, high in zip(starts[firsts].tolist(), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    ]
    if isinstance(source, FileSource) and (len(requests) < 2 or not is_remote(source)):
        source.read_parts(requests)
    elif len(requests) < 2 or not is_remote(source):
        for request in requests:
            _fill(source, request)
    else:
        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
            list(pool.map(partial(_fill, source), requests))
    return buffer, starts + np.repeat(bounds[:-1] - starts[firsts], lasts - firsts + 1)


def _fill(source: ByteSource, request: tuple[int, memoryview]) -> None:
    start, target = request
    target[:] = source.read(start, len(target))
