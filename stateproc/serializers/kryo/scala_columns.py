"""What types of Scala in class descriptions say about the form of their values, which Kryo 2 stores with chill."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from stateproc.codec.kryo.scala import CHILL_BODIES, EITHER, FIELD_BODIES
from stateproc.codec.kryo.types import FieldType

_TUPLES = {f"scala.Tuple{n}": n for n in range(1, 23)}
# Superclasses and traits, whose values name their own classes.
_OPEN = frozenset(
    [
        *(f"scala.{name}" for name in ("Option", "Equals", "Product", "Serializable", "Enumeration$Value")),
        EITHER,
        "scala.util.Try",
        "scala.concurrent.duration.Duration",
        "scala.reflect.ClassTag",
    ]
)
_TEXT = ("text", pa.string())
SCALA_LEAVES: dict[str, tuple[str, pa.DataType]] = {
    "scala.math.BigDecimal": ("decimal", pa.string()),
    "scala.math.BigInt": ("integer", pa.string()),
    "scala.Symbol": _TEXT,
    "scala.util.matching.Regex": _TEXT,
    "scala.concurrent.duration.Duration": _TEXT,
    "scala.concurrent.duration.FiniteDuration": _TEXT,
    "scala.collection.mutable.StringBuilder": _TEXT,
    "scala.collection.immutable.WrappedString": _TEXT,
}
"""Class → kind and type of the column of its values."""


@dataclass(frozen=True)
class ScalaShape:
    """The form of a generic class's values: 'option', 'list', 'map' or 'struct' of its type arguments.

    ``names``: the names of the arguments in the column; ``class_name``: the class of a struct's values.
    """

    kind: str
    names: tuple[str, ...] = ()
    class_name: str = ""


def is_scala(name: str) -> bool:
    """Whether values of the class are read without a description."""
    return name in _OPEN or name in CHILL_BODIES or name in FIELD_BODIES or name.startswith("scala.collection.")


def scala_shape(type_: FieldType) -> ScalaShape | None:
    """Return the shape of a type of Scala's; None if it does not determine the form of its values."""
    name, n = type_.name, len(type_.args)
    if name in ("scala.Option", "scala.Some") and n == 1:
        return ScalaShape("option")
    if name in _TUPLES and n == _TUPLES[name]:
        return ScalaShape("struct", tuple(f"_{i}" for i in range(1, n + 1)), name)
    if name == EITHER and n == 2:
        return ScalaShape("struct", ("left", "right"), EITHER)
    if name.startswith("scala.collection.") and name.endswith("Map"):
        return ScalaShape("map", ("key", "value")) if n == 2 else None
    return ScalaShape("list") if name.startswith("scala.collection.") and n == 1 else None
