"""Save the lengths of columns at the start of a row, and restore them where the row fails."""

from __future__ import annotations

from stateproc.codec.jit import kernel, load_i64, store_64


@kernel
def save_lengths(columns: int, n: int, saved: int) -> None:
    """The bytes used of each of ``n`` columns go to the int64s at ``saved``."""
    for c in range(n):
        store_64(saved + 8 * c, load_i64(columns + 24 * c + 8))


@kernel
def restore_lengths(columns: int, n: int, saved: int) -> None:
    """Restore the lengths that save_lengths has saved."""
    for c in range(n):
        store_64(columns + 24 * c + 8, load_i64(saved + 8 * c))
