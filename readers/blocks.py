"""Key groups of a state file as a sequence of blocks of plain bytes, compressed or not, in bounded memory.

Compression: org.apache.flink.runtime.state.SnappyStreamCompressionDecorator, the snappy framing format.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

import cramjam
import numpy as np
import numpy.typing as npt

from stateproc.errors import CorruptSnapshot, Where
from stateproc.storage import ByteSource

Bytes = npt.NDArray[np.uint8]
BLOCK_BYTES = 16 << 20
_IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"
_MAX_FRAME = 65536


@dataclass(frozen=True)
class KeyGroupRange:
    """A key group's bytes in its file: ``start`` inclusive, ``stop`` exclusive."""

    key_group: int
    start: int
    stop: int


@dataclass(frozen=True)
class Block:
    """Bytes of one or more key groups. ``groups``: (key group, position in ``data``) of those that begin here.

    ``file_at``: where ``data[0]`` lies in the file; for compressed data, where its key group begins.
    ``last``: the key group that ``data`` ends in ends with it.
    """

    data: Bytes
    groups: tuple[tuple[int, int], ...]
    file_at: int
    compressed: bool
    last: bool


def group_ranges(first: int, offsets: Sequence[int], size: int, file: str, empty: int = 0) -> list[KeyGroupRange]:
    """The ranges of the non-empty key groups, which lie one behind the other up to the file's end (``size``).

    ``offsets[i]``: of key group ``first + i``; ``empty`` marks a group without data. Raises CorruptSnapshot.
    """
    present = [(first + index, offset) for index, offset in enumerate(offsets) if offset != empty]
    starts = [offset for _, offset in present] + [size]
    for (key_group, start), stop in zip(present, starts[1:], strict=True):
        if start < 0 or start >= stop:
            raise CorruptSnapshot(
                f"key group {key_group} begins at byte {start}, the next one or the end is at {stop}",
                where=Where(file=file, offset=max(start, 0)),
                advice="the offsets in _metadata do not fit the file: one of the two is damaged",
            )
    return [KeyGroupRange(kg, start, stop) for (kg, start), stop in zip(present, starts[1:], strict=True)]


def plain_blocks(
    source: ByteSource, ranges: Sequence[KeyGroupRange], size: int = BLOCK_BYTES
) -> Generator[Block, int | None, None]:
    """Uncompressed key groups, ``size`` bytes at a time; neighbours in the file share blocks.

    Send it how many bytes at the block's end were not used: the next block begins with them. If that is all of the
    block, the next one is twice as long. Nothing sent: all were used.
    """
    for run in _adjacent(ranges):
        at, stop, index, wanted = run[0].start, run[-1].stop, 0, size
        while at < stop:
            length = min(wanted, stop - at)
            data = np.frombuffer(source.read(at, length), dtype=np.uint8)
            groups = []
            while index < len(run) and run[index].start < at + length:
                groups.append((run[index].key_group, run[index].start - at))
                index += 1
            ends = at + length == stop
            unused = (yield Block(data, tuple(groups), at, False, ends)) or 0
            at += length - unused
            if ends:
                break
            wanted = 2 * length if unused == length else size
            while index and run[index - 1].start >= at:
                index -= 1


def _adjacent(ranges: Sequence[KeyGroupRange]) -> list[list[KeyGroupRange]]:
    """Runs of ranges without gaps between them."""
    runs: list[list[KeyGroupRange]] = []
    for item in ranges:
        if runs and runs[-1][-1].stop == item.start:
            runs[-1].append(item)
        else:
            runs.append([item])
    return runs


def snappy_blocks(
    source: ByteSource, ranges: Sequence[KeyGroupRange], lead: int = 0, size: int = BLOCK_BYTES
) -> Iterator[Block]:
    """Compressed key groups; the first ``lead`` bytes of each are plain. Small groups share blocks."""
    parts: list[bytes] = []
    groups: list[tuple[int, int]] = []
    held, file_at = 0, 0
    for item in ranges:
        if not parts:
            file_at = item.start
        groups.append((item.key_group, held))
        for plain, ends in _decompressed(source, item, lead, size):
            parts.append(plain)
            held += len(plain)
            if held >= size:
                yield Block(_joined(parts), tuple(groups), file_at, True, ends)
                parts, groups, held, file_at = [], [], 0, item.start
    if parts or groups:
        yield Block(_joined(parts), tuple(groups), file_at, True, True)


def _joined(parts: list[bytes]) -> Bytes:
    return np.frombuffer(parts[0] if len(parts) == 1 else b"".join(parts), dtype=np.uint8)


def _decompressed(source: ByteSource, item: KeyGroupRange, lead: int, size: int) -> Iterator[tuple[bytes, bool]]:
    """The key group's plain bytes in pieces; True with the last one."""
    if item.stop - item.start < lead:
        raise _damaged(source.name, item.start, "a key group is too short")
    head = source.read(item.start, lead)
    at, tail = item.start + lead, b""
    if at == item.stop:
        yield head, True
    while at < item.stop:
        length = min(size // 4, item.stop - at)
        raw = tail + source.read(at, length)
        at += length
        whole = whole_frames(raw, source.name, at - len(raw))
        if at == item.stop and whole != len(raw):
            raise _damaged(source.name, at - len(raw) + whole, "a compressed chunk is cut off")
        tail = raw[whole:]
        if whole or at == item.stop:
            yield head + decompress_frames(raw[:whole], source.name, at - len(raw)), at == item.stop
            head = b""


def whole_frames(raw: bytes, file: str, file_at: int) -> int:
    """How many bytes at the beginning of ``raw`` are whole chunks of the framing format. Raises CorruptSnapshot."""
    at = 0
    while at + 4 <= len(raw):
        kind, length = raw[at], int.from_bytes(raw[at + 1 : at + 4], "little")
        if kind in (0, 1):
            if length < 4 or length > _MAX_FRAME + 4 + _MAX_FRAME // 6 + 32:
                raise _damaged(file, file_at + at, f"a compressed chunk of {length} bytes")
        elif kind != 0xFF and kind < 0x80:
            raise _damaged(file, file_at + at, f"a compressed chunk of the unknown type {kind}")
        if at + 4 + length > len(raw):
            break
        if kind == 0 and _uncompressed_size(raw, at + 8, at + 4 + length) > _MAX_FRAME:
            raise _damaged(file, file_at + at, "a compressed chunk claims more than 64 KiB")
        at += 4 + length
    return at


def _uncompressed_size(raw: bytes, at: int, stop: int) -> int:
    """The varint that raw snappy begins with."""
    size = shift = 0
    while at < stop and shift <= 28:
        size |= (raw[at] & 0x7F) << shift
        if raw[at] < 0x80:
            return size
        at, shift = at + 1, shift + 7
    return _MAX_FRAME + 1


def decompress_frames(raw: bytes, file: str, file_at: int) -> bytes:
    """Decompress whole chunks; their checksums are verified. Raises CorruptSnapshot."""
    if not raw:
        return b""
    try:
        return bytes(cramjam.snappy.decompress(raw if raw.startswith(_IDENTIFIER) else _IDENTIFIER + raw))
    except cramjam.DecompressionError as error:
        raise _damaged(file, file_at, f"compressed data is damaged: {error}") from error


def _damaged(file: str, offset: int, what: str) -> CorruptSnapshot:
    return CorruptSnapshot(
        what, where=Where(file=file, offset=offset), advice="the file is damaged; use a copy or take the snapshot again"
    )
