"""The twin of Cursor: bytes as java.io.DataOutput writes them."""

from __future__ import annotations

import struct

from stateproc.errors import InvalidOption

_I16, _I32, _I64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
_MAX_UTF = 0xFFFF


class Output:
    """Big-endian values written one after another; ``bytes(output)`` gives them.

    Numbers out of their range raise struct.error: they are the program's, never the user's.
    """

    def __init__(self) -> None:
        self._data = bytearray()

    def __bytes__(self) -> bytes:
        return bytes(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def raw(self, data: bytes | memoryview) -> None:
        """Bytes as they are."""
        self._data += data

    def u8(self, value: int) -> None:
        self._data.append(value)

    def boolean(self, value: bool) -> None:
        self._data.append(1 if value else 0)

    def i16(self, value: int) -> None:
        self._data += _I16.pack(value)

    def u16(self, value: int) -> None:
        self._data += value.to_bytes(2, "big")

    def i32(self, value: int) -> None:
        self._data += _I32.pack(value)

    def i64(self, value: int) -> None:
        self._data += _I64.pack(value)

    def bytes32(self, data: bytes | memoryview) -> None:
        """i32 length and the bytes."""
        self.i32(len(data))
        self._data += data

    def varint(self, value: int) -> None:
        """Unsigned varint, least significant 7 bits first."""
        while value > 0x7F:
            self._data.append(value & 0x7F | 0x80)
            value >>= 7
        self._data.append(value)

    def fstr(self, text: str | None) -> None:
        """org.apache.flink.types.StringValue.writeString: varint length + 1, varint UTF-16 units; 0 is null."""
        if text is None:
            self._data.append(0)
            return
        units = text.encode("utf-16-be", "surrogatepass")
        self.varint(len(units) // 2 + 1)
        for (unit,) in struct.iter_unpack(">H", units):
            self.varint(unit)

    def utf(self, text: str) -> None:
        """DataOutput.writeUTF: u16 length in bytes, modified UTF-8. Raises InvalidOption over 65,535 bytes."""
        encoded = modified_utf8(text)
        if len(encoded) > _MAX_UTF:
            raise InvalidOption(
                f"a text of {len(encoded)} bytes, which Java's writeUTF cannot hold: {text[:40]!r}…",
                advice=f"names and class names have at most {_MAX_UTF} bytes",
            )
        self.u16(len(encoded))
        self._data += encoded


def modified_utf8(text: str) -> bytes:
    """Java's modified UTF-8: NUL as C0 80, characters outside the BMP as two surrogates of three bytes."""
    if text.isascii() and "\0" not in text:
        return text.encode("ascii")
    encoded = bytearray()
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        unit = units[at] << 8 | units[at + 1]
        if 0 < unit < 0x80:
            encoded.append(unit)
        elif unit < 0x800:
            encoded += bytes((0xC0 | unit >> 6, 0x80 | unit & 0x3F))
        else:
            encoded += bytes((0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F))
    return bytes(encoded)


# Limits that Flink sets on what it writes.

MAX_KEY_GROUPS = 1 << 15
"""The largest max parallelism (KeyGroupRangeAssignment.UPPER_BOUND_MAX_PARALLELISM)."""
