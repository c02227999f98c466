"""The walk over a Kryo object graph: classes, references, fields; bodies of known classes are in tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from stateproc.codec.kryo.classes import ClassIds
from stateproc.codec.kryo.forms import Doubts, description, encloses, pushes_arguments, searched_form
from stateproc.codec.kryo.own_serializers import SerializerChoice, UncertainSerializer, refuse_own_serializer
from stateproc.codec.kryo.primitives import KryoInput
from stateproc.codec.kryo.setting import Guesses, KryoSetting
from stateproc.codec.kryo.types import (
    BOXES,
    FINAL_CLASSES,
    FINAL_IN_SCALA,
    FieldType,
    UserClass,
    bind,
    bound_variables,
    class_of_name,
    in_java_order,
    is_outer,
    is_synthetic,
    java_name,
    without_arguments,
)
from stateproc.codec.kryo.values import Cycle, KryoMessage, KryoObject, Text, is_throwable, plain_java_object
from stateproc.codec.kryo.walk_errors import CorruptField, CorruptMessage, UndescribedClass
from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot
from stateproc.wire.java_stream import JavaStream, JavaValue

MAX_DEPTH = 64
MAX_REPEATED = 1 << 21
"""How much references may repeat in one value: objects and their elements, sixteen characters or bytes as one."""
_CHARACTERS = 16
_JAVA_STREAM = b"\xac\xed\x00\x05"
_JAVA_OBJECTS = (b"\x73", b"\x71")
"""How an object begins in a stream, and one that is part of an earlier one."""
_THROWABLES = "java.lang.Throwable"
"""The class for all of whose subclasses Flink adds one JavaSerializer. Others have one for each class."""
_OPEN = object()
_LIBRARIES = ("java.", "javax.", "scala.", "kotlin.")
_NOT_NULL, _FIRST_BACK_REFERENCE = 1, 2

Body: TypeAlias = "Callable[[Walker, FieldType], Any]"
"""Reads what the Kryo serializer of a known class writes; the type holds what is known of type arguments."""


@dataclass(frozen=True)
class BodyReaders:
    """The readers of known classes, of arrays, and of what known serializers write: ``by_serializer``.

    ``checked``: serializers whose readers refuse what others write. Of Scala's classes in Kryo 2: ``scala``, those
    written by their fields; ``chill``, those that chill's serializers write; ``scala_by_name``, some of these where
    flink-scala was not there; ``singleton`` reads Scala's objects.
    ``like`` reads Maps and Collections of classes of their own. The walker gets them, because they call the walker.
    """

    by_class: Mapping[str, Body]
    array: Body
    like: Callable[[Walker, str, FieldType], Any]
    scala: Mapping[str, Body]
    chill: Mapping[str, Body]
    scala_by_name: Mapping[str, Body]
    singleton: Body
    by_serializer: Mapping[str, Body]
    checked: frozenset[str]


class Walker:
    """The state of one walk: input, class names and objects seen so far, objects still open."""

    def __init__(self, data: KryoInput, setting: KryoSetting, guesses: Guesses, bodies: BodyReaders) -> None:
        self.data = data
        self._bodies = bodies
        self.version = setting.version
        self.setting = setting
        self.guesses = guesses
        self.doubts = Doubts()
        self._ids = ClassIds(data, setting.registrations)
        self.by_chill: str | None = None
        # The class that was read as chill's serializers write it before anything showed that they were there.
        self.assumed: str | None = None
        self._by_fields: str | None = None
        # Class → what its type variables stand for, in the object of it that is read.
        self._bound: dict[str, dict[str, FieldType]] = {}
        self._java_streams: dict[str, JavaStream] = {}
        self._objects: list[tuple[str, Any, int]] = []
        self._open: list[int] = []
        self._weight = 0
        self._repeated = 0
        self.certain = True  # which serializer wrote the object at hand
        # Class → names of fields, where they are written once in a value.
        self.field_names: dict[str, tuple[str, ...]] = {}

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
        # Kryo's reference resolver leaves values of such classes alone.
        if type_.name in BOXES or type_.primitive or (self.version >= 5 and self.enum(type_.name) is not None):
            if nullable and not self.data.boolean():
                return None
            return self._body(type_)
        return self._marked(type_, nullable)

    def declared(self, type_: FieldType) -> Any:
        """A field or element of a declared type: by what the type lets Kryo know."""
        if type_.primitive:
            return self.data.primitive(type_.name)
        return self.known(type_) if self.final(type_) else self.by_class(type_.args)

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
        if self._ids.incomplete:
            cursor.unsupported(
                "a reference to an object of a Kryo value after fields that are not described",
                at=at,
                advice="describe all fields of the class that Kryo writes with names of fields",
            )
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

    def refused_serializer(self, name: str, choice: SerializerChoice) -> UnsupportedSnapshot:
        """The error for a class that none of the readers reads."""
        own = tuple(own for own in choice.own if choice.certain or own.name not in self._bodies.checked)
        if not own:
            return self._no_bytes_for(name, "whose fields no snapshot contains")
        what, place = f"a Kryo value holds the class {name!r}", self.data.cursor.where()
        return refuse_own_serializer(what, name, own, choice.certain is not None, place)

    # --- what is known of classes -------------------------------------------------------------------------
    def final(self, type_: FieldType) -> bool:
        """Kryo.isFinal; a class of unknown finality is guessed, see :func:`read_kryo`."""
        if type_.primitive:
            return True
        if type_.array:
            return self.final(type_.args[0])
        if type_.final is not None:
            return type_.final
        if type_.name in FINAL_CLASSES or type_.name in self.setting.messages:
            return True
        described = description(self.setting, type_.name)
        if described is None:
            if self.version < 5 and type_.name in FINAL_IN_SCALA:
                return True
            return self._is_users(type_.name) and self.guesses.final(type_.name)
        if described.final is not None:
            return described.final
        if described.is_enum:
            return True
        if described.alternatives or self._extended(described):
            return False
        return self.guesses.final(type_.name)

    def _is_users(self, name: str) -> bool:
        """Whether nothing is known of a class. If it is final, its objects are stored without it."""
        return name not in self._bodies.by_class and not name.startswith(_LIBRARIES)

    def _extended(self, described: UserClass) -> bool:
        """Whether another described class looks like a subclass: it says so, or has all the fields and more."""
        own, others = set(described.fields), self.setting.classes.values()
        return any(other.parent == described.name or (own and own < set(other.fields)) for other in others)

    def enum(self, name: str) -> UserClass | None:
        """The description of an enum; a constant with a body of its own is of a class ``Name$1``."""
        described = description(self.setting, name)
        if described is None:
            outer, _, number = name.rpartition("$")
            described = self.setting.classes.get(outer) if number.isdecimal() else None
        return described if described is not None and described.is_enum else None

    # --- bodies -------------------------------------------------------------------------------------------
    def _body(self, type_: FieldType) -> Any:
        name = java_name(type_)
        choice = self.setting.serializer_of(name)
        if choice.own:
            return self._own_body(type_, name, choice)
        return self.kryos_choice(type_)

    def kryos_choice(self, type_: FieldType) -> Any:
        """Read what the serializer writes that Kryo itself chooses for a class."""
        if type_.array:
            return self._bodies.array(self, type_)
        name = type_.name
        known = self._bodies.by_class.get(name)
        if known is None and self.version < 5:
            known = self._scala_body(name)
        if known is not None:
            return known(self, type_)
        enum = self.enum(name)
        if enum is not None:
            return self.constant(enum)
        described = description(self.setting, name)
        form = searched_form(name, self.setting, self.guesses)
        if form is not None:
            return self._bodies.like(self, form, type_)
        if described is not None:
            self.doubts.met[name] = None
            if described.like is not None:
                return self._bodies.like(self, described.like.name, type_)
            return self.fields(described, type_.args)
        for serializer in (name, _THROWABLES):
            if self.at_java_stream(serializer):
                return plain_java_object(self.java_object(serializer))
        error = self._no_bytes_for(name, "whose fields no snapshot contains")
        if not self.doubts.comparing:
            raise error
        self.doubts.unconfirmed = error
        return Text(name)

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

    def is_readable(self, type_: FieldType) -> bool:
        """Whether :meth:`kryos_choice` reads the class, whatever the bytes."""
        name = type_.name
        return type_.array or name in self._bodies.by_class or bool(description(self.setting, name) or self.enum(name))

    def own_readers(self, type_: FieldType) -> tuple[tuple[str, Body], ...]:
        """The serializers that may have written a class and have readers; Kryo's own choice has no name.

        Where several are possible, those whose readers check the form count. If others are possible, Kryo's own choice
        is left out: almost all bytes fit some fields.
        """
        choice = self.setting.serializer_of(java_name(type_))
        bodies = self._bodies.by_serializer
        known = bodies if choice.certain else self._bodies.checked
        found = [(own.name, bodies[own.name]) for own in choice.own if own.name in known]
        if choice.kryo and len(found) == len(choice.own) and self.is_readable(type_):
            found.append(("", Walker.kryos_choice))
        return tuple(found)

    def _own_body(self, type_: FieldType, name: str, choice: SerializerChoice) -> Any:
        """What a serializer of the job's writes; where several are possible, those that can be checked are tried."""
        readers = self.own_readers(type_)
        if not readers:
            raise self.refused_serializer(name, choice)
        chosen = self.guesses.serializer(name, tuple(serializer for serializer, _ in readers))
        certain, self.certain = self.certain, choice.certain is not None
        try:
            return readers[chosen][1](self, type_)
        except CorruptSnapshot as error:
            if self.certain or readers[chosen][0] == "":
                raise
            if readers[-1][0] == "":
                raise UncertainSerializer(error.message, where=error.where) from error
            raise self.refused_serializer(name, choice) from error
        finally:
            self.certain = certain

    def at_java_stream(self, serializer: str) -> bool:
        """Whether a Java object stream begins here, or another object of that of a serializer."""
        begins = self._next_four()
        return begins == _JAVA_STREAM or (serializer in self._java_streams and begins[:1] in _JAVA_OBJECTS)

    def java_object(self, serializer: str) -> JavaValue:
        """JavaSerializer: an object; those of one serializer are in one stream, with other bytes between them."""
        stream = self._java_streams.get(serializer)
        if stream is None or self._next_four() == _JAVA_STREAM:
            stream = self._java_streams[serializer] = JavaStream(self.data.cursor)
        value = stream.content()
        if is_throwable(value):
            self._java_streams[_THROWABLES] = stream
        return value

    def _next_four(self) -> bytes:
        cursor = self.data.cursor
        return bytes(cursor.data[cursor.pos : min(cursor.end, cursor.pos + 4)])

    def constant(self, enum: UserClass) -> str | None:
        """EnumSerializer: varint ordinal + 1, 0 null."""
        at = self.data.cursor.pos
        ordinal = self.data.varint() - 1
        if ordinal >= len(enum.constants):
            self.data.cursor.corrupt(f"constant {ordinal} of {enum.name}, which has {len(enum.constants)}", at=at)
        return None if ordinal < 0 else enum.constants[ordinal]

    def fields(self, described: UserClass, args: tuple[FieldType, ...]) -> KryoObject:
        """FieldSerializer: the fields of all classes of the hierarchy, by name."""
        pushes = pushes_arguments(described, self.version, self.guesses)
        bound = bound_variables(described, args) if pushes else {}
        outer = self._bound.get(described.name, {})
        if self.version >= 5:  # Without arguments, Kryo 5 takes those of the object of this class that it is in.
            bound = outer | bound
        self._bound[described.name] = bound
        start = self.data.cursor.pos
        values: dict[str, Any] = {}
        for name, type_ in in_java_order(described.fields):
            if is_synthetic(name) and not self._writes_synthetic(described.name):
                values[name] = None
                continue
            at = self.data.cursor.pos
            try:
                part = bind(type_, described.variables, bound)
                values[name] = self.declared(part if pushes else without_arguments(part))
                if is_outer(name) and not encloses(type_, values[name], self.setting):
                    self.data.cursor.corrupt("no enclosing object", at=at)
            except (CorruptField, CorruptMessage):
                raise
            except UndescribedClass as error:
                error.certain |= is_outer(name) and error.class_name == type_.name and not self.final(type_)
                raise
            except CorruptSnapshot as error:
                raise CorruptField.of(error, described.name, name, type_) from error
        self._bound[described.name] = outer
        value = KryoObject(described.name, {name: values[name] for name, _ in described.fields})
        return self.doubts.checked(value, described, self.data, start)

    def read_from(self, data: KryoInput) -> None:
        """Go on reading another input: a part of the value that has a frame of its own."""
        self.data = data
        self._ids.data = data

    def pass_objects(self) -> None:
        """Note that objects were passed over: later references and names of classes cannot be counted."""
        self._ids.incomplete = True

    def undescribed(self, name: str, why: str) -> UndescribedClass:
        """The error for a class that needs a description."""
        return self._no_bytes_for(name, why)

    def _writes_synthetic(self, class_name: str) -> bool:
        """Guess whether Kryo wrote the class's synthetic fields: only with flink-scala, and of static classes never."""
        return self.version < 5 and not self.guesses.without_synthetic(class_name)

    def _no_bytes_for(self, name: str, why: str) -> UndescribedClass:
        return UndescribedClass.of(name, why, self.data.cursor.where())


def _own_weight(value: Any) -> int:
    """An object without the objects in it."""
    if isinstance(value, KryoMessage):
        value = value.data
    if isinstance(value, str | bytes):
        return 1 + len(value) // _CHARACTERS
    return 1 + (len(value) if isinstance(value, list) else 0)


def _erased(type_: FieldType) -> str:
    return f"{_erased(type_.args[0])}[]" if type_.array else type_.name
