"""Round trips of random values of nested layouts, whole and sliced."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stateproc.codec import ops
from stateproc.codec.layouts import (
    AvroBlocks,
    BinaryArray,
    BinaryMap,
    BinaryRow,
    Blob,
    Boolean,
    Choice,
    ChoiceOption,
    Counted,
    FlinkString,
    Layout,
    MapLayout,
    Marked,
    MaskedList,
    MaskedRow,
    Number,
    Numbers,
    Sized,
    StructLayout,
    VariableSlot,
)
from stateproc.codec.machine import ValueDecoder

I32, I64, TEXT = Number(pa.int32()), Number(pa.int64()), FlinkString()

_PAIR = StructLayout((("x", I32), ("y", TEXT)))
_SLOT32 = Number(pa.int32(), big_endian=False)
_SLOT_TEXT = VariableSlot(Blob(ops.LENGTH_REST, text=True), inlined=True)
_ARRAY = BinaryArray(_SLOT_TEXT, 8)
NESTED: tuple[Layout, ...] = (
    Marked(MapLayout.of(TEXT, Marked(Counted(Marked(I64))))),
    MaskedRow((("a", TEXT), ("b", Counted(_PAIR)), ("c", Numbers(pa.float32()))), keep_kind=True),
    MaskedList(MapLayout.of(I32, Marked(StructLayout((("x", Boolean()),))))),
    Choice((ChoiceOption(1, "left", Counted(TEXT)), ChoiceOption(0, "right", StructLayout((("x", I32),)))), 4, 7),
    AvroBlocks(MaskedList(I32)),
    Sized(
        BinaryRow(
            (
                ("n", _SLOT32), ("t", _SLOT_TEXT), ("a", VariableSlot(_ARRAY)),
                ("m", VariableSlot(BinaryMap(BinaryArray(_SLOT32, 4), _ARRAY))),
                ("r", VariableSlot(BinaryRow((("b", Boolean()), ("a", VariableSlot(BinaryArray(Boolean(), 1)))),))),
            ),
            keep_kind=True,
        )
    ),
)  # fmt: skip


def _random(layout: Layout, type_: pa.DataType, rng: random.Random, nullable: bool) -> Any:
    """Return a random value, which may be null if ``nullable``."""
    if isinstance(layout, Marked):
        return _random(layout.inner, type_, rng, True)
    if nullable and rng.random() < 0.3:
        return None
    inner = layout.inner if isinstance(layout, (Sized, VariableSlot)) else layout
    if isinstance(inner, (FlinkString, Blob)):
        return "".join(rng.choices("aé€𝄞\0", k=rng.randrange(12)))
    if isinstance(inner, (Number, Boolean)):
        return rng.random() < 0.5 if isinstance(inner, Boolean) else rng.randrange(-(2**31), 2**31)
    if isinstance(inner, (StructLayout, MaskedRow, BinaryRow)):
        free = not isinstance(inner, StructLayout)
        row = {name: _random(field, type_.field(name).type, rng, free) for name, field in inner.fields}
        if getattr(inner, "keep_kind", False):
            row["row_kind"] = rng.choice(["+I", "-U", "+U", "-D"])
        return row
    if isinstance(inner, Choice):
        chosen = rng.choice(inner.options)
        return {
            option.name: _random(option.layout, type_.field(option.name).type, rng, False) if option is chosen else None
            for option in inner.options
        }
    if isinstance(inner, Numbers):
        return [rng.randrange(100) for _ in range(rng.randrange(4))]
    if isinstance(inner, MapLayout):
        entry = inner.entries.item
        key, value = (field for _, field in entry.fields)
        return [
            (_random(key, type_.key_type, rng, False), _random(value, type_.item_type, rng, False))
            for _ in range(rng.randrange(4))
        ]
    if isinstance(inner, BinaryMap):
        return [
            (
                _random(inner.keys.item, type_.key_type, rng, False),
                _random(inner.values.item, type_.item_type, rng, True),
            )
            for _ in range(rng.randrange(4))
        ]
    free = isinstance(inner, (MaskedList, BinaryArray))
    return [_random(inner.item, type_.value_type, rng, free) for _ in range(rng.randrange(40 if free else 4))]


@pytest.mark.parametrize("layout", NESTED, ids=lambda layout: type(layout).__name__)
def test_encoded_nested_values_decode_to_the_same_values_in_every_slice(layout: Layout) -> None:
    rng = random.Random(11)
    values = [_random(layout, layout.arrow_type, rng, isinstance(layout, Choice)) for _ in range(300)]
    array = pa.array(values, layout.arrow_type)
    encoded = layout.encode(array)
    rows = encoded.to_arrow().to_pylist()
    data = np.append(encoded.data, np.zeros(8, dtype=np.uint8))
    again = ValueDecoder(layout).decode(data, encoded.offsets[:-1].copy(), encoded.offsets[1:].copy())
    assert again.to_pylist() == array.to_pylist()
    for start, length in ((1, 298), (100, 7), (299, 1), (150, 0)):
        assert layout.encode(array.slice(start, length)).to_arrow().to_pylist() == rows[start : start + length]
    assert layout.encode(array.take(pa.array([5, 3, 3]))).to_arrow().to_pylist() == [rows[5], rows[3], rows[3]]
