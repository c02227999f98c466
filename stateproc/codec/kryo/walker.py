"""The walk over a Kryo object graph: classes, references, fields; bodies of known classes are in tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from stateproc.codec.kryo.classes import ClassIds
from stateproc.codec.kryo.java_objects import java_object
from stateproc.codec.kryo.primitives import KryoInput
from stateproc.codec.kryo.types import (
    BOXES,
    FINAL_CLASSES,
    FINAL_IN_SCALA,
    FieldType,
    UserClass,
    bind,
    class_of_name,
    in_java_order,
)
from stateproc.codec.kryo.values import Cycle, KryoObject
from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot

MAX_DEPTH = 64
MAX_REPEATED = 1 << 21
"""How much references may repeat in one value: objects and their elements, sixteen characters or bytes as one."""
_CHARACTERS = 16
_JAVA_STREAM = b"\xac\xed\x00\x05"
_OPEN = object()
_LIBRARIES = ("java.", "javax.", "scala.", "kotlin.")
_NOT_NULL, _FIRST_BACK_REFERENCE = 1, 2

Body: TypeAlias = "Callable[[Walker, FieldType], Any]"
"""Reads what the Kryo serializer of a known class writes; the type holds what is known of type arguments."""


class CorruptField(CorruptSnapshot):
    """Bytes that do not fit a field of a described class: the class, the field, its described type."""

    class_name = ""
    field = ""
    type_: FieldType | None = None

    @classmethod
    def of(cls, error: CorruptSnapshot, class_name: str, field: str, type_: FieldType) -> CorruptField:
        """The error of a field; message, position and advice stay."""
        made = cls(error.message, where=error.where, advice=error.advice)
        made.class_name, made.field, made.type_ = class_name, field, type_
        return made


class UndescribedClass(UnsupportedSnapshot):
    """An object of a class whose fields nothing declares."""


@dataclass(frozen=True)
class BodyReaders:
    """The readers of known classes, and that of arrays. The walker gets them, because they call the walker.

    Of Scala's classes in Kryo 2: ``scala``, those written by their fields; ``chill``, those that chill's serializers
    write; ``scala_by_name``, some of the latter where flink-scala was not there; ``singleton`` reads Scala's objects.
    """

    by_class: Mapping[str, Body]
    array: Body
    scala: Mapping[str, Body]
    chill: Mapping[str, Body]
    scala_by_name: Mapping[str, Body]
    singleton: Body


@dataclass(frozen=True)
class KryoSetting:
    """What a Kryo value's bytes do not say.

    version: 2 (Flink 1.x) or 5 (Flink 2.x). registrations: class names in the order of their ids.
    serializers: class → Kryo serializer class it is registered with, for those that have one of their own.
    classes: the user's descriptions.
    """

    version: int
    registrations: tuple[str, ...] = ()
    serializers: Mapping[str, str] = field(default_factory=dict)
    classes: Mapping[str, UserClass] = field(default_factory=dict)


class Walker:
    """The state of one walk: input, class names and objects seen so far, objects still open."""

    def __init__(self, data: KryoInput, setting: KryoSetting, guesses: dict[str, bool], bodies: BodyReaders) -> None:
        self.data = data
        self._bodies = bodies
        self.version = setting.version
        self.setting = setting
        self.guesses = guesses
        self._ids = ClassIds(data, setting.registrations)
        self.by_chill: str | None = None
        # The class that was read as chill's serializers write it before anything showed that they were there.
        self.assumed: str | None = None
        self._by_fields: str | None = None
        self._objects: list[tuple[str, Any, int]] = []
        self._open: list[int] = []
        self._weight = 0
        self._repeated = 0

    # --- objects ------------------------------------------------------------------------------------------
    def read_class(self, args: tuple[FieldType, ...] = ()) -> FieldType | None:
        """Kryo.readClass: None for null; ``args`` are the type arguments of the place it stands at."""
        name = self._ids.read()
        self._check_chill()
        return (
            None if name is None else replace(class_of_name(name), args=args) if name[0] != "[" else class_of_name(name)
        )

    def by_class(self, args: tuple[FieldType, ...] = ()) -> Any:
        """Kryo.readClassAndObject."""
        type_ = self.read_class(args)
        return None if type_ is None else self.known(type_, nullable=False)

    def known(self, type_: FieldType, nullable: bool = True) -> Any:
        """Kryo.readObject, or readObjectOrNull: an object whose class is known."""
        if self._unmarked(type_):
            if nullable and not self.data.boolean():
                return None
            return self._body(type_)
        return self._marked(type_, nullable)

    def declared(self, type_: FieldType) -> Any:
        """A field or element of a declared type: by what the type lets Kryo know."""
        if type_.primitive:
            return self.data.primitive(type_.name)
        return self.known(type_) if self.final(type_) else self.by_class(type_.args)

    def _unmarked(self, type_: FieldType) -> bool:
        """Whether Kryo's reference resolver leaves values of the class alone."""
        return type_.name in BOXES or type_.primitive or (self.version >= 5 and self.enum(type_.name) is not None)

    def _marked(self, type_: FieldType, nullable: bool) -> Any:
        cursor = self.data.cursor
        at = cursor.pos
        mark = self.data.varint()
        if mark == 0:
            if nullable:
                return None
            cursor.corrupt("null where Kryo writes no null", at=at)
        erased = _erased(type_)
        if mark >= _FIRST_BACK_REFERENCE:
            return self._seen(mark - _FIRST_BACK_REFERENCE, erased, at)
        index = len(self._objects)
        self._objects.append((erased, _OPEN, 1))
        before = self._weight
        self._open.append(index)
        if len(self._open) > MAX_DEPTH:
            cursor.unsupported(
                f"Kryo objects nested over {MAX_DEPTH} levels deep",
                at=at,
                advice="such a chain of objects cannot be shown as one value; read other states",
            )
        value = self._body(type_)
        self._open.pop()
        self._weight += _own_weight(value)
        self._objects[index] = (erased, value, self._weight - before)
        return value

    def _seen(self, index: int, erased: str, at: int) -> Any:
        cursor = self.data.cursor
        if index >= len(self._objects):
            cursor.corrupt(f"a reference to object {index} of {len(self._objects)}", at=at)
        class_name, value, weight = self._objects[index]
        self._weight += weight
        self._repeated += weight
        if self._repeated > MAX_REPEATED:
            cursor.unsupported(
                "references repeat too much of a Kryo object graph",
                at=at,
                advice="it is too much to show as one value; read other states",
            )
        if class_name != erased:
            cursor.corrupt(f"a reference to a {class_name} where a {erased} stands", at=at)
        return Cycle(len(self._open) - self._open.index(index)) if value is _OPEN else value

    # --- what is known of classes -------------------------------------------------------------------------
    def final(self, type_: FieldType) -> bool:
        """Kryo.isFinal; a class of unknown finality is guessed, see :func:`read_kryo`."""
        if type_.primitive:
            return True
        if type_.array:
            return self.final(type_.args[0])
        if type_.final is not None:
            return type_.final
        if type_.name in FINAL_CLASSES:
            return True
        described = self.setting.classes.get(type_.name)
        if described is None:
            if self.version < 5 and type_.name in FINAL_IN_SCALA:
                return True
            return self._is_users(type_.name) and self.guesses.setdefault(type_.name, False)
        if described.final is not None:
            return described.final
        if described.is_enum:
            return True
        if self._extended(described):
            return False
        return self.guesses.setdefault(type_.name, False)

    def _is_users(self, name: str) -> bool:
        """Whether nothing is known of a class. If it is final, its objects are stored without it."""
        return name not in self._bodies.by_class and not name.startswith(_LIBRARIES)

    def _extended(self, described: UserClass) -> bool:
        """Whether another described class looks like a subclass: it has all the fields and more."""
        own = set(described.fields)
        return bool(own) and any(own < set(other.fields) for other in self.setting.classes.values())

    def enum(self, name: str) -> UserClass | None:
        """The description of an enum; a constant with a body of its own is of a class ``Name$1``."""
        described = self.setting.classes.get(name)
        if described is None:
            outer, _, number = name.rpartition("$")
            described = self.setting.classes.get(outer) if number.isdecimal() else None
        return described if described is not None and described.is_enum else None

    # --- bodies -------------------------------------------------------------------------------------------
    def _body(self, type_: FieldType) -> Any:
        name = type_.name
        own = self.setting.serializers.get(name)
        if own is not None and not own.endswith(".JavaSerializer"):
            raise self._no_bytes_for(name, f"that Kryo writes with a serializer of its own ({own})")
        if type_.array:
            return self._bodies.array(self, type_)
        if own is None:
            known = self._bodies.by_class.get(name)
            if known is None and self.version < 5:
                known = self._scala_body(name)
            if known is not None:
                return known(self, type_)
            enum = self.enum(name)
            if enum is not None:
                return self.constant(enum)
            described = self.setting.classes.get(name)
            if described is not None:
                return self._fields(described, type_.args)
        if self._at_java_stream():
            return java_object(self.data.cursor)
        raise self._no_bytes_for(name, "whose fields no snapshot contains")

    def _scala_body(self, name: str) -> Body | None:
        """Return the reader of a Scala class; None if it has none, or is described as what FieldSerializer writes."""
        is_object = name.endswith("$") and not name.startswith("scala.collection.immutable.")
        described = self.setting.classes.get(name)
        if described is not None and self._ids.by_id is None and not (is_object and described.is_enum):
            if name in self._bodies.chill:
                self._by_fields = name
            return None
        found = self._bodies.scala.get(name)
        if found is None and self._ids.named is not None:
            found = self._bodies.scala_by_name.get(name)
        if found is not None:
            return found
        known = self._bodies.chill.get(name, self._bodies.singleton if is_object else None)
        if known is not None:
            if self.by_chill is None:
                self.by_chill = name
                self.assumed = name if self._ids.by_id is None else None
            self._check_chill()
        return known

    def _check_chill(self) -> None:
        """Refuse a class that was read as chill's serializers write it, or as they do not, where another shows that."""
        if self._by_fields is not None and self._ids.by_id is not None:
            raise UnsupportedSnapshot(
                f"the class {self._by_fields!r} is described, but the id of {self._ids.by_id!r} shows that flink-scala "
                "wrote the value",
                where=self.data.cursor.where(),
                advice=f"remove the description of {self._by_fields!r}: the form that flink-scala writes is known",
            )
        if self.by_chill is not None and self._ids.named is not None:
            raise self._no_bytes_for(
                self.by_chill, f"written by its fields: without flink-scala, as {self._ids.named!r} by its name shows"
            )

    def _at_java_stream(self) -> bool:
        cursor = self.data.cursor
        return bytes(cursor.data[cursor.pos : min(cursor.end, cursor.pos + 4)]) == _JAVA_STREAM

    def constant(self, enum: UserClass) -> str | None:
        """EnumSerializer: varint ordinal + 1, 0 null."""
        at = self.data.cursor.pos
        ordinal = self.data.varint() - 1
        if ordinal >= len(enum.constants):
            self.data.cursor.corrupt(f"constant {ordinal} of {enum.name}, which has {len(enum.constants)}", at=at)
        return None if ordinal < 0 else enum.constants[ordinal]

    def _fields(self, described: UserClass, args: tuple[FieldType, ...]) -> KryoObject:
        """FieldSerializer: the fields of all classes of the hierarchy, by name."""
        bound = dict(zip(described.variables, args, strict=False))
        values = {}
        for name, type_ in in_java_order(described.fields):
            try:
                values[name] = self.declared(bind(type_, described.variables, bound))
            except CorruptField:
                raise
            except CorruptSnapshot as error:
                raise CorruptField.of(error, described.name, name, type_) from error
        return KryoObject(described.name, {name: values[name] for name, _ in described.fields})

    def _no_bytes_for(self, name: str, why: str) -> UndescribedClass:
        return UndescribedClass(
            f"a Kryo value holds the class {name!r}, {why}",
            where=self.data.cursor.where(),
            advice=f'describe it with all its fields: classes={{"{name}": {{"a": "int", "b": "String", …}}}} '
            "(an enum as the list of its constants)",
        )


def _own_weight(value: Any) -> int:
    """An object without the objects in it."""
    if isinstance(value, str | bytes):
        return 1 + len(value) // _CHARACTERS
    return 1 + (len(value) if isinstance(value, list) else 0)


def _erased(type_: FieldType) -> str:
    return f"{_erased(type_.args[0])}[]" if type_.array else type_.name
