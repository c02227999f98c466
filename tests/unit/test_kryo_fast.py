"""Kryo values the VM reads by itself equal what the walker over Kryo graphs makes of them."""

from __future__ import annotations

import pickle
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stateproc.codec.decoder import ValueDecoder
from stateproc.codec.errors import BadValue
from stateproc.codec.layouts import Counted, Layout
from stateproc.codec.machine import DecodeFailure
from stateproc.errors import SnapshotError
from stateproc.serializers.base import LayoutContext
from stateproc.serializers.kryo import Kryo
from stateproc.serializers.kryo_fast import PARTS, Straight
from stateproc.wire import Cursor

VALUES: dict[tuple[str, int], list[str]] = {
    ("java.time.LocalDate", 2): ["001d0002d01f", "001f000c09", "00010001e41e"],
    ("java.time.LocalDate", 5): ["e80f021d", "fbffffff0f0102", "b20f0101"],
    ("java.time.LocalTime", 2): ["173bfea7d6b9073b", "01020803", "00000000"],
    ("java.time.Instant", 2): ["aab4de7580c49fd50c", "0a01", "0000"],
    ("java.time.Instant", 5): ["80e2cfaa06959aef3a", "ffffffffffffffffff05", "0000"],
    ("java.util.Date", 2): ["fb80babbc82e", "fbffffffffffffffff", "00"],
    ("java.util.Date", 5): ["fb80babbc82e", "fbffffffffffffffff", "00"],
    ("java.util.UUID", 2): ["0201", "92d6d9d19582a0a5abfd82f1e3bab6f9deab"],
    ("java.util.UUID", 5): ["0100000000000000ffffffffffffffff", "89351bad0840a55541dfc129260d21aa"],
}


def decode(layout: Layout, values: list[bytes]) -> pa.Array:
    data = np.frombuffer(b"".join(values) + bytes(8), dtype=np.uint8)
    ends = np.cumsum([len(value) for value in values]).astype(np.int64)
    starts = ends - np.array([len(value) for value in values], dtype=np.int64)
    return ValueDecoder(layout).decode(data, starts, ends)


def encodings(class_name: str, body: str) -> tuple[bytes, bytes]:
    """A value by class id, which the VM reads, and by class name, which the walker reads."""
    number = b"\x54" if class_name == "java.util.UUID" else b"\x57"
    named = class_name[:-1].encode() + bytes([ord(class_name[-1]) | 0x80])
    return number + b"\x01" + bytes.fromhex(body), b"\x01\x00" + named + b"\x01" + bytes.fromhex(body)


def test_every_class_is_tested() -> None:
    assert set(VALUES) == set(PARTS)


@pytest.mark.parametrize("temporal", ["micros", "exact"])
@pytest.mark.parametrize(("class_name", "kryo"), VALUES)
def test_fast_and_slow_agree(class_name: str, kryo: int, temporal: str) -> None:
    layout = Kryo(class_name, (class_name,)).layout(LayoutContext(kryo=kryo, temporal=temporal))
    assert isinstance(layout, Straight)
    assert pickle.loads(pickle.dumps(layout)).class_byte == layout.class_byte
    fast, slow = zip(*(encodings(class_name, body) for body in VALUES[class_name, kryo]), strict=True)
    expected = decode(layout, list(slow))
    assert expected.null_count == 0
    assert len(set(plain(expected))) == len(slow)
    assert decode(layout, list(fast)) == expected
    mixed = [part for pair in zip(fast, slow, strict=True) for part in (*pair, b"\x00")]
    wanted = [item for value in plain(expected) for item in (value, value, None)]
    assert plain(decode(layout, mixed)) == wanted


def test_in_lists() -> None:
    layout = Counted(Kryo("java.time.LocalDate", ("java.time.LocalDate",)).layout(LayoutContext(kryo=5)))
    fast, slow = encodings("java.time.LocalDate", "e80f021d")
    (day,) = decode(layout.item, [fast]).to_pylist()
    values = [b"\x00\x00\x00\x04" + fast + b"\x00" + slow + fast, bytes(4), b"\x00\x00\x00\x01" + slow]
    assert decode(layout, values).to_pylist() == [[day, None, day, day], [], [day]]


@pytest.mark.parametrize(("class_name", "kryo"), VALUES)
def test_truncation_and_damage(class_name: str, kryo: int) -> None:
    serializer = Kryo(class_name, (class_name,))
    layout = serializer.layout(LayoutContext(kryo=kryo, temporal="exact", tail=True))
    assert isinstance(layout, Straight)
    rng = random.Random(7)
    for body in VALUES[class_name, kryo]:
        data = encodings(class_name, body)[0]
        for length in range(len(data)):
            with pytest.raises(SnapshotError):
                serializer.decode(data[:length], kryo=kryo)
        with pytest.raises(SnapshotError, match="left over"):
            serializer.decode(data + b"\x00", kryo=kryo)
        for _ in range(100):
            damaged = bytearray(data)
            damaged[rng.randrange(len(data))] = rng.randrange(256)
            agree(layout, bytes(damaged))


def agree(layout: Straight, data: bytes) -> None:
    """Both ways give the same value, or both refuse."""
    cursor = Cursor(data)
    try:
        slow = layout.read(cursor)
    except SnapshotError:
        slow = "refused"
    try:
        fast = plain(decode(layout, [data]))[0]
    except (DecodeFailure, SnapshotError, BadValue):
        fast = "refused"
    assert fast == slow, data.hex()


def plain(array: pa.Array) -> list[Any]:
    """Values as Python objects; dates as days, since Python knows only some years."""
    return list((array.cast(pa.int32()) if pa.types.is_date32(array.type) else array).to_pylist())
