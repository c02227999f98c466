"""Composite keys: org.apache.flink.runtime.state.{CompositeKeySerializationUtils, SerializedCompositeKeyBuilder}."""

from __future__ import annotations

import numpy as np

from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import RowBytes
from stateproc.codec.encoding.kernels import put_blobs
from stateproc.codec.encoding.sized_writers import SizedWriter, concatenate, write_rows
from stateproc.codec.encoding.strings import row_bytes_writer


def composite_keys(key: RowBytes, namespace: RowBytes, user_key: RowBytes | None, ambiguous: bool) -> RowBytes:
    """Keys without the key group in front: key, [its length], namespace, [its length], [user key], row by row.

    ``ambiguous``: neither the key's nor the namespace's serializer has a fixed length; then lengths are written.
    ``user_key``: the keys of map state, else None.
    """
    parts = []
    for one in (key, namespace):
        parts.append(row_bytes_writer(one))
        if ambiguous:
            parts.append(_length_suffixes(one.lengths))
    if user_key is not None:
        parts.append(row_bytes_writer(user_key))
    return write_rows(concatenate(parts), len(key))


def _length_suffixes(lengths: Longs) -> SizedWriter:
    """Lengths as little-endian bytes, as few as hold them, one at least: neither a varint nor of fixed size."""
    lengths = np.ascontiguousarray(lengths, dtype="<i8")
    sizes = np.ones(len(lengths), dtype=np.int64)
    for byte in range(1, 8):
        sizes += lengths >= 1 << 8 * byte

    data = lengths.view(np.uint8)

    def write(at: Longs) -> None:
        offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
        np.cumsum(sizes, out=offsets[1:])
        kept = data.reshape(-1, 8)[np.arange(8) < sizes[:, None]]
        put_blobs(kept.ctypes.data, offsets.ctypes.data, at.ctypes.data, len(at))

    return SizedWriter(sizes, write)
