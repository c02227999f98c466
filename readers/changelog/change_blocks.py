"""Neighbouring changes of one key group, as arrays: what passes through the log without a Python step for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, groupby

import numpy as np
import numpy.typing as npt

from stateproc.codec.array_types import Longs
from stateproc.codec.jit import copy_bytes, exported, load_be32

_LENGTH = 4


@dataclass(frozen=True, slots=True)
class Change:
    """One change record; ``key_group`` -1: it declares a state. ``file``, ``at``: where it was found."""

    key_group: int
    data: bytes
    file: str
    at: int


@dataclass(frozen=True, slots=True)
class ChangeBlock:
    """Changes of one key group in one file: record ``k`` is ``data[starts[k]:ends[k]]``, found at ``places[k]``.

    starts, ends, places: int64. The data may hold other bytes between the records.
    """

    key_group: int
    data: bytes
    starts: Longs
    ends: Longs
    file: str
    places: Longs

    def __len__(self) -> int:
        return len(self.starts)

    def change(self, k: int) -> Change:
        return Change(self.key_group, self.data[self.starts[k] : self.ends[k]], self.file, int(self.places[k]))

    def changes(self) -> Iterator[Change]:
        """One by one."""
        return map(self.change, range(len(self)))

    def only(self, which: npt.NDArray[np.bool_]) -> ChangeBlock:
        """Some of the changes, with no other bytes than theirs."""
        starts, sizes = self.starts[which], self.ends[which] - self.starts[which]
        ends = np.cumsum(sizes)
        data = np.empty(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
        source = np.frombuffer(self.data or b"\0", dtype=np.uint8)
        _gather(source.ctypes.data, starts, sizes, data.ctypes.data, ends - sizes)
        return replace(self, data=data.tobytes(), starts=ends - sizes, ends=ends, places=self.places[which])


def blocks_of(changes: Iterable[Change]) -> Iterator[ChangeBlock]:
    """Changes as blocks, in their order."""
    for (group, file), run in groupby(changes, key=lambda change: (change.key_group, change.file)):
        own = list(run)
        bounds = np.array([*accumulate((len(change.data) for change in own), initial=0)], dtype=np.int64)
        places = np.array([change.at for change in own], dtype=np.int64)
        yield ChangeBlock(group, b"".join(change.data for change in own), bounds[:-1], bounds[1:], file, places)


@exported
def _gather(source: int, starts: Longs, sizes: Longs, out: int, offsets: Longs) -> None:
    for k in range(len(starts)):
        copy_bytes(out + offsets[k], source + starts[k], sizes[k])


@exported
def walk(source: int, at: int, size: int, starts: Longs, ends: Longs) -> tuple[int, int]:
    """Find complete records of i32 length and bytes from ``at`` on, as many as ``starts`` can hold.

    Returns (their number, the position after them)."""
    n = 0
    while n < len(starts) and size - at >= _LENGTH:
        length = load_be32(source + at)
        # A negative length is one over 2^31 here, which no bytes hold.
        if length > size - at - _LENGTH:
            break
        starts[n] = at + _LENGTH
        at += _LENGTH + length
        ends[n] = at
        n += 1
    return n, at
