"""Types of PyFlink: how its coders write values into the byte arrays that its states are made of.

Format: pyflink.fn_execution.coders. A state of a Python function is list state of byte arrays (values, lists, reducing
and aggregating states) or map state of byte arrays. Each byte array holds the bytes of one value, in list states of one
or more after one another. Numbers are big-endian; text and bytes have an i32 length; ROW has a mask of two bits of
RowKind and a bit per field, TUPLE none; LIST and PRIMITIVE_ARRAY have an i32 count; BASIC_ARRAY and OBJECT_ARRAY a byte
before each item, 0 for null; MAP an i32 count, and a byte before each value, 1 for null; windows two i64.

No pickle is loaded: PICKLED is its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.builder import Assembler, Builder
from stateproc.codec.encoding.sized_writers import SizedWriter
from stateproc.codec.layouts import Blob, Boolean, Counted, Hosted, Layout, MapLayout, Marked, Number, StructLayout
from stateproc.codec.layouts.base import Wrapper, refuse_rows
from stateproc.codec.layouts.rows import MaskedRow
from stateproc.errors import InvalidOption, UnsupportedSnapshot
from stateproc.serializers.core.base import LayoutContext, Serializer, Undecodable
from stateproc.serializers.java.temporal import TEMPORAL, Temporal
from stateproc.serializers.table.layouts import date_layout, time_layout, timestamp_layout
from stateproc.wire import Cursor

_TEXT, _BYTES, _LONG = Blob(ops.LENGTH_I32, text=True), Blob(ops.LENGTH_I32), Number(pa.int64())
_SCALARS: dict[str, Layout] = {
    "STRING": _TEXT,
    "CHAR": _TEXT,
    "BIG_DEC": _TEXT,
    "BYTE": Number(pa.int8()),
    "SHORT": Number(pa.int16()),
    "INT": Number(pa.int32()),
    "LONG": _LONG,
    "BIG_INT": _LONG,
    "FLOAT": Number(pa.float32()),
    "DOUBLE": Number(pa.float64()),
    "BOOLEAN": Boolean(),
    "BYTES": _BYTES,
    "PICKLED": _BYTES,
    "TIME_WINDOW": StructLayout((("start", _LONG), ("end", _LONG))),
    "COUNT_WINDOW": _LONG,
}
_INSTANT = next(kind for kind in TEMPORAL if kind.name == "Instant")
_TIMES: dict[str, Callable[[LayoutContext], Layout]] = {
    "SQL_DATE": lambda ctx: date_layout(Number(pa.int32()), ctx),
    "SQL_TIME": lambda ctx: time_layout(Number(pa.int32()), ctx),
    "SQL_TIMESTAMP": lambda ctx: timestamp_layout(_LONG, False, None, ctx),
    "INSTANT": lambda ctx: Temporal(_INSTANT).layout(ctx),
}
_COMPOSITES = {"ROW": None, "TUPLE": None, "LIST": 1, "PRIMITIVE_ARRAY": 1, "BASIC_ARRAY": 1, "MAP": 2}
"""Types with parts: how many; None for any number."""
_SYNONYMS = {
    "PICKLED_BYTE_ARRAY": "PICKLED",
    "PICKLED_BYTES": "PICKLED",
    "ROW_NAMED": "ROW",
    "OBJECT_ARRAY": "BASIC_ARRAY",
    "INTEGER": "INT",
    "BIGINT": "LONG",
    "VARCHAR": "STRING",
}
_AT_ONCE = 1 << 16
MISFIT_ADVICE = "give value_type the type with which the Python job describes the state"
_TOKEN = re.compile(r"\s*([A-Za-z_]\w*|[<>(),])")
_DEEPEST = 20
_KNOWN = (
    "LONG, INT, DOUBLE, BOOLEAN, STRING, BYTES, PICKLED, ROW<a INT, b STRING>, TUPLE<LONG, STRING>, LIST<STRING>, "
    "BASIC_ARRAY<STRING>, MAP<STRING, LONG>, SQL_DATE, SQL_TIMESTAMP, INSTANT"
)


@dataclass(frozen=True)
class PythonType:
    """A type of PyFlink: its name, its parts and their names (of a ROW)."""

    name: str
    parts: tuple[PythonType, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The type as users write it."""
        if not self.parts:
            return self.name
        shown = [part.text for part in self.parts]
        if self.names:
            shown = [f"{name} {part}" for name, part in zip(self.names, shown, strict=True)]
        return f"{self.name}<{', '.join(shown)}>"

    def layout(self, ctx: LayoutContext) -> Layout:
        """Return the layout of a value."""
        parts = [part.layout(ctx) for part in self.parts]
        if self.name == "ROW":
            names = self.names or tuple(f"f{index}" for index in range(len(parts)))
            return MaskedRow(tuple(zip(names, parts, strict=True)), True, ctx.row_kind)
        if self.name == "TUPLE":
            return StructLayout(tuple((f"f{index}", part) for index, part in enumerate(parts)))
        if self.name in ("LIST", "PRIMITIVE_ARRAY"):
            return _BYTES if self.parts[0].name == "BYTE" else Counted(parts[0])
        if self.name == "BASIC_ARRAY":
            return Counted(Marked(parts[0], null_byte=0))
        if self.name == "MAP":
            return MapLayout.of(parts[0], Marked(parts[1]))
        if self.name in _TIMES:
            return _TIMES[self.name](ctx)
        return _SCALARS[self.name]


