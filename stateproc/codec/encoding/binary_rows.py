"""Write binary rows, arrays and maps as org.apache.flink.table.data.writer.{BinaryRowWriter, BinaryArrayWriter} do.

Little-endian: a fixed part of slots, then the variable part, every item of it padded with zeros to 8 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stateproc.codec.array_types import Longs
from stateproc.codec.encoding.kernels import fill_zero, place_items
from stateproc.codec.encoding.list_encoding import mark
from stateproc.codec.encoding.sized_writers import SizedWriter, concatenate, fixed, per_row, zeros
from stateproc.codec.native.jit import exported, load_i64, store_8, store_64

_MAX_INLINED = 7


@dataclass(frozen=True)
class Slots:
    """Write a field's slots and its values in the variable part.

    extra: bytes in the variable part, a multiple of 8, per row or the same for all. write(slots, bases, tails): the
    addresses of the slots (their bytes are zero), of the rows, and of the next free bytes of the variable parts; write
    advances the last.
    null_extra: bytes that even a null takes up there where rows reserve them.
    """

    extra: int | Longs
    write: Callable[[Longs, Longs, Longs], None]
    null_extra: int = 0


@exported
def place_slots(
    slots: int, bases: int, tails: int, lengths: int, extra: int, inlined: int, value_addresses: int, n: int
) -> None:
    """Fill slots (offset and length, or ``inlined`` up to 7 bytes), pad; where each value goes is left in places."""
    for i in range(n):
        slot, length = load_i64(slots + 8 * i), load_i64(lengths + 8 * i)
        if inlined != 0 and length <= 7:
            store_8(slot + 7, 0x80 | length)
            store_64(value_addresses + 8 * i, slot)
            continue
        target, reserved = load_i64(tails + 8 * i), load_i64(extra + 8 * i)
        store_64(slot, ((target - load_i64(bases + 8 * i)) << 32) | length)
        store_64(value_addresses + 8 * i, target)
        fill_zero(target + length, reserved - length)
        store_64(tails + 8 * i, target + reserved)


def plain(value: SizedWriter) -> Slots:
    """Write a value into the slot itself."""

    def write(slots: Longs, _bases: Longs, _tails: Longs) -> None:
        value.write(slots.copy())

    return Slots(0, write)


def variable(value: SizedWriter, n: int, *, inlined: bool, reserved: int = 0) -> Slots:
    """A value in the variable part, ``reserved`` bytes at least; ``inlined``: in the slot if it has up to 7 bytes."""
    lengths = per_row(value.lengths, n)
    extra = np.maximum((lengths + 7) & ~7, reserved)
    if inlined:
        extra = np.where(lengths <= _MAX_INLINED, 0, extra)

    def write(slots: Longs, bases: Longs, tails: Longs) -> None:
        slots, bases, value_addresses = np.ascontiguousarray(slots), np.ascontiguousarray(bases), np.empty_like(slots)
        place_slots(
            slots.ctypes.data,
            bases.ctypes.data,
            tails.ctypes.data,
            lengths.ctypes.data,
            extra.ctypes.data,
            int(inlined),
            value_addresses.ctypes.data,
            n,
        )
        value.write(value_addresses)

    return Slots(extra, write, reserved)


def wide_timestamps(nanos: npt.NDArray[np.int32], millis: Longs) -> Slots:
    """TIMESTAMP(p > 3): the offset and the nanoseconds of the millisecond; the milliseconds at the offset."""
    late = fixed(millis, big_endian=False)

    def write(slots: Longs, bases: Longs, tails: Longs) -> None:
        fixed(((tails - bases) << 32) | nanos, big_endian=False).write(slots.copy())
        late.write(tails)

    return Slots(8, write, 8)


@dataclass(frozen=True)
class Field:
    """Slots of the rows ``valid`` (None: all); the rows ``null`` have none but the mark."""

    slots: Slots
    valid: Longs | None
    null: Longs


def rows(
    n: int, null_bytes: int, kinds: npt.NDArray[np.uint8] | None, fields: Sequence[Field], *, reserve_nulls: bool
) -> SizedWriter:
    """Binary rows: null bits after the RowKind (``kinds``, None: all INSERT), slots, variable part.

    ``reserve_nulls``: nulls of wide decimals and timestamps reserve bytes in the variable part, see BinaryRow.
    """
    head = zeros(null_bytes + 8 * len(fields))
    lengths = np.full(n, head.lengths, dtype=np.int64)
    for field in fields:
        lengths[slice(None) if field.valid is None else field.valid] += field.slots.extra
        if reserve_nulls:
            lengths[field.null] += field.slots.null_extra

    def write(at: Longs) -> None:
        bases = at.copy()
        head.write(at)
        if kinds is not None:
            fixed(kinds).write(bases.copy())
        for index, field in enumerate(fields):
            slots = bases + (null_bytes + 8 * index)
            if field.valid is None:
                field.slots.write(slots, bases, at)
                continue
            tails = at[field.valid]
            field.slots.write(slots[field.valid], bases[field.valid], tails)
            at[field.valid] = tails
            mark(bases[field.null], np.full(len(field.null), 8 + index, dtype=np.int64), highest_first=False)
            if reserve_nulls and field.slots.null_extra:
                _reserve_nulls(field, slots, bases, at)

    return SizedWriter(lengths, write)


def _reserve_nulls(field: Field, slots: Longs, bases: Longs, at: Longs) -> None:
    """Reserve bytes for the later values of nulls: the slot holds their offset, and the length 0."""
    tails = at[field.null]
    fixed((tails - bases[field.null]) << 32, big_endian=False).write(slots[field.null])
    zeros(field.slots.null_extra).write(tails)
    at[field.null] = tails


def arrays(offsets: Longs, width: int, items: Field) -> SizedWriter:
    """Binary arrays of the items offsets[i] to offsets[i + 1] (from 0): count, null bits, elements, variable part."""
    counts = np.diff(offsets)
    n, n_items = len(counts), int(offsets[-1])
    headers = 4 + ((counts + 31) // 32) * 4
    heads = (headers + counts * width + 7) & ~7
    extra = np.zeros(n_items, dtype=np.int64)
    extra[slice(None) if items.valid is None else items.valid] = items.slots.extra
    ends = np.zeros(n_items + 1, dtype=np.int64)
    np.cumsum(extra, out=ends[1:])

    def write(at: Longs) -> None:
        bases = at.copy()
        zeros(heads).write(at)
        fixed(counts.astype(np.int32), big_endian=False).write(bases.copy())
        tails = np.empty(n_items, dtype=np.int64)
        whole = np.ascontiguousarray(offsets)
        place_items(at.ctypes.data, n, whole.ctypes.data, extra.ctypes.data, 0, tails.ctypes.data, -1)
        indexes = np.arange(n_items) - np.repeat(offsets[:-1], counts)
        item_bases = np.repeat(bases, counts)
        slots = item_bases + np.repeat(headers, counts) + indexes * width
        if items.valid is None:
            items.slots.write(slots, item_bases, tails)
            return
        items.slots.write(slots[items.valid], item_bases[items.valid], tails[items.valid])
        mark(item_bases[items.null], 32 + indexes[items.null], highest_first=False)

    return SizedWriter(heads + np.diff(ends[offsets]), write)


def maps(keys: SizedWriter, values: SizedWriter, n: int) -> SizedWriter:
    """Binary maps: the key array's size, the key array, the value array."""
    sizes = per_row(keys.lengths, n).astype(np.int32)
    return concatenate([fixed(sizes, big_endian=False), keys, values])
