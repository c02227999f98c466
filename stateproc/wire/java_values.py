"""What a Java object stream holds, as plain Python structures. Nothing here runs or loads any class."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

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
