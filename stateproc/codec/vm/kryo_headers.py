"""Kernels that read the headers of collections and maps in Kryo: the number of elements and their class."""

from __future__ import annotations

from stateproc.codec.jit import kernel, load_u8
from stateproc.codec.vm.kryo_kernels import (
    AS_LIST,
    EMPTY_COLLECTION,
    EMPTY_MAP,
    FAILED,
    FLAG,
    IMMUTABLE_COLLECTION,
    NO_CLASS,
    RESULT,
    SORTED_COLLECTION,
    SORTED_MAP,
    flagged_varint,
    kryo_class,
    kryo_varint,
    set_word,
    word,
)

BY_CLASS = -1
"""The class of elements that each name their own."""
KIND, REMAINING, CLASS, NULLABLE, AT_VALUE = 0, 1, 2, 3, 4
"""Words of a frame, one per collection around."""
LIST, NEW_MAP, OBJECT, PAIRS = 0, 1, 2, 3
"""Kinds of frames; which a map is, is known from its first key."""
_MAX_NULLS = 4096


@kernel
def _skip_null_comparator(pos: int, end: int) -> int:
    """Skip a null comparator; any other is left to the host."""
    return pos + 1 if pos < end and load_u8(pos) == 0 else FAILED


@kernel
def collection_header(
    pos: int, end: int, code: int, version: int, kryo: int, table: int, names: int, reg: int, frame: int
) -> int:
    """Read the header of a collection into a new frame; REMAINING is -1 for a null body."""
    set_word(frame, KIND, LIST)
    set_word(frame, CLASS, BY_CLASS)
    set_word(frame, NULLABLE, 0)
    set_word(frame, REMAINING, 0)
    if code == EMPTY_COLLECTION:
        return pos
    header = code == SORTED_COLLECTION
    if version < 5:
        if header:
            pos = _skip_null_comparator(pos, end)
            if pos < 0:
                return FAILED
        pos = kryo_varint(pos, end, kryo, reg)
        if pos < 0:
            return FAILED
        n = word(kryo, RESULT)
        if n > end - pos:
            return FAILED
        set_word(frame, REMAINING, n)
        return kryo_class(pos, end, kryo, table, names, reg) if code == AS_LIST else pos
    pos = flagged_varint(pos, end, kryo)
    if pos < 0:
        return FAILED
    n = word(kryo, RESULT) - 1
    flag = word(kryo, FLAG) != 0
    if n >= 0 and header:
        pos = _skip_null_comparator(pos, end)
        if pos < 0:
            return FAILED
    set_word(frame, REMAINING, n)
    if n <= 0:
        return pos
    if flag:
        pos = kryo_class(pos, end, kryo, table, names, reg)
        if pos < 0:
            return FAILED
        set_word(frame, CLASS, word(kryo, RESULT))
        if word(kryo, RESULT) == NO_CLASS:
            return pos if n <= _MAX_NULLS else FAILED
        if code != IMMUTABLE_COLLECTION:
            if pos >= end or load_u8(pos) > 1:
                return FAILED
            set_word(frame, NULLABLE, load_u8(pos))
            pos += 1
    return pos if n <= end - pos else FAILED


@kernel
def map_header(pos: int, end: int, code: int, version: int, kryo: int, reg: int, frame: int) -> int:
    """Read the header of a map into a new frame; REMAINING is -1 for a null body."""
    set_word(frame, KIND, NEW_MAP)
    set_word(frame, CLASS, BY_CLASS)
    set_word(frame, NULLABLE, 0)
    set_word(frame, AT_VALUE, 0)
    set_word(frame, REMAINING, 0)
    if code == EMPTY_MAP:
        return pos
    header = code == SORTED_MAP
    if header and version < 5:
        pos = _skip_null_comparator(pos, end)
        if pos < 0:
            return FAILED
    pos = kryo_varint(pos, end, kryo, reg)
    if pos < 0:
        return FAILED
    n = word(kryo, RESULT) - (1 if version >= 5 else 0)
    if header and version >= 5 and n >= 0:
        pos = _skip_null_comparator(pos, end)
        if pos < 0:
            return FAILED
    set_word(frame, REMAINING, n)
    return pos if 2 * n <= end - pos else FAILED
