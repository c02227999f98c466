"""Readers of what the user's own Kryo serializers write, which the user registers as Python functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from stateproc.codec.kryo.library_serializers import SERIALIZER_BODIES
from stateproc.codec.kryo.types import FieldType, class_of_name
from stateproc.codec.kryo.walker import Walker
from stateproc.errors import SnapshotError, UnsupportedSnapshot

REGISTERED_TYPES: dict[str, pa.DataType | None] = {}
"""Serializer class → the Arrow type of what its function returns; None: JSON text."""


class KryoObjectInput:
    """What a Kryo serializer has written for one object, read in the order in which it was written.

    The methods are those of com.esotericsoftware.kryo.io.Input and Kryo. Every read is checked against the end of the
    value. Attributes: ``version``, 2 (Flink 1.x) or 5 (Flink 2.x); ``class_name``, the object's class.
    """

    def __init__(self, walker: Walker, class_name: str) -> None:
        self._walker = walker
        self._data = walker.data
        self.version = walker.version
        self.class_name = class_name

    def read_boolean(self) -> bool:
        """Output.writeBoolean."""
        return self._data.boolean()

    def read_byte(self) -> int:
        """Output.writeByte."""
        return int(self._data.primitive("byte"))

    def read_short(self) -> int:
        """Output.writeShort."""
        return int(self._data.fixed("short"))

    def read_char(self) -> str:
        """Output.writeChar."""
        return str(self._data.primitive("char"))

    def read_int(self) -> int:
        """Output.writeInt of one argument: four bytes."""
        return int(self._data.fixed("int"))

    def read_long(self) -> int:
        """Output.writeLong of one argument: eight bytes."""
        return int(self._data.fixed("long"))

    def read_float(self) -> float:
        """Output.writeFloat."""
        return float(self._data.fixed("float"))

    def read_double(self) -> float:
        """Output.writeDouble."""
        return float(self._data.fixed("double"))

    def read_varint(self, optimize_positive: bool) -> int:
        """Output.writeInt of two arguments, Output.writeVarInt: one to five bytes."""
        return self._data.varint() if optimize_positive else self._data.zigzag()

    def read_varlong(self, optimize_positive: bool) -> int:
        """Output.writeLong of two arguments, Output.writeVarLong: one to nine bytes."""
        return self._data.varlong() if optimize_positive else self._data.zigzag_long()

    def read_string(self) -> str | None:
        """Output.writeString."""
        return self._data.string()

    def read_bytes(self, length: int) -> bytes:
        """Output.writeBytes."""
        return self._data.bytes(length)

    def read_class_and_object(self) -> Any:
        """Kryo.writeClassAndObject."""
        return self._walker.by_class()

    def read_object(self, class_name: str) -> Any:
        """Kryo.writeObject; ``class_name`` as Class.getName() returns it."""
        return self._walker.known(class_of_name(class_name), nullable=False)

    def read_object_or_null(self, class_name: str) -> Any:
        """Kryo.writeObjectOrNull; ``class_name`` as Class.getName() returns it."""
        return self._walker.known(class_of_name(class_name))


def register_kryo(
    serializer: str, read: Callable[[KryoObjectInput], Any], arrow_type: pa.DataType | None = None
) -> None:
    """Register a function that reads what a Kryo serializer of your own writes.

    To have it on Spark executors, too, register in a module and name the module in the option ``plugins``.

    Args:
        serializer: the serializer's class, as Class.getName() returns it.
        read: ``read(data)`` reads one object, in the order in which the serializer's ``write`` writes it, and returns
            plain Python values: None, bool, int, float, str, bytes, Decimal, date, time, datetime, lists and dicts.
        arrow_type: the type of the column; without it, values are JSON text.
    """
    SERIALIZER_BODIES[serializer] = partial(_read, serializer=serializer, read=read)
    REGISTERED_TYPES[serializer] = arrow_type


def _read(w: Walker, type_: FieldType, *, serializer: str, read: Callable[[KryoObjectInput], Any]) -> Any:
    at = w.data.cursor.pos
    try:
        return read(KryoObjectInput(w, type_.name))
    except SnapshotError:
        raise
    except Exception as error:
        raise UnsupportedSnapshot(
            f"the function that is registered for {serializer} failed: {type(error).__name__}: {error}",
            where=w.data.cursor.where(at),
            advice="correct the function",
        ) from error
