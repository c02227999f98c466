"""Whether a KeyGroups file of handle type 3 or 12 holds canonical entries or native heap state.

The handle does not say: RocksDB wrote canonical entries under these types up to 1.15, heap backends their own
format. Every key group of a heap file begins with its i32 number; a canonical one with a state id and a length.
"""

from __future__ import annotations

from collections.abc import Sequence

from stateproc.readers.blocks import KeyGroupRange
from stateproc.storage import ByteSource

CANONICAL_TYPE = 7


def is_canonical(type_byte: int, offsets: Sequence[int], source: ByteSource, ranges: Sequence[KeyGroupRange]) -> bool:
    """True for canonical entries. ``ranges``: the non-empty key groups of ``offsets`` (0 is an empty canonical one)."""
    if type_byte == CANONICAL_TYPE or not ranges:
        return True
    if any(offset == 0 for offset in offsets):
        return True
    for item in ranges:
        if item.stop - item.start < 4:
            return True
        if int.from_bytes(source.read(item.start, 4), "big", signed=True) != item.key_group:
            return True
    return False
