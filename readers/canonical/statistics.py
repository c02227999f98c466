"""Count the entries and bytes of each state in canonical key groups, in one pass, without decoding.

Format: org.apache.flink.runtime.state.FullSnapshotAsyncWriter, see stateproc.readers.canonical.entry_step.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

import numpy as np

from stateproc.codec.array_types import Ints, Longs, LongTable
from stateproc.codec.jit import exported
from stateproc.errors import CorruptSnapshot, Where
from stateproc.readers.canonical.entry_step import (
    ALL,
    BETWEEN_GROUPS,
    GROUP,
    KEY_GROUP,
    MESSAGES,
    POS,
    STATE,
    STEPPED,
    begin_key_group,
    read_entry,
)
from stateproc.readers.common.entry_counts import Counts, EntryCounts
from stateproc.readers.common.key_group_blocks import Block, KeyGroupRange, fed, plain_blocks, snappy_blocks
from stateproc.storage import ByteSource


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
    """Count the entries of ``size`` bytes at ``source`` from ``reg`` on; returns an outcome of ``entry_step``.

    groups, starts: key groups that begin in these bytes. rows: by key group, its row in entries and sizes,
    which are int64 [key groups, n_states]. MORE: ``reg[POS]`` is where an entry begins that the bytes do not
    hold wholly.
    """
    pos, group, state, key_group = reg[POS], reg[GROUP], reg[STATE], reg[KEY_GROUP]
    outcome = ALL
    while True:
        if state == BETWEEN_GROUPS:
            outcome, state = begin_key_group(source, size, pos, group, groups, starts, n_states)
            if outcome != STEPPED:
                break
            key_group = groups[group]
            group += 1
            pos += 2
            continue
        outcome, key_size, value_size, end, next_state = read_entry(
            source, size, pos, state, key_group, prefix, n_states
        )
        if outcome != STEPPED:
            break
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
