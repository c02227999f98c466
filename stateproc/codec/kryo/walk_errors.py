"""Errors of Kryo values that involve a user class and its description."""

from __future__ import annotations

from stateproc.codec.kryo.types import FieldType
from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot


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
