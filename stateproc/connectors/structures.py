"""Describe the bytes of a connector's value once, for reading and for writing.

A `Structure` is one value: a number, a text, a list, a record. A record is made of parts in the order of the bytes:
columns, constants, columns that depend on a tag, and columns that are computed from others and not stored. The
description is the layout; each connector's module consists of such descriptions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from stateproc.wire.cursor import Cursor
from stateproc.wire.output import Output

Row = dict[str, Any]


@dataclass(frozen=True)
class Structure:
    """How one value is stored.

    Attributes:
        arrow_type: The value's column.
        read: Reads the value. Raises CorruptSnapshot for bytes of another structure.
        write: Writes what ``read`` returned to the same bytes.
        smallest: The fewest bytes that a value has, by which counts are checked.
    """

    arrow_type: pa.DataType
    read: Callable[[Cursor], Any]
    write: Callable[[Output, Any], None]
    smallest: int = 1


def _read_flag(cursor: Cursor) -> bool:
    at = cursor.pos
    flag = cursor.u8()
    if flag > 1:
        cursor.corrupt(f"boolean {flag}", at=at)
    return flag == 1


def _little_endian(form: str, type_: pa.DataType) -> Structure:
    number = struct.Struct(form)

    def read(cursor: Cursor) -> int:
        return int(number.unpack(cursor.take(number.size, "a number"))[0])

    return Structure(type_, read, lambda out, value: out.raw(number.pack(value)), number.size)


U8 = Structure(pa.int16(), Cursor.u8, Output.u8)
I16 = Structure(pa.int16(), Cursor.i16, Output.i16, 2)
I32 = Structure(pa.int32(), Cursor.i32, Output.i32, 4)
I64 = Structure(pa.int64(), Cursor.i64, Output.i64, 8)
LE_I32 = _little_endian("<i", pa.int32())
LE_I64 = _little_endian("<q", pa.int64())
FLAG = Structure(pa.bool_(), _read_flag, Output.boolean)
"""A boolean of one byte, 0 or 1."""


def is_text(value: str) -> bool:
    """Return whether a text can be a column's: without lone surrogates, which Java's strings may have."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _read_utf(cursor: Cursor) -> str:
    at = cursor.pos
    value = cursor.utf()
    if not value.isascii() and not is_text(value):
        cursor.corrupt("a text with half of a surrogate pair", at=at)
    return value


UTF = Structure(pa.string(), _read_utf, Output.utf, 2)
BYTES = Structure(pa.binary(), Cursor.bytes32, Output.bytes32, 4)


def _read_text(cursor: Cursor, length: int) -> str:
    at = cursor.pos
    if length < 0:
        cursor.corrupt(f"negative length {length}", at=at)
    try:
        return str(cursor.take(length, "a text"), "utf-8")
    except UnicodeDecodeError:
        cursor.corrupt("not UTF-8", at=at)


def text(length: Structure) -> Structure:
    """Describe UTF-8 after its length in bytes."""

    def write(out: Output, value: str) -> None:
        data = value.encode("utf-8")
        length.write(out, len(data))
        out.raw(data)

    return Structure(pa.string(), lambda cursor: _read_text(cursor, length.read(cursor)), write, length.smallest)


TEXT = text(I32)


def fixed_bytes(size: int) -> Structure:
    """Describe ``size`` bytes."""
    return Structure(pa.binary(), lambda cursor: bytes(cursor.take(size)), lambda out, value: out.raw(value), size)


def bytes_of(length: Structure) -> Structure:
    """Describe bytes after their number."""

    def read(cursor: Cursor) -> bytes:
        return bytes(cursor.take(length.read(cursor)))

    def write(out: Output, value: bytes) -> None:
        length.write(out, len(value))
        out.raw(value)

    return Structure(pa.binary(), read, write, length.smallest)


def rest(but: int = 0) -> Structure:
    """Describe all bytes that follow, except the last ``but``."""

    def read(cursor: Cursor) -> bytes:
        return bytes(cursor.take(max(cursor.remaining - but, 0)))

    return Structure(pa.binary(), read, lambda out, value: out.raw(value), 0)


def checked(of: Structure, accepts: Callable[[Any], bool], what: str) -> Structure:
    """Refuse values that ``accepts`` is false for: they are no ``what``."""

    def read(cursor: Cursor) -> Any:
        at = cursor.pos
        value = of.read(cursor)
        if not accepts(value):
            cursor.corrupt(f"not {what}: {value!r:.60}", at=at)
        return value

    return Structure(of.arrow_type, read, of.write, of.smallest)


def at_least(of: Structure, least: int, what: str) -> Structure:
    """Refuse numbers under ``least``."""
    return checked(of, lambda value: value >= least, what)


