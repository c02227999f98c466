"""Kryo's Input: varints, strings, fixed numbers (big-endian in Kryo 2, little-endian in Kryo 5)."""

from __future__ import annotations

import struct
from typing import Any

from stateproc.wire import Cursor

_FIXED = {
    "short": ("h", 2),
    "char": ("H", 2),
    "int": ("i", 4),
    "long": ("q", 8),
    "float": ("f", 4),
    "double": ("d", 8),
}

_BIG_ENDIAN, _LITTLE_ENDIAN = (
    {name: (struct.Struct(order + code), size) for name, (code, size) in _FIXED.items()} for order in "><"
)


def signed(value: int, bits: int) -> int:
    """``value``'s low ``bits`` as two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


class KryoInput:
    """com.esotericsoftware.kryo.io.Input over a cursor; ``version`` 2 or 5."""

    def __init__(self, cursor: Cursor, version: int) -> None:
        self.cursor = cursor
        self.version = version
        self._fixed = _BIG_ENDIAN if version < 5 else _LITTLE_ENDIAN

    def varint(self) -> int:
        """readVarInt(optimizePositive): an unsigned 32-bit value."""
        return self.cursor.varint() & 0xFFFFFFFF

    def varint_flag(self) -> tuple[bool, int]:
        """readVarIntFlag: the first byte holds a flag, a continuation bit and six bits."""
        first = self.cursor.u8()
        return bool(first & 0x80), self._rest_of_varint(first)

    def _rest_of_varint(self, first: int) -> int:
        value, shift = first & 0x3F, 6
        more = bool(first & 0x40)
        while more:
            if shift > 27:
                self.cursor.corrupt("a Kryo length of over 5 bytes")
            byte = self.cursor.u8()
            value |= (byte & 0x7F) << shift
            more = bool(byte & 0x80)
            shift += 7
        return value & 0xFFFFFFFF

    def zigzag(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def varlong(self) -> int:
        """readVarLong(optimizePositive) as a signed 64-bit value; a ninth byte carries eight bits."""
        value = 0
        for index in range(9):
            byte = self.cursor.u8()
            if index == 8:
                value |= byte << 56
                break
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                break
        return signed(value, 64)

    def zigzag_long(self) -> int:
        value = self.varlong() & 0xFFFFFFFFFFFFFFFF
        return (value >> 1) ^ -(value & 1)

    def fixed(self, kind: str) -> Any:
        """A number of fixed width; ``kind`` a Java primitive."""
        form, size = self._fixed[kind]
        return form.unpack(self.cursor.take(size, f"a {kind}"))[0]

    def boolean(self) -> bool:
        at = self.cursor.pos
        value = self.cursor.u8()
        if value > 1:
            self.cursor.corrupt(f"a boolean of {value}", at=at)
        return value == 1

    def primitive(self, kind: str) -> Any:
        """A field of a primitive type, as FieldSerializer writes it."""
        if kind == "int":
            return self.zigzag()
        if kind == "long":
            return self.zigzag_long()
        if kind == "byte":
            return self.cursor.i8()
        if kind == "boolean":
            return self.boolean()
        value = self.fixed(kind)
        return chr(value) if kind == "char" else value

    def count(self, n: int, what: str, least: int = 1) -> int:
        """``n`` if so many items of ``least`` bytes can follow."""
        if n < 0 or n * least > self.cursor.remaining:
            self.cursor.starved = n > 0
            self.cursor.corrupt(f"impossible number of {what}: {n} with {self.cursor.remaining} bytes left")
        return n

    def bytes(self, length: int) -> bytes:
        return bytes(self.cursor.take(length, "bytes"))

    def string(self) -> str | None:
        """readString: 0x80 null, 0x81 empty, ASCII with a mark on its last byte, or length and characters."""
        at = self.cursor.pos
        first = self.cursor.u8()
        if first < 0x80:
            return self._ascii(at)
        length = self._rest_of_varint(first) - 1
        if length < 0:
            return None
        return self._units(self.count(length, "characters"))

    def _ascii(self, at: int) -> str:
        cursor = self.cursor
        view = cursor.data[at : cursor.end]
        step = 64
        done = 0
        while True:
            part = bytes(view[done : done + step])
            if not part:
                cursor.corrupt("a Kryo string has no end", at=at)
            if part.isascii():
                done += len(part)
                step *= 2
                continue
            done += next(i for i, byte in enumerate(part) if byte >= 0x80) + 1
            break
        raw = bytearray(view[:done])
        raw[-1] &= 0x7F
        cursor.pos = at + done
        return raw.decode("ascii")

    def _units(self, n: int) -> str:
        units = bytearray()
        for _ in range(n):
            at = self.cursor.pos
            lead = self.cursor.u8()
            if lead < 0x80:
                unit = lead
            elif 0xC0 <= lead < 0xE0:
                unit = (lead & 0x1F) << 6 | self._trail()
            elif 0xE0 <= lead < 0xF0:
                unit = (lead & 0x0F) << 12 | self._trail() << 6 | self._trail()
            else:
                self.cursor.corrupt("not a character of a Kryo string", at=at)
            units += unit.to_bytes(2, "big")
        return units.decode("utf-16-be", "surrogatepass")

    def _trail(self) -> int:
        at = self.cursor.pos
        byte = self.cursor.u8()
        if byte & 0xC0 != 0x80:
            self.cursor.corrupt("not a character of a Kryo string", at=at)
        return byte & 0x3F
