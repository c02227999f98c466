"""Rules of the serializers of Flink's own Scala API, which Flink 2 does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stateproc.serializers.core.base import Serializer
from stateproc.serializers.core.compatibility import Comparison, Compatibility, readability, unreadable
from stateproc.serializers.core.registry import SCALA_PACKAGES
from stateproc.serializers.java.collections import ListOf
from stateproc.serializers.java.scalars import Scalar
from stateproc.serializers.java.structs import EitherOf, EnumOf
from stateproc.serializers.scala import SCALA_EITHER, CaseClass, OptionOf, TryOf

_PACKAGE = SCALA_PACKAGES[0]
_SNAPSHOTS: dict[type[Serializer], Callable[[Any], str | None]] = {
    CaseClass: lambda old: "ScalaCaseClassSerializerSnapshot",
    OptionOf: lambda old: "ScalaOptionSerializerSnapshot",
    TryOf: lambda old: "ScalaTrySerializerSnapshot",
    EitherOf: lambda old: "ScalaEitherSerializerSnapshot" if old.snapshot_class == SCALA_EITHER else None,
    ListOf: lambda old: "TraversableSerializerSnapshot" if old.kind == "Traversable" else None,
    EnumOf: lambda old: "ScalaEnumSerializerSnapshot" if old.scala else None,
    Scalar: lambda old: old.snapshot_class.removeprefix(_PACKAGE) if old.snapshot_class.startswith(_PACKAGE) else None,
}
"""Class of serializers → the Scala API's snapshot of one; None for one that is Java's."""


def _register(of: type[Serializer], snapshot: Callable[[Any], str | None]) -> None:
    @readability(of)
    def read(old: Serializer, comparison: Comparison) -> Compatibility | None:
        name = snapshot(old)
        if name is None or comparison.release.major < 2:
            return None
        return unreadable(
            "Flink 2 has no Scala API", f"java.io.IOException: Could not find class '{_PACKAGE}{name}' in classpath."
        )


for _class, _snapshot in _SNAPSHOTS.items():
    _register(_class, _snapshot)
