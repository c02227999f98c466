"""Count the entries and bytes of each state in canonical key groups, in one pass, without decoding.

Format: org.apache.flink.runtime.state.FullSnapshotAsyncWriter, as in stateproc.readers.canonical.entry_scan.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

import numpy as np

from stateproc.codec.array_types import Ints, Longs, LongTable
from stateproc.codec.jit import exported, load_be16, load_be32, load_u8
from stateproc.errors import CorruptSnapshot, Where
from stateproc.readers.canonical.entry_scan import (
    ALL,
    BAD_LENGTH,
    BAD_PREFIX,
    BAD_START,
    BAD_STATE,
    BETWEEN_GROUPS,
    GROUP,
    KEY_GROUP,
    MESSAGES,
    MORE,
    POS,
    STATE,
)
from stateproc.readers.common.entry_counts import Counts, EntryCounts
from stateproc.readers.common.key_group_blocks import Block, KeyGroupRange, fed, plain_blocks, snappy_blocks
from stateproc.storage import ByteSource

_END = 0xFFFF


@exported
def measure_block(
    source: int,
    size: int,
    reg: Longs,
    groups: Ints,
    starts: Longs,
    prefix: int,
    n_states: int,
    rows: Longs,
    entries: LongTable,
    sizes: LongTable,
) -> int:
    """Count the entries of ``size`` bytes at ``source`` from ``reg`` on; returns an outcome of ``entry_scan``.

    groups, starts: key groups that begin in these bytes. rows: by key group, its row in entries and sizes,
    which are int64 [key groups, n_states]. MORE: ``reg[POS]`` is where an entry begins that the bytes do not
    hold wholly.
    """
    pos, group, state, key_group = reg[POS], reg[GROUP], reg[STATE], reg[KEY_GROUP]
    outcome = ALL
    while True:
        if state == BETWEEN_GROUPS:
            if group >= len(groups):
                outcome = ALL if pos == size else BAD_START
                break
            if pos != starts[group]:
                outcome = BAD_START
                break
            if size - pos < 2:
                outcome = MORE
                break
            state = load_be16(source + pos)
            if state >= n_states:
                state = BETWEEN_GROUPS
                outcome = BAD_STATE
                break
            key_group = groups[group]
            group += 1
            pos += 2
            continue
        if size - pos < 4:
            outcome = MORE
            break
        key_size = np.int64(np.int32(np.uint32(load_be32(source + pos))))
        if key_size < prefix:
            outcome = BAD_LENGTH
            break
        key_at = pos + 4
        if size - key_at < key_size + 4:
            outcome = MORE
            break
        value_at = key_at + key_size + 4
        value_size = np.int64(np.int32(np.uint32(load_be32(source + value_at - 4))))
        if value_size < 0:
            outcome = BAD_LENGTH
            break
        if size - value_at < value_size:
            outcome = MORE
            break
        first = load_u8(source + key_at)
        found = first & 0x7F if prefix == 1 else ((first & 0x7F) << 8) | load_u8(source + key_at + 1)
        if found != key_group:
            outcome = BAD_PREFIX
            break
        end = value_at + value_size
        next_state = state
        if first & 0x80:
            if size - end < 2:
                outcome = MORE
                break
            next_state = load_be16(source + end)
            if next_state != _END and next_state >= n_states:
                outcome = BAD_STATE
                break
            end += 2
            if next_state == _END:
                next_state = BETWEEN_GROUPS
        row = rows[key_group]
        entries[row, state] += 1
        sizes[row, state] += 8 + key_size + value_size
        state = next_state
        pos = end
    reg[POS], reg[GROUP], reg[STATE], reg[KEY_GROUP] = pos, group, state, key_group
    return outcome


def measure_canonical(
    source: ByteSource,
    ranges: Sequence[KeyGroupRange],
    *,
    compressed: bool,
    prefix: int,
    n_states: int,
    advance: Callable[[int], None] = lambda _: None,
) -> EntryCounts:
    """Count entries and bytes per key group and state; ``advance`` is called with uncompressed bytes counted.

    ``prefix``: width of the key-group prefix (1 or 2 bytes). Raises CorruptSnapshot, MissingFile.
    """
    key_groups = tuple(item.key_group for item in ranges)
    rows = np.zeros(max(key_groups, default=0) + 1, dtype=np.int64)
    rows[list(key_groups)] = np.arange(len(key_groups))
    shape = (len(key_groups), n_states)
    found = EntryCounts(key_groups, np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64))
    feed = _CountingScan(source.name, prefix, n_states, rows, found)
    blocks = snappy_blocks(source, ranges) if compressed else plain_blocks(source, ranges)
    for done in fed(blocks, feed.feed):
        advance(done)
    feed.finish()
    return found


class _CountingScan:
    """Run the counting kernel over blocks; an entry cut off at a block's end is continued in the next block."""

    def __init__(self, file: str, prefix: int, n_states: int, rows: Counts, found: EntryCounts) -> None:
        self._file, self._prefix, self._n_states = file, prefix, n_states
        self._rows, self._found = rows, found
        self._reg = np.zeros(4, dtype=np.int64)
        self._reg[STATE] = BETWEEN_GROUPS
        self._unused = 0
        self._unbegun = False
        self._at = 0

    def feed(self, block: Block) -> Generator[int, None, int]:
        """Yield how many bytes were counted; return how many of the last ones the next block must begin with."""
        data = block.data
        groups = np.array([key_group for key_group, _ in block.groups], dtype=np.int32)
        starts = np.array([at for _, at in block.groups], dtype=np.int64)
        reg = self._reg
        reg[POS], reg[GROUP] = 0, 0
        outcome = measure_block(
            data.ctypes.data, len(data), reg, groups, starts, self._prefix, self._n_states, self._rows,
            self._found.entries, self._found.bytes,
        )  # fmt: skip
        pos = int(reg[POS])
        self._unused, self._at = len(data) - pos, block.file_at + (0 if block.compressed else pos)
        if outcome in MESSAGES:
            raise _damaged(MESSAGES[outcome], self._file, self._at)
        ahead = starts[int(reg[GROUP]) :]
        self._unbegun = len(ahead) > 0
        if block.last or (ahead > pos).any():
            self.finish()
        yield pos
        return self._unused

    def finish(self) -> None:
        """Raise CorruptSnapshot for an entry or a key group that has begun and not ended."""
        if self._unused or self._unbegun or self._reg[STATE] != BETWEEN_GROUPS:
            raise _damaged("a key group is cut off in the middle of an entry", self._file, self._at)


def _damaged(what: str, file: str, at: int) -> CorruptSnapshot:
    return CorruptSnapshot(
        what,
        where=Where(file=file, offset=at),
        advice="the file is damaged or truncated; use a copy or take the snapshot again",
    )
