"""Java object streams written: the twin of java_stream for objects whose classes we describe ourselves.

Format: java.io.ObjectOutputStream, protocol version 2. Equal texts are one String in the stream, as interned ones
are in a JVM; objects are shared where the same Python object stands twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stateproc.wire.output import Output

STREAM_HEADER = 0xACED0005
SERIALIZABLE, WRITES, ENUM = 0x02, 0x01, 0x10
_NULL, _REFERENCE, _CLASS, _OBJECT, _STRING, _ARRAY = range(0x70, 0x76)
_CLASS_OBJECT, _BLOCK, _END, _ENUM = 0x76, 0x77, 0x78, 0x7E
_FIRST_HANDLE = 0x7E0000


@dataclass(frozen=True)
class WrittenClass:
    """java.io.ObjectStreamClass: name, serialVersionUID, flags, fields in stream order, the superclass.

    ``fields``: (name, type): a primitive's code or an object's signature, such as ``Ljava/util/List;``.
    """

    name: str
    uid: int
    fields: tuple[tuple[str, str], ...] = ()
    parent: WrittenClass | None = None
    flags: int = SERIALIZABLE

    def lineage(self) -> tuple[WrittenClass, ...]:
        """This class and those above it, most general first."""
        return (*(self.parent.lineage() if self.parent else ()), self)


@dataclass(frozen=True, eq=False)
class Instance:
    """An object: values by field name; ``items``: what an ArrayList's writeObject adds."""

    of: WrittenClass
    values: dict[str, Any]
    items: tuple[Any, ...] | None = None


@dataclass(frozen=True, eq=False)
class Array:
    """An array of objects."""

    of: WrittenClass
    items: tuple[Any, ...]


@dataclass(frozen=True)
class Constant:
    """An enum's constant."""

    of: WrittenClass
    name: str


@dataclass(frozen=True)
class ClassObject:
    """A java.lang.Class."""

    of: WrittenClass


def enum_class(name: str) -> WrittenClass:
    """The class of an enum."""
    return WrittenClass(name, 0, parent=_JAVA_ENUM, flags=SERIALIZABLE | ENUM)


_JAVA_ENUM = WrittenClass("java.lang.Enum", 0, flags=SERIALIZABLE | ENUM)


def java_object(value: Any) -> bytes:
    """One object as a complete stream."""
    writer = _Writer()
    writer.content(value)
    return bytes(writer.out)


class _Writer:
    """The state of one stream: the bytes and the handle table."""

    def __init__(self) -> None:
        self.out = Output()
        self.out.raw(STREAM_HEADER.to_bytes(4, "big"))
        self.handles: dict[Any, int] = {}

    def known(self, key: Any) -> bool:
        """Write a reference if this was written before; otherwise give it the next handle later."""
        handle = self.handles.get(key)
        if handle is not None:
            self.out.u8(_REFERENCE)
            self.out.i32(_FIRST_HANDLE + handle)
        return handle is not None

    def assign(self, key: Any) -> None:
        self.handles[key] = len(self.handles)

    def content(self, value: Any) -> None:
        if value is None:
            self.out.u8(_NULL)
        elif isinstance(value, str):
            self.string(value)
        elif not self.known(value):
            self.fresh(value)

    def string(self, text: str) -> None:
        if not self.known(text):
            self.out.u8(_STRING)
            self.assign(text)
            self.out.utf(text)

    def fresh(self, value: Instance | Array | Constant | ClassObject) -> None:
        self.out.u8({Instance: _OBJECT, Array: _ARRAY, Constant: _ENUM, ClassObject: _CLASS_OBJECT}[type(value)])
        self.described(value.of)
        self.assign(value)
        if isinstance(value, Constant):
            self.string(value.name)
        elif isinstance(value, Array):
            self.out.i32(len(value.items))
            for item in value.items:
                self.content(item)
        elif isinstance(value, Instance):
            self.instance(value)

    def instance(self, value: Instance) -> None:
        for level in value.of.lineage():
            for name, code in level.fields:
                self.field(code, value.values.get(name))
            if level.flags & WRITES and value.items is not None:
                self.out.u8(_BLOCK)
                self.out.u8(4)
                self.out.i32(len(value.items))
                for item in value.items:
                    self.content(item)
                self.out.u8(_END)

    def field(self, code: str, value: Any) -> None:
        if code == "I":
            self.out.i32(value)
        elif code == "Z":
            self.out.boolean(value)
        else:
            self.content(value)

    def described(self, described: WrittenClass | None) -> None:
        """classDesc: a reference, or the class with its superclasses."""
        if described is None:
            self.out.u8(_NULL)
        elif not self.known(described):
            self.out.u8(_CLASS)
            self.out.utf(described.name)
            self.out.i64(described.uid)
            self.assign(described)
            self.out.u8(described.flags)
            self.out.u16(len(described.fields))
            for name, code in described.fields:
                self.out.u8(ord(code[0]))
                self.out.utf(name)
                if len(code) > 1:
                    self.string(code)
            self.out.u8(_END)
            self.described(described.parent)
