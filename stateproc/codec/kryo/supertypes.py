"""Find out whether a class extends or implements another one, which no snapshot contains."""

from __future__ import annotations

from collections.abc import Mapping

from stateproc.codec.kryo.jdk_supertypes import JDK_SUPERTYPES
from stateproc.codec.kryo.types import FINAL_CLASSES, OBJECT, UserClass

_JDK = ("java.", "javax.", "jdk.", "sun.")
_LIBRARIES = (
    "com.google.common.",
    "com.google.protobuf.",
    "kotlin.",
    "org.apache.avro.",
    "org.apache.thrift.",
    "org.joda.time.",
    "scala.",
)
"""Packages of libraries; their classes extend and implement none of the user's classes."""
_NOT_EXTENDED = (
    "java.util.Collections$",
    "java.util.ImmutableCollections$",
    "java.util.Arrays$",
    "org.apache.avro.Schema",
    "org.apache.avro.generic.GenericData$",
    "org.joda.time.DateTime",
    "org.joda.time.LocalDate",
    "org.joda.time.LocalDateTime",
    "org.joda.time.LocalTime",
    "org.joda.time.Instant",
)
"""Classes of libraries that are final, or that only classes of their own package can extend (by prefix if nested)."""
_ARRAY_SUPERTYPES = frozenset([OBJECT, "java.lang.Cloneable", "java.io.Serializable"])
# Interfaces of collections since Java 21.
_SEQUENCED = "java.util.Sequenced"
_GUAVA = "com.google.common.collect."
_SCHEMA = "org.apache.avro.Schema"
_PROTOBUF = "com.google.protobuf."
MESSAGE_SUPERTYPES = frozenset(
    f"{_PROTOBUF}{name}"
    for name in (
        "AbstractMessage",
        "AbstractMessageLite",
        "GeneratedMessage",
        "GeneratedMessageV3",
        "Message",
        "MessageLite",
        "MessageLiteOrBuilder",
        "MessageOrBuilder",
    )
)
"""What classes of Protobuf messages extend and implement."""


def is_subtype(name: str, of: str, classes: Mapping[str, UserClass]) -> bool | None:
    """Whether the class ``name`` is, extends or implements ``of``; None if nothing says so or otherwise.

    Args:
        name: a class as Class.getName() returns it.
        of: another one.
        classes: the user's descriptions; a heading with ``implements`` names all supertypes.
    """
    if name == of or of == OBJECT:
        return True
    if name.startswith("["):
        return of in _ARRAY_SUPERTYPES or (None if of.startswith("[") else False)
    if of.startswith("["):
        return False
    if name.startswith(_JDK):
        return _is_jdk_subtype(name, of)
    if name.startswith(_LIBRARIES):
        return _is_library_subtype(name, of)
    described = classes.get(name)
    if _cannot_be_extended(of, classes):
        return False
    return None if described is None else _is_described_subtype(described, of, classes)


def _is_library_subtype(name: str, of: str) -> bool | None:
    library = next(package for package in _LIBRARIES if name.startswith(package))
    if not of.startswith((*_JDK, library)):
        return False
    if of == _SCHEMA:
        return name.startswith(f"{_SCHEMA}$")
    if of.startswith(f"{_GUAVA}Immutable"):
        return _is_immutable(name.removeprefix(_GUAVA), of.removeprefix(_GUAVA))
    return True if library == _PROTOBUF and of in MESSAGE_SUPERTYPES else None


def _is_jdk_subtype(name: str, of: str) -> bool | None:
    if not of.startswith(_JDK):
        return False
    known = JDK_SUPERTYPES.get(name)
    return None if known is None or of.startswith(_SEQUENCED) else of in known


def _is_immutable(name: str, of: str) -> bool | None:
    """Guava's immutable collections: RegularImmutableList is an ImmutableList, ImmutableSortedMap an ImmutableMap."""
    if of == "ImmutableCollection":
        return None
    outer = name.partition("$")[0]
    return "Immutable" in outer and outer.endswith(of.removeprefix("Immutable"))


def _cannot_be_extended(name: str, classes: Mapping[str, UserClass]) -> bool:
    described = classes.get(name)
    if described is not None and (described.final or described.is_enum):
        return True
    return (
        name in FINAL_CLASSES
        or name.startswith(f"{_GUAVA}Immutable")
        or any(name.startswith(known) if known.endswith("$") else name == known for known in _NOT_EXTENDED)
    )


def _is_described_subtype(described: UserClass, of: str, classes: Mapping[str, UserClass]) -> bool | None:
    """Follow ``extends`` and ``implements``; a class has all fields of those that it extends."""
    seen: set[str] = set()
    above = [described.name]
    complete = described.interfaces is not None
    while above:
        name = above.pop()
        if name in seen:
            continue
        seen.add(name)
        if name == of or (name.startswith(_JDK) and _is_jdk_subtype(name, of)):
            return True
        here = classes.get(name)
        if here is not None:
            above += [*([here.parent] if here.parent else []), *(here.interfaces or ())]
    other = classes.get(of)
    lacks_fields = other is not None and not set(other.fields) <= set(described.fields)
    return False if complete or lacks_fields else None
