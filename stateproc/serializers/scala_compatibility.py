"""Rules of the serializers of Flink's own Scala API, which Flink 2 does not have."""

from __future__ import annotations

from stateproc.serializers.core.base import Serializer
from stateproc.serializers.core.compatibility import Comparison, Compatibility, readability, unreadable
from stateproc.serializers.core.registry import SCALA_PACKAGES
from stateproc.serializers.java.collections import ListOf
from stateproc.serializers.java.scalars import Scalar
from stateproc.serializers.java.structs import EitherOf, EnumOf
from stateproc.serializers.scala import SCALA_EITHER, CaseClass, OptionOf, TryOf

_OF_CLASS: dict[type[Serializer], str] = {
    CaseClass: "ScalaCaseClassSerializerSnapshot",
    OptionOf: "ScalaOptionSerializerSnapshot",
    TryOf: "ScalaTrySerializerSnapshot",
}


def _gone(name: str, comparison: Comparison) -> Compatibility | None:
    if comparison.release.major < 2:
        return None
    return unreadable(
        "Flink 2 has no Scala API",
        f"java.io.IOException: Could not find class '{SCALA_PACKAGES[0]}{name}' in classpath.",
    )


def _register(of: type[Serializer], name: str) -> None:
    @readability(of)
    def read(old: Serializer, comparison: Comparison) -> Compatibility | None:
        return _gone(name, comparison)


for _class, _name in _OF_CLASS.items():
    _register(_class, _name)


@readability(EitherOf)
def _read_either(old: EitherOf, comparison: Comparison) -> Compatibility | None:
    return _gone("ScalaEitherSerializerSnapshot", comparison) if old.snapshot_class == SCALA_EITHER else None


@readability(ListOf)
def _read_traversable(old: ListOf, comparison: Comparison) -> Compatibility | None:
    return _gone("TraversableSerializerSnapshot", comparison) if old.kind == "Traversable" else None


@readability(EnumOf)
def _read_enumeration(old: EnumOf, comparison: Comparison) -> Compatibility | None:
    return _gone("ScalaEnumSerializerSnapshot", comparison) if old.scala else None


@readability(Scalar)
def _read_scalar(old: Scalar, comparison: Comparison) -> Compatibility | None:
    package = SCALA_PACKAGES[0]
    return (
        _gone(old.snapshot_class.removeprefix(package), comparison) if old.snapshot_class.startswith(package) else None
    )
