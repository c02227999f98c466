"""Errors of Kryo values that involve a user class and its description."""

from __future__ import annotations

from stateproc.codec.kryo.types import FieldType
from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot, Where


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