COUNT = at_least(I32, 0, "a count")
LONG_COUNT = at_least(I64, 0, "a size")


def converted(
    of: Structure, arrow_type: pa.DataType, shown: Callable[[Any], Any], stored: Callable[[Any], Any]
) -> Structure:
    """Show the stored value as ``shown`` of it; ``stored`` is its inverse."""
    return Structure(
        arrow_type, lambda cursor: shown(of.read(cursor)), lambda out, value: of.write(out, stored(value)), of.smallest
    )


def null_for(of: Structure, marker: int) -> Structure:
    """Show the number ``marker`` as null."""
    return converted(
        of,
        of.arrow_type,
        lambda value: None if value == marker else value,
        lambda value: marker if value is None else value,
    )


def enumeration(of: Structure, names: Sequence[str]) -> Structure:
    """Describe a constant by its ordinal."""
    ordinals = checked(of, lambda value: 0 <= value < len(names), f"one of {len(names)} constants")
    return converted(ordinals, pa.string(), lambda value: names[value], names.index)


def optional(of: Structure, *, absent: bool = False) -> Structure:
    """Describe a value after a flag; the flag is ``absent`` where no value follows."""

    def read(cursor: Cursor) -> Any:
        return None if _read_flag(cursor) == absent else of.read(cursor)

    def write(out: Output, value: Any) -> None:
        out.boolean((value is None) == absent)
        if value is not None:
            of.write(out, value)

    return Structure(of.arrow_type, read, write, 1)


def at_end(of: Structure) -> Structure:
    """Describe a value that older releases of the same version do not write: null if no bytes are left."""

    def read(cursor: Cursor) -> Any:
        return of.read(cursor) if cursor.remaining else None

    def write(out: Output, value: Any) -> None:
        if value is not None:
            of.write(out, value)

    return Structure(of.arrow_type, read, write, 0)


def listed(of: Structure, count: Structure = I32) -> Structure:
    """Describe a list after the number of its items."""
    smallest = max(of.smallest, 1)

    def read(cursor: Cursor) -> list[Any]:
        at = cursor.pos
        items = count.read(cursor)
        if items < 0 or items * smallest > cursor.remaining:
            cursor.corrupt(f"{items} items with {cursor.remaining} bytes left", at=at)
        one = of.read
        return [one(cursor) for _ in range(items)]

    def write(out: Output, value: Sequence[Any]) -> None:
        count.write(out, len(value))
        for item in value:
            of.write(out, item)

    return Structure(pa.list_(of.arrow_type), read, write, count.smallest)


def sized(of: Structure, length: Structure = I32) -> Structure:
    """Describe a value after its number of bytes, which it fills."""

    def read(cursor: Cursor) -> Any:
        inner = cursor.part(length.read(cursor))
        value = of.read(inner)
        inner.finish("the value")
        return value

    def write(out: Output, value: Any) -> None:
        inner = Output()
        of.write(inner, value)
        length.write(out, len(inner))
        out.raw(bytes(inner))

    return Structure(of.arrow_type, read, write, length.smallest)


@dataclass(frozen=True)
class Part:
    """Some of a record's bytes.

    Attributes:
        fields: The columns that it gives.
        read: Reads it into the row, which has the columns of the parts before.
        write: Writes it from the row.
        smallest: The fewest bytes.
    """

    fields: tuple[pa.Field, ...]
    read: Callable[[Cursor, Row], None]
    write: Callable[[Output, Row], None]
    smallest: int = 0


def column(name: str, of: Structure) -> Part:
    """Describe one value of a record."""
    one = of.read

    def read(cursor: Cursor, row: Row) -> None:
        row[name] = one(cursor)

    return Part((pa.field(name, of.arrow_type),), read, lambda out, row: of.write(out, row[name]), of.smallest)


def hidden(name: str, of: Structure) -> Part:
    """Describe one value of a record that gives no column: computed columns show it."""
    return replace(column(name, of), fields=())


def constant(of: Structure, value: Any, what: str) -> Part:
    """Describe a value that is always the same, such as a magic number."""
    known = checked(of, lambda found: found == value, what)

    def read(cursor: Cursor, row: Row) -> None:
        known.read(cursor)

    return Part((), read, lambda out, row: of.write(out, value), of.smallest)


def computed(name: str, arrow_type: pa.DataType, of: Callable[[Row], Any]) -> Part:
    """Describe a column that is not stored: ``of`` computes it from the columns before."""

    def read(cursor: Cursor, row: Row) -> None:
        row[name] = of(row)

    return Part((pa.field(name, arrow_type),), read, lambda out, row: None)


