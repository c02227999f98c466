"""The kernels of canonical key groups: find the entries of one state; count the entries and bytes of all.

The layout is at the head of `canonical.reader`. An entry takes 8 bytes more than its key and value; the 2 bytes of a
state id follow the last entry of each state.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

import numpy as np

from stateproc.codec.array_types import Ints, Longs, LongTable
from stateproc.codec.native.jit import exported, inlined, load_be16, load_be32, load_u8
from stateproc.errors import CorruptSnapshot, Where
from stateproc.readers.key_group_blocks import Block, KeyGroupRange, fed, plain_blocks, snappy_blocks
from stateproc.readers.raw_entries import Counts, EntryCounts
from stateproc.storage import ByteSource

# The registers of a pass.
POS, GROUP, STATE, KEY_GROUP = 0, 1, 2, 3
BETWEEN_GROUPS = -1
# Outcomes of a pass; of a step besides: it is done.
ALL, MORE, FULL = 0, 1, 2
BAD_START, BAD_STATE, BAD_LENGTH, BAD_PREFIX = 3, 4, 5, 6
STEPPED = 7
MESSAGES = {
    BAD_START: "a key group does not end where the next one begins",
    BAD_STATE: "an entry is of a state that the header does not list",
    BAD_LENGTH: "an entry has an impossible length",
    BAD_PREFIX: "an entry's key is of another key group",
}
_END = 0xFFFF


@inlined
def begin_key_group(
    source: int,
    size: int,
    pos: int,
    group: int,
    state: int,
    key_group: int,
    groups: Ints,
    starts: Longs,
    n_states: int,
) -> tuple[int, int, int, int, int]:
    """Begin the next key group where none has begun: (outcome, pos, next group, state, key group) of its first entry.

    source: address of ``size`` bytes. group: the index of the next one in groups and starts, which are those that begin
    in these bytes.
    """
    if state != BETWEEN_GROUPS:
        return STEPPED, pos, group, state, key_group
    if group >= len(groups):
        return (ALL if pos == size else BAD_START), pos, group, state, key_group
    if pos != starts[group]:
        return BAD_START, pos, group, state, key_group
    if size - pos < 2:
        return MORE, pos, group, state, key_group
    first = load_be16(source + pos)
    if first >= n_states:
        return BAD_STATE, pos, group, state, key_group
    return STEPPED, pos + 2, group + 1, first, np.int64(groups[group])


@inlined
def read_entry(
    source: int, size: int, pos: int, state: int, key_group: int, prefix: int, n_states: int
) -> tuple[int, int, int, int, int]:
    """Read the lengths of an entry and what follows it: (outcome, key size, value size, end, next state).

    The key begins four bytes after ``pos``, the value four bytes after the key. prefix: bytes of key group before the
    key, part of its size. end: where the next entry or key group begins.
    """
    if size - pos < 4:
        return MORE, 0, 0, pos, state
    key_size = np.int64(np.int32(np.uint32(load_be32(source + pos))))
    if key_size < prefix:
        return BAD_LENGTH, 0, 0, pos, state
    key_at = pos + 4
    if size - key_at < key_size + 4:
        return MORE, 0, 0, pos, state
    value_at = key_at + key_size + 4
    value_size = np.int64(np.int32(np.uint32(load_be32(source + value_at - 4))))
    if value_size < 0:
        return BAD_LENGTH, 0, 0, pos, state
    if size - value_at < value_size:
        return MORE, 0, 0, pos, state
    first = load_u8(source + key_at)
    found = first & 0x7F if prefix == 1 else ((first & 0x7F) << 8) | load_u8(source + key_at + 1)
    if found != key_group:
        return BAD_PREFIX, 0, 0, pos, state
    end = value_at + value_size
    next_state = state
    # The highest bit of the last entry of a state is set: the next state follows, or the end of the key group.
    if first & 0x80:
        if size - end < 2:
            return MORE, 0, 0, pos, state
        next_state = load_be16(source + end)
        if next_state != _END and next_state >= n_states:
            return BAD_STATE, 0, 0, pos, state
        end += 2
        if next_state == _END:
            next_state = BETWEEN_GROUPS
    return STEPPED, key_size, value_size, end, next_state


@exported
def scan(
    source: int,
    size: int,
    reg: Longs,
    groups: Ints,
    starts: Longs,
    prefix: int,
    target: int,
    n_states: int,
    out: LongTable,
    key_groups: Ints,
) -> tuple[int, int]:
    """Find entries of the state ``target`` from ``reg`` on; returns (outcome, number of entries found).

    source: address of ``size`` bytes. groups, starts: int32/int64 per key group that begins in them. prefix: bytes
    of key group before each key. out: int64 [4, capacity] key start, key end, value start, value end (positions
    without the prefix). key_groups: int32 [capacity].
    MORE: ``reg[POS]`` is where an entry begins that the bytes do not hold wholly.
    """
    pos, group, state, key_group = reg[POS], reg[GROUP], reg[STATE], reg[KEY_GROUP]
    n = 0
    outcome = ALL
    while True:
        outcome, pos, group, state, key_group = begin_key_group(
            source, size, pos, group, state, key_group, groups, starts, n_states
        )
        if outcome != STEPPED:
            break
        if n >= len(key_groups):
            outcome = FULL
            break
        outcome, key_size, value_size, end, next_state = read_entry(
            source, size, pos, state, key_group, prefix, n_states
        )
        if outcome != STEPPED:
            break
        if state == target:
            key_at = pos + 4
            out[0, n] = key_at + prefix
            out[1, n] = key_at + key_size
            out[2, n] = key_at + key_size + 4
            out[3, n] = key_at + key_size + 4 + value_size
            key_groups[n] = key_group
            n += 1
        state = next_state
        pos = end
    reg[POS], reg[GROUP], reg[STATE], reg[KEY_GROUP] = pos, group, state, key_group
    return outcome, n


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
    """Count the entries of ``size`` bytes at ``source`` from ``reg`` on; returns an outcome of the steps above.

    groups, starts: key groups that begin in these bytes. rows: by key group, its row in entries and sizes,
    which are int64 [key groups, n_states]. MORE: ``reg[POS]`` is where an entry begins that the bytes do not
    hold wholly.
    """
    pos, group, state, key_group = reg[POS], reg[GROUP], reg[STATE], reg[KEY_GROUP]
    outcome = ALL
    while True:
        outcome, pos, group, state, key_group = begin_key_group(
            source, size, pos, group, state, key_group, groups, starts, n_states
        )
        if outcome != STEPPED:
            break
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
            data.ctypes.data,
            len(data),
            reg,
            groups,
            starts,
            self._prefix,
            self._n_states,
            self._rows,
            self._found.entries,
            self._found.bytes,
        )
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
