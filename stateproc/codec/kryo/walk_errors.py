"""Errors of Kryo values that involve a user class and its description."""

from __future__ import annotations

from stateproc.codec.kryo.types import FieldType
from stateproc.errors import CorruptSnapshot, SnapshotError, UnsupportedSnapshot, Where


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


class CorruptMessage(CorruptSnapshot):
    """Bytes that are no Protobuf message at all."""


class OtherMessage(UnsupportedSnapshot):
    """A Protobuf message of another type than the one that a descriptor set declares."""


_WITHOUT_PROTO = "without the option proto the message's bytes are returned"
_RIGHT_SET = "give a descriptor set of the .proto files that the job was built with"


def refuse_message(class_name: str, set_name: str, why: str, formed: bool, where: Where) -> SnapshotError:
    """Return the error for the bytes of one message; ``formed``: whether they are a message of some type."""
    message = f"the bytes do not fit the Protobuf message {class_name!r} of {set_name}: {why}"
    if formed:
        return OtherMessage(message, where=where, advice=f"{_RIGHT_SET}; {_WITHOUT_PROTO}")
    advice = f"{_RIGHT_SET}; if it is right, the bytes are damaged: compare with another snapshot; {_WITHOUT_PROTO}"
    return CorruptMessage(message, where=where, advice=advice)


def undeclared_message(class_name: str, set_name: str) -> tuple[str, str]:
    """Return message and advice of the error for a message's class that a descriptor set lacks."""
    return (
        f"the Protobuf message {class_name!r} is not in {set_name}",
        "make the descriptor set with the .proto file of this class, too (sets may be joined: cat a.desc b.desc); "
        f"{_WITHOUT_PROTO}",
    )


class UndescribedClass(UnsupportedSnapshot):
    """An object of a class whose fields nothing declares; ``certain``: where a field declares this very class."""

    class_name = ""
    certain = False

    @classmethod
    def of(cls, class_name: str, why: str, where: Where) -> UndescribedClass:
        """The error for an object in a value."""
        message = f"a Kryo value holds the class {class_name!r}, {why}"
        made = cls(message, where=where, advice=how_to_describe(class_name))
        made.class_name = class_name
        return made


def how_to_describe(name: str) -> str:
    """Return the advice for a class without a description."""
    return (
        f'describe it: classes={{"{name}": {{"a": "int", "b": "String", …}}}} with all its fields, inherited ones too, '
        f'or {{}} if it has none; a class that is a Map or a Collection by what it holds: "{name}": '
        '"map<String, Object>" or "list<Object>"; an enum as the list of its constants'
    )
