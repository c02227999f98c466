"""Neighbouring changes of one key group, as arrays: what passes through the log without a Python step for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, groupby

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec.array_types import Bytes, Flags, Longs, LongTable
from stateproc.codec.arrow_arrays import numbers_of
from stateproc.codec.native.jit import copy_bytes, exported, load_be32, load_u8, store_8, store_32

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


# Kernels over byte strings given by address and size: number them by content, join them, write them as entries.

_PREFIX = 4
_COMMA = 0x2C
NO_MARK = -1


def numbered(prefixes: Longs, at: Longs, sizes: Longs) -> tuple[Longs, int]:
    """A number for each row, the same for rows of the same prefix (0 to 2^31) and bytes; and how many there are.

    Numbers are given in the order of first appearance.
    """
    offsets = np.zeros(len(at) + 1, dtype=np.int64)
    np.cumsum(sizes + _PREFIX, out=offsets[1:])
    data = np.empty(max(int(offsets[-1]), 1), dtype=np.uint8)
    _prefixed(prefixes, at, sizes, data.ctypes.data, offsets)
    keys = pa.Array.from_buffers(pa.large_binary(), len(at), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    encoded = keys.dictionary_encode()
    return numbers_of(encoded.indices).astype(np.int64), len(encoded.dictionary)


@exported
def _prefixed(prefixes: Longs, at: Longs, sizes: Longs, out: int, offsets: Longs) -> None:
    for k in range(len(at)):
        store_32(out + offsets[k], prefixes[k])
        copy_bytes(out + offsets[k] + 4, at[k], sizes[k])


@exported
def join(at: Longs, sizes: Longs, bounds: Longs, out: int, offsets: Longs) -> None:
    """Join the rows ``bounds[k]`` to ``bounds[k + 1]`` by commas, to ``offsets[k]`` of ``out``."""
    for k in range(len(bounds) - 1):
        target = out + offsets[k]
        for row in range(bounds[k], bounds[k + 1]):
            if row > bounds[k]:
                store_8(target, _COMMA)
                target += 1
            copy_bytes(target, at[row], sizes[row])
            target += sizes[row]


def joined(at: Longs, sizes: Longs, bounds: Longs) -> tuple[Bytes, Longs, Longs]:
    """Rows ``bounds[k]`` to ``bounds[k + 1]`` (at least one) joined by commas: a buffer, addresses and sizes in it."""
    before = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=before[1:])
    whole = before[bounds[1:]] - before[bounds[:-1]] + np.diff(bounds) - 1
    offsets = np.zeros(len(whole) + 1, dtype=np.int64)
    np.cumsum(whole, out=offsets[1:])
    data = np.empty(max(int(offsets[-1]), 1), dtype=np.uint8)
    join(at, sizes, bounds, data.ctypes.data, offsets)
    return data, data.ctypes.data + offsets[:-1], whole


@exported
def equal(at: Longs, sizes: Longs, other: int, other_size: int, found: Flags) -> None:
    """Which rows are these bytes."""
    for k in range(len(at)):
        same = sizes[k] == other_size
        i = 0
        while same and i < other_size:
            same = load_u8(at[k] + i) == load_u8(other + i)
            i += 1
        found[k] = same


@exported
def write_entries(
    key_at: Longs,
    key_sizes: Longs,
    user_at: Longs,
    user_sizes: Longs,
    marks: Longs,
    value_at: Longs,
    value_sizes: Longs,
    first: int,
    last: int,
    limit: int,
    out: int,
    ranges: LongTable,
) -> tuple[int, int]:
    """Write rows from ``first`` on as composite entries: key and user key, mark (if not NO_MARK) and value.

    ``ranges``: int64 [4, last - first], see RawEntries. Returns the row reached and the bytes used, at most
    ``limit``.
    """
    used = np.int64(0)
    row = first
    while row < last:
        mark = 0 if marks[row] == NO_MARK else 1
        key = key_sizes[row] + user_sizes[row]
        size = key + mark + value_sizes[row]
        if used + size > limit:
            break
        n = row - first
        copy_bytes(out + used, key_at[row], key_sizes[row])
        copy_bytes(out + used + key_sizes[row], user_at[row], user_sizes[row])
        ranges[0, n], ranges[1, n], ranges[2, n], ranges[3, n] = used, used + key, used + key, used + size
        if mark:
            store_8(out + used + key, marks[row])
        copy_bytes(out + used + key + mark, value_at[row], value_sizes[row])
        used += size
        row += 1
    return row, used
