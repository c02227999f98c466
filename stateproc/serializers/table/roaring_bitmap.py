"""RoaringBitmap's portable format (32-bit): which positions are set."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot, Where

MAX_POSITIONS = 1 << 22
_WITHOUT_RUNS, _WITH_RUNS = 12346, 12347
_LARGEST_ARRAY = 4096
_BITMAP_BYTES = 8192
_OFFSETS_FROM = 4

Positions = npt.NDArray[np.int64]


def positions(data: bytes) -> list[int]:
    """The positions set, ascending. Raises CorruptSnapshot; UnsupportedSnapshot for over 4 million."""
    return _BitmapReader(data).read()


class _BitmapReader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, n: int) -> bytes:
        if n > len(self.data) - self.at:
            raise self.corrupt("a bitmap is cut off")
        self.at += n
        return self.data[self.at - n : self.at]

    def shorts(self, n: int) -> Positions:
        return np.frombuffer(self.take(2 * n), dtype="<u2").astype(np.int64)

    def corrupt(self, message: str) -> CorruptSnapshot:
        return CorruptSnapshot(message, where=Where(file="<bytes>", offset=self.at))

    def read(self) -> list[int]:
        cookie = int.from_bytes(self.take(4), "little")
        runs = np.zeros(0, dtype=np.uint8)
        if cookie == _WITHOUT_RUNS:
            count = int.from_bytes(self.take(4), "little")
        elif cookie & 0xFFFF == _WITH_RUNS:
            count = (cookie >> 16) + 1
            flags = np.frombuffer(self.take((count + 7) // 8), dtype=np.uint8)
            runs = np.unpackbits(flags, bitorder="little")
        else:
            raise self.corrupt(f"a bitmap begins with {cookie}, which is no known format")
        if count > 1 << 16:
            raise self.corrupt(f"a bitmap of {count} containers")
        headers = self.shorts(2 * count).reshape(count, 2)
        if len(runs) == 0 or count >= _OFFSETS_FROM:
            self.take(4 * count)  # where the containers start: they follow one another
        total = int(headers[:, 1].sum()) + count
        if total > MAX_POSITIONS:
            raise UnsupportedSnapshot(
                f"a bitmap of {total} positions",
                advice="read it from the Arrow column, whose bytes libraries for Roaring bitmaps understand",
            )
        out: list[int] = []
        for index, (key, last) in enumerate(headers.tolist()):
            is_run = index < len(runs) and bool(runs[index])
            values = self.runs() if is_run else self.plain(last + 1)
            if len(values) != last + 1:
                raise self.corrupt("a bitmap's container holds another number of positions than it says")
            out += (values + (key << 16)).tolist()
        if self.at != len(self.data):
            raise self.corrupt("bytes are left over behind a bitmap")
        return out

    def runs(self) -> Positions:
        n = int.from_bytes(self.take(2), "little")
        pairs = self.shorts(2 * n).reshape(n, 2)
        if int(pairs[:, 1].sum()) + n > 1 << 16:
            raise self.corrupt("a bitmap's container holds over 65536 positions")
        parts = [np.arange(start, start + length + 1) for start, length in pairs.tolist()]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    def plain(self, n: int) -> Positions:
        if n <= _LARGEST_ARRAY:
            return self.shorts(n)
        bits = np.unpackbits(np.frombuffer(self.take(_BITMAP_BYTES), dtype=np.uint8), bitorder="little")
        return np.flatnonzero(bits)
