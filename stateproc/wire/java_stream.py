"""The Java Object Serialization Stream Protocol, walked without running anything."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from stateproc.wire.cursor import Cursor

# What a Java object stream holds, as plain Python structures. Nothing here runs or loads any class.

JavaValue: TypeAlias = Any
"""None, bool, int, float, str (String or char), bytes (block data), or one of the structures below."""


@dataclass(eq=False, slots=True)
class JavaObject:
    """An instance: its fields by name, merged over the class hierarchy (a subclass's field wins).

    ``by_class`` keeps the fields of each class apart, most general class first. ``annotations`` holds, by
    class, what that class's own ``writeObject`` or ``writeExternal`` wrote: block data as bytes, objects as
    values.
    Compared by identity: the same object referenced twice in the stream is the same object here.
    """

    class_name: str
    fields: dict[str, JavaValue] = field(default_factory=dict)
    by_class: dict[str, dict[str, JavaValue]] = field(default_factory=dict)
    annotations: dict[str, list[JavaValue]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"JavaObject({self.class_name}, fields {', '.join(self.fields) or 'none'})"


@dataclass(frozen=True, slots=True)
class JavaEnum:
    """An enum constant by class and name."""

    class_name: str
    constant: str


@dataclass(eq=False, slots=True)
class JavaArray:
    """An array. ``class_name`` is Java's, such as ``[I`` or ``[Ljava.lang.String;``.

    ``values`` is bytes for ``[B``, a tuple for other primitives (chars as str), a list for objects.
    """

    class_name: str
    values: bytes | tuple[JavaValue, ...] | list[JavaValue]

    def __repr__(self) -> str:
        return f"JavaArray({self.class_name}, {len(self.values)} values)"


@dataclass(frozen=True, slots=True)
class JavaClass:
    """A java.lang.Class, or a class descriptor written as a value. A proxy's name lists its interfaces."""

    class_name: str


@dataclass(frozen=True, slots=True)
class FieldDescription:
    """One serializable field: its name and type code (B C D F I J S Z, L for objects, [ for arrays)."""

    name: str
    code: str


@dataclass(eq=False, slots=True)
class ClassDescription:
    """java.io.ObjectStreamClass as written: name, flags, fields in stream order, and the superclass."""

    name: str
    serial_version: int = 0
    flags: int = 0
    fields: tuple[FieldDescription, ...] = ()
    parent: ClassDescription | None = None

    def lineage(self) -> list[ClassDescription]:
        """This class and those above it, most general first: the order of an object's data in the stream."""
        found: list[ClassDescription] = []
        at: ClassDescription | None = self
        while at is not None:
            found.append(at)
            at = at.parent
        return found[::-1]


STREAM_HEADER = 0xACED0005
BASE_HANDLE = 0x7E0000
MAX_DEPTH = 96
MAX_ANCESTORS = 64

TC_NULL, TC_REFERENCE, TC_CLASSDESC, TC_OBJECT, TC_STRING = 0x70, 0x71, 0x72, 0x73, 0x74
TC_ARRAY, TC_CLASS, TC_BLOCKDATA, TC_ENDBLOCKDATA, TC_RESET = 0x75, 0x76, 0x77, 0x78, 0x79
TC_BLOCKDATALONG, TC_EXCEPTION, TC_LONGSTRING = 0x7A, 0x7B, 0x7C
TC_PROXYCLASSDESC, TC_ENUM = 0x7D, 0x7E

SC_WRITE_METHOD, SC_SERIALIZABLE, SC_EXTERNALIZABLE, SC_BLOCK_DATA = 0x01, 0x02, 0x04, 0x08

_F32, _F64 = struct.Struct(">f"), struct.Struct(">d")

_PRIMITIVES: dict[str, Callable[[Cursor], Any]] = {
    "B": Cursor.i8,
    "C": lambda cursor: chr(cursor.u16()),
    "D": lambda cursor: _F64.unpack(cursor.take(8, "a double"))[0],
    "F": lambda cursor: _F32.unpack(cursor.take(4, "a float"))[0],
    "I": Cursor.i32,
    "J": Cursor.i64,
    "S": Cursor.i16,
    "Z": Cursor.boolean,
}
_ARRAY_FORMATS = {"D": ("d", 8), "F": ("f", 4), "I": ("i", 4), "J": ("q", 8), "S": ("h", 2), "Z": ("?", 1)}

_DAMAGED = "the file is damaged; take the snapshot again or restore it from a copy"


def read_java_object(cursor: Cursor) -> JavaValue:
    """One complete object stream (java.io.ObjectOutputStream): AC ED 00 05 and one content element.

    Leaves ``cursor`` exactly after it. Objects become :class:`JavaObject` and its siblings, a String str,
    null None, top-level block data bytes; back references give the same Python object. Raises CorruptSnapshot
    for bytes that are no such stream, UnsupportedSnapshot for objects whose end the bytes alone do not determine.
    """
    return JavaStream(cursor).content()


class JavaStream:
    """An object stream whose elements are read one after another, wherever the cursor is then.

    Its state is the handle table, by which later elements refer to classes and objects of earlier ones, and how deep
    an element is. Raises CorruptSnapshot where no stream begins.
    """

    def __init__(self, cursor: Cursor) -> None:
        at = cursor.pos
        header = cursor.i32() & 0xFFFFFFFF
        if header != STREAM_HEADER:
            cursor.corrupt(f"a Java object stream starts with ACED0005, not {header:08X}", at=at, advice=_DAMAGED)
        self.cursor = cursor
        self.handles: list[JavaValue] = []
        self.depth = 0

    def content(self) -> JavaValue:
        """One content element, after any TC_RESET marks."""
        at = self.cursor.pos
        tag = self.cursor.u8()
        while tag == TC_RESET:
            if self.depth > 0:
                self.cursor.corrupt("a Java stream's reset mark inside an object", at=at)
            self.handles.clear()
            at = self.cursor.pos
            tag = self.cursor.u8()
        return self.tagged(tag, at)

    def tagged(self, tag: int, at: int) -> JavaValue:
        """The element whose type code ``tag`` was just read at ``at``."""
        read = _CONTENT.get(tag)
        if read is None:
            self.cursor.corrupt(f"unexpected type code {tag:#04x} in a Java object stream", at=at, advice=_DAMAGED)
        if self.depth >= MAX_DEPTH:
            self.cursor.unsupported(
                f"a Java object graph nested over {MAX_DEPTH} levels deep",
                at=at,
                advice="Flink's own objects are shallow; a user object this deep cannot be shown",
            )
        self.depth += 1
        value = read(self)
        self.depth -= 1
        return value

    def assign(self, value: JavaValue) -> int:
        self.handles.append(value)
        return len(self.handles) - 1

    def null(self) -> None:
        return None

    def referenced(self) -> Any:
        """TC_REFERENCE: the raw entry of the handle table."""
        at = self.cursor.pos
        handle = self.cursor.i32() - BASE_HANDLE
        if not 0 <= handle < len(self.handles):
            self.cursor.corrupt(
                f"reference to object {handle} of {len(self.handles)} in a Java stream",
                at=at,
                advice=_DAMAGED,
            )
        return self.handles[handle]

    def reference(self) -> JavaValue:
        entry = self.referenced()
        return JavaClass(entry.name) if isinstance(entry, ClassDescription) else entry

    def string(self) -> str:
        text = self.cursor.utf()
        self.assign(text)
        return text

    def long_string(self) -> str:
        at = self.cursor.pos
        raw = bytes(self.cursor.take(self.cursor.i64(), "a long Java string"))
        text = self.cursor._modified_utf8(raw, at)
        self.assign(text)
        return text

    def block(self) -> bytes:
        return bytes(self.cursor.take(self.cursor.u8(), "block data"))

    def long_block(self) -> bytes:
        return self.cursor.bytes32()

    def class_description(self) -> ClassDescription | None:
        """classDesc: null, a reference, or a new descriptor; superclasses are followed in a loop."""
        first: ClassDescription | None = None
        below: ClassDescription | None = None
        for _ in range(MAX_ANCESTORS):
            at = self.cursor.pos
            tag = self.cursor.u8()
            found: ClassDescription | None = None
            if tag == TC_REFERENCE:
                found = self.known_class(at)
            elif tag == TC_CLASSDESC:
                found = self.new_class()
            elif tag == TC_PROXYCLASSDESC:
                found = self.new_proxy_class()
            elif tag != TC_NULL:
                self.cursor.corrupt(f"type code {tag:#04x} where a class descriptor belongs", at=at)
            if below is None:
                first = found
            else:
                self.set_parent(below, found, at)
            if tag in (TC_NULL, TC_REFERENCE) or found is None:
                return first
            below = found
        self.cursor.corrupt(f"a Java class with over {MAX_ANCESTORS} superclasses")

    def set_parent(self, below: ClassDescription, parent: ClassDescription | None, at: int) -> None:
        """Link a superclass; a chain that is too long or meets itself is no Java class."""
        above, steps = parent, 0
        while above is not None:
            steps += 1
            if above is below or steps > MAX_ANCESTORS:
                self.cursor.corrupt(f"class {below.name} is among its own superclasses", at=at)
            above = above.parent
        below.parent = parent

    def known_class(self, at: int) -> ClassDescription:
        entry = self.referenced()
        if not isinstance(entry, ClassDescription):
            self.cursor.corrupt("a reference to something else where a class descriptor belongs", at=at)
        return entry

    def new_class(self) -> ClassDescription:
        """TC_CLASSDESC up to, but without, the superclass."""
        cursor = self.cursor
        made = ClassDescription(cursor.utf(), cursor.i64())
        self.assign(made)
        at = cursor.pos
        made.flags = cursor.u8()
        if made.flags & SC_SERIALIZABLE and made.flags & SC_EXTERNALIZABLE:
            cursor.corrupt(f"class {made.name} claims to be both serializable and externalizable", at=at)
        made.fields = tuple(self.field() for _ in range(cursor.u16()))
        self.annotation()
        return made

    def field(self) -> FieldDescription:
        at = self.cursor.pos
        code = chr(self.cursor.u8())
        name = self.cursor.utf()
        if code in "L[":
            self.string_object()  # the field's class: needed by a JVM to check, not by us
        elif code not in _PRIMITIVES:
            self.cursor.corrupt(f"unknown type code {code!r} of Java field '{name}'", at=at)
        return FieldDescription(name, code)

    def new_proxy_class(self) -> ClassDescription:
        """TC_PROXYCLASSDESC: a java.lang.reflect.Proxy, known by its interfaces."""
        made = ClassDescription("", flags=SC_SERIALIZABLE)
        self.assign(made)
        names = [self.cursor.utf() for _ in range(self.cursor.count("proxy interfaces", 2))]
        made.name = f"$Proxy({', '.join(names)})"
        self.annotation()
        return made

    def required_class(self, what: str) -> ClassDescription:
        at = self.cursor.pos
        found = self.class_description()
        if found is None:
            self.cursor.corrupt(f"{what} without a class in a Java stream", at=at)
        return found

    def class_value(self) -> JavaClass:
        value = JavaClass(self.required_class("a class value").name)
        self.assign(value)
        return value

    def class_description_value(self) -> JavaClass:
        """A descriptor written as an object of its own."""
        self.cursor.pos -= 1
        return JavaClass(self.required_class("a class descriptor").name)

    def object(self) -> JavaObject:
        described = self.required_class("an object")
        made = JavaObject(described.name)
        self.assign(made)
        for level in described.lineage():
            self.class_data(made, level)
        return made

    def class_data(self, made: JavaObject, level: ClassDescription) -> None:
        """The part of an object that one class of its hierarchy wrote."""
        if level.flags & SC_EXTERNALIZABLE:
            if not level.flags & SC_BLOCK_DATA:
                self.cursor.unsupported(
                    f"object of {level.name} was written externally without block marks",
                    advice="only that class knows where its bytes end; write it with protocol version 2",
                )
            made.annotations[level.name] = self.annotation()
            return
        if not level.flags & SC_SERIALIZABLE:
            return
        if level.fields:
            values = {entry.name: self.value(entry.code) for entry in level.fields}
            made.by_class[level.name] = values
            made.fields.update(values)
        if level.flags & SC_WRITE_METHOD:
            made.annotations[level.name] = self.annotation()

    def value(self, code: str) -> JavaValue:
        read = _PRIMITIVES.get(code)
        return read(self.cursor) if read is not None else self.content()

    def annotation(self) -> list[JavaValue]:
        """Contents up to TC_ENDBLOCKDATA; adjacent blocks are one, as their boundaries carry no meaning."""
        found: list[JavaValue] = []
        blocks: list[bytes] = []
        while True:
            at = self.cursor.pos
            tag = self.cursor.u8()
            if tag in (TC_BLOCKDATA, TC_BLOCKDATALONG):
                blocks.append(self.block() if tag == TC_BLOCKDATA else self.long_block())
                continue
            if blocks:
                found.append(b"".join(blocks))
                blocks = []
            if tag == TC_ENDBLOCKDATA:
                return found
            found.append(self.tagged(tag, at))

    def array(self) -> JavaArray:
        described = self.required_class("an array")
        made = JavaArray(described.name, ())
        self.assign(made)
        made.values = self.array_values(described.name)
        return made

    def array_values(self, name: str) -> bytes | tuple[JavaValue, ...] | list[JavaValue]:
        cursor, code = self.cursor, name[1:2]
        if not name.startswith("[") or (code not in "L[" and len(name) != 2):
            cursor.corrupt(f"'{name}' is not the name of an array class")
        if code == "B":
            return cursor.bytes32()
        if code == "C":
            raw = cursor.take(2 * cursor.count("chars", 2), "a char array")
            return tuple(chr(unit) for (unit,) in struct.iter_unpack(">H", raw))
        if code in _ARRAY_FORMATS:
            letter, size = _ARRAY_FORMATS[code]
            count = cursor.count("array elements", size)
            return struct.unpack(f">{count}{letter}", cursor.take(count * size, "an array"))
        if code not in ("L", "["):
            cursor.corrupt(f"'{name}' is not the name of an array class")
        return [self.content() for _ in range(cursor.count("array elements"))]

    def enum(self) -> JavaEnum:
        described = self.required_class("an enum constant")
        slot = self.assign(None)
        made = JavaEnum(described.name, self.string_object())
        self.handles[slot] = made
        return made

    def string_object(self) -> str:
        at = self.cursor.pos
        value = self.content()
        if not isinstance(value, str):
            self.cursor.corrupt("something else where a Java String belongs", at=at)
        return value

    def exception(self) -> JavaValue:
        """TC_EXCEPTION: writing failed in the middle; the stream says why and is incomplete."""
        at = self.cursor.pos
        self.handles.clear()
        thrown = self.content()
        name = thrown.class_name if isinstance(thrown, JavaObject) else "an exception"
        self.cursor.corrupt(f"the Java stream was cut off by {name} while it was written", at=at)


_CONTENT: dict[int, Callable[[JavaStream], JavaValue]] = {
    TC_NULL: JavaStream.null,
    TC_REFERENCE: JavaStream.reference,
    TC_CLASSDESC: JavaStream.class_description_value,
    TC_OBJECT: JavaStream.object,
    TC_STRING: JavaStream.string,
    TC_ARRAY: JavaStream.array,
    TC_CLASS: JavaStream.class_value,
    TC_BLOCKDATA: JavaStream.block,
    TC_BLOCKDATALONG: JavaStream.long_block,
    TC_EXCEPTION: JavaStream.exception,
    TC_LONGSTRING: JavaStream.long_string,
    TC_PROXYCLASSDESC: JavaStream.class_description_value,
    TC_ENUM: JavaStream.enum,
}
