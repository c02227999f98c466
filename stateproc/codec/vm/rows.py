"""A row is all or nothing: how much of each column is used at its start, and back to there."""

from __future__ import annotations

from stateproc.codec.jit import kernel, load_i64, store_64


@kernel
def save_lengths(columns: int, n: int, saved: int) -> None:
    """The bytes used of each of ``n`` columns go to the int64s at ``saved``."""
    for c in range(n):
        store_64(saved + 8 * c, load_i64(columns + 24 * c + 8))


@kernel
def restore_lengths(columns: int, n: int, saved: int) -> None:
    """The other way round."""
    for c in range(n):
        store_64(columns + 24 * c + 8, load_i64(saved + 8 * c))
