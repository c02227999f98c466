"""Find the user classes that serializers of states mention, and whether their values can be read as they are."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from stateproc.codec.kryo.reader import readable_serializers
from stateproc.codec.kryo.setting import KryoSetting
from stateproc.model.operator import Operator
from stateproc.readers.state_descriptor import StateDescriptor
from stateproc.serializers import LayoutContext, Serializer
from stateproc.serializers.avro.serializer import Avro
from stateproc.serializers.core.opaque import Opaque
from stateproc.serializers.java.structs import EnumOf
from stateproc.serializers.java.user_written import Generic, JavaObjectOf
from stateproc.serializers.kryo.description_check import enclosing_class
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.serializers.pojo.layouts import Subclass
from stateproc.serializers.pojo.serializer import Pojo
from stateproc.serializers.scala import CaseClass
from stateproc.verification.problem import Problem

_PLATFORM = (
    "java.",
    "javax.",
    "jdk.",
    "sun.",
    "com.sun.",
    "scala.",
    "kotlin.",
    "org.apache.flink.",
    "org.apache.avro.",
)
"""Classes of Java, Scala and Flink, which are not the user's; so are arrays of them and of numbers."""
_FIRST_WITHOUT_OUTER = 5
_JAVA_OBJECT = "java.io.Serializable"
_DEEPEST = 100
_WITHOUT_SUBCLASSES = ("heap", "changelog")
"""Layouts of keyed state that do not list all subclasses of POJOs."""


class Readability(enum.Enum):
    """Whether values of a class can be read."""

    READABLE = "readable"
    IF_DESCRIBED = "needs a description"
    IN_VALUES = "needs a description if values contain it"
    IF_PARSED = "needs a parser"
    NOT = "cannot be read"


@dataclass(frozen=True, order=True)
class ClassUse:
    """Where a class is mentioned: an operator's state, and in it the key, namespace, user key or value."""

    operator: str
    state: str
    role: str

    def to_dict(self) -> dict[str, str]:
        """Return it as plain values for JSON."""
        return {"operator": self.operator, "state": self.state, "role": self.role}


@dataclass(frozen=True)
class MentionedClass:
    """A class that serializers mention.

    Attributes:
        class_name: Its name, as ``Class.getName()`` returns it.
        serializer: How Flink writes it: POJO, POJO subclass, Kryo, Kryo registration, Avro, case class, enum, value, …
        readability: Whether its values can be read.
        uses: Where it is mentioned.
        fields: Names and types of fields, as far as the snapshot contains them.
        advice: What to do to read it; empty if nothing is needed.
        enclosing: The class around it, if an object of that may be written with it, as it is of inner classes.
    """

    class_name: str
    serializer: str
    readability: Readability
    uses: tuple[ClassUse, ...]
    fields: tuple[tuple[str, str], ...] = ()
    advice: str = ""
    enclosing: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
        return {
            "class": self.class_name,
            "serializer": self.serializer,
            "readability": self.readability.value,
            "fields": [{"name": name, "type": type_} for name, type_ in self.fields],
            "advice": self.advice,
            "enclosing": self.enclosing,
            "uses": [use.to_dict() for use in self.uses],
        }


@dataclass(frozen=True)
class ClassMention:
    """A class that one serializer mentions; the attributes are those of `MentionedClass`."""

    class_name: str
    serializer: str
    readability: Readability
    fields: tuple[tuple[str, str], ...] = ()
    advice: str = ""
    enclosing: str = ""


_Described = Callable[[Any, LayoutContext], Iterable[ClassMention]]


def mentioned_classes(operators: Iterable[Operator]) -> tuple[MentionedClass, ...]:
    """Return the user classes of the operators' states, those first that need something to be read.

    Reads the headers of state files and no values: classes that only values name are not found here.
    """
    found: dict[ClassMention, dict[ClassUse, None]] = {}
    for operator in operators:
        context = operator.options.context.inner
        for state, role, serializer in _serializers(operator):
            use = ClassUse(operator.display, state, role)
            for mention in mentions(serializer, context):
                found.setdefault(mention, {})[use] = None
    order = list(Readability)
    result = [
        MentionedClass(
            item.class_name,
            item.serializer,
            item.readability,
            tuple(sorted(uses)),
            item.fields,
            item.advice,
            item.enclosing,
        )
        for item, uses in found.items()
    ]
    return tuple(
        sorted(result, key=lambda item: (_RANK[item.readability], item.class_name, order.index(item.readability)))
    )


