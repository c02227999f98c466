"""Find out which serializer Kryo uses for a class.

Kryo.getRegistration and getDefaultSerializer: a serializer that is registered for the class itself; else a default
serializer of the class or of one of its supertypes: in Kryo 2 the first in the order in which the job added them, in
Kryo 5 the most specific one; else Kryo's own choice (FieldSerializer, CollectionSerializer, EnumSerializer …). The
snapshot contains the registrations and default serializers, but not what a class extends or implements, so that for
many classes several serializers are possible.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from stateproc.codec.kryo.classes import PRIMITIVE_IDS, REGISTRAR_IDS
from stateproc.codec.kryo.supertypes import is_subtype
from stateproc.codec.kryo.types import PRIMITIVES, UserClass
from stateproc.errors import UnsupportedSnapshot, Where

ANY_INSTANCE = "an instance"
"""Stands for the class of a serializer that is registered as an object, whose Java stream is not parsed."""
AVRO_ARRAY = "org.apache.avro.generic.GenericData$Array"
_REGISTERED_BY_FLINK = frozenset((*PRIMITIVES, *PRIMITIVE_IDS, *REGISTRAR_IDS))
"""Kryo and Flink register serializers for these classes, so that no default serializer is used."""
_THROWABLE = ("Exception", "Error")
FIELD_SERIALIZER = "com.esotericsoftware.kryo.serializers.FieldSerializer"


@dataclass(frozen=True)
class OwnSerializer:
    """A serializer that the job has named: its class, and the class it was named ``for_class``, maybe a supertype."""

    name: str
    for_class: str


@dataclass(frozen=True)
class SerializerChoice:
    """The serializers that Kryo may have used for a class.

    own: those that the job has named, in the order in which Kryo tries them. kryo: whether Kryo's own choice is
    possible.
    """

    own: tuple[OwnSerializer, ...] = ()
    kryo: bool = True

    @property
    def certain(self) -> OwnSerializer | None:
        """The serializer of the job's that wrote the class for sure."""
        return self.own[0] if len(self.own) == 1 and not self.kryo else None


KRYOS_CHOICE = SerializerChoice()


def choose_serializer(
    name: str,
    version: int,
    registered: Mapping[str, str],
    defaults: tuple[tuple[str, str], ...],
    classes: Mapping[str, UserClass],
    messages: Container[str] = (),
) -> SerializerChoice:
    """Return the serializers that Kryo may have used for the class ``name``.

    Args:
        name: the class as Class.getName() returns it.
        version: of Kryo, 2 or 5.
        registered: class → serializer that is registered for it.
        defaults: (class or interface, serializer) in the order in which the job added them.
        classes: the user's descriptions, which may say what a class extends and implements.
        messages: classes of Protobuf messages.
    """
    exact = registered.get(name)
    if exact is not None:
        return _settled(OwnSerializer(exact, name))
    if not defaults or name in _REGISTERED_BY_FLINK:
        return KRYOS_CHOICE
    if name.endswith(_THROWABLE):
        # Flink's default serializer of Throwable comes first, in Kryo 5 after those of its subclasses.
        defaults = tuple(entry for entry in defaults if version >= 5 and entry[0].endswith(_THROWABLE))
    if version >= 5 and name in (of for of, _ in defaults):
        return _settled(OwnSerializer(dict(defaults)[name], name))
    possible: dict[str, OwnSerializer] = {}
    certain = False
    for of, serializer in defaults:
        fits = is_subtype(name, of, classes, messages)
        if fits is None and serializer == FIELD_SERIALIZER and name in classes:
            continue  # Kryo's own choice is the same
        if fits is not False:
            possible.setdefault(serializer, OwnSerializer(serializer, of))
            certain = certain or fits is True
        if fits and version < 5:
            break
    if not possible:
        return KRYOS_CHOICE
    own = tuple(possible.values())
    return _settled(own[0]) if certain and len(own) == 1 else SerializerChoice(own, not certain)


def _settled(own: OwnSerializer) -> SerializerChoice:
    return SerializerChoice((own,), False)


class UncertainSerializer(UnsupportedSnapshot):
    """A class whose values a serializer without a reader wrote, or may have written."""


class AmbiguousSerializer(UnsupportedSnapshot):
    """Bytes that fit what two serializers write."""


def refuse_own_serializer(
    what: str, name: str, own: tuple[OwnSerializer, ...], certain: bool, where: Where | None = None
) -> UncertainSerializer:
    """Return the error for values of the class ``name``; ``what`` begins the message, ``own`` are not readable."""
    names = " or ".join(serializer.name for serializer in own)
    register = (
        f"stateproc.serializers.register_kryo({own[-1].name!r}, read), in a module that the option 'plugins' names, "
        "registers a function that reads what the serializer writes"
    )
    if certain:
        message = f"{what}, which Kryo writes with a serializer of its own ({names})"
        return UncertainSerializer(message, where=where, advice=register)
    supertypes = list(dict.fromkeys(serializer.for_class for serializer in own))
    return UncertainSerializer(
        f"{what}, which Kryo writes with a serializer of its own ({names}) if it extends or implements "
        f"{' or '.join(supertypes)}",
        where=where,
        advice=f'if it does, its description says so: {{"{name} implements {supertypes[-1]}": {{}}}}, and {register}; '
        f'if it does not, its description names what it implements: "{name} implements nothing" if that is nothing',
    )


def ambiguous_serializer(first: Mapping[str, str], second: Mapping[str, str], where: Where) -> AmbiguousSerializer:
    """Return the error for a value that fits under two assumptions, each class → serializer."""
    name = next(name for name in {**first, **second} if first.get(name) != second.get(name))
    names = [
        serializer or "Kryo's own choice for its fields" for serializer in (first.get(name, ""), second.get(name, ""))
    ]
    return AmbiguousSerializer(
        f"a Kryo value holds the class {name!r}, and its bytes fit two serializers: {' and '.join(names)}",
        where=where,
        advice=f'describe what the class extends and implements: "{name} implements …", with all its interfaces, or '
        f'"{name} implements nothing"',
    )


def misdescribed_serializer(name: str, serializer: str, choice: SerializerChoice, where: Where) -> AmbiguousSerializer:
    """Return the error for a class that is described by fields and written by another serializer."""
    supertype = next((own.for_class for own in choice.own if own.name == serializer), name)
    return AmbiguousSerializer(
        f"the class {name!r} is described by its fields, but a value has the form that {serializer} writes",
        where=where,
        advice=f"if the class extends or implements {supertype}, its description says so: "
        f'{{"{name} implements {supertype}": {{}}}}',
    )
