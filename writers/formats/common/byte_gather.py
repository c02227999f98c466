"""Gather byte ranges of a buffer into contiguous columns of byte strings."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec.array_types import Bytes, Longs
from stateproc.codec.arrow_arrays import values_array
from stateproc.codec.byte_arrays import RowBytes, empty_row_bytes, row_bytes_of
from stateproc.codec.native.jit import copy_bytes, exported, load_i64
from stateproc.writers.formats.common.entry_batches import RAW_ENTRIES


@exported
def _gather(source: int, starts: int, stops: int, n: int, target: int) -> None:
    """Copy ``n`` ranges of the bytes at ``source`` to ``target``, one after the other."""
    for row in range(n):
        start = load_i64(starts + 8 * row)
        size = load_i64(stops + 8 * row) - start
        copy_bytes(target, source + start, size)
        target += size


def gather(data: Bytes, starts: Longs, stops: Longs) -> RowBytes:
    """Copy the ranges ``data[starts[i]:stops[i]]``, int64, which must be inside of ``data``."""
    return _copied(data.ctypes.data, np.ascontiguousarray(starts), np.ascontiguousarray(stops))


def _copied(source: int, starts: Longs, stops: Longs) -> RowBytes:
    offsets = np.zeros(len(starts) + 1, dtype=np.int64)
    np.cumsum(stops - starts, out=offsets[1:])
    out = np.empty(int(offsets[-1]), dtype=np.uint8)
    if len(out):
        _gather(source, starts.ctypes.data, stops.ctypes.data, len(starts), out.ctypes.data)
    return RowBytes(out, offsets)


def gather_addresses(addresses: Longs, sizes: Longs) -> RowBytes:
    """Copy ``sizes[i]`` bytes at ``addresses[i]``, int64, one after the other; the caller keeps them alive."""
    addresses = np.ascontiguousarray(addresses)
    return _copied(0, addresses, addresses + sizes)


def take_rows(pieces: RowBytes, rows: Longs) -> RowBytes:
    """Copy the byte strings of these rows, in this order; rows may be repeated."""
    return gather(pieces.data, pieces.offsets[:-1][rows], pieces.offsets[1:][rows])


def byte_scalar(data: bytes) -> pa.LargeBinaryScalar:
    """Return a large binary scalar; ``pa.scalar`` imports pandas when it is given a Python object."""
    return RowBytes(np.frombuffer(data, dtype=np.uint8), np.array([0, len(data)], dtype=np.int64)).to_arrow()[0]


def entry_batch(key_groups: npt.ArrayLike, state_id: int, keys: RowBytes, values: RowBytes) -> pa.RecordBatch:
    """Return a batch of RAW_ENTRIES, all of one state."""
    groups = np.ascontiguousarray(key_groups, dtype=np.int32)
    ids = values_array(np.full(len(groups), state_id, dtype=np.int32))
    return pa.RecordBatch.from_arrays(
        [values_array(groups), ids, keys.to_arrow(), values.to_arrow()], RAW_ENTRIES.names
    )


__all__ = ["byte_scalar", "empty_row_bytes", "entry_batch", "gather", "gather_addresses", "row_bytes_of", "take_rows"]