_RANK = {
    Readability.IF_DESCRIBED: 0,
    Readability.IF_PARSED: 1,
    Readability.NOT: 2,
    Readability.IN_VALUES: 3,
    Readability.READABLE: 4,
}


def open_uses(operators: Iterable[Operator]) -> tuple[ClassUse, ...]:
    """Return the keys, values … whose classes only the values name, so that `mentioned_classes` does not find them.

    These are types of Kryo such as Object or List, and POJOs of which heap snapshots and changelogs do not list the
    subclasses.
    """
    found: dict[ClassUse, None] = {}
    for operator in operators:
        context = operator.options.context.inner
        heap = any(file.layout in _WITHOUT_SUBCLASSES for file in operator.keyed_files)
        for state, role, serializer in _serializers(operator):
            if any(_is_open(item, context, heap) for item in all_serializers(serializer)):
                found[ClassUse(operator.display, state, role)] = None
    return tuple(sorted(found))


def _is_open(serializer: Serializer, context: LayoutContext, heap: bool) -> bool:
    if isinstance(serializer, Kryo):
        return serializer.has_open_values(context)
    return heap and isinstance(serializer, Pojo)


def all_serializers(serializer: Serializer, depth: int = 0) -> Iterator[Serializer]:
    """Yield a serializer and those inside of it."""
    if depth <= _DEEPEST:
        yield serializer
        for inner in _inner_serializers(serializer):
            yield from all_serializers(inner, depth + 1)


def _serializers(operator: Operator) -> Iterator[tuple[str, str, Serializer]]:
    """Yield (state, role, serializer) of all states whose headers can be read."""
    seen: set[int] = set()
    broken = {id(file) for file, _ in operator.unreadable_keyed_files}
    for file in operator.keyed_files:
        # Most files of an operator share one header.
        if id(file) in broken or id(file.states) in seen:
            continue
        seen.add(id(file.states))
        for state in file.states:
            if isinstance(state, StateDescriptor):
                yield from _of_keyed_state(state)
    for timers in operator.raw_timers:
        for service in timers.services:
            yield service.name, "key", service.key
            yield service.name, "namespace", service.namespace
    for view in operator.operator_states:
        for info in view.infos:
            for role, serializer in (("map key", info.key_serializer), ("value", info.value_serializer)):
                if serializer is not None:
                    yield view.name, role, serializer


def _of_keyed_state(state: StateDescriptor) -> Iterator[tuple[str, str, Serializer]]:
    yield state.name, "key", state.key
    yield state.name, "namespace", state.namespace
    if state.user_key is not None:
        yield state.name, "map key", state.user_key
    if not state.kind.is_queue:
        yield state.name, "value", state.value


def mentions(serializer: Serializer, context: LayoutContext, depth: int = 0) -> Iterator[ClassMention]:
    """Yield what a serializer and those inside of it mention."""
    if depth > _DEEPEST:
        return
    for kind, describe in _KINDS.items():
        if isinstance(serializer, kind):
            yield from describe(serializer, context)
            break
    for inner in _inner_serializers(serializer):
        yield from mentions(inner, context, depth + 1)


def _inner_serializers(item: Any) -> Iterator[Serializer]:
    """Yield the serializers in the fields of a serializer, which is a dataclass."""
    if not is_dataclass(item):
        return
    for field in fields(item):
        yield from _serializers_in(getattr(item, field.name))


def _serializers_in(value: Any) -> Iterator[Serializer]:
    if isinstance(value, Serializer):
        yield value
    elif isinstance(value, Subclass):
        yield value.serializer
    elif isinstance(value, tuple):
        for item in value:
            yield from _serializers_in(item)


def is_user_class(name: str) -> bool:
    """Return whether a class is not one of Java, Scala or Flink."""
    component = name.lstrip("[")
    if name.startswith("["):
        if not component.startswith("L"):
            return False  # numbers
        component = component.removeprefix("L").removesuffix(";")
    return component != "" and not component.startswith(_PLATFORM)


