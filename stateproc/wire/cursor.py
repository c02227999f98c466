"""A bounds-checked cursor over bytes that java.io.DataOutput wrote."""

from __future__ import annotations

import struct
from typing import NoReturn

from stateproc.errors import CorruptSnapshot, SnapshotError, UnsupportedSnapshot, Where

_I8, _U8, _I16, _U16 = struct.Struct(">b"), struct.Struct(">B"), struct.Struct(">h"), struct.Struct(">H")
_I32, _I64 = struct.Struct(">i"), struct.Struct(">q")


DAMAGED = "the file is damaged; take the snapshot again or restore it from a copy"


class Cursor:
    """Reads big-endian values in order; every read is checked against the end before it is made.

    ``file`` and ``base`` (the offset of ``data[0]`` in that file) only serve error messages.
    ``depth`` counts nested structures, see :meth:`nested`. ``starved``: more bytes were wanted than there are;
    ``more``: some may follow, with which the caller tries again.
    ``assumed_sizes``: position → size of payloads whose size a caller has found out by other means.
    ``reasons``: position → why the payload of an assumed size cannot be read; None if the caller assumes no sizes.
    """

    MAX_DEPTH = 64

    def __init__(
        self,
        data: bytes | memoryview,
        *,
        file: str = "<bytes>",
        base: int = 0,
        pos: int = 0,
        end: int | None = None,
    ) -> None:
        self.data = memoryview(data)
        self.file = file
        self.base = base
        self.pos = pos
        self.end = len(self.data) if end is None else end
        self.depth = 0
        self.starved = False
        self.more = False
        self.assumed_sizes: dict[int, int] = {}
        self.reasons: dict[int, SnapshotError] | None = None

    @property
    def offset(self) -> int:
        """Position in the file, in bytes."""
        return self.base + self.pos

    @property
    def remaining(self) -> int:
        return self.end - self.pos

    def where(self, at: int | None = None) -> Where:
        return Where(file=self.file, offset=self.base + (self.pos if at is None else at))

    def corrupt(self, message: str, *, at: int | None = None, advice: str | None = None) -> NoReturn:
        """Raise CorruptSnapshot for position ``at`` (default: here)."""
        raise CorruptSnapshot(message, where=self.where(at), advice=advice or DAMAGED)

    def unsupported(self, message: str, *, at: int | None = None, advice: str | None = None) -> NoReturn:
        """Raise UnsupportedSnapshot for position ``at`` (default: here)."""
        raise UnsupportedSnapshot(message, where=self.where(at), advice=advice)

    def take(self, length: int, what: str = "bytes") -> memoryview:
        """The next ``length`` bytes, not copied."""
        if length < 0 or length > self.end - self.pos:
            self.starved = length > 0
            self.corrupt(
                f"{what}: {length} bytes needed where {self.remaining} are left",
                advice="the file is truncated or damaged; take the snapshot again or restore it from a copy",
            )
        start = self.pos
        self.pos = start + length
        return self.data[start : start + length]

    def i8(self) -> int:
        return self._number(_I8, 1, "a byte")

    def u8(self) -> int:
        return self._number(_U8, 1, "a byte")

    def i16(self) -> int:
        return self._number(_I16, 2, "a short")

    def u16(self) -> int:
        return self._number(_U16, 2, "an unsigned short")

    def i32(self) -> int:
        return self._number(_I32, 4, "an int")

    def i64(self) -> int:
        return self._number(_I64, 8, "a long")

    def _number(self, form: struct.Struct, width: int, what: str) -> int:
        """Read a number in place: a slice for each takes twice as long, and large files contain millions of them."""
        pos = self.pos
        if width > self.end - pos:
            self.take(width, what)
        self.pos = pos + width
        number: int = form.unpack_from(self.data, pos)[0]
        return number

    def boolean(self) -> bool:
        return self.u8() != 0

    def bytes32(self) -> bytes:
        """i32 length, then that many bytes."""
        at = self.pos
        length = self.i32()
        if length < 0:
            self.corrupt(f"negative length {length}", at=at)
        return bytes(self.take(length, "a byte string"))

    def count(self, what: str, min_size: int = 1) -> int:
        """An i32 item count; refused if negative or if that many items of ``min_size`` bytes cannot follow."""
        at = self.pos
        n = self.i32()
        if n < 0 or n * min_size > self.remaining:
            self.starved = n > 0
            self.corrupt(f"impossible number of {what}: {n} with {self.remaining} bytes left", at=at)
        return n

    def utf(self) -> str:
        """java.io.DataOutput.writeUTF: u16 byte length, modified UTF-8."""
        at = self.pos
        raw = bytes(self.take(self.u16(), "a UTF string"))
        return self._modified_utf8(raw, at)

    def _modified_utf8(self, raw: bytes, at: int) -> str:
        if raw.isascii() and b"\0" not in raw:
            return raw.decode("ascii")
        try:
            text = raw.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
            # Characters outside the BMP stand as two surrogates; a lone one is kept as such.
            return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
        except UnicodeDecodeError:
            self.corrupt("not modified UTF-8", at=at)

    def fstr(self) -> str | None:
        """org.apache.flink.types.StringValue.writeString: varint length + 1, varint UTF-16 units; 0 is null."""
        at = self.pos
        length = self.varint() - 1
        if length < 0:
            return None
        if length > self.remaining:
            self.starved = True
            self.corrupt(f"string of {length} characters with {self.remaining} bytes left", at=at)
        units = [self.varint() for _ in range(length)]
        if any(unit > 0xFFFF for unit in units):
            self.corrupt("a string's character is over 16 bits", at=at)
        return struct.pack(f">{length}H", *units).decode("utf-16-be", "surrogatepass")

    def varint(self) -> int:
        """Unsigned varint of at most 32 bits, least significant 7 bits first."""
        value = shift = 0
        while True:
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 28:
                self.corrupt("a varint of over 5 bytes")

    def nested(self, what: str) -> None:
        """Count one more level of nesting; pair with :meth:`unnested`."""
        self.depth += 1
        if self.depth > self.MAX_DEPTH:
            self.corrupt(f"{what} nested over {self.MAX_DEPTH} levels deep")

    def unnested(self) -> None:
        self.depth -= 1

    def part(self, length: int) -> Cursor:
        """A cursor over the next ``length`` bytes, which this one passes."""
        start = self.pos
        self.take(length, "a frame")
        inner = Cursor(self.data, file=self.file, base=self.base, pos=start, end=self.pos)
        inner.depth, inner.assumed_sizes, inner.reasons = self.depth, self.assumed_sizes, self.reasons
        return inner

    def finish(self, what: str) -> None:
        """Refuse bytes left over."""
        if self.pos != self.end:
            self.corrupt(f"{self.remaining} bytes left over after {what}")