def parse_python_type(text: str) -> PythonType:
    """Parse a type such as ``LONG`` or ``ROW<a INT, b STRING>``; brackets may be round. Raises InvalidOption."""
    tokens, at = [], 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _bad(text)
        tokens.append(found[1])
        at = found.end()
    words = iter([*tokens, ""])
    type_, last = _parsed(next(words), words, text, 0)
    if last:
        raise _bad(text)
    return type_


def _parsed(word: str, words: Iterator[str], text: str, depth: int) -> tuple[PythonType, str]:
    """Parse the type that begins with ``word``; return it with the word after it."""
    name = _SYNONYMS.get(word.upper(), word.upper())
    following = next(words, "")
    if name in _SCALARS or name in _TIMES:
        return PythonType(name), following
    if depth > _DEEPEST or following not in ("<", "(") or name not in _COMPOSITES:
        raise _bad(text)
    parts, names = list[PythonType](), list[str]()
    while following in ("<", "(", ","):
        first = next(words, "")
        if name == "ROW":
            # A name comes before the type of a field, unless fields have none.
            second = next(words, "")
            if second not in ("<", "(", ",", ">", ")"):
                names.append(first)
                first, second = second, next(words, "")
            words = chain([second], words)
        part, following = _parsed(first, words, text, depth + 1)
        parts.append(part)
    wanted = _COMPOSITES[name]
    if following not in (">", ")") or wanted not in (None, len(parts)) or len(names) not in (0, len(parts)):
        raise _bad(text)
    return PythonType(name, tuple(parts), tuple(names)), next(words, "")


def _bad(text: str) -> InvalidOption:
    return InvalidOption(f"value_type: {text!r} is no type of PyFlink", advice=f"such as {_KNOWN}")


@dataclass(frozen=True)
class _Framed(Wrapper):
    """An i32 number of bytes and a value that fills them."""

    inner: Layout

    @property
    def min_size(self) -> int:
        return 4 + self.inner.min_size

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        b.op(ops.ENTER, ops.ENTER_I32)
        value = self.inner.emit(b, nullable)
        b.op(ops.RANGE_END)
        b.op(ops.LEAVE)
        return value

    def measure(self, array: pa.Array) -> SizedWriter:
        return refuse_rows(array, "values of Python states are read only")


@dataclass(frozen=True)
class PythonElement(Serializer):
    """A byte array of a Python state: one value, or with ``many`` any number, which are a list."""

    type: PythonType
    stored: Serializer
    many: bool = False

    def layout(self, ctx: LayoutContext) -> Layout:
        inner = self.type.layout(ctx.inner)
        return _several(inner, self.type.text) if self.many else _Framed(inner)

    @property
    def type_name(self) -> str:
        return self.type.text


@dataclass(frozen=True)
class NoMapType(Serializer):
    """The values of a map state for which a type was given that is none of a map."""

    type: PythonType
    stored: Serializer

    def layout(self, ctx: LayoutContext) -> Layout:
        raise Undecodable(
            f"the state is a map, and value_type {self.type.text!r} is no type of one",
            advice=f"give value_type the types of its keys and values: MAP<STRING, {self.type.text}>",
        )

    @property
    def type_name(self) -> str:
        return self.stored.type_name


def _several(item: Layout, shown: str) -> Layout:
    """Return the layout of an i32 number of bytes and as many values as fill them."""
    # Lazy: start-up.
    from stateproc.codec.errors import BadValue
    from stateproc.codec.machine import DecodeFailure, Machine

    builder = Builder()
    assemble = item.emit(builder, False)
    builder.op(ops.ROW_END)
    program = builder.build()

    def read(cursor: Cursor) -> list[object]:
        data = np.frombuffer(cursor.bytes32() + bytes(8), np.uint8)
        machine, pos, end = Machine(program), 0, len(data) - 8
        try:
            while pos < end:
                rows, pos = machine.run_stream(data, pos, end, _AT_ONCE, append=True)
                if not rows:
                    raise _misfit(cursor, shown)
            found: list[object] = assemble(machine.decoded()).to_pylist()
        except (DecodeFailure, BadValue) as error:
            raise _misfit(cursor, shown) from error
        return found

    return Hosted(read, pa.list_(item.arrow_type), least=4)


def _misfit(cursor: Cursor, shown: str) -> UnsupportedSnapshot:
    return UnsupportedSnapshot(
        f"the bytes of a Python state are not those of the type {shown}", where=cursor.where(), advice=MISFIT_ADVICE
    )