def computed_columns(fields: Mapping[str, pa.DataType], of: Callable[[Row], Row]) -> Part:
    """Describe several columns that are not stored."""
    return Part(
        tuple(pa.field(name, type_) for name, type_ in fields.items()),
        lambda cursor, row: row.update(of(row)),
        lambda out, row: None,
    )


def cases(name: str, tag: Structure, options: Mapping[int, tuple[str, Sequence[Part]]]) -> Part:
    """Describe parts that depend on a number before them: number → name in the column ``name``, and parts."""
    numbers = {label: number for number, (label, _) in options.items()}
    parts = {label: tuple(of) for label, of in options.values()}
    known = checked(tag, lambda value: value in options, f"a known {name}")

    def read(cursor: Cursor, row: Row) -> None:
        label = row[name] = options[known.read(cursor)][0]
        for part in parts[label]:
            part.read(cursor, row)

    def write(out: Output, row: Row) -> None:
        tag.write(out, numbers[row[name]])
        for part in parts[row[name]]:
            part.write(out, row)

    fields = [pa.field(name, pa.string())]
    for of in parts.values():
        fields = merged_fields(fields, [field for part in of for field in part.fields])
    return Part(tuple(fields), read, write, tag.smallest)


def record(*parts: Part) -> Structure:
    """Describe parts after one another as one row."""
    readers = [part.read for part in parts]

    def read(cursor: Cursor) -> Row:
        row: Row = {}
        for one in readers:
            one(cursor, row)
        return row

    def write(out: Output, row: Row) -> None:
        for part in parts:
            part.write(out, row)

    fields: list[pa.Field] = []
    for part in parts:
        fields = merged_fields(fields, part.fields)
    return Structure(pa.struct(fields), read, write, sum(part.smallest for part in parts))


def versioned(
    layouts: Mapping[int, Structure],
    what: str,
    columns: pa.DataType,
    *,
    name: str = "version",
    value: str | None = None,
) -> Structure:
    """Describe a value after the i32 version of its layout, which is in the row under ``name``.

    Args:
        layouts: Version → layout.
        what: What the versions are of, for errors.
        name: The key of the version in the row; a column only if it is one of ``columns``.
        value: The column of the value; None where that is a row, whose columns are those beside the version.
    """

    def read(cursor: Cursor) -> Row:
        at = cursor.pos
        version = cursor.i32()
        if version not in layouts:
            cursor.corrupt(f"{what} of version {version}", at=at)
        found = layouts[version].read(cursor)
        return {name: version, **(found if value is None else {value: found})}

    def write(out: Output, row: Row) -> None:
        out.i32(row[name])
        layouts[row[name]].write(out, row if value is None else row[value])

    return Structure(columns, read, write, 8)


def merged_fields(left: Sequence[pa.Field], right: Sequence[pa.Field]) -> list[pa.Field]:
    """Return the columns of both; those that both have are merged."""
    found = {field.name: field for field in left}
    for field in right:
        known = found.get(field.name)
        found[field.name] = field if known is None else pa.field(field.name, merged(known.type, field.type))
    return list(found.values())


def merged(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the type that has the columns of both, in structs and lists of structs; others must be equal."""
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        return pa.struct(merged_fields(list(left), list(right)))
    if pa.types.is_list(left) and pa.types.is_list(right):
        return pa.list_(merged(left.value_type, right.value_type))
    if left != right:
        raise TypeError(f"columns of one name have the types {left} and {right}")
    return left


class ByVersion(Mapping[int, Structure]):
    """Layouts by version, each built when it is first asked for: commands that read none need not wait for them."""

    def __init__(self, versions: Iterable[int], build: Callable[[int], Structure]) -> None:
        self._versions = tuple(versions)
        self._build = build
        self._built: dict[int, Structure] = {}

    def __getitem__(self, version: int) -> Structure:
        if version not in self._versions:
            raise KeyError(version)
        if version not in self._built:
            self._built[version] = self._build(version)
        return self._built[version]

    def __contains__(self, version: object) -> bool:
        return version in self._versions

    def __iter__(self) -> Iterator[int]:
        return iter(self._versions)

    def __len__(self) -> int:
        return len(self._versions)


def shown(value: Any, arrow_type: pa.DataType) -> Any:
    """Return ``value`` with the columns of its type only, null for those that it lacks, and maps as dictionaries."""
    if value is None:
        return None
    if pa.types.is_struct(arrow_type):
        return {field.name: shown(value.get(field.name), field.type) for field in arrow_type}
    if pa.types.is_list(arrow_type):
        return [shown(item, arrow_type.value_type) for item in value]
    return dict(value) if pa.types.is_map(arrow_type) else value


def written(of: Structure, value: Any) -> bytes:
    """Encode a value."""
    out = Output()
    of.write(out, value)
    return bytes(out)