def _pojo(serializer: Pojo, context: LayoutContext) -> Iterator[ClassMention]:
    yield ClassMention(serializer.class_name, "POJO", Readability.READABLE, _fields(serializer))
    for subclass in serializer.subclasses:
        own = subclass.serializer
        if isinstance(own, Pojo):
            continue  # found as a serializer of its own
        unknown = isinstance(own, Opaque)
        readability = Readability.IF_DESCRIBED if unknown else Readability.READABLE
        advice = f"describe it, or register a parser for {own.class_name}" if isinstance(own, Opaque) else ""
        yield ClassMention(subclass.class_name, "POJO subclass", readability, (), advice)


def _fields(serializer: Pojo) -> tuple[tuple[str, str], ...]:
    return tuple((name, own.type_name) for name, own in serializer.fields)


def _kryo(serializer: Kryo, context: LayoutContext) -> Iterator[ClassMention]:
    setting = serializer.setting(context)
    name = serializer.class_name
    known = serializer.is_known(context)
    if is_user_class(name) or not known:
        yield _kryo_class(name, "Kryo", setting, known, Readability.IF_DESCRIBED)
    for registered in serializer.registrations:
        if registered != name and is_user_class(registered):
            own = setting.serializer_of(registered).own
            known = bool(readable_serializers(registered, setting)) if own else registered in context.classes
            yield _kryo_class(registered, "Kryo registration", setting, known, Readability.IN_VALUES)


def _kryo_class(name: str, how: str, setting: KryoSetting, is_known: bool, otherwise: Readability) -> ClassMention:
    if is_known:
        return ClassMention(name, how, Readability.READABLE)
    choice = setting.serializer_of(name)
    if choice.certain is not None:
        advice = (
            f"its Kryo serializer {choice.certain.name} defines its bytes: register a function that reads them "
            "(stateproc.serializers.register_kryo), or read the state as bytes (opaque='bytes')"
        )
        return ClassMention(name, how, Readability.NOT, (), advice)
    if choice.own:
        own = choice.own[-1]
        advice = (
            f"if it extends or implements {own.for_class}, its Kryo serializer {own.name} defines its bytes: register "
            "a function that reads them (stateproc.serializers.register_kryo); if not, its description names what it "
            f'implements: "{name} implements …"'
        )
        return ClassMention(name, how, otherwise, (), advice)
    outer = (enclosing_class(name) if setting.version < 5 else None) or ""
    inner = f'; {INNER_CLASS} "{outer}"' if outer else ""
    advice = f"describe its fields, or the constants of an enum (--classes){inner}"
    return ClassMention(name, how, otherwise, (), advice, outer)


def _avro(serializer: Avro, context: LayoutContext) -> Iterator[ClassMention]:
    name = serializer.schema.root.name or serializer.class_name
    yield ClassMention(name, "Avro", Readability.READABLE)


def _case_class(serializer: CaseClass, context: LayoutContext) -> Iterator[ClassMention]:
    if is_user_class(serializer.class_name):
        names = zip(serializer.names(context), serializer.fields, strict=True)
        shown = tuple((name, field.type_name) for name, field in names)
        advice = "" if serializer.class_name in context.classes else "a description gives its fields their names"
        yield ClassMention(serializer.class_name, "case class", Readability.READABLE, shown, advice)


def _enum(serializer: EnumOf, context: LayoutContext) -> Iterator[ClassMention]:
    kind = "scala.Enumeration" if serializer.scala else "enum"
    constants = tuple((name, "") for _, name in serializer.constants)
    yield ClassMention(serializer.class_name, kind, Readability.READABLE, constants)


def _java(serializer: JavaObjectOf, context: LayoutContext) -> Iterator[ClassMention]:
    yield ClassMention(
        _JAVA_OBJECT, "Java serialization", Readability.READABLE, (), "values are JSON text and name their class"
    )


def _generic(serializer: Generic, context: LayoutContext) -> Iterator[ClassMention]:
    if is_user_class(serializer.class_name):
        advice = (
            "values are written by the class itself: register a parser, or read the state as bytes (opaque='bytes')"
        )
        yield ClassMention(serializer.class_name, "written by the class", Readability.IF_PARSED, (), advice)


