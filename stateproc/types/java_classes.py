"""Find the Java class of a serializer's values, as Class.getName() returns it."""

from __future__ import annotations

from stateproc.codec.kryo.types import BOX_OF
from stateproc.serializers.core.base import Serializer
from stateproc.serializers.java.big_numbers import Big
from stateproc.serializers.java.collections import ListOf, MapOf, PlainArray
from stateproc.serializers.java.scalars import Scalar
from stateproc.serializers.java.structs import EitherOf, NullableOf, RowOf, Tuple0
from stateproc.serializers.java.temporal import Temporal
from stateproc.serializers.pojo.type_extraction import CODES
from stateproc.serializers.runtime.streaming import GlobalWindow, TimeWindow
from stateproc.serializers.scala import OptionOf
from stateproc.serializers.table.serializers import RowData

_PRIMITIVE_OF = {"Int": "int", "Char": "char"}
_SIMPLE: dict[type[Serializer], str] = {
    RowOf: "org.apache.flink.types.Row",
    EitherOf: "org.apache.flink.types.Either",
    OptionOf: "scala.Option",
    MapOf: "java.util.Map",
    Tuple0: "org.apache.flink.api.java.tuple.Tuple0",
    RowData: "org.apache.flink.table.data.RowData",
    TimeWindow: "org.apache.flink.streaming.api.windowing.windows.TimeWindow",
    GlobalWindow: "org.apache.flink.streaming.api.windowing.windows.GlobalWindow",
}


def java_class_of(serializer: Serializer) -> str | None:
    """Return the class of the values; None if the serializer does not determine it."""
    if isinstance(serializer, Scalar):
        return _of_scalar(serializer.name)
    if isinstance(serializer, Temporal):
        kind = serializer.kind.type
        return kind if "." in kind else f"java.time.{kind}"
    if isinstance(serializer, Big):
        return f"java.math.{serializer.type_name}"
    if isinstance(serializer, NullableOf):
        return java_class_of(serializer.inner)
    if isinstance(serializer, PlainArray):
        return f"[{CODES[serializer.element]}" if serializer.element in CODES else "[Ljava.lang.String;"
    if isinstance(serializer, ListOf):
        return _of_list(serializer)
    name = getattr(serializer, "class_name", None)
    return name if isinstance(name, str) and name else _SIMPLE.get(type(serializer))


def _of_scalar(name: str) -> str | None:
    if name == "String" or name == "Void":
        return f"java.lang.{name}"
    if name.endswith("Value"):
        return f"org.apache.flink.types.{name}"
    return BOX_OF.get(_PRIMITIVE_OF.get(name, name.lower()))


def _of_list(serializer: ListOf) -> str | None:
    if serializer.kind != "Array":
        return f"java.util.{serializer.kind}" if serializer.kind in ("List", "Set") else None
    component = serializer.component
    if not component:
        return None
    return f"[{component}" if component.startswith("[") else f"[L{component};"