def _opaque(serializer: Opaque, context: LayoutContext) -> Iterator[ClassMention]:
    name = serializer.class_name
    if serializer.reason is not None:
        advice = f"its serializer snapshot cannot be read: {serializer.reason.message}"
    else:
        advice = f"register a parser: stateproc.serializers.register({name!r}, reader)"
    yield ClassMention(name, "unknown serializer", Readability.IF_PARSED, (), advice)


_KINDS: dict[type[Serializer], _Described] = {
    Pojo: _pojo,
    Kryo: _kryo,
    Avro: _avro,
    CaseClass: _case_class,
    EnumOf: _enum,
    JavaObjectOf: _java,
    Generic: _generic,
    Opaque: _opaque,
}


# Make a skeleton of class descriptions: the classes that need one, to be completed with their fields.

Skeleton = Mapping[str, dict[str, str] | list[str] | str]
"""Class name → fields and their types, constants, or what a collection holds: the form of ``--classes``."""

INNER_CLASS = (
    'an inner class that is not static may have the object around it in a field, "this$0" in Java, "$outer" in '
    "Scala, of class"
)
FIELDS: dict[str, str] = {"fieldName": "type"}
"""Stands for fields. It is refused as a description, so that nothing is read before it has been replaced."""
CONSTANTS: list[str] = ["FIRST", "SECOND"]
_DESCRIBE = re.compile(
    r"describe it.*?classes=\{(?P<quote>[\"'])(?P<name>.+?)(?P=quote): (?P<body>[\[{]|\"[^\"]+\")", re.DOTALL
)
"""What the advice of errors says about classes without a description, whatever reads them."""


def class_skeleton(
    mentioned: Iterable[MentionedClass], problems: Iterable[Problem] = (), outer_field: str | None = None
) -> Skeleton:
    """Return the classes that need a description.

    Args:
        mentioned: The classes that serializers mention.
        problems: The problems of reading values, which name further classes.
        outer_field: The field with the enclosing object of inner classes, if Kryo may have written it.
    """
    found: dict[str, dict[str, str] | list[str] | str] = {}
    for item in mentioned:
        if item.readability is Readability.IF_DESCRIBED:
            found[_component(item.class_name)] = _fields_of(item.enclosing, outer_field)
    for problem in problems:
        for match in _DESCRIBE.finditer(problem.advice):
            name, body = _component(match["name"]), _body(match["body"])
            if body == FIELDS and "Kryo value" in problem.what:
                body = _fields_of(enclosing_class(name), outer_field)
            found.setdefault(name, body)
    return dict(sorted(found.items()))


def _fields_of(enclosing: str | None, outer_field: str | None) -> dict[str, str]:
    """Return what stands for the fields of a class; inner classes may have the object around them."""
    return {**FIELDS, outer_field: enclosing} if enclosing and outer_field else dict(FIELDS)


def outer_field_of(operators: Iterable[Operator]) -> str | None:
    """Return the field in which Kryo writes the object around an inner class: Scala's where serializers are Scala's.

    None for Kryo 5, which writes none.
    """
    name = None
    for operator in operators:
        context = operator.options.context.inner
        if context.kryo >= _FIRST_WITHOUT_OUTER:
            return None
        name = name or "this$0"
        serializers = (item for _, _, own in _serializers(operator) for item in all_serializers(own))
        if any(_is_of_scala(item) for item in serializers):
            return "$outer"
    return name


def _is_of_scala(serializer: Serializer) -> bool:
    if isinstance(serializer, Kryo):
        return any(name.startswith("scala.") for name in (serializer.class_name, *serializer.registrations))
    return isinstance(serializer, CaseClass) or (isinstance(serializer, EnumOf) and serializer.scala)


def _body(begins: str) -> dict[str, str] | list[str] | str:
    """Return what stands for a description that an advice begins."""
    if begins.startswith('"'):
        return begins.strip('"')
    return dict(FIELDS) if begins == "{" else list(CONSTANTS)


def _component(class_name: str) -> str:
    """Return the class itself where the name is that of an array of it."""
    if not class_name.startswith("["):
        return class_name
    return class_name.lstrip("[").removeprefix("L").removesuffix(";")
